/** Everything the page knows, as signals: what the hub says is put in here, and what is drawn is drawn from here. */
import { batch, computed, signal } from '@preact/signals'
import { get, unknown, unsure, words } from '../api/client'
import { Stream, type HubFrame, type LinkState } from '../connection/stream'
import type * as P from '../generated/protocol'
import { closeNotification } from '../push/subscription'
import { keep, kept } from '../shared/local-storage'
import { Thread } from '../thread/thread'

export const me = signal<P.Me | undefined>(undefined)
export const link = signal<LinkState>({ state: 'connecting', retryAt: 0, since: Date.now(), why: '' })
export const sessions = signal<ReadonlyMap<string, P.SessionRecord>>(new Map())
export const asks = signal<ReadonlyMap<string, P.AskRecord>>(new Map())
export const prompts = signal<ReadonlyMap<string, P.PromptView>>(new Map())
export const nodes = signal<ReadonlyMap<string, P.NodeView>>(new Map())
export const commands = signal<ReadonlyMap<string, P.CommandView>>(new Map())
/** Asks that were answered a moment ago: their cards stay long enough to be read. */
export const settled = signal<ReadonlyMap<string, P.AskRecord>>(new Map())
export const thread = signal<Thread | undefined>(undefined)
export const threadProblem = signal('')
export const now = signal(Date.now() / 1000)
export const fresh = signal(false) // the first snapshot is there

export const SETTLED_MS = 5000
const PAGE = 200
const BEGINNING = 10 // events among which an agent says what it is
const MAX_THREADS = 4
const MAX_COMMANDS = 200
const AGAIN_MS = 1500
const UNSURE_MS = 5000

setInterval(() => (now.value = Date.now() / 1000), 1000)

export const pending = computed(() =>
  [...asks.value.values(), ...[...settled.value.values()].filter((one) => !asks.value.has(one.id))]
    .sort((one, other) => one.created_at - other.created_at || (one.id < other.id ? -1 : 1)))

/** The cards have just changed places: for a moment no button of theirs does anything, because the thumb that is on its
 * way was meant for another one. */
export const moving = signal(false)
const MOVING_MS = 400
let order = ''
let settling: ReturnType<typeof setTimeout> | undefined
pending.subscribe((all) => {
  const before = order
  order = all.map((one) => one.id).join()
  if (before && !order.startsWith(before)) stir() // a new one below the others moves none of them
})

export function stir(): void {
  moving.value = true
  clearTimeout(settling)
  settling = setTimeout(() => (moving.value = false), MOVING_MS)
}

const stream = new Stream(take, (state) => (link.value = state))
export const connection: Pick<Stream, 'start' | 'stop' | 'visible' | 'wake'> = stream

const listeners = new Set<() => void>()
/** Called each time the hub is there again, and a while after somebody was `unsure`. */
export function onReady(listener: () => void): void {
  listeners.add(listener)
}

let soon: ReturnType<typeof setTimeout> | undefined
/** The hub could not say what became of something, and the connection may well be there: it is asked again. */
export function askAgain(): void {
  soon ??= setTimeout(() => {
    soon = undefined
    for (const listener of listeners) listener()
  }, UNSURE_MS)
}

function put<T extends { readonly id: string }>(into: { value: ReadonlyMap<string, T> }, one: T): void {
  into.value = new Map(into.value).set(one.id, one)
}

function drop<T>(from: { value: ReadonlyMap<string, T> }, id: string): void {
  if (!from.value.has(id)) return
  const left = new Map(from.value)
  left.delete(id)
  from.value = left
}

const byId = <T extends { readonly id: string }>(all: readonly T[]) => new Map(all.map((one) => [one.id, one]))

export function take(frame: HubFrame): void {
  batch(() => {
    switch (frame.type) {
      case 'ready':
        ready(frame)
        break
      case 'event':
        if (thread.value?.session === frame.session) {
          thread.value.take([frame])
          stream.taken(frame.seq)
        }
        break
      case 'delta':
        if (thread.value?.session === frame.session) thread.value.delta(frame.event)
        break
      case 'session':
        put(sessions, frame.session)
        break
      case 'prompt':
        if (['received', 'queued', 'running'].includes(frame.prompt.status ?? 'received')) put(prompts, frame.prompt)
        else drop(prompts, frame.prompt.id)
        break
      case 'ask':
        takeAsk(frame.ask)
        break
      case 'node':
        put(nodes, frame.node)
        break
      case 'command':
        takeCommand(frame.command)
        break
      case 'gone':
        drop({ session: sessions, prompt: prompts, ask: asks, node: nodes }[frame.kind] as typeof sessions, frame.id)
        break
    }
  })
}

