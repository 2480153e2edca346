/** Folds a session's events into the rows of its conversation. Live and replayed events are treated alike: each is applied
 * once, by its sequence number, in any order of pages; a delta shows an item early and the complete item replaces it. */
import { signal, type Signal } from '@preact/signals'
import type * as P from '../generated/protocol'

export type AnyEvent = P.EventFrame['event']

/** What a row shows. `notes`: what an agent tells one after the other, as at its start. `retry`: the prompt of a failed turn. */
export type Content =
  | { readonly kind: 'user'; readonly text: string; readonly prompt: string; readonly attachments: readonly P.AttachedFile[] }
  | { readonly kind: 'text' | 'thinking'; readonly text: string; readonly live: boolean }
  | { readonly kind: 'tool'; readonly use: P.ToolUse; readonly result?: P.ToolResult; readonly output: string; readonly unfinished: boolean; readonly ask?: P.Ask; readonly answer?: P.Answer }
  | { readonly kind: 'ask'; readonly ask?: P.Ask; readonly answer?: P.Answer }
  | { readonly kind: 'plan'; readonly steps: readonly P.PlanStep[] }
  | { readonly kind: 'diff'; readonly diff: P.Diff }
  | { readonly kind: 'notes'; readonly notes: readonly (P.Warning | P.Status)[] }
  | { readonly kind: 'error'; readonly error: P.Error; readonly retry: string }
  | { readonly kind: 'done'; readonly done: P.Done; readonly retry: string }

/** A row. Its content may change in place; its key and number stay, also when older rows are inserted before it. */
export interface ThreadItem {
  readonly key: string
  readonly seq: number
  readonly at: number
  readonly parent: string
  number: number
  readonly content: Signal<Content>
}

export const MAX_OUTPUT = 64 * 1024 // characters of a running tool's output

export class Thread {
  /** The rows in order. */
  readonly items = signal<readonly ThreadItem[]>([])
  readonly init = signal<P.Init | undefined>(undefined)
  readonly usage = signal<P.Usage | undefined>(undefined)
  readonly working = signal(false)
  /** The prompt of the last turn; only its failure can be retried. */
  readonly lastPrompt = signal('')
  /** Whether there are events before the first loaded one. */
  readonly hasOlder = signal(false)
  loadingOlder: Promise<void> | undefined
  /** The sequence number of the last applied event. */
  lastSeq = 0
  private events: P.EventFrame[] = []
  private seenSeqs = new Set<number>()
  private rows: ThreadItem[] = []
  private byKey = new Map<string, ThreadItem>()
  private keyBySeq = new Map<number, string>() // an event's row key, where it is not the default
  private liveItems = new Map<string, ThreadItem>() // items with only deltas so far
  private completedItems = new Set<string>() // this turn's complete items: late deltas are ignored
  private orphanResults = new Map<string, P.ToolResult | P.Answer>() // results whose call lies on an older page
  private turnSeq = 0
  private prompt = '' // of the turn
  private decidedAsks = new Map<string, ThreadItem>() // this turn's decided asks by their tool call, which is not there (yet)
  private toolCalls = new Map<string, ThreadItem>() // this turn's tool calls by their id; a model may use one again in a later turn
  private liveCount = 0
  private rebuilding = false

  constructor(readonly session: string) {}

  /** Applies live events or a page of older ones, each once. Returns whether any was new. */
  addEvents(frames: readonly P.EventFrame[]): boolean {
    const fresh = frames.filter((frame) => !this.seenSeqs.has(frame.seq))
    if (!fresh.length) return false
    for (const frame of fresh) this.seenSeqs.add(frame.seq)
    fresh.sort((frame, other) => frame.seq - other.seq)
    const inOrder = fresh[0]!.seq > this.lastSeq
    this.lastSeq = Math.max(this.lastSeq, fresh.at(-1)!.seq)
    if (inOrder) {
      this.events.push(...fresh)
      for (const frame of fresh) this.applyEvent(frame)
    } else {
      this.events = [...this.events, ...fresh].sort((frame, other) => frame.seq - other.seq)
      this.rebuild()
    }
    this.publish()
    return true
  }

