/** The page's one WebSocket: it authenticates, subscribes with its cursor, and comes back by itself.
 *
 * After any break the hub sends exactly what was missed: `want.after` is the last event that was taken. Nothing here is
 * thrown away when the page goes to the background; when it returns, a silent socket is asked for a sign of life, and
 * replaced if it gives none.
 */
import { ownKey } from '../api/client'
import type * as P from '../generated/protocol'

export type HubFrame =
  | P.Welcome | P.Ready | P.EventFrame | P.DeltaFrame | P.SessionFrame | P.PromptFrame | P.AskFrame | P.NodeFrame
  | P.CommandFrame | P.GoneFrame | P.ProblemFrame | P.Beat

export interface LinkState {
  readonly state: 'connecting' | 'online' | 'waiting' | 'signed-out' | 'outdated'
  readonly retryAt: number // when waiting
  readonly since: number
  readonly why: string
}

export interface Wish {
  readonly session: string // empty: no thread is open
  readonly after: number
}

export const SILENCE_MS = 40_000
export const BEAT_MS = 15_000
export const SIGN_OF_LIFE_MS = 4_000
const FIRST_RETRY_MS = 400
const LAST_RETRY_MS = 10_000

export interface World {
  open(): WebSocket
  now(): number
  after(ms: number, then: () => void): () => void
  random(): number
  key(): string // of this device
}

export const browser: World = {
  open: () => new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/api/v1/stream`),
  now: () => Date.now(),
  after: (ms, then) => {
    const timer = setTimeout(then, ms)
    return () => clearTimeout(timer)
  },
  random: () => Math.random(),
  key: ownKey,
}

export class Stream {
  epoch = ''
  private socket: WebSocket | undefined
  private tries = 0
  private heardAt = 0
  private ready = false
  private wish: Wish = { session: '', after: 0 }
  private seen = true
  private cancel: (() => void)[] = []
  private stopped = true
  private state: LinkState

  constructor(
    private readonly onFrame: (frame: HubFrame) => void,
    private readonly onState: (state: LinkState) => void,
    private readonly world: World = browser,
  ) {
    this.state = { state: 'connecting', retryAt: 0, since: world.now(), why: '' }
  }

  /** Also after signing in again. */
  start(): void {
    if (!this.stopped && this.state.state !== 'signed-out') return
    this.stopped = false
    this.connect()
  }

  stop(): void {
    this.stopped = true
    this.drop()
  }

  /** Follow this session's events after this one; another epoch than the hub's makes it say `reset`. */
  want(wish: Wish): void {
    this.wish = wish
    if (this.ready) this.subscribe()
  }

  /** The last event that was taken: where the hub goes on after a break. */
  taken(seq: number): void {
    if (seq > this.wish.after) this.wish = { ...this.wish, after: seq }
  }

  /** A person looks at the page, or not any more: pushes are for when nobody does. */
  visible(seen: boolean): void {
    this.seen = seen
    if (this.ready) this.say({ type: 'visible', visible: seen })
    if (seen) this.wake()
  }

  /** The page is back, or the network is. */
  wake(): void {
    if (this.stopped || this.state.state === 'signed-out') return
    if (this.state.state === 'waiting') {
      this.connect()
      return
    }
    if (this.socket && this.world.now() - this.heardAt > BEAT_MS) {
      const asked = this.world.now()
      this.say({ type: 'beat', at: asked / 1000 })
      this.later(SIGN_OF_LIFE_MS, () => {
        if (this.heardAt < asked) this.broken('The connection was dead')
      })
    }
  }

  private connect(): void {
    this.drop()
    this.tell('connecting')
    let socket: WebSocket
    try {
      socket = this.world.open()
    } catch (error) {
      this.broken(String(error))
      return
    }
    this.socket = socket
    this.heardAt = this.world.now()
    socket.onopen = () => {
      if (socket !== this.socket) return
      this.say({ type: 'authenticate', token: this.world.key(), protocol: 1, client: 'page' })
      this.subscribe()
    }
    socket.onmessage = (message: MessageEvent<string>) => {
      if (socket === this.socket) this.heard(JSON.parse(message.data) as HubFrame)
    }
    socket.onclose = (event) => {
      if (socket === this.socket) this.broken(event.reason, event.code)
    }
    this.watch()
  }

  private heard(frame: HubFrame): void {
    this.heardAt = this.world.now()
    if (frame.type === 'ready') {
      this.epoch = frame.epoch
      this.ready = true
      this.tries = 0
      this.tell('online')
    }
    this.onFrame(frame)
  }

  private subscribe(): void {
    const { session, after } = this.wish
    this.say({
      type: 'subscribe', after, epoch: this.epoch, sessions: session ? [session] : [], events: !!session, deltas: !!session, visible: this.seen,
    })
  }

  private say(frame: P.Authenticate | P.Subscribe | P.Visible | P.Beat): void {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(frame))
  }

  /** A beat when nothing else is said, and an end to a connection that is only thought to be there. */
  private watch(): void {
    this.later(BEAT_MS, () => {
      if (this.world.now() - this.heardAt > SILENCE_MS) this.broken('The hub gave no sign of life')
      else {
        this.say({ type: 'beat', at: this.world.now() / 1000 })
        this.watch()
      }
    })
  }

  private broken(why: string, code = 0): void {
    this.drop()
    if (this.stopped) return
    if (code === 4401) {
      this.tell('signed-out', 0, why)
      return
    }
    if (code === 4426) {
      this.tell('outdated', 0, why)
      return
    }
    const wait = code === 4408 ? 0 : Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 1.8 ** this.tries) * (0.7 + 0.6 * this.world.random())
    this.tries++
    this.tell('waiting', this.world.now() + wait, why)
    this.later(wait, () => this.connect())
  }

  private drop(): void {
    this.ready = false
    for (const cancel of this.cancel.splice(0)) cancel()
    const socket = this.socket
    this.socket = undefined
    socket?.close()
  }

  private later(ms: number, then: () => void): void {
    this.cancel.push(this.world.after(ms, then))
  }

  private tell(state: LinkState['state'], retryAt = 0, why = ''): void {
    const away = (one: LinkState['state']) => one !== 'online'
    const since = away(state) === away(this.state.state) ? this.state.since : this.world.now()
    this.state = { state, retryAt, since, why: why || (state === 'online' ? '' : this.state.why) }
    this.onState(this.state)
  }
}
