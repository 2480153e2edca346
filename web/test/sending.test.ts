import { beforeEach, describe, expect, it, vi } from 'vitest'
import type * as P from '../src/protocol'

/** What the page sends on a person's behalf, against a hub that answers as the test says; `load` is the page loaded anew. */
interface Asked { readonly method: string; readonly path: string; readonly key: string; readonly body: Record<string, unknown> }
type Reply = readonly [status: number, value: unknown] | 'away'

let asked: Asked[]
let reply: (one: Asked) => Reply
let storage: Map<string, string>

beforeEach(() => {
  asked = []
  storage = new Map()
  vi.stubGlobal('localStorage', { getItem: (name: string) => storage.get(name) ?? null, setItem: (name: string, value: string) => storage.set(name, value), removeItem: (name: string) => storage.delete(name) })
  vi.stubGlobal('fetch', async (url: string, { method, headers, body }: { method: string; headers: Record<string, string>; body?: string }) => {
    const one = { method, path: url.replace('/api/v1/', ''), key: headers['Idempotency-Key'] ?? '', body: body ? JSON.parse(body) as Record<string, unknown> : {} }
    asked.push(one)
    const answer = reply(one)
    if (answer === 'away') throw new TypeError('network')
    return { ok: answer[0] < 400, status: answer[0], statusText: '', text: async () => JSON.stringify(answer[1]) }
  })
})

async function load() {
  vi.resetModules()
  const [store, decisions, outbox, api] = await Promise.all([import('../src/store'), import('../src/decide'), import('../src/outbox'), import('../src/api')])
  const ready = (more: Partial<P.Snapshot> = {}) => store.take({ type: 'ready', state: 'ok', epoch: 'e', cursor: 0, snapshot: { sessions: [], asks: [], prompts: [], nodes: [], ...more } })
  return { store, ready, ...decisions, ...outbox, ...api }
}

const ASK = { id: 'a1', session: 's', digest: 'd', status: 'pending', created_at: 1, expires_at: 0, ask: { type: 'ask', id: 'a1', kind: 'permission' } } as unknown as P.AskRecord
const command = (state: P.CommandView['state'], id = 'c1') => ({ id, node: 'n', kind: 'answer', state } as unknown as P.CommandView)
const settle = () => new Promise((done) => setTimeout(done)) // nothing here waits for anything but microtasks

describe('a decision', () => {
  it('waits for a hub that is away, and goes again with the same key', async () => {
    const page = await load()
    page.ready({ asks: [ASK] })
    reply = () => 'away'
    await page.decide(ASK, { decision: 'allow' })
    expect(page.decided('a1')).toMatchObject({ state: 'sending' })
    reply = () => [200, command('applied')]
    page.ready({ asks: [ASK] })
    await settle()
    expect(page.decided('a1')).toMatchObject({ state: 'applied' })
    expect(new Set(asked.map((one) => one.key)).size).toBe(1)
    expect(asked[0]!.body).toMatchObject({ decision: 'allow', digest: 'd' })
  })
  it('is followed over a reload until the machine has applied it', async () => {
    let page = await load()
    page.ready({ asks: [ASK] })
    reply = () => [202, command('sent')]
    await page.decide(ASK, { decision: 'allow' })
    expect(page.decided('a1')).toMatchObject({ state: 'sent' })
    page = await load()
    reply = ({ path }) => path === 'commands/c1' ? [200, command('received')] : [500, {}]
    page.ready({ asks: [ASK] })
    await settle()
    expect(page.decided('a1')).toMatchObject({ state: 'received', body: { decision: 'allow' } })
    page.store.take({ type: 'command', command: command('applied') })
    page.store.take({ type: 'command', command: command('received') }) // late
    expect(page.decided('a1')).toMatchObject({ state: 'applied' })
  })
  it('can be made again when nobody knows what became of it', async () => {
    const page = await load()
    page.ready({ asks: [ASK] })
    reply = () => [202, command('sent')]
    await page.decide(ASK, { decision: 'allow' })
    reply = () => [404, { title: 'no such command' }]
    page.ready({ asks: [ASK] })
    await settle()
    expect(page.decided('a1')).toMatchObject({ state: 'refused' })
  })
  it('is forgotten with its ask', async () => {
    const page = await load()
    page.ready({ asks: [ASK] })
    reply = () => [202, command('sent')]
    await page.decide(ASK, { decision: 'allow' })
    page.ready()
    expect(page.decided('a1')).toBeUndefined()
    expect(storage.get('tieline.decided')).toBe('[]')
  })
})

