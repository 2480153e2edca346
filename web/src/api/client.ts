/** HTTP requests to the hub. Each write carries an idempotency key, so that a request sent twice takes effect once. */
import { readStoredKey, writeStoredKey } from '../auth/api-key-storage'
import type { Problem } from '../generated/protocol'

export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title)
  }
}

/** The hub could not be reached; the outcome of the request is unknown. */
export class NetworkError extends Error {}

/** Whether the outcome of a request is unknown, so that it must be retried with the same key. The hub stores no response of
 * 500 and above; but a 502 with a code, and `expired`, are a machine's own answer. */
export function isOutcomeUnknown(error: unknown): boolean {
  if (!(error instanceof ApiError)) return true
  const { status, code } = error.problem
  if (status >= 500) return !(code === 'expired' || (status === 502 && code))
  return status === 408 || status === 429 || code === 'InProgress'
}

/** Whether the hub does not know the resource. No other error says that. */
export const isNotFound = (error: unknown): boolean => error instanceof ApiError && error.problem.status === 404

const READ_MS = 60_000 // longer than the hub itself waits for anything

let currentKey = ''

/** This device's key; empty when it is not signed in. */
export const deviceKey = (): string => currentKey

/** Reads the stored key again: another tab may have signed in. */
export async function loadDeviceKey(): Promise<string> {
  currentKey = (await readStoredKey()) || currentKey
  return currentKey
}

export async function saveDeviceKey(key: string): Promise<void> {
  currentKey = key
  await writeStoredKey(key)
}

/** A unique id that begins with the time, so that ids sort by their creation. */
export function newId(): string {
  const random = crypto.getRandomValues(new Uint8Array(10))
  return Date.now().toString(16).padStart(12, '0') + Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export interface ApiResponse<T> {
  readonly status: number
  readonly value: T
}

export async function request<T>(method: string, path: string, body?: unknown, key = newId(), cancelled?: AbortSignal): Promise<ApiResponse<T>> {
  const headers: Record<string, string> = { Accept: 'application/json' }
  if (currentKey && path !== 'login') headers.Authorization = `Bearer ${currentKey}`
  if (method !== 'GET') headers['Idempotency-Key'] = key
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  let response: Response
  let text: string
  const timeout = method === 'GET' ? AbortSignal.timeout(READ_MS) : undefined // a write may carry files over a slow network
  try {
    response = await fetch(`/api/v1/${path}`, {
      method, headers, credentials: 'omit', cache: 'no-store', body: body === undefined ? undefined : JSON.stringify(body),
      signal: timeout && cancelled ? AbortSignal.any([timeout, cancelled]) : timeout,
    })
    text = await response.text()
  } catch (error) {
    throw new NetworkError(error instanceof Error ? error.message : String(error))
  }
  let value: unknown = null
  try {
    value = text ? JSON.parse(text) : null
  } catch {
    value = null
  }
  if (response.ok) return { status: response.status, value: value as T }
  const problem = (value && typeof value === 'object' ? value : {}) as Partial<Problem>
  throw new ApiError({ title: response.statusText || 'Request failed', ...problem, status: response.status })
}

export const get = async <T>(path: string, cancelled?: AbortSignal): Promise<T> => (await request<T>('GET', path, undefined, undefined, cancelled)).value
export const post = async <T>(path: string, body: unknown = {}, key?: string): Promise<T> => (await request<T>('POST', path, body, key)).value
export const remove = async <T>(path: string, key?: string): Promise<T> => (await request<T>('DELETE', path, undefined, key)).value

/** A request that may be sent several times: it keeps its idempotency key while its outcome is unknown and gets a new one after
 * a response or a change (the hub repeats its first response to a known key, errors too). */
export class IdempotentRequest {
  private fingerprint = ''
  private key = ''

  async send<T>(method: string, path: string, body: unknown): Promise<ApiResponse<T>> {
    const fingerprint = JSON.stringify([method, path, body])
    if (fingerprint !== this.fingerprint) this.key = newId()
    this.fingerprint = fingerprint
    try {
      const response = await request<T>(method, path, body, this.key)
      this.fingerprint = ''
      return response
    } catch (error) {
      if (!isOutcomeUnknown(error)) this.fingerprint = ''
      throw error
    }
  }
}

/** An error as text for the person. */
export function errorMessage(error: unknown): string {
  if (error instanceof ApiError) return [error.message, error.problem.hint].filter(Boolean).join(' ')
  if (error instanceof NetworkError) return 'The hub cannot be reached. The page retries when the connection is back.'
  return error instanceof Error ? error.message : String(error)
}
