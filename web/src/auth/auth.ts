/** Signing in and out. The secret comes in the address's fragment, which no server sees, and leaves the address at once. */
import { get, post, loadDeviceKey, ApiError, saveDeviceKey, isOutcomeUnknown } from '../api/client'
import type * as P from '../generated/protocol'
import { clearLocal } from '../shared/local-storage'
import { connection, me } from '../store/store'

/** The secret in a link, or the words as they are. */
export function extractSecret(text: string): string {
  return /#login=([^&\s]+)/.exec(text)?.[1] ?? text.trim()
}

function startSignedIn(answer: P.Me): void {
  me.value = answer
  connection.start()
}

/** Something a person recognises in the list of devices. */
function deviceName(): string {
  const agent = navigator.userAgent
  const system = /iPhone|iPad/.exec(agent)?.[0] ?? (/Android/.test(agent) ? 'Android' : /Mac OS/.test(agent) ? 'Mac' : /Windows/.test(agent) ? 'Windows' : /Linux/.test(agent) ? 'Linux' : 'Browser')
  const program = /Firefox|Edg|OPR|Chrome|Safari/.exec(agent)?.[0] ?? ''
  return `${program.replace('Edg', 'Edge').replace('OPR', 'Opera')} on ${system}`.trim()
}

export async function signIn(text: string): Promise<void> {
  const { key, ...answer } = await post<P.Me>('login', { secret: extractSecret(text), name: deviceName() })
  await saveDeviceKey(key ?? '')
  startSignedIn(answer)
}

/** At the start: by the link's secret if there is one, else by the key that is kept. Empty when signed in, else why not. */
export async function restoreSignIn(): Promise<string> {
  const secret = /#login=([^&]+)/.exec(location.hash)?.[1]
  if (location.hash) history.replaceState(history.state, '', location.pathname)
  let problem = ''
  if (secret) {
    try {
      await signIn(secret)
      return ''
    } catch (error) {
      problem = error instanceof ApiError ? error.message : ''
    }
  }
  if (!(await loadDeviceKey())) return problem || ' '
  try {
    startSignedIn(await get<P.Me>('me'))
    return ''
  } catch (error) {
    if (!isOutcomeUnknown(error)) return problem || ' '
    connection.start() // the hub is away: show what there is and keep trying
    return ''
  }
}

/** Who this is, when the hub could not be asked at the start. */
export async function refreshIdentity(): Promise<boolean> {
  if (!(await loadDeviceKey())) return false
  try {
    startSignedIn(await get<P.Me>('me'))
    return true
  } catch (error) {
    return !(error instanceof ApiError && error.problem.status === 401)
  }
}

export async function signOut(): Promise<void> {
  await post('logout')
  await saveDeviceKey('')
  clearLocal()
  location.assign('/')
}
