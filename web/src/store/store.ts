/** Everything the page knows, as signals: what the hub says is put in here, and what is drawn is drawn from here. */
import { batch, computed, signal } from '@preact/signals'
import { get, isNotFound, isOutcomeUnknown, errorMessage } from '../api/client'
import { Stream, type HubFrame, type ConnectionState } from '../connection/stream'
import type * as P from '../generated/protocol'
import { closeNotification } from '../push/subscription'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { Thread } from '../thread/thread'

export const me = signal<P.Me | undefined>(undefined)
export const connectionState = signal<ConnectionState>({ state: 'connecting', retryAt: 0, since: Date.now(), reason: '' })
export const sessions = signal<ReadonlyMap<string, P.SessionRecord>>(new Map())
export const asks = signal<ReadonlyMap<string, P.AskRecord>>(new Map())
export const prompts = signal<ReadonlyMap<string, P.PromptView>>(new Map())
export const nodes = signal<ReadonlyMap<string, P.NodeView>>(new Map())
export const commands = signal<ReadonlyMap<string, P.CommandView>>(new Map())
/** Asks that were answered a moment ago: their cards stay long enough to be read. */
export const recentlyAnswered = signal<ReadonlyMap<string, P.AskRecord>>(new Map())
export const thread = signal<Thread | undefined>(undefined)
export const threadProblem = signal('')
export const now = signal(Date.now() / 1000)
export const loaded = signal(false) // the first snapshot is there

export const RECENTLY_ANSWERED_MS = 5000
const PAGE_SIZE = 200
const INIT_SEARCH_SIZE = 10 // events among which an agent says what it is
const MAX_THREADS = 4
const MAX_COMMANDS = 200
const OPEN_RETRY_MS = 1500
const RETRY_MS = 5000

setInterval(() => (now.value = Date.now() / 1000), 1000)

export const visibleAsks = computed(() =>
  [...asks.value.values(), ...[...recentlyAnswered.value.values()].filter((one) => !asks.value.has(one.id))]
    .sort((one, other) => one.created_at - other.created_at || (one.id < other.id ? -1 : 1)))

/** The cards have just changed places: for a moment no button of theirs does anything, because the thumb that is on its
 * way was meant for another one. */
export const cardsMoving = signal(false)
const MOVING_MS = 400
let cardOrder = ''
let movingTimer: ReturnType<typeof setTimeout> | undefined
visibleAsks.subscribe((all) => {
  const before = cardOrder
  cardOrder = all.map((one) => one.id).join()
  if (before && !cardOrder.startsWith(before)) pauseCardButtons() // a new one below the others moves none of them
})

export function pauseCardButtons(): void {
  cardsMoving.value = true
  clearTimeout(movingTimer)
  movingTimer = setTimeout(() => (cardsMoving.value = false), MOVING_MS)
}

const stream = new Stream(applyFrame, (state) => (connectionState.value = state))
export const connection: Pick<Stream, 'start' | 'stop' | 'setVisible' | 'wake'> = stream

const listeners = new Set<() => void>()
/** Called each time the hub is there again, and a while after somebody was `unsure`. */
export function onReady(listener: () => void): void {
  listeners.add(listener)
}

let retryTimer: ReturnType<typeof setTimeout> | undefined
/** The hub could not say what became of something, and the connection may well be there: it is asked again. */
export function retrySoon(): void {
  retryTimer ??= setTimeout(() => {
    retryTimer = undefined
    for (const listener of listeners) listener()
  }, RETRY_MS)
}

function upsert<T extends { readonly id: string }>(into: { value: ReadonlyMap<string, T> }, one: T): void {
  into.value = new Map(into.value).set(one.id, one)
}

function removeById<T>(from: { value: ReadonlyMap<string, T> }, id: string): void {
  if (!from.value.has(id)) return
  const left = new Map(from.value)
  left.delete(id)
  from.value = left
}

const byId = <T extends { readonly id: string }>(all: readonly T[]) => new Map(all.map((one) => [one.id, one]))

export function applyFrame(frame: HubFrame): void {
  batch(() => {
    switch (frame.type) {
      case 'ready':
        applySnapshot(frame)
        break
      case 'event':
        if (thread.value?.session === frame.session) {
          thread.value.addEvents([frame])
          stream.acknowledge(frame.seq)
        }
        break
      case 'delta':
        if (thread.value?.session === frame.session) thread.value.applyDelta(frame.event)
        break
      case 'session':
        upsert(sessions, frame.session)
        break
      case 'prompt':
        if (['received', 'queued', 'running'].includes(frame.prompt.status ?? 'received')) upsert(prompts, frame.prompt)
        else removeById(prompts, frame.prompt.id)
        break
      case 'ask':
        applyAsk(frame.ask)
        break
      case 'node':
        upsert(nodes, frame.node)
        break
      case 'command':
        applyCommand(frame.command)
        break
      case 'gone':
        removeById({ session: sessions, prompt: prompts, ask: asks, node: nodes }[frame.kind] as typeof sessions, frame.id)
        break
    }
  })
}

