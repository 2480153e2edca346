/** The page's state as signals: the hub's frames update it, the components render it. */
import { batch, computed, signal } from '@preact/signals'
import { get, isNotFound, isOutcomeUnknown, errorMessage } from '../api/client'
import { Stream, type HubFrame, type ConnectionState } from '../connection/stream'
import type * as P from '../generated/protocol'
import { closeNotification } from '../push/subscription'
import { Thread } from '../thread/thread'
import { MOVING_MS } from '../ui/moved-buttons'
import { MapSignal } from './map-signal'

export const me = signal<P.Me | undefined>(undefined)
export const connectionState = signal<ConnectionState>({ state: 'connecting', retryAt: 0, since: Date.now(), reason: '' })
const activeAt = (session: P.SessionRecord) => session.active_at || session.created_at
/** The last active first; of two that were active together, the newer one. */
const byActivity = (session: P.SessionRecord, other: P.SessionRecord) => activeAt(other) - activeAt(session) || (session.id > other.id ? -1 : session.id < other.id ? 1 : 0)
export const sessions = new MapSignal<P.SessionRecord>(byActivity)
export const asks = signal<ReadonlyMap<string, P.AskRecord>>(new Map())
export const prompts = signal<ReadonlyMap<string, P.PromptView>>(new Map())
export const nodes = signal<ReadonlyMap<string, P.NodeView>>(new Map())
/** Team conversations; of their tasks, the first line. */
export const teams = signal<ReadonlyMap<string, P.TeamRecord>>(new Map())
/** How far each session was read, and which are pinned: as the hub has it for all devices. */
export const marks = signal<ReadonlyMap<string, P.SessionMark>>(new Map())
export const commands = signal<ReadonlyMap<string, P.CommandView>>(new Map())
/** Asks answered a moment ago: their cards stay long enough to be read. */
export const recentlyAnswered = signal<ReadonlyMap<string, P.AskRecord>>(new Map())
export const thread = signal<Thread | undefined>(undefined)
export const threadProblem = signal('')
export const now = signal(Date.now() / 1000)
export const loaded = signal(false) // the first snapshot has arrived
/** The last active first. */
export const sessionsByActivity = computed(() => sessions.inOrder())
export const archivedSessions = sessions.count((session) => session.archived)
/** How many sessions the hub has yet to send: with many of them, those that matter come first. */
export const sessionsLeft = signal(0)
/** Whether a session that is not known does not exist. */
export const allSessionsLoaded = computed(() => loaded.value && sessionsLeft.value === 0)

export const RECENTLY_ANSWERED_MS = 5000
const PAGE_SIZE = 200
const MAX_PAGE_SIZE = 1000 // the hub's own limit
const INIT_SEARCH_SIZE = 10 // events among which the agent's `init` is
const MAX_THREADS = 4
const MAX_COMMANDS = 200
const OPEN_RETRY_MS = 1500
const RETRY_MS = 5000

setInterval(() => (now.value = Date.now() / 1000), 1000)

export const visibleAsks = computed(() =>
  [...asks.value.values(), ...[...recentlyAnswered.value.values()].filter((record) => !asks.value.has(record.id))]
    .sort((record, other) => record.created_at - other.created_at || (record.id < other.id ? -1 : 1)))

/** The cards have just moved: their buttons do nothing for a moment, because a tap on its way was meant for another card. */
export const cardsMoving = signal(false)
let cardOrder = ''
let movingTimer: ReturnType<typeof setTimeout> | undefined
visibleAsks.subscribe((all) => {
  const before = cardOrder
  cardOrder = all.map((record) => record.id).join()
  if (before && !cardOrder.startsWith(before)) pauseCardButtons() // a new card below the others moves none of them
})

export function pauseCardButtons(): void {
  cardsMoving.value = true
  clearTimeout(movingTimer)
  movingTimer = setTimeout(() => (cardsMoving.value = false), MOVING_MS)
}

const stream = new Stream(applyFrame, (state) => (connectionState.value = state))
export const connection: Pick<Stream, 'start' | 'stop' | 'setVisible' | 'wake'> = stream

type LogState = P.Ready['state']
const listeners = new Set<(log: LogState) => void>()
/** Calls the listener each time the hub is connected, and some time after `retrySoon`. `ok`: nothing of the log is missed. */
export function onReady(listener: (log: LogState) => void): void {
  listeners.add(listener)
}

