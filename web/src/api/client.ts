/** Requests to the hub. What changes something carries a key, so that sending it twice does it once. */
import { storedKey, storeKey } from '../auth/device-key'
import type { Problem } from '../generated/protocol'

export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title)
  }
}

/** The hub could not be reached; nothing is known about what became of the request. */
export class Unreachable extends Error {}

/** Whether nobody can say yet what became of a request: it is asked again, with the same key. The hub keeps no answer of
 * 500 and above; but a 502 with a code, and `expired`, are a machine's own word. */
export function unsure(error: unknown): boolean {
  if (!(error instanceof Refused)) return true
  const { status, code } = error.problem
  if (status >= 500) return !(code === 'expired' || (status === 502 && code))
  return status === 408 || status === 429 || code === 'InProgress'
}

/** Whether the hub knows nothing of what was asked for. Any other refusal says nothing about it. */
export const unknown = (error: unknown): boolean => error instanceof Refused && error.problem.status === 404

const READ_MS = 60_000 // longer than the hub itself waits for anything

let own = ''

/** This device's key; empty when it is not signed in. */
export const ownKey = (): string => own

/** At the start, and when another tab may have signed in. */
export async function recallKey(): Promise<string> {
  own = (await storedKey()) || own
  return own
}

export async function setKey(key: string): Promise<void> {
  own = key
  await storeKey(key)
}

/** An id that nobody else makes; time first, so that ids sort by when they were made. */
export function newId(): string {
  const random = crypto.getRandomValues(new Uint8Array(10))
  return Date.now().toString(16).padStart(12, '0') + Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export interface Answered<T> {
  readonly status: number
  readonly value: T
}

export async function send<T>(method: string, path: string, body?: unknown, key = newId()): Promise<Answered<T>> {
  const headers: Record<string, string> = { Accept: 'application/json' }
  if (own && path !== 'login') headers.Authorization = `Bearer ${own}`
  if (method !== 'GET') headers['Idempotency-Key'] = key
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  let response: Response
  let text: string
  try {
    response = await fetch(`/api/v1/${path}`, {
      method, headers, credentials: 'omit', cache: 'no-store', body: body === undefined ? undefined : JSON.stringify(body),
      signal: method === 'GET' ? AbortSignal.timeout(READ_MS) : undefined, // a write may carry files over a slow network
    })
    text = await response.text()
  } catch (error) {
    throw new Unreachable(error instanceof Error ? error.message : String(error))
  }
  let value: unknown = null
  try {
    value = text ? JSON.parse(text) : null
  } catch {
    value = null
  }
  if (response.ok) return { status: response.status, value: value as T }
  const problem = (value && typeof value === 'object' ? value : {}) as Partial<Problem>
  throw new Refused({ title: response.statusText || 'It did not work', ...problem, status: response.status })
}

export const get = async <T>(path: string): Promise<T> => (await send<T>('GET', path)).value
export const post = async <T>(path: string, body: unknown = {}, key?: string): Promise<T> => (await send<T>('POST', path, body, key)).value
export const remove = async <T>(path: string, key?: string): Promise<T> => (await send<T>('DELETE', path, undefined, key)).value

/** One wish of a person's, however often it is sent: the same key as long as nobody knows what became of it, another one
 * after an answer or a change (the hub gives the first answer again to a key that it knows, also when it was a refusal). */
export class Wish {
  private asked = ''
  private key = ''

  async send<T>(method: string, path: string, body: unknown): Promise<Answered<T>> {
    const asked = JSON.stringify([method, path, body])
    if (asked !== this.asked) this.key = newId()
    this.asked = asked
    try {
      const answer = await send<T>(method, path, body, this.key)
      this.asked = ''
      return answer
    } catch (error) {
      if (!unsure(error)) this.asked = ''
      throw error
    }
  }
}

/** What to tell a person about an error. */
export function words(error: unknown): string {
  if (error instanceof Refused) return [error.message, error.problem.hint].filter(Boolean).join(' ')
  if (error instanceof Unreachable) return 'The hub cannot be reached. It is tried again as soon as the connection is back.'
  return error instanceof Error ? error.message : String(error)
}
