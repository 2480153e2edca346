/** A session's events folded into what a person reads. Live and replay come the same way: events by their place in the
 * log, each taken once, in any order of pages; deltas only announce an item early, and the whole item takes its place. */
import { signal, type Signal } from '@preact/signals'
import type * as P from '../generated/protocol'

export type AnyEvent = P.EventFrame['event']

export type Content =
  | { readonly kind: 'user'; readonly text: string }
  | { readonly kind: 'text' | 'thinking'; readonly text: string; readonly live: boolean }
  | { readonly kind: 'tool'; readonly use: P.ToolUse; readonly result?: P.ToolResult; readonly output: string; readonly over: boolean }
  | { readonly kind: 'ask'; readonly ask?: P.Ask; readonly answer?: P.Answer }
  | { readonly kind: 'plan'; readonly steps: readonly P.PlanStep[] }
  | { readonly kind: 'diff'; readonly diff: P.Diff }
  | { readonly kind: 'warning'; readonly text: string }
  | { readonly kind: 'status'; readonly state: string; readonly detail: string }
  | { readonly kind: 'error'; readonly error: P.Error }
  | { readonly kind: 'done'; readonly done: P.Done }

/** One row. Its content may change in place; its key and its number stay, also when older rows come in before it. */
export interface Item {
  readonly key: string
  readonly seq: number
  readonly at: number
  readonly parent: string
  number: number
  readonly content: Signal<Content>
}

export const MAX_OUTPUT = 64 * 1024 // characters of a running tool's output that are kept to be shown

export class Thread {
  /** The rows in order. */
  readonly items = signal<readonly Item[]>([])
  readonly init = signal<P.Init | undefined>(undefined)
  readonly usage = signal<P.Usage | undefined>(undefined)
  readonly working = signal(false)
  /** Whether there are events before the first one that is here. */
  readonly older = signal(false)
  loading = false
  /** The place of the last event that was taken. */
  last = 0
  private events: P.EventFrame[] = []
  private seen = new Set<number>()
  private rows: Item[] = []
  private byKey = new Map<string, Item>()
  private keys = new Map<number, string>() // the row that an event became, when it has another name than its place
  private live = new Map<string, Item>() // items of which only deltas are there
  private finished = new Set<string>() // this turn's items that are whole: late deltas of them are of no use
  private orphans = new Map<string, P.ToolResult | P.Answer>() // results whose call lies on an older page
  private turn = 0
  private calls = new Map<string, Item>() // this turn's tool calls by their id; a model may use one again in a later turn
  private made = 0
  private quiet = false

  constructor(readonly session: string) {}

  /** Events as they come, live or a page of older ones. What is known already is left out. Whether anything was new. */
  take(frames: readonly P.EventFrame[]): boolean {
    const fresh = frames.filter((frame) => !this.seen.has(frame.seq))
    if (!fresh.length) return false
    for (const frame of fresh) this.seen.add(frame.seq)
    fresh.sort((one, other) => one.seq - other.seq)
    const inOrder = fresh[0]!.seq > this.last
    this.last = Math.max(this.last, fresh.at(-1)!.seq)
    if (inOrder) {
      this.events.push(...fresh)
      for (const frame of fresh) this.fold(frame)
    } else {
      this.events = [...this.events, ...fresh].sort((one, other) => one.seq - other.seq)
      this.again()
    }
    this.publish()
    return true
  }

  get first(): number {
    return this.events[0]?.seq ?? 0
  }

  /** What is only announced. */
  delta(event: AnyEvent): void {
    if (event.type === 'text_delta' || event.type === 'thinking_delta') {
      const kind = event.type === 'text_delta' ? 'text' : 'thinking'
      const name = `${kind} ${event.item ?? ''}`
      if (event.item && this.finished.has(name)) return
      const row = this.live.get(name)
      const content = row?.content.peek()
      if (row && content && 'live' in content) {
        row.content.value = { kind, text: content.text + event.text, live: true }
        return
      }
      const made = this.add(`live ${++this.made}`, 0, 0, event.parent ?? '', { kind, text: event.text, live: true })
      this.live.set(name, made)
      this.publish()
    } else if (event.type === 'tool_output') {
      const row = this.calls.get(event.id)
      const content = row?.content.peek()
      if (row && content?.kind === 'tool' && !content.result) {
        row.content.value = { ...content, output: (content.output + event.text).slice(-MAX_OUTPUT) }
      }
    }
  }

  /** The connection was away: what was announced may lack a part, and the whole item will come. */
  forget(): void {
    this.dropLive()
    this.publish()
  }

  private again(): void {
    const kept = this.byKey
    this.rows = []
    this.byKey = new Map()
    this.orphans.clear()
    this.live.clear()
    this.finished.clear()
    this.turn = 0
    this.calls.clear()
    this.quiet = true
    for (const frame of this.events) this.fold(frame)
    this.quiet = false
    // The rows that were there keep their identity, so that the browser keeps their state and place.
    const fresh = this.byKey
    this.byKey = new Map()
    this.rows = this.rows.map((row) => {
      const before = kept.get(row.key)
      const content = fresh.get(row.key)!.content.peek()
      if (before && !same(before.content.peek(), content)) before.content.value = content // else it need not be drawn again
      const used = before ?? row
      this.byKey.set(row.key, used)
      return used
    })
    for (const [id, row] of this.calls) this.calls.set(id, this.byKey.get(row.key)!)
  }

  private publish(): void {
    // Rows before the first numbered one count down from it, those after it count up.
    const anchor = this.rows.findIndex((row) => row.number !== NONE)
    const base = anchor < 0 ? 0 : this.rows[anchor]!.number - anchor
    this.rows.forEach((row, index) => {
      if (row.number === NONE || index > anchor) row.number = base + index
    })
    this.items.value = [...this.rows]
  }

