/** The page's one WebSocket: it authenticates, subscribes with its cursor and reconnects.
 *
 * After a break the hub sends exactly what was missed: `subscription.after` is the last received event. The socket stays open
 * while the page is in the background; when the page returns, a silent socket is probed and replaced if it does not answer.
 */
import { deviceKey } from '../api/client'
import type * as P from '../generated/protocol'

export type HubFrame =
  | P.Welcome | P.Ready | P.EventFrame | P.DeltaFrame | P.SessionFrame | P.SessionsFrame | P.PromptFrame | P.AskFrame | P.NodeFrame
  | P.TeamFrame | P.MarkFrame | P.CommandFrame | P.GoneFrame | P.ProblemFrame | P.Beat

export interface ConnectionState {
  readonly state: 'connecting' | 'online' | 'waiting' | 'signed-out' | 'outdated'
  readonly retryAt: number // when waiting
  readonly since: number
  readonly reason: string
}

export interface Subscription {
  readonly sessions: readonly string[] // none: only the lists
  readonly after: number
}

export const IDLE_TIMEOUT_MS = 40_000
export const HEARTBEAT_MS = 15_000
export const PROBE_TIMEOUT_MS = 4_000
const MIN_RETRY_MS = 400
const MAX_RETRY_MS = 10_000

export interface Environment {
  openSocket(): WebSocket
  now(): number
  setTimer(ms: number, then: () => void): () => void
  random(): number
  key(): string // of this device
}

export const browserEnvironment: Environment = {
  openSocket: () => new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/api/v1/stream`),
  now: () => Date.now(),
  setTimer: (ms, then) => {
    const timer = setTimeout(then, ms)
    return () => clearTimeout(timer)
  },
  random: () => Math.random(),
  key: deviceKey,
}

export class Stream {
  epoch = ''
  private socket: WebSocket | undefined
  private attempts = 0
  private lastFrameAt = 0
  private ready = false
  /** The last received event, of whichever session: where the log stands for the page. */
  cursor = 0
  private subscription: Subscription = { sessions: [], after: 0 }
  private pageVisible = true
  private timers: (() => void)[] = []
  private stopped = true
  private state: ConnectionState

  constructor(
    private readonly onFrame: (frame: HubFrame) => void,
    private readonly onState: (state: ConnectionState) => void,
    private readonly environment: Environment = browserEnvironment,
  ) {
    this.state = { state: 'connecting', retryAt: 0, since: environment.now(), reason: '' }
  }

  /** Connects; also after signing in again. */
  start(): void {
    if (!this.stopped && this.state.state !== 'signed-out') return
    this.stopped = false
    this.connect()
  }

  stop(): void {
    this.stopped = true
    this.closeSocket()
  }

  /** Follows the events of sessions after the given one; with another epoch the hub answers `reset`. */
  follow(subscription: Subscription): void {
    this.subscription = subscription
    if (this.ready) this.sendSubscription()
  }

  /** Records the last received event: the hub continues after it. */
  acknowledge(seq: number): void {
    this.cursor = Math.max(this.cursor, seq)
    if (seq > this.subscription.after) this.subscription = { ...this.subscription, after: seq }
  }

  /** Tells the hub whether the page is visible: it sends pushes only when no page is. */
  setVisible(seen: boolean): void {
    this.pageVisible = seen
    if (this.ready) this.sendFrame({ type: 'visible', visible: seen })
    if (seen) this.wake()
  }

  /** Reconnects or probes the socket when the page or the network is back. */
  wake(): void {
    if (this.stopped || this.state.state === 'signed-out') return
    if (this.state.state === 'waiting') {
      this.connect()
      return
    }
    if (this.socket && this.environment.now() - this.lastFrameAt > HEARTBEAT_MS) {
      const probedAt = this.environment.now()
      this.sendFrame({ type: 'beat', at: probedAt / 1000 })
      this.schedule(PROBE_TIMEOUT_MS, () => {
        if (this.lastFrameAt < probedAt) this.disconnected('The connection was lost')
      })
    }
  }

  private connect(): void {
    this.closeSocket()
    this.setState('connecting')
    let socket: WebSocket
    try {
      socket = this.environment.openSocket()
    } catch (error) {
      this.disconnected(String(error))
      return
    }
    this.socket = socket
    this.lastFrameAt = this.environment.now()
    socket.onopen = () => {
      if (socket !== this.socket) return
      this.sendFrame({ type: 'authenticate', token: this.environment.key(), protocol: 1, client: 'page' })
      this.sendSubscription()
    }
    socket.onmessage = (message: MessageEvent<string>) => {
      if (socket === this.socket) this.receive(JSON.parse(message.data) as HubFrame)
    }
    socket.onclose = (event) => {
      if (socket === this.socket) this.disconnected(event.reason, event.code)
    }
    this.scheduleHeartbeat()
  }

  private receive(frame: HubFrame): void {
    this.lastFrameAt = this.environment.now()
    if (frame.type === 'ready') {
      this.epoch = frame.epoch
      this.cursor = frame.cursor
      this.ready = true
      this.attempts = 0
      this.setState('online')
    }
    this.onFrame(frame)
  }

  private sendSubscription(): void {
    const { sessions, after } = this.subscription
    const followed = sessions.length > 0
    this.sendFrame({
      type: 'subscribe', after, epoch: this.epoch, sessions, events: followed, deltas: followed, visible: this.pageVisible,
      snapshot: this.ready ? 'known' : 'parts',
    })
  }

  private sendFrame(frame: P.Authenticate | P.Subscribe | P.Visible | P.Beat): void {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(frame))
  }

  /** Sends heartbeats and closes a connection that has gone silent. */
  private scheduleHeartbeat(): void {
    this.schedule(HEARTBEAT_MS, () => {
      if (this.environment.now() - this.lastFrameAt > IDLE_TIMEOUT_MS) this.disconnected('The hub does not respond')
      else {
        this.sendFrame({ type: 'beat', at: this.environment.now() / 1000 })
        this.scheduleHeartbeat()
      }
    })
  }

  private disconnected(why: string, code = 0): void {
    this.closeSocket()
    if (this.stopped) return
    if (code === 4401) {
      this.setState('signed-out', 0, why)
      return
    }
    if (code === 4426) {
      this.setState('outdated', 0, why)
      return
    }
    const wait = code === 4408 ? 0 : Math.min(MAX_RETRY_MS, MIN_RETRY_MS * 1.8 ** this.attempts) * (0.7 + 0.6 * this.environment.random())
    this.attempts++
    this.setState('waiting', this.environment.now() + wait, why)
    this.schedule(wait, () => this.connect())
  }

  private closeSocket(): void {
    this.ready = false
    for (const cancel of this.timers.splice(0)) cancel()
    const socket = this.socket
    this.socket = undefined
    socket?.close()
  }

  private schedule(ms: number, then: () => void): void {
    this.timers.push(this.environment.setTimer(ms, then))
  }

  private setState(state: ConnectionState['state'], retryAt = 0, why = ''): void {
    const offline = (value: ConnectionState['state']) => value !== 'online'
    const since = offline(state) === offline(this.state.state) ? this.state.since : this.environment.now()
    this.state = { state, retryAt, since, reason: why || (state === 'online' ? '' : this.state.reason) }
    this.onState(this.state)
  }
}