let retryTimer: ReturnType<typeof setTimeout> | undefined
/** The outcome of a request is unknown although the connection may be up: the listeners retry later. */
export function retrySoon(): void {
  retryTimer ??= setTimeout(() => {
    retryTimer = undefined
    for (const listener of listeners) listener('ok')
  }, RETRY_MS)
}

function upsert<T extends { readonly id: string }>(into: { value: ReadonlyMap<string, T> }, item: T): void {
  into.value = new Map(into.value).set(item.id, item)
}

function removeById<T>(from: { value: ReadonlyMap<string, T> }, id: string): void {
  if (!from.value.has(id)) return
  const left = new Map(from.value)
  left.delete(id)
  from.value = left
}

const byId = <T extends { readonly id: string }>(all: readonly T[]) => new Map(all.map((item) => [item.id, item]))

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
        } else if (followedSessions.has(frame.session)) {
          followedSessions.get(frame.session)!(frame)
          stream.acknowledge(frame.seq)
        }
        break
      case 'delta':
        if (thread.value?.session === frame.session) thread.value.applyDelta(frame.event)
        else followedSessions.get(frame.session)?.(frame)
        break
      case 'session':
        confirmSession(frame.session.id)
        sessions.upsert(frame.session)
        break
      case 'sessions':
        addArriving(frame)
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
      case 'team':
        upsert(teams, frame.team)
        break
      case 'mark':
        arrivingMarks.delete(frame.mark.id)
        upsert(marks, frame.mark)
        break
      case 'command':
        applyCommand(frame.command)
        break
      case 'gone':
        if (frame.kind === 'session') {
          confirmSession(frame.id)
          sessions.remove(frame.id)
          removeById(marks, frame.id)
        } else removeById<unknown>({ prompt: prompts, ask: asks, node: nodes, team: teams }[frame.kind], frame.id)
        break
    }
  })
}

export function applyCommand(command: P.CommandView): void {
  const known = commands.value.get(command.id)
  if (known && STATE_RANK[known.state ?? 'sent'] > STATE_RANK[command.state ?? 'sent']) return // a response may overtake a frame
  const all = new Map(commands.value).set(command.id, command)
  while (all.size > MAX_COMMANDS) all.delete(all.keys().next().value!)
  commands.value = all
}

/** Loads the state of a command that was sent before the page was loaded or while the connection was down. */
export async function refreshCommand(id: string, onNotFound: () => void): Promise<void> {
  try {
    applyCommand(await get<P.CommandView>(`commands/${encodeURIComponent(id)}`))
  } catch (error) {
    if (isNotFound(error)) onNotFound()
    else if (isOutcomeUnknown(error)) retrySoon()
  }
}

const STATE_RANK = { sent: 0, received: 1, expired: 2, applied: 3, refused: 3 } // a node's own answer outranks the hub's guess

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

// --- sessions that arrive in parts ---

/** Sessions that have come and are not shown yet: a list of thousands is not drawn again for each part. */
const arriving = new Map<string, P.SessionRecord>()
const arrivingMarks = new Map<string, P.SessionMark>()
let leftToArrive = 0
/** Sessions from before the connection was lost that have not come yet: they may be gone. */
const unconfirmed = new Set<string>()
let arrivingTimer: ReturnType<typeof setTimeout> | undefined
const ARRIVING_MS = 400

/** The hub has said something newer of this session. */
function confirmSession(id: string): void {
  arriving.delete(id)
  unconfirmed.delete(id)
}

function addArriving(frame: P.SessionsFrame): void {
  for (const session of frame.sessions) arriving.set(session.id, session)
  for (const mark of frame.marks ?? []) arrivingMarks.set(mark.id, mark)
  leftToArrive = frame.left
  if (frame.left === 0) showArriving()
  else arrivingTimer ??= setTimeout(() => batch(() => showArriving()), ARRIVING_MS)
}

function showArriving(known = sessions.peek()): void {
  clearTimeout(arrivingTimer)
  arrivingTimer = undefined
  const all = new Map(known)
  for (const [id, session] of arriving) {
    all.set(id, session)
    unconfirmed.delete(id)
  }
  arriving.clear()
  const allMarks = new Map([...marks.value, ...arrivingMarks])
  arrivingMarks.clear()
  if (leftToArrive === 0) {
    for (const id of unconfirmed) {
      all.delete(id)
      allMarks.delete(id)
    }
    unconfirmed.clear()
  }
  sessions.replace(all.values())
  marks.value = allMarks
  sessionsLeft.value = leftToArrive
}

