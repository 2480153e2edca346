/** A fake hub that answers as the test says; `load` loads the page's modules again. */
import { options } from 'preact'
import { beforeEach, vi } from 'vitest'
import type * as P from '../src/generated/protocol'

export interface SentRequest { readonly method: string; readonly path: string; readonly key: string; readonly body: Record<string, unknown> }
export type Reply = readonly [status: number, value: unknown] | 'away'

const KEY = 'tl_the_page_is_ours'

export const hub = { requests: [] as SentRequest[], reply: (_: SentRequest): Reply => 'away', storage: new Map<string, string>() }

/** What a closed page takes with it: without this, a page of an earlier test tries again in the middle of the next one. */
const pageTimers = new Set<ReturnType<typeof setTimeout>>()
const { setTimeout: setRealTimeout } = globalThis
globalThis.setTimeout = Object.assign((then: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => {
  const timer = setRealTimeout(() => { pageTimers.delete(timer); then(...args) }, ms)
  pageTimers.add(timer)
  return timer
}, setRealTimeout) as typeof setTimeout

// Preact keeps a list of effects beyond a page, and never asks for another flush where one that it waits for was taken away.
options.requestAnimationFrame = (flush) => setRealTimeout(flush)

function closePage(): void {
  pageTimers.forEach(clearTimeout)
  pageTimers.clear()
}

beforeEach(() => {
  vi.useRealTimers()
  closePage()
  hub.requests = []
  hub.storage = new Map()
  vi.stubGlobal('localStorage', { getItem: (name: string) => hub.storage.get(name) ?? null, setItem: (name: string, value: string) => hub.storage.set(name, value), removeItem: (name: string) => hub.storage.delete(name) })
  vi.stubGlobal('fetch', async (url: string, { method, headers, body }: { method: string; headers: Record<string, string>; body?: string }) => {
    const request = { method, path: url.replace('/api/v1/', ''), key: headers['Idempotency-Key'] ?? '', body: body ? JSON.parse(body) as Record<string, unknown> : {} }
    hub.requests.push(request)
    const answer = hub.reply(request)
    if (answer === 'away') throw new TypeError('network')
    if (headers.Authorization !== `Bearer ${KEY}`) return { ok: false, status: 401, statusText: '', text: async () => '{"title":"missing or invalid credentials"}' }
    return { ok: answer[0] < 400, status: answer[0], statusText: '', text: async () => JSON.stringify(answer[1]) }
  })
})

export const readyFrame = (more: Partial<P.Snapshot> = {}, how: Partial<P.Ready> = {}): P.Ready =>
  ({ type: 'ready', state: 'ok', epoch: 'e', cursor: 0, snapshot: { sessions: [], asks: [], prompts: [], nodes: [], teams: [], marks: [], ...more }, snapshot_sent: 'whole', sessions_left: 0, ...how })

export async function load() {
  closePage()
  vi.resetModules()
  const [store, decisions, outbox, orders, api] = await Promise.all([import('../src/store/store'), import('../src/asks/decisions'), import('../src/prompts/outbox'), import('../src/commands/pending-commands'), import('../src/api/client')])
  await api.saveDeviceKey(KEY)
  const ready = (more: Partial<P.Snapshot> = {}, how: Partial<P.Ready> = {}) => store.applyFrame(readyFrame(more, how))
  return { store, ready, ...decisions, ...outbox, ...orders, ...api }
}

export const command = (state: P.CommandView['state'], id = 'c1') => ({ id, node: 'n', kind: 'answer', state } as unknown as P.CommandView)
export const settle = () => new Promise((done) => setTimeout(done)) // nothing here waits for anything but microtasks
