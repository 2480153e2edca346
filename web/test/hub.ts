/** A hub that answers as the test says, for what the page sends on a person's behalf; `load` is the page loaded anew. */
import { beforeEach, vi } from 'vitest'
import type * as P from '../src/protocol'

export interface Asked { readonly method: string; readonly path: string; readonly key: string; readonly body: Record<string, unknown> }
export type Reply = readonly [status: number, value: unknown] | 'away'

const CSRF = 'the page is ours'

export const hub = { asked: [] as Asked[], reply: (_: Asked): Reply => 'away', storage: new Map<string, string>() }

beforeEach(() => {
  vi.useRealTimers()
  hub.asked = []
  hub.storage = new Map()
  vi.stubGlobal('localStorage', { getItem: (name: string) => hub.storage.get(name) ?? null, setItem: (name: string, value: string) => hub.storage.set(name, value), removeItem: (name: string) => hub.storage.delete(name) })
  vi.stubGlobal('fetch', async (url: string, { method, headers, body }: { method: string; headers: Record<string, string>; body?: string }) => {
    const one = { method, path: url.replace('/api/v1/', ''), key: headers['Idempotency-Key'] ?? '', body: body ? JSON.parse(body) as Record<string, unknown> : {} }
    if (one.path !== 'me') hub.asked.push(one)
    let answer = hub.reply(one)
    if (answer === 'away') throw new TypeError('network')
    if (one.path === 'me') answer = [200, { csrf: CSRF }]
    else if (method !== 'GET' && headers['X-Tieline-CSRF'] !== CSRF) answer = [403, { title: 'a request of another page' }]
    return { ok: answer[0] < 400, status: answer[0], statusText: '', text: async () => JSON.stringify(answer[1]) }
  })
})

/** Unless it is `known`, the page was opened while the hub was away and has not heard who it is. */
export async function load(known = true) {
  vi.resetModules()
  const [store, decisions, outbox, orders, api] = await Promise.all([import('../src/store'), import('../src/decide'), import('../src/outbox'), import('../src/orders'), import('../src/api')])
  if (known) api.setCsrf(CSRF)
  const ready = (more: Partial<P.Snapshot> = {}) => store.take({ type: 'ready', state: 'ok', epoch: 'e', cursor: 0, snapshot: { sessions: [], asks: [], prompts: [], nodes: [], ...more } })
  return { store, ready, ...decisions, ...outbox, ...orders, ...api }
}

export const command = (state: P.CommandView['state'], id = 'c1') => ({ id, node: 'n', kind: 'answer', state } as unknown as P.CommandView)
export const settle = () => new Promise((done) => setTimeout(done)) // nothing here waits for anything but microtasks