export function takeCommand(command: P.CommandView): void {
  const known = commands.value.get(command.id)
  if (known && RANK[known.state ?? 'sent'] > RANK[command.state ?? 'sent']) return // an answer may overtake a frame
  const all = new Map(commands.value).set(command.id, command)
  while (all.size > MAX_COMMANDS) all.delete(all.keys().next().value!)
  commands.value = all
}

/** Where a command is that went on its way before the page was loaded, or while the connection was away. */
export async function lookAt(command: string, lost: () => void): Promise<void> {
  try {
    takeCommand(await get<P.CommandView>(`commands/${encodeURIComponent(command)}`))
  } catch (error) {
    if (unknown(error)) lost()
    else if (unsure(error)) askAgain()
  }
}

const RANK = { sent: 0, received: 1, expired: 2, applied: 3, refused: 3 } // a node's own word is above the hub's guess

export function takeAsk(record: P.AskRecord): void {
  if (record.status === 'pending') {
    put(asks, record)
    return
  }
  const known = asks.value.has(record.id)
  drop(asks, record.id)
  void closeNotification(`ask-${record.id}`)
  if (known) {
    put(settled, record)
    setTimeout(() => drop(settled, record.id), SETTLED_MS)
  }
}

function ready(frame: P.Ready): void {
  const { snapshot } = frame
  sessions.value = byId(snapshot.sessions)
  asks.value = byId(snapshot.asks)
  prompts.value = byId(snapshot.prompts)
  nodes.value = byId(snapshot.nodes)
  fresh.value = true
  const open = thread.value
  if (open) {
    if (frame.state !== 'ok' && wanted === open.session) {
      // Another log, or a part of it is gone: what is shown is drawn anew from what there is.
      threads.delete(open.session)
      void openThread(open.session)
    }
  }
  for (const listener of listeners) listener()
}

// --- the open thread -----------------------------------------------------------------------------------------

const threads = new Map<string, Thread>()
let wanted = ''

export async function openThread(id: string): Promise<void> {
  wanted = id
  threadProblem.value = ''
  const known = threads.get(id)
  if (known) {
    known.forget()
    thread.value = known
    stream.want({ session: id, after: known.last })
    return
  }
  const made = new Thread(id)
  if (thread.value?.session !== id) thread.value = undefined
  try {
    const page = await get<P.EventPage>(`sessions/${encodeURIComponent(id)}/events?limit=${PAGE}`)
    if (wanted !== id) return
    made.take(page.events)
    made.older.value = page.more
    threads.set(id, made)
    while (threads.size > MAX_THREADS) threads.delete(threads.keys().next().value!)
    thread.value = made
    stream.want({ session: id, after: made.last })
    if (!made.init.value && page.more) void introduce(made, page.first)
  } catch (error) {
    if (wanted !== id || threads.has(id)) return // gone to twice: the other answer is there
    threadProblem.value = words(error)
    // As soon as the hub is back, or after a while: what is asked for is shown when it can be.
    setTimeout(() => { if (wanted === id && !threads.has(id)) void openThread(id) }, AGAIN_MS)
  }
}

/** What the agent said of itself when it began, where that lies before the page that is shown: its commands above all. */
async function introduce(of: Thread, first: number): Promise<void> {
  try {
    const page = await get<P.EventPage>(`sessions/${encodeURIComponent(of.session)}/events?after=${first - 1}&limit=${BEGINNING}`)
    const found = page.events.map((one) => one.event).find((one) => one.type === 'init')
    if (found) of.init.value ??= found
  } catch {
    // it is of use, and not needed
  }
}

export function closeThread(): void {
  wanted = ''
  thread.value = undefined
  stream.want({ session: '', after: 0 })
}

/** The page of events before those that are there. */
export async function loadOlder(of: Thread): Promise<void> {
  if (of.loading || !of.older.value) return
  of.loading = true
  try {
    const page = await get<P.EventPage>(`sessions/${encodeURIComponent(of.session)}/events?before=${of.first}&limit=${PAGE}`)
    of.take(page.events)
    of.older.value = page.more
  } catch {
    // it is tried again at the next scroll
  } finally {
    of.loading = false
  }
}

// --- what was seen -------------------------------------------------------------------------------------------

const seen = signal(kept<Record<string, number>>('seen', {}))

export function unread(session: P.SessionRecord): number {
  return Math.max(0, session.turns - (seen.value[session.id] ?? 0))
}

export function markSeen(session: P.SessionRecord): void {
  if ((seen.peek()[session.id] ?? 0) === session.turns) return
  const there = Object.entries(seen.peek()).filter(([id]) => sessions.peek().has(id))
  seen.value = { ...Object.fromEntries(there), [session.id]: session.turns }
  keep('seen', seen.value)
}