export function applyCommand(command: P.CommandView): void {
  const known = commands.value.get(command.id)
  if (known && STATE_RANK[known.state ?? 'sent'] > STATE_RANK[command.state ?? 'sent']) return // an answer may overtake a frame
  const all = new Map(commands.value).set(command.id, command)
  while (all.size > MAX_COMMANDS) all.delete(all.keys().next().value!)
  commands.value = all
}

/** Where a command is that went on its way before the page was loaded, or while the connection was away. */
export async function refreshCommand(id: string, onNotFound: () => void): Promise<void> {
  try {
    applyCommand(await get<P.CommandView>(`commands/${encodeURIComponent(id)}`))
  } catch (error) {
    if (isNotFound(error)) onNotFound()
    else if (isOutcomeUnknown(error)) retrySoon()
  }
}

const STATE_RANK = { sent: 0, received: 1, expired: 2, applied: 3, refused: 3 } // a node's own word is above the hub's guess

export function applyAsk(record: P.AskRecord): void {
  if (record.status === 'pending') {
    upsert(asks, record)
    return
  }
  const known = asks.value.has(record.id)
  removeById(asks, record.id)
  void closeNotification(`ask-${record.id}`)
  if (known) {
    upsert(recentlyAnswered, record)
    setTimeout(() => removeById(recentlyAnswered, record.id), RECENTLY_ANSWERED_MS)
  }
}

function applySnapshot(frame: P.Ready): void {
  const { snapshot } = frame
  sessions.value = byId(snapshot.sessions)
  asks.value = byId(snapshot.asks)
  prompts.value = byId(snapshot.prompts)
  nodes.value = byId(snapshot.nodes)
  loaded.value = true
  const open = thread.value
  if (open) {
    if (frame.state !== 'ok' && openSessionId === open.session) {
      // Another log, or a part of it is gone: what is shown is drawn anew from what there is.
      threads.delete(open.session)
      void openThread(open.session)
    }
  }
  for (const listener of listeners) listener()
}

// --- the open thread -----------------------------------------------------------------------------------------

const threads = new Map<string, Thread>()
let openSessionId = ''

export async function openThread(id: string): Promise<void> {
  openSessionId = id
  threadProblem.value = ''
  const known = threads.get(id)
  if (known) {
    known.discardDeltas()
    thread.value = known
    stream.follow({ session: id, after: known.lastSeq })
    return
  }
  const newThread = new Thread(id)
  if (thread.value?.session !== id) thread.value = undefined
  try {
    const page = await get<P.EventPage>(`sessions/${encodeURIComponent(id)}/events?limit=${PAGE_SIZE}`)
    if (openSessionId !== id) return
    newThread.addEvents(page.events)
    newThread.hasOlder.value = page.more
    threads.set(id, newThread)
    while (threads.size > MAX_THREADS) threads.delete(threads.keys().next().value!)
    thread.value = newThread
    stream.follow({ session: id, after: newThread.lastSeq })
    if (!newThread.init.value && page.more) void loadInitEvent(newThread, page.first)
  } catch (error) {
    if (openSessionId !== id || threads.has(id)) return // gone to twice: the other answer is there
    threadProblem.value = errorMessage(error)
    // As soon as the hub is back, or after a while: what is asked for is shown when it can be.
    setTimeout(() => { if (openSessionId === id && !threads.has(id)) void openThread(id) }, OPEN_RETRY_MS)
  }
}

/** What the agent said of itself when it began, where that lies before the page that is shown: its commands above all. */
async function loadInitEvent(of: Thread, first: number): Promise<void> {
  try {
    const page = await get<P.EventPage>(`sessions/${encodeURIComponent(of.session)}/events?after=${first - 1}&limit=${INIT_SEARCH_SIZE}`)
    const init = page.events.map((one) => one.event).find((one) => one.type === 'init')
    if (init) of.init.value ??= init
  } catch {
    // it is of use, and not needed
  }
}

export function closeThread(): void {
  openSessionId = ''
  thread.value = undefined
  stream.follow({ session: '', after: 0 })
}

/** The page of events before those that are there. */
export async function loadOlder(of: Thread): Promise<void> {
  if (of.loadingOlder || !of.hasOlder.value) return
  of.loadingOlder = true
  try {
    const page = await get<P.EventPage>(`sessions/${encodeURIComponent(of.session)}/events?before=${of.firstSeq}&limit=${PAGE_SIZE}`)
    of.addEvents(page.events)
    of.hasOlder.value = page.more
  } catch {
    // it is tried again at the next scroll
  } finally {
    of.loadingOlder = false
  }
}

// --- what was seen -------------------------------------------------------------------------------------------

const seenTurns = signal(loadLocal<Record<string, number>>('seen', {}))

export function unread(session: P.SessionRecord): number {
  return Math.max(0, session.turns - (seenTurns.value[session.id] ?? 0))
}

export function markSeen(session: P.SessionRecord): void {
  if ((seenTurns.peek()[session.id] ?? 0) === session.turns) return
  const remaining = Object.entries(seenTurns.peek()).filter(([id]) => sessions.peek().has(id))
  seenTurns.value = { ...Object.fromEntries(remaining), [session.id]: session.turns }
  saveLocal('seen', seenTurns.value)
}