  get firstSeq(): number {
    return this.events[0]?.seq ?? 0
  }

  /** The key of the row that shows an event; where it has none of its own, the row before it. Empty: no row is that old. */
  rowOf(seq: number): string {
    const event = this.events.find((frame) => frame.seq === seq)?.event
    const shows = (content: Content): boolean => {
      switch (event?.type) {
        case 'tool_use': return content.kind === 'tool' && content.use === event
        case 'tool_result': return content.kind === 'tool' && content.result === event
        case 'ask': return (content.kind === 'ask' || content.kind === 'tool') && content.ask === event
        case 'answer': return (content.kind === 'ask' || content.kind === 'tool') && content.answer === event
        default: return false
      }
    }
    const own = this.byKey.get(this.keyBySeq.get(seq) ?? `#${seq}`) ?? this.rows.find((row) => shows(row.content.peek()))
    return (own ?? this.rows.findLast((row) => row.seq > 0 && row.seq <= seq))?.key ?? ''
  }

  /** Shows a part of an item before the item is complete. */
  applyDelta(event: AnyEvent): void {
    if (event.type === 'text_delta' || event.type === 'thinking_delta') {
      const kind = event.type === 'text_delta' ? 'text' : 'thinking'
      const name = `${kind} ${event.item ?? ''}`
      if (event.item && this.completedItems.has(name)) return
      const row = this.liveItems.get(name)
      const content = row?.content.peek()
      if (row && content && 'live' in content) {
        row.content.value = { kind, text: content.text + event.text, live: true }
        return
      }
      const liveRow = this.add(`live ${++this.liveCount}`, 0, 0, event.parent ?? '', { kind, text: event.text, live: true })
      this.liveItems.set(name, liveRow)
      this.publish()
    } else if (event.type === 'tool_output') {
      const row = this.toolCalls.get(event.id)
      const content = row?.content.peek()
      if (row && content?.kind === 'tool' && !content.result) {
        row.content.value = { ...content, output: (content.output + event.text).slice(-MAX_OUTPUT) }
      }
    }
  }

  /** After a break the deltas may have gaps; the complete items will follow. */
  discardDeltas(): void {
    this.dropLive()
    this.publish()
  }

  private rebuild(): void {
    const kept = this.byKey
    this.rows = []
    this.byKey = new Map()
    this.orphanResults.clear()
    this.liveItems.clear()
    this.completedItems.clear()
    this.turnSeq = 0
    this.prompt = ''
    this.toolCalls.clear()
    this.decidedAsks.clear()
    this.rebuilding = true
    for (const frame of this.events) this.applyEvent(frame)
    this.rebuilding = false
    // Existing rows keep their identity, so that the browser keeps their state and position.
    const fresh = this.byKey
    this.byKey = new Map()
    this.rows = this.rows.map((row) => {
      const before = kept.get(row.key)
      const content = fresh.get(row.key)!.content.peek()
      if (before && !sameContent(before.content.peek(), content)) before.content.value = content // else it need not be rendered again
      const used = before ?? row
      this.byKey.set(row.key, used)
      return used
    })
    for (const known of [this.toolCalls, this.decidedAsks]) for (const [id, row] of known) known.set(id, this.byKey.get(row.key)!)
  }

  private publish(): void {
    // Rows before the first numbered one count down from it, those after it count up.
    const anchor = this.rows.findIndex((row) => row.number !== UNNUMBERED)
    const base = anchor < 0 ? 0 : this.rows[anchor]!.number - anchor
    this.rows.forEach((row, index) => {
      if (row.number === UNNUMBERED || index > anchor) row.number = base + index
    })
    this.items.value = [...this.rows]
    this.lastPrompt.value = this.prompt
  }

