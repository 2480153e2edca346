/** Sign-in and sign-out. The secret is in the URL's fragment, which no server sees, and is removed from the URL at once. */
import { get, post, loadDeviceKey, ApiError, saveDeviceKey, isOutcomeUnknown } from '../api/client'
import type * as P from '../generated/protocol'
import { clearLocal } from '../shared/local-storage'
import { connection, me } from '../store/store'

/** The secret in a sign-in link, or the trimmed text. */
export function extractSecret(text: string): string {
  return /#login=([^&\s]+)/.exec(text)?.[1] ?? text.trim()
}

function startSignedIn(answer: P.Me): void {
  me.value = answer
  connection.start()
}

/** A name that a person recognises in the list of devices. */
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

/** Signs in with the link's secret if there is one, else with the stored key. Empty when signed in, else the reason why not. */
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
    connection.start() // the hub is offline: show the page and keep connecting
    return ''
  }
}

/** Loads the identity when the hub was offline at the start; false when the key is not valid. */
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