  private add(key: string, seq: number, at: number, parent: string, content: Content): Item {
    const row: Item = { key, seq, at, parent, number: NONE, content: signal(content) }
    this.rows.push(row)
    this.byKey.set(key, row)
    return row
  }

  private put(key: string, frame: P.EventFrame, parent: string, content: Content, move = false): void {
    const row = this.byKey.get(key)
    if (!row) this.add(key, frame.seq, frame.at, parent, content)
    else {
      row.content.value = content
      if (move) this.rows.push(...this.rows.splice(this.rows.indexOf(row), 1))
    }
  }

  private fold(frame: P.EventFrame): void {
    const { event, seq } = frame
    const own = this.keys.get(seq) ?? `#${seq}`
    switch (event.type) {
      case 'init':
        this.init.value = event
        break
      case 'turn_started':
        this.dropLive()
        this.turn = seq
        this.finished.clear()
        this.calls.clear()
        this.orphans.clear()
        this.working.value = true
        this.add(own, seq, frame.at, '', { kind: 'user', text: event.prompt })
        break
      case 'text':
      case 'thinking':
        this.whole(event.type, frame, event.item ?? '', event.parent ?? '', event.text, own)
        break
      case 'tool_use': {
        const content: Content = { kind: 'tool', use: event, result: this.orphans.get(`tool ${event.id}`) as P.ToolResult | undefined, output: '', over: false }
        const known = this.calls.get(event.id)
        if (known) known.content.value = content
        else this.calls.set(event.id, this.add(`tool #${seq}`, seq, frame.at, event.parent ?? '', content))
        break
      }
      case 'tool_result': {
        const row = this.calls.get(event.id)
        const content = row?.content.peek()
        if (row && content?.kind === 'tool') row.content.value = { ...content, result: event, output: '' }
        else this.orphans.set(`tool ${event.id}`, event)
        break
      }
      case 'ask':
        this.put(`ask ${event.id}`, frame, '', { kind: 'ask', ask: event, answer: this.orphans.get(`ask ${event.id}`) as P.Answer | undefined })
        break
      case 'answer': {
        const row = this.byKey.get(`ask ${event.ask}`)
        const content = row?.content.peek()
        if (row && content?.kind === 'ask') row.content.value = { ...content, answer: event }
        else if (event.by === 'policy' || event.by === 'memory') this.put(`ask ${event.ask}`, frame, '', { kind: 'ask', answer: event })
        else this.orphans.set(`ask ${event.ask}`, event)
        break
      }
      case 'plan':
        this.put(`plan ${this.turn}`, frame, '', { kind: 'plan', steps: event.steps })
        break
      case 'diff':
        this.put(`diff ${this.turn}`, frame, '', { kind: 'diff', diff: event }, true)
        break
      case 'usage':
        this.usage.value = event
        break
      case 'status':
        this.add(own, seq, frame.at, '', { kind: 'status', state: event.state, detail: event.detail ?? '' })
        break
      case 'warning':
        this.add(own, seq, frame.at, '', { kind: 'warning', text: event.message })
        break
      case 'error':
        this.add(own, seq, frame.at, '', { kind: 'error', error: event })
        break
      case 'done':
        this.dropLive()
        this.working.value = false
        this.add(own, seq, frame.at, '', { kind: 'done', done: this.once(event) })
        break
      case 'text_delta':
      case 'thinking_delta':
      case 'tool_output':
      case 'other':
        break // announced only, or nothing that is known here
      default:
        event satisfies never // a new kind of event does not build until it has its place above
    }
  }

  private whole(kind: 'text' | 'thinking', frame: P.EventFrame, item: string, parent: string, text: string, own: string): void {
    if (item) this.finished.add(`${kind} ${item}`)
    const name = `${kind} ${item}`
    const row = this.quiet ? undefined : this.live.get(name)
    if (!row) {
      this.add(own, frame.seq, frame.at, parent, { kind, text, live: false })
      return
    }
    // The row stays where it is and keeps its name: nothing jumps when the stream ends.
    this.live.delete(name)
    this.keys.set(frame.seq, row.key)
    const settled: Item = { ...row, seq: frame.seq, at: frame.at }
    settled.content.value = { kind, text, live: false }
    this.rows[this.rows.indexOf(row)] = settled
    this.byKey.set(row.key, settled)
  }

  /** The turn is over: a tool of it that has told nothing yet does not run any more, and its error is told once. A person who
   * stopped it knows why: what the agent says about its own interruption is no error. */
  private once(done: P.Done): P.Done {
    let told = false
    for (let index = this.rows.length - 1; index >= 0; index--) {
      const row = this.rows[index]!
      const content = row.content.peek()
      if (content.kind === 'user' || content.kind === 'done') break
      if (content.kind === 'tool' && !content.result) row.content.value = { ...content, over: true }
      if (content.kind !== 'error' || content.error.recoverable) continue
      if (done.status === 'interrupted') this.remove(row)
      else if (told && content.error.message === done.error) this.remove(row)
      else told ||= content.error.message === done.error
    }
    return told || done.status === 'interrupted' ? { ...done, error: '' } : done
  }

  private remove(row: Item): void {
    this.byKey.delete(row.key)
    this.rows.splice(this.rows.indexOf(row), 1)
  }

  private dropLive(): void {
    if (!this.live.size) return
    for (const row of this.live.values()) this.remove(row)
    this.live.clear()
  }
}

/** Whether two contents were made of the same events. */
function same(one: Content, other: Content): boolean {
  const [left, right] = [one, other] as Record<string, unknown>[]
  return Object.keys({ ...left, ...right }).every((name) => left![name] === right![name])
}

const NONE = Number.MIN_SAFE_INTEGER