  private add(key: string, seq: number, at: number, parent: string, content: Content): ThreadItem {
    const row: ThreadItem = { key, seq, at, parent, number: UNNUMBERED, content: signal(content) }
    this.rows.push(row)
    this.byKey.set(key, row)
    return row
  }

  private upsert(key: string, frame: P.EventFrame, parent: string, content: Content, move = false): ThreadItem {
    const row = this.byKey.get(key)
    if (!row) return this.add(key, frame.seq, frame.at, parent, content)
    row.content.value = content
    if (move) this.rows.push(...this.rows.splice(this.rows.indexOf(row), 1))
    return row
  }

  private applyEvent(frame: P.EventFrame): void {
    const { event, seq } = frame
    const own = this.keyBySeq.get(seq) ?? `#${seq}`
    switch (event.type) {
      case 'init':
        this.init.value = event
        break
      case 'turn_started':
        this.dropLive()
        this.turnSeq = seq
        this.prompt = event.id ?? ''
        this.completedItems.clear()
        this.toolCalls.clear()
        this.decidedAsks.clear()
        this.orphanResults.clear()
        this.working.value = true
        this.add(own, seq, frame.at, '', { kind: 'user', text: event.prompt, prompt: event.id ?? '', attachments: event.attachments ?? [] })
        break
      case 'text':
      case 'thinking':
        this.completeItem(event.type, frame, event.item ?? '', event.parent ?? '', event.text, own)
        break
      case 'tool_use': {
        const content: Content = { kind: 'tool', use: event, result: this.orphanResults.get(`tool ${event.id}`) as P.ToolResult | undefined, output: '', unfinished: false }
        const known = this.toolCalls.get(event.id)
        const before = known?.content.peek()
        if (known && before?.kind === 'tool') known.content.value = { ...content, ask: before.ask, answer: before.answer }
        else this.toolCalls.set(event.id, this.add(`tool #${seq}`, seq, frame.at, event.parent ?? '', content))
        const decided = this.decidedAsks.get(event.id)
        if (decided) this.foldDecision(decided)
        break
      }
      case 'tool_result': {
        const row = this.toolCalls.get(event.id)
        const content = row?.content.peek()
        if (row && content?.kind === 'tool') row.content.value = { ...content, result: event, output: '' }
        else this.orphanResults.set(`tool ${event.id}`, event)
        break
      }
      case 'ask':
        this.foldDecision(this.upsert(`ask ${event.id}`, frame, '', { kind: 'ask', ask: event, answer: this.orphanResults.get(`ask ${event.id}`) as P.Answer | undefined }))
        break
      case 'answer': {
        const row = this.byKey.get(`ask ${event.ask}`)
        const content = row?.content.peek()
        if (row && content?.kind === 'ask') {
          row.content.value = { ...content, answer: event }
          this.foldDecision(row)
        } else if (event.by === 'policy' || event.by === 'memory' || event.by === 'rule') this.foldDecision(this.upsert(`ask ${event.ask}`, frame, '', { kind: 'ask', answer: event }))
        else this.orphanResults.set(`ask ${event.ask}`, event)
        break
      }
      case 'plan':
        this.upsert(`plan ${this.turnSeq}`, frame, '', { kind: 'plan', steps: event.steps })
        break
      case 'diff':
        this.upsert(`diff ${this.turnSeq}`, frame, '', { kind: 'diff', diff: event }, true)
        break
      case 'usage':
        this.usage.value = event
        break
      case 'status':
      case 'warning': {
        const last = this.rows.at(-1)
        const content = last?.content.peek()
        if (last && content?.kind === 'notes') last.content.value = { kind: 'notes', notes: [...content.notes, event] }
        else this.add(own, seq, frame.at, '', { kind: 'notes', notes: [event] })
        break
      }
      case 'error':
        this.add(own, seq, frame.at, '', { kind: 'error', error: event, retry: '' })
        break
      case 'done':
        this.dropLive()
        this.working.value = false
        this.add(own, seq, frame.at, '', this.finishTurn(event))
        break
      case 'text_delta':
      case 'thinking_delta':
      case 'tool_output':
      case 'other':
        break // deltas, or unknown to the page
      default:
        event satisfies never // a new kind of event is a type error until it is handled above
    }
  }

