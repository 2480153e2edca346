import { beforeEach, describe, expect, it } from 'vitest'
import { HEARTBEAT_MS, PROBE_TIMEOUT_MS, Stream, type HubFrame, type ConnectionState, type Environment } from '../src/connection/stream'

class Socket {
  readyState = 0
  said: Record<string, unknown>[] = []
  onopen: (() => void) | null = null
  onmessage: ((message: { data: string }) => void) | null = null
  onclose: ((event: { code: number; reason: string }) => void) | null = null
  open(): void { this.readyState = 1; this.onopen?.() }
  send(text: string): void { this.said.push(JSON.parse(text)) }
  close(): void { this.readyState = 3 }
  end(code = 1006): void { this.readyState = 3; this.onclose?.({ code, reason: '' }) }
  tell(frame: unknown): void { this.onmessage?.({ data: JSON.stringify(frame) }) }
}

let sockets: Socket[]
let timers: { at: number; then: () => void }[]
let clock: number
let frames: HubFrame[]
let states: ConnectionState[]
let stream: Stream

const world: Environment = {
  openSocket: () => { const socket = new Socket(); sockets.push(socket); return socket as unknown as WebSocket },
  now: () => clock,
  setTimer: (ms, then) => { const timer = { at: clock + ms, then }; timers.push(timer); return () => { timers = timers.filter((one) => one !== timer) } },
  random: () => 0.5,
  key: () => 'tl_own',
}
const READY = { type: 'ready', state: 'ok', epoch: 'e1', cursor: 7, snapshot: { sessions: [], asks: [], prompts: [], nodes: [] } }

function pass(ms: number): void {
  const end = clock + ms
  for (;;) {
    const next = timers.filter((timer) => timer.at <= end).sort((one, other) => one.at - other.at)[0]
    if (!next) break
    clock = Math.max(clock, next.at)
    timers = timers.filter((timer) => timer !== next)
    next.then()
  }
  clock = end
}
const last = () => sockets.at(-1)!
const state = () => states.at(-1)!.state

beforeEach(() => {
  sockets = []; timers = []; clock = 1_000_000; frames = []; states = []
  stream = new Stream((frame) => frames.push(frame), (one) => states.push(one), world)
  stream.start()
})

describe('the stream', () => {
  it('authenticates first, then subscribes', () => {
    last().open()
    expect(last().said.map((frame) => frame.type)).toEqual(['authenticate', 'subscribe'])
    expect(last().said[0]).toMatchObject({ token: 'tl_own' })
    expect(last().said[1]).toMatchObject({ snapshot: 'parts' })
    expect(state()).toBe('connecting')
    last().tell(READY)
    expect(state()).toBe('online')
  })
  it('reconnects with its cursor and epoch', () => {
    last().open(); last().tell(READY)
    stream.follow({ sessions: ['s'], after: 7 })
    expect(last().said.at(-1)).toMatchObject({ type: 'subscribe', after: 7, epoch: 'e1', sessions: ['s'], snapshot: 'known' })
    stream.acknowledge(12)
    last().end()
    expect(state()).toBe('waiting')
    pass(1000)
    last().open()
    expect(sockets).toHaveLength(2)
    expect(last().said[1]).toMatchObject({ type: 'subscribe', after: 12, epoch: 'e1', sessions: ['s'], snapshot: 'parts' })
  })
  it('backs off up to a limit', () => {
    const waits: number[] = []
    for (let round = 0; round < 12; round++) {
      last().end()
      waits.push(states.at(-1)!.retryAt - clock)
      pass(60_000)
    }
    expect(waits[1]).toBeGreaterThan(waits[0]!)
    expect(Math.max(...waits)).toBeLessThanOrEqual(13_000)
  })
  it('reconnects at once when the page returns', () => {
    for (let round = 0; round < 6; round++) { last().end(); pass(20_000) }
    last().end()
    const before = sockets.length
    stream.setVisible(true)
    expect(sockets).toHaveLength(before + 1)
  })
  it('replaces a socket that does not answer a probe', () => {
    last().open(); last().tell(READY)
    clock += HEARTBEAT_MS + 5000 // timers sleep in the background
    timers.forEach((timer) => (timer.at += 100_000))
    stream.setVisible(true)
    expect(last().said.at(-1)).toMatchObject({ type: 'beat' })
    pass(PROBE_TIMEOUT_MS)
    expect(state()).toBe('waiting')
  })
  it('keeps a socket that answers', () => {
    last().open(); last().tell(READY)
    clock += HEARTBEAT_MS + 5000
    timers.forEach((timer) => (timer.at += 100_000))
    stream.setVisible(true)
    clock += 10
    last().tell({ type: 'beat' })
    pass(PROBE_TIMEOUT_MS)
    expect(state()).toBe('online')
  })
  it('closes a silent connection', () => {
    last().open(); last().tell(READY)
    pass(70_000)
    expect(sockets.length).toBeGreaterThan(1)
  })
  it('reconnects at once when it was too slow', () => {
    last().open(); last().tell(READY); last().end(4408)
    pass(0)
    expect(sockets).toHaveLength(2)
  })
  it('does not reconnect when the device was revoked', () => {
    last().open(); last().tell(READY); last().end(4401)
    expect(state()).toBe('signed-out')
    pass(60_000)
    stream.setVisible(true)
    expect(sockets).toHaveLength(1)
    stream.start() // somebody signed in again
    expect(sockets).toHaveLength(2)
  })
  it('ignores a closed socket', () => {
    const old = last()
    old.open(); old.tell(READY); old.end(); pass(1000)
    const count = frames.length
    old.tell({ type: 'beat' }); old.end()
    expect(frames).toHaveLength(count)
    expect(sockets).toHaveLength(2)
  })
})
