import { describe, expect, it, vi } from 'vitest'
import { command, hub, load, settle, type Reply } from './fake-hub'

describe('an idempotent request', () => {
  it('has one key until it gets a response or changes', async () => {
    const { IdempotentRequest } = await load()
    const request = new IdempotentRequest()
    const send = (text: string) => request.send('POST', 'messages', { text }).catch(() => undefined)
    hub.reply = () => 'away'
    await send('a')
    await send('a')
    await send('b')
    hub.reply = () => [400, { title: 'no' }]
    await send('b')
    await send('b')
    hub.reply = () => [201, {}]
    await Promise.all([send('c'), send('c')])
    await send('c')
    const keys = hub.requests.map((one) => one.key)
    expect(keys.map((key) => keys.indexOf(key))).toEqual([0, 0, 2, 2, 4, 5, 5, 7])
  })
  it('keeps its key while the outcome is unknown, and not after a machine’s refusal', async () => {
    const { IdempotentRequest } = await load()
    const request = new IdempotentRequest()
    const answers: Reply[] = [[503, {}], [409, { code: 'InProgress' }], [429, {}], [504, { code: 'GatewayTimeout' }], [502, {}], [502, { code: 'AgentError' }], [409, { code: 'Conflict' }], [201, {}]]
    for (const answer of answers) {
      hub.reply = () => answer
      await request.send('POST', 'messages', { text: 'a' }).catch(() => undefined)
    }
    const keys = hub.requests.map((one) => one.key)
    expect(keys.map((key) => keys.indexOf(key))).toEqual([0, 0, 0, 0, 0, 0, 6, 7])
  })
})

describe('the first events of a long thread', () => {
  it('are loaded for the agent’s commands', async () => {
    const { store } = await load()
    const event = (seq: number, event: unknown) => ({ type: 'event', seq, session: 's', at: seq, event })
    hub.reply = ({ path }) => path.includes('after=')
      ? [200, { events: [event(3, { type: 'init', agent: 'x', commands: ['compact'] })], first: 3, last: 900, more: true }]
      : [200, { events: [event(900, { type: 'text', text: 'late' })], first: 3, last: 900, more: true }]
    await store.openThread('s')
    await settle()
    expect(store.thread.value!.init.value).toMatchObject({ commands: ['compact'] })
    expect(store.thread.value!.items.value.length).toBe(1)
    expect(hub.requests.map((one) => one.path)).toEqual(['sessions/s/events?limit=200', 'sessions/s/events?after=2&limit=10'])
  })
})

describe('a read', () => {
  it('times out', async () => {
    const { get, isOutcomeUnknown: unsure } = await load()
    const bound = new AbortController()
    vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(bound.signal)
    vi.stubGlobal('fetch', (_: string, { signal }: RequestInit) => new Promise((_, failed) => signal!.addEventListener('abort', () => failed(signal!.reason))))
    const read = get('me').catch((error: unknown) => error)
    bound.abort()
    expect(unsure(await read)).toBe(true)
    vi.stubGlobal('fetch', async () => ({ ok: true, status: 200, text: () => Promise.reject(new TypeError('cut off in the middle')) }))
    expect(unsure(await get('me').catch((error: unknown) => error))).toBe(true)
  })
})

describe('a session that was opened twice', () => {
  it('shows no problem when the first request fails and the second succeeds', async () => {
    const { store } = await load()
    let fail = () => {}
    const first = new Promise<never>((_, failed) => { fail = () => failed(new TypeError('network')) })
    hub.reply = () => [200, { events: [], first: 0, last: 0, more: false }]
    const answers = [() => first, globalThis.fetch]
    vi.stubGlobal('fetch', (...given: Parameters<typeof fetch>) => answers.shift()!(...given))
    const late = store.openThread('a')
    await store.openThread('a')
    fail()
    await late
    expect(store.threadProblem.value).toBe('')
    expect(store.thread.value?.session).toBe('a')
  })
})

describe('a pending command', () => {
  const post = async (page: Awaited<ReturnType<typeof load>>, draft = '') => page.trackCommand('New session', 's', page.request('POST', 'sessions', {}), draft)

  it('that the machine applied at once is not pending', async () => {
    const page = await load()
    hub.reply = () => [201, { id: 's' }]
    expect(await post(page)).toEqual({ id: 's' })
    expect(page.commandsOfSession('s')).toEqual([])
  })
  it('is followed over a reload, and a refusal is shown', async () => {
    let page = await load()
    hub.reply = () => [202, command('sent')]
    expect(await post(page)).toBeUndefined()
    expect(page.commandsOfSession('s')).toMatchObject([{ what: 'New session', node: 'n', problem: '' }])
    page = await load()
    hub.reply = () => [503, {}]
    page.ready()
    await settle()
    expect(page.commandsOfMissingSessions(), 'the outcome is unknown').toMatchObject([{ problem: '' }])
    hub.reply = ({ path }) => path === 'commands/c1' ? [200, { ...command('refused'), problem: 'there is no such directory' }] : [500, {}]
    page.ready()
    await settle()
    expect(page.commandsOfMissingSessions()).toMatchObject([{ problem: 'there is no such directory' }])
    page.dismissCommand('c1')
    expect(page.commandsOfSession('s')).toEqual([])
  })
  it('that expired or is unknown to the hub is shown; once applied, it is gone', async () => {
    const page = await load()
    hub.reply = () => [202, command('sent')]
    await post(page)
    page.store.applyFrame({ type: 'command', command: command('expired') })
    expect(page.commandsOfSession('s')[0]!.problem).not.toBe('')
    page.store.applyFrame({ type: 'command', command: command('applied') })
    expect(page.commandsOfSession('s')).toEqual([])
    hub.reply = () => [202, command('sent', 'c2')]
    await post(page)
    hub.reply = () => [404, {}]
    page.ready()
    await settle()
    expect(page.commandsOfSession('s')[0]!.problem).not.toBe('')
  })
  it('may be applied before the hub’s response arrives', async () => {
    const page = await load()
    hub.reply = () => {
      page.store.applyFrame({ type: 'command', command: { ...command('refused'), problem: 'no' } })
      return [202, command('sent')]
    }
    await post(page)
    expect(page.commandsOfSession('s')).toMatchObject([{ problem: 'no' }])
  })
  it('keeps the draft of a new session until the session exists, and no other draft', async () => {
    const page = await load()
    const draft = (id: string) => { hub.reply = () => [202, command('sent', id)] }
    hub.storage.set('tieline.draft.new', '"mend it"')
    draft('c1')
    await post(page, 'mend it')
    page.store.applyFrame({ type: 'command', command: command('refused') })
    expect(hub.storage.get('tieline.draft.new')).toBe('"mend it"')
    draft('c2')
    await post(page, 'mend it')
    page.store.applyFrame({ type: 'command', command: command('applied', 'c2') })
    expect(hub.storage.has('tieline.draft.new')).toBe(false)
    draft('c3')
    await post(page, 'mend it')
    hub.storage.set('tieline.draft.new', '"something else"')
    page.store.applyFrame({ type: 'command', command: command('applied', 'c3') })
    expect(hub.storage.get('tieline.draft.new')).toBe('"something else"')
  })
})
