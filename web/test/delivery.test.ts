import { describe, expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { command, hub, load, settle } from './fake-hub'

const ASK = { id: 'a1', session: 's', digest: 'd', status: 'pending', created_at: 1, expires_at: 0, ask: { type: 'ask', id: 'a1', kind: 'permission' } } as unknown as P.AskRecord
const FILE = { name: 'a.png', media_type: 'image/png', data: 'AA==' }

describe('a decision', () => {
  it('waits for an offline hub and is resent with the same key', async () => {
    const page = await load()
    page.ready({ asks: [ASK] })
    hub.reply = () => 'away'
    await page.decide(ASK, { decision: 'allow' })
    expect(page.decisionFor('a1')).toMatchObject({ state: 'sending' })
    hub.reply = () => [200, command('applied')]
    page.ready({ asks: [ASK] })
    await settle()
    expect(page.decisionFor('a1')).toMatchObject({ state: 'applied' })
    expect(new Set(hub.requests.map((one) => one.key)).size).toBe(1)
    expect(hub.requests[0]!.body).toMatchObject({ decision: 'allow', digest: 'd' })
  })
  it('is followed over a reload until the machine has applied it', async () => {
    let page = await load()
    page.ready({ asks: [ASK] })
    hub.reply = () => [202, command('sent')]
    await page.decide(ASK, { decision: 'allow' })
    expect(page.decisionFor('a1')).toMatchObject({ state: 'sent' })
    page = await load()
    hub.reply = ({ path }) => path === 'commands/c1' ? [200, command('received')] : [500, {}]
    page.ready({ asks: [ASK] })
    await settle()
    expect(page.decisionFor('a1')).toMatchObject({ state: 'received', body: { decision: 'allow' } })
    page.store.applyFrame({ type: 'command', command: command('applied') })
    page.store.applyFrame({ type: 'command', command: command('received') }) // late
    expect(page.decisionFor('a1')).toMatchObject({ state: 'applied' })
  })
  it('can be made again when the hub has lost it', async () => {
    const page = await load()
    page.ready({ asks: [ASK] })
    hub.reply = () => [202, command('sent')]
    await page.decide(ASK, { decision: 'allow' })
    hub.reply = () => [404, { title: 'no such command' }]
    page.ready({ asks: [ASK] })
    await settle()
    expect(page.decisionFor('a1')).toMatchObject({ state: 'refused' })
  })
  it('is not given up because the hub cannot say where it is', async () => {
    const page = await load()
    page.ready({ asks: [ASK] })
    hub.reply = () => [202, command('sent')]
    await page.decide(ASK, { decision: 'allow' })
    for (const status of [401, 408, 429, 503]) {
      hub.reply = () => [status, { title: 'not now' }]
      page.ready({ asks: [ASK] })
      await settle()
      expect(page.decisionFor('a1')).toMatchObject({ state: 'sent', command: 'c1' })
    }
    page.store.applyFrame({ type: 'command', command: command('applied') })
    expect(page.decisionFor('a1')).toMatchObject({ state: 'applied' })
  })
  it('is resent with the same key when the hub fails, and shown as applied when it was', async () => {
    vi.useFakeTimers()
    const page = await load()
    page.ready({ asks: [ASK] })
    hub.reply = () => [503, { code: 'BusError' }]
    await page.decide(ASK, { decision: 'allow' })
    expect(page.decisionFor('a1')).toMatchObject({ state: 'sending' })
    hub.reply = () => [202, command('sent')]
    await vi.advanceTimersByTimeAsync(6000) // the connection was there all the time
    expect(page.decisionFor('a1')).toMatchObject({ state: 'sent' })
    expect(new Set(hub.requests.map((one) => one.key)).size).toBe(1)
    hub.reply = () => [404, { title: 'no such command' }]
    page.ready({ asks: [ASK] })
    await vi.advanceTimersByTimeAsync(1)
    expect(page.decisionFor('a1')).toMatchObject({ state: 'refused' })
    page.store.applyFrame({ type: 'command', command: command('applied') })
    expect(page.decisionFor('a1')).toMatchObject({ state: 'applied' })
  })
  it('is removed with its ask', async () => {
    const page = await load()
    page.ready({ asks: [ASK] })
    hub.reply = () => [202, command('sent')]
    await page.decide(ASK, { decision: 'allow' })
    page.ready()
    expect(page.decisionFor('a1')).toBeUndefined()
    expect(hub.storage.get('tieline.decided')).toBe('[]')
  })
})

describe('a prompt', () => {
  it('is stored over a reload while the hub is offline, and sent once', async () => {
    let page = await load()
    hub.reply = () => 'away'
    page.sendPrompt('s', 'hello')
    await settle()
    expect(page.queuedPrompts('s')).toMatchObject([{ text: 'hello', tick: 'sending' }])
    page = await load()
    expect(page.queuedPrompts('s')).toMatchObject([{ text: 'hello', tick: 'sending' }])
    hub.reply = () => [201, { id: 'p' }]
    page.ready()
    await settle()
    expect(page.queuedPrompts('s')).toEqual([])
    expect(new Set(hub.requests.map((one) => `${one.key} ${String(one.body.id)}`)).size).toBe(1)
  })
  it('to an offline machine has one tick until the machine receives it', async () => {
    let page = await load()
    hub.reply = () => [202, command('sent')]
    page.sendPrompt('s', 'hello')
    await settle()
    expect(page.queuedPrompts('s')).toMatchObject([{ tick: 'hub' }])
    page = await load()
    hub.reply = () => [200, command('sent')]
    page.ready()
    await settle()
    expect(page.queuedPrompts('s')).toMatchObject([{ tick: 'hub' }])
    page.store.applyFrame({ type: 'command', command: command('applied') })
    expect(page.queuedPrompts('s')).toEqual([])
  })
  it('that expired says so; a retry has a new id', async () => {
    const page = await load()
    hub.reply = () => [202, command('sent')]
    page.sendPrompt('s', 'hello')
    await settle()
    page.store.applyFrame({ type: 'command', command: { ...command('expired'), problem: 'the machine was away' } })
    expect(page.queuedPrompts('s')).toMatchObject([{ tick: 'failed', problem: 'the machine was away' }])
    hub.reply = () => [201, { id: 'p' }]
    page.retryPrompt(page.queuedPrompts('s')[0]!.id)
    await settle()
    expect(page.queuedPrompts('s')).toEqual([])
    expect(hub.requests[1]!.key).not.toBe(hub.requests[0]!.key)
    expect(hub.requests[1]!.body.id).not.toBe(hub.requests[0]!.body.id)
  })
  it('that could not steer a turn is the next prompt when it is retried', async () => {
    const page = await load()
    hub.reply = () => [409, { title: 'no turn is running' }]
    page.sendPrompt('s', 'hello', [], true)
    await settle()
    expect(page.queuedPrompts('s')).toMatchObject([{ tick: 'failed', steer: true }])
    hub.reply = () => [201, { id: 'p' }]
    page.retryPrompt(page.queuedPrompts('s')[0]!.id)
    await settle()
    expect(hub.requests.map((one) => one.body.steer)).toEqual([true, false])
  })
  it('is never sent without its files unless the person says so', async () => {
    let page = await load()
    hub.reply = () => 'away'
    page.sendPrompt('s', 'look', [FILE])
    await settle()
    page = await load()
    hub.reply = ({ method }) => method === 'GET' ? [200, []] : [201, { id: 'p' }]
    page.ready()
    await settle()
    expect(hub.requests.filter((one) => one.method === 'POST').length).toBe(1)
    expect(page.queuedPrompts('s')).toMatchObject([{ tick: 'failed', files: ['a.png'] }])
    page.store.applyFrame({ type: 'prompt', prompt: { id: page.queuedPrompts('s')[0]!.id, session: 's', status: 'queued' } as unknown as P.PromptView })
    await settle()
    page.ready()
    expect(page.queuedPrompts('s'), 'it had arrived after all').toEqual([])
  })
  it('with files that the machine has already processed is not shown as lost after a reload', async () => {
    let page = await load()
    hub.reply = () => 'away' // the answer, not the request
    page.sendPrompt('s', 'look', [FILE])
    await settle()
    const { id } = page.queuedPrompts('s')[0]!
    page = await load()
    for (const status of [401, 503]) {
      hub.reply = () => [status, {}]
      page.ready()
      await settle()
      expect(page.queuedPrompts('s'), 'nobody has said yet').toMatchObject([{ tick: 'sending', files: ['a.png'] }])
    }
    hub.reply = ({ path }) => path === 'sessions/s/prompts?over=true' ? [200, [{ id, session: 's', status: 'done' }]] : [500, {}]
    page.ready()
    await settle()
    expect(page.queuedPrompts('s')).toEqual([])
    expect(hub.requests.filter((one) => one.method === 'POST').length, 'it ran once').toBe(1)
  })
  it('stored by a page that was opened while the hub was offline is sent with the device’s key', async () => {
    let page = await load()
    hub.reply = () => 'away'
    page.sendPrompt('s', 'hello')
    page.ready({ asks: [ASK] })
    await page.decide(ASK, { decision: 'allow' })
    page = await load()
    hub.reply = ({ path }) => path.startsWith('asks/') ? [200, command('applied')] : [201, { id: 'p' }]
    page.ready({ asks: [ASK] })
    await settle()
    expect(page.queuedPrompts('s')).toEqual([])
    expect(page.decisionFor('a1')).toMatchObject({ state: 'applied' })
  })
  it('is not given up, and not sent as another one, because the hub cannot say where it is', async () => {
    const page = await load()
    hub.reply = () => [202, command('sent')]
    page.sendPrompt('s', 'hello')
    await settle()
    for (const status of [401, 408, 429, 503]) {
      hub.reply = () => [status, { title: 'not now' }]
      page.ready()
      await settle()
      expect(page.queuedPrompts('s')).toMatchObject([{ tick: 'hub', problem: '' }])
    }
    hub.reply = () => [404, { title: 'no such command' }]
    page.ready()
    await settle()
    expect(page.queuedPrompts('s')).toMatchObject([{ tick: 'failed' }])
    page.store.applyFrame({ type: 'command', command: command('applied') })
    expect(page.queuedPrompts('s'), 'the machine has the last word').toEqual([])
  })
  it('is resent with the same id after a failure of the hub, and not after a machine’s refusal', async () => {
    vi.useFakeTimers()
    const page = await load()
    hub.reply = () => [503, { detail: 'the bus is away', code: 'BusError' }]
    page.sendPrompt('s', 'hello')
    await vi.advanceTimersByTimeAsync(1)
    expect(page.queuedPrompts('s')).toMatchObject([{ tick: 'sending', problem: 'the bus is away' }])
    hub.reply = () => [502, { detail: 'it is not installed', code: 'AgentMissing' }]
    await vi.advanceTimersByTimeAsync(6000) // the connection was there all the time
    expect(page.queuedPrompts('s')).toMatchObject([{ tick: 'failed', problem: 'it is not installed' }])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(hub.requests.length).toBe(2)
    expect(new Set(hub.requests.map((one) => `${one.key} ${String(one.body.id)}`)).size).toBe(1)
  })
  it('is done when the machine was faster than the hub’s response', async () => {
    const page = await load()
    hub.reply = () => {
      page.store.applyFrame({ type: 'command', command: command('applied') })
      return [202, command('sent')]
    }
    page.sendPrompt('s', 'hello')
    await settle()
    expect(page.queuedPrompts('s')).toEqual([])
    hub.reply = () => {
      page.store.applyFrame({ type: 'command', command: { ...command('refused', 'c2'), problem: 'the session is over' } })
      return [202, command('sent', 'c2')]
    }
    page.sendPrompt('s', 'hello')
    await settle()
    expect(page.queuedPrompts('s')).toMatchObject([{ tick: 'failed', problem: 'the session is over' }])
  })
})