describe('a prompt', () => {
  it('is kept over a reload while the hub is away, and sent once', async () => {
    let page = await load()
    reply = () => 'away'
    page.sendPrompt('s', 'hello')
    await settle()
    expect(page.waiting('s')).toMatchObject([{ text: 'hello', tick: 'sending' }])
    page = await load()
    expect(page.waiting('s')).toMatchObject([{ text: 'hello', tick: 'sending' }])
    reply = () => [201, { id: 'p' }]
    page.ready()
    await settle()
    expect(page.waiting('s')).toEqual([])
    expect(new Set(asked.map((one) => `${one.key} ${String(one.body.id)}`)).size).toBe(1)
  })
  it('to a machine that is away has one tick, until the machine has it', async () => {
    let page = await load()
    reply = () => [202, command('sent')]
    page.sendPrompt('s', 'hello')
    await settle()
    expect(page.waiting('s')).toMatchObject([{ tick: 'hub' }])
    page = await load()
    reply = () => [200, command('sent')]
    page.ready()
    await settle()
    expect(page.waiting('s')).toMatchObject([{ tick: 'hub' }])
    page.store.take({ type: 'command', command: command('applied') })
    expect(page.waiting('s')).toEqual([])
  })
  it('that expired says so; sent again it is another one', async () => {
    const page = await load()
    reply = () => [202, command('sent')]
    page.sendPrompt('s', 'hello')
    await settle()
    page.store.take({ type: 'command', command: { ...command('expired'), problem: 'the machine was away' } })
    expect(page.waiting('s')).toMatchObject([{ tick: 'failed', problem: 'the machine was away' }])
    reply = () => [201, { id: 'p' }]
    page.again(page.waiting('s')[0]!.id)
    await settle()
    expect(page.waiting('s')).toEqual([])
    expect(asked[1]!.key).not.toBe(asked[0]!.key)
    expect(asked[1]!.body.id).not.toBe(asked[0]!.body.id)
  })
  it('that could not be put into a turn is the next prompt when it is sent again', async () => {
    const page = await load()
    reply = () => [409, { title: 'no turn is running' }]
    page.sendPrompt('s', 'hello', [], true)
    await settle()
    expect(page.waiting('s')).toMatchObject([{ tick: 'failed', steer: true }])
    reply = () => [201, { id: 'p' }]
    page.again(page.waiting('s')[0]!.id)
    await settle()
    expect(asked.map((one) => one.body.steer)).toEqual([true, false])
  })
  it('never goes without its files unless a person says so', async () => {
    let page = await load()
    reply = () => 'away'
    page.sendPrompt('s', 'look', [{ name: 'a.png', media_type: 'image/png', data: 'AA==' }])
    await settle()
    page = await load()
    reply = () => [201, { id: 'p' }]
    page.ready()
    await settle()
    expect(asked.length).toBe(1)
    expect(page.waiting('s')).toMatchObject([{ tick: 'failed', files: ['a.png'] }])
    page.store.take({ type: 'prompt', prompt: { id: page.waiting('s')[0]!.id, session: 's', status: 'queued' } as unknown as P.PromptView })
    await settle()
    page.store.take({ type: 'ready', state: 'ok', epoch: 'e', cursor: 0, snapshot: { sessions: [], asks: [], prompts: [], nodes: [] } })
    expect(page.waiting('s'), 'it had arrived after all').toEqual([])
  })
})

describe('a wish', () => {
  it('has one key until it is answered or changed', async () => {
    const { Wish } = await load()
    const wish = new Wish()
    const send = (text: string) => wish.send('POST', 'messages', { text }).catch(() => undefined)
    reply = () => 'away'
    await send('a')
    await send('a')
    await send('b')
    reply = () => [400, { title: 'no' }]
    await send('b')
    await send('b')
    reply = () => [201, {}]
    await Promise.all([send('c'), send('c')])
    await send('c')
    const keys = asked.map((one) => one.key)
    expect(keys.map((key) => keys.indexOf(key))).toEqual([0, 0, 2, 2, 4, 5, 5, 7])
  })
})

describe('what comes before', () => {
  it('tells the commands of an agent that introduced itself long ago', async () => {
    const { store } = await load()
    const event = (seq: number, event: unknown) => ({ type: 'event', seq, session: 's', at: seq, event })
    reply = ({ path }) => path.includes('after=')
      ? [200, { events: [event(3, { type: 'init', agent: 'x', commands: ['compact'] })], first: 3, last: 900, more: true }]
      : [200, { events: [event(900, { type: 'text', text: 'late' })], first: 3, last: 900, more: true }]
    await store.openThread('s')
    await settle()
    expect(store.thread.value!.init.value).toMatchObject({ commands: ['compact'] })
    expect(store.thread.value!.items.value.length).toBe(1)
    expect(asked.map((one) => one.path)).toEqual(['sessions/s/events?limit=200', 'sessions/s/events?after=2&limit=10'])
  })
})