function applySessions(frame: P.Ready): void {
  const known = frame.state === 'reset' ? new Map<string, P.SessionRecord>() : sessions.peek() // another log has other sessions
  arriving.clear()
  arrivingMarks.clear()
  for (const mark of frame.snapshot.marks) arrivingMarks.set(mark.id, mark)
  unconfirmed.clear()
  for (const id of known.keys()) unconfirmed.add(id)
  for (const session of frame.snapshot.sessions) arriving.set(session.id, session)
  leftToArrive = frame.sessions_left
  showArriving(known)
}

function applySnapshot(frame: P.Ready): void {
  const { snapshot } = frame
  if (frame.snapshot_sent !== 'known') {
    applySessions(frame)
    asks.value = byId(snapshot.asks)
    prompts.value = byId(snapshot.prompts)
    nodes.value = byId(snapshot.nodes)
    teams.value = byId(snapshot.teams)
  } else {
    for (const session of snapshot.sessions) { // the one that was opened, which may be among those still to come
      confirmSession(session.id)
      sessions.upsert(session)
    }
  }
  loaded.value = true
  const open = thread.value
  if (open) {
    if (frame.state !== 'ok' && openSessionId === open.session) {
      // Another log, or a part of it is gone: load the thread again.
      threads.delete(open.session)
      void openThread(open.session)
    }
  }
  for (const listener of listeners) listener(frame.state)
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
    stream.follow({ sessions: [id], after: known.lastSeq })
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
    stream.follow({ sessions: [id], after: newThread.lastSeq })
    if (!newThread.init.value && page.more) void loadInitEvent(newThread, page.first)
  } catch (error) {
    if (openSessionId !== id || threads.has(id)) return // opened twice: the other response has arrived
    threadProblem.value = errorMessage(error)
    // Retry until the hub is back.
    setTimeout(() => { if (openSessionId === id && !threads.has(id)) void openThread(id) }, OPEN_RETRY_MS)
  }
}

/** Loads the agent's `init` (above all its commands) when it lies before the loaded page of events. */
async function loadInitEvent(of: Thread, first: number): Promise<void> {
  try {
    const page = await get<P.EventPage>(`sessions/${encodeURIComponent(of.session)}/events?after=${first - 1}&limit=${INIT_SEARCH_SIZE}`)
    const init = page.events.map((frame) => frame.event).find((event) => event.type === 'init')
    if (init) of.init.value ??= init
  } catch {
    // useful, but not needed
  }
}

export function closeThread(): void {
  openSessionId = ''
  thread.value = undefined
  stream.follow({ sessions: [], after: 0 })
}

type Listener = (frame: P.EventFrame | P.DeltaFrame) => void
const followedSessions = new Map<string, Listener>()

/** Follows several sessions from now on, while no thread is open; none: no more. */
export function followSessions(ids: readonly string[], listener: Listener): void {
  followedSessions.clear()
  for (const id of ids) followedSessions.set(id, listener)
  stream.follow({ sessions: ids, after: stream.cursor })
}

/** Loads the page of events before the loaded ones. */
export function loadOlder(of: Thread, limit = PAGE_SIZE): Promise<void> {
  if (!of.hasOlder.value) return Promise.resolve()
  of.loadingOlder ??= fetchOlder(of, limit).finally(() => (of.loadingOlder = undefined))
  return of.loadingOlder
}

async function fetchOlder(of: Thread, limit: number): Promise<void> {
  try {
    const page = await get<P.EventPage>(`sessions/${encodeURIComponent(of.session)}/events?before=${of.firstSeq}&limit=${limit}`)
    of.addEvents(page.events)
    of.hasOlder.value = page.more
  } catch {
    // the next scroll retries
  }
}

/** Loads older events until this one is among them. False: the hub could not be reached, or the thread was closed meanwhile. */
export async function loadBackTo(of: Thread, seq: number): Promise<boolean> {
  while (of.hasOlder.value && of.firstSeq > seq) {
    const first = of.firstSeq
    await loadOlder(of, MAX_PAGE_SIZE)
    if (thread.peek() !== of || (of.firstSeq === first && of.hasOlder.value)) return false
  }
  return true
}