  private completeItem(kind: 'text' | 'thinking', frame: P.EventFrame, item: string, parent: string, text: string, own: string): void {
    if (item) this.completedItems.add(`${kind} ${item}`)
    const name = `${kind} ${item}`
    const row = this.rebuilding ? undefined : this.liveItems.get(name)
    if (!row) {
      this.add(own, frame.seq, frame.at, parent, { kind, text, live: false })
      return
    }
    // The row keeps its position and key: nothing jumps when the stream ends.
    this.liveItems.delete(name)
    this.keyBySeq.set(frame.seq, row.key)
    const settled: ThreadItem = { ...row, seq: frame.seq, at: frame.at }
    settled.content.value = { kind, text, live: false }
    this.rows[this.rows.indexOf(row)] = settled
    this.byKey.set(row.key, settled)
  }

  /** A decided permission becomes a part of its tool's row; a question, and an ask about no tool, keeps its own. */
  private foldDecision(row: ThreadItem): void {
    const content = row.content.peek()
    if (content.kind !== 'ask' || !content.answer || (content.ask && content.ask.kind !== 'permission')) return
    const tool = content.ask?.tool || content.answer.tool
    if (!tool) return
    const call = this.toolCalls.get(tool)
    const there = call?.content.peek()
    if (!call || there?.kind !== 'tool') {
      this.decidedAsks.set(tool, row)
      return
    }
    call.content.value = { ...there, ask: content.ask, answer: content.answer }
    this.decidedAsks.delete(tool)
    this.remove(row)
  }

  /** Ends the turn: marks tools without a result as unfinished and shows an error once, where it can be retried. After an
   * interruption by the person the agent's own error about it is removed. */
  private finishTurn(done: P.Done): Content {
    let shown: ThreadItem | undefined // the row that says what the end says
    let last: ThreadItem | undefined // the turn's last error
    for (let index = this.rows.length - 1; index >= 0; index--) {
      const row = this.rows[index]!
      const content = row.content.peek()
      if (content.kind === 'user' || content.kind === 'done') break
      if (content.kind === 'tool' && !content.result) row.content.value = { ...content, unfinished: true }
      if (content.kind !== 'error' || content.error.recoverable) continue
      if (done.status === 'interrupted' || (shown && content.error.message === done.error)) {
        this.remove(row)
        continue
      }
      last ??= row
      if (content.error.message === done.error) shown = row
    }
    const shownDone = shown || done.status === 'interrupted' ? { ...done, error: '' } : done
    const retry = done.status === 'error' || done.status === 'timeout' ? this.prompt : ''
    const error = shownDone.error ? undefined : (shown ?? last)
    const content = error?.content.peek()
    if (!error || content?.kind !== 'error') return { kind: 'done', done: shownDone, retry }
    error.content.value = { ...content, retry }
    return { kind: 'done', done: shownDone, retry: '' }
  }

  private remove(row: ThreadItem): void {
    this.byKey.delete(row.key)
    const index = this.rows.indexOf(row)
    if (index >= 0) this.rows.splice(index, 1)
  }

  private dropLive(): void {
    if (!this.liveItems.size) return
    for (const row of this.liveItems.values()) this.remove(row)
    this.liveItems.clear()
  }
}

/** Whether two contents come from the same events. */
function sameContent(content: Content, other: Content): boolean {
  const [left, right] = [content, other] as Record<string, unknown>[]
  return Object.keys({ ...left, ...right }).every((name) => same(left![name], right![name]))
}

const same = (value: unknown, other: unknown): boolean =>
  value === other || (Array.isArray(value) && Array.isArray(other) && value.length === other.length && value.every((part, index) => part === other[index]))

const UNNUMBERED = Number.MIN_SAFE_INTEGER
