/** Which turns were read and which sessions are pinned: the hub keeps it for all devices of the person. A change is shown at
 * once, kept in this browser until the hub has it, and sent again after a break. */
import { computed, effect, signal } from '@preact/signals'
import { request } from '../api/client'
import type * as P from '../generated/protocol'
import { loadLocal, saveLocal } from '../shared/local-storage'
import { sendInOrder } from '../store/send-in-order'
import { marks, onReady, sessions } from '../store/store'

type Changes = Readonly<Record<string, P.MarkChange>>

/** By session: what the hub does not have yet. */
const unsent = signal<Changes>(loadLocal<Changes>('marks', {}))

function setUnsent(changes: Changes): void {
  unsent.value = changes
  saveLocal('marks', Object.keys(changes).length ? changes : undefined)
}

function change(session: string, more: P.MarkChange): void {
  setUnsent({ ...unsent.peek(), [session]: { ...unsent.peek()[session], ...more } })
  void send()
}

const forget = (session: string) => setUnsent(Object.fromEntries(Object.entries(unsent.peek()).filter(([id]) => id !== session)))

const send = sendInOrder<readonly [string, P.MarkChange]>({
  next: () => Object.entries(unsent.peek())[0],
  send: async ([session, wanted]) => {
    const { value } = await request<P.SessionMark>('PATCH', `sessions/${encodeURIComponent(session)}/mark`, wanted)
    marks.value = new Map(marks.peek()).set(session, value)
    if (unsent.peek()[session] === wanted) forget(session) // else it changed meanwhile, and is sent again
  },
  refused: ([session]) => forget(session), // the session is gone
})
onReady(() => void send())

const seenTurns = (session: string, kept = marks.value, waiting = unsent.value): number => Math.max(kept.get(session)?.seen_turns ?? 0, waiting[session]?.seen_turns ?? 0)

/** How many turns of it nobody has read on any device. */
export const unread = (session: P.SessionRecord): number => Math.max(0, session.turns - seenTurns(session.id))

/** How many sessions have unread turns. */
export const unreadSessions = sessions.count((session) => !session.archived && session.turns > seenTurns(session.id, marks.peek(), unsent.peek()))
effect(() => {
  void marks.value
  void unsent.value
  unreadSessions.recount()
})

export function markSeen(session: P.SessionRecord): void {
  if (unread(session) > 0) change(session.id, { seen_turns: session.turns })
}

/** The pinned ones: looked up once for a whole list. */
export const pinnedSessions = computed<ReadonlySet<string>>(() => {
  const pinned = new Set([...marks.value.values()].filter((mark) => mark.pinned).map((mark) => mark.id))
  for (const [id, wanted] of Object.entries(unsent.value)) {
    if (wanted.pinned) pinned.add(id)
    else if (wanted.pinned === false) pinned.delete(id)
  }
  return pinned
})

/** The pinned ones, in the list's order. */
export const sessionsOnTop = computed(() => {
  const all = sessions.value
  return sessions.sort([...pinnedSessions.value].flatMap((id) => all.get(id) ?? []))
})

export const isPinned = (session: string): boolean => pinnedSessions.value.has(session)

export const togglePin = (session: string): void => change(session, { pinned: !isPinned(session) })

/** What this browser kept for itself before the hub kept it for all. */
function adoptLocal(): void {
  const seen = loadLocal<Readonly<Record<string, number>>>('seen', {})
  const pinned = loadLocal<readonly string[]>('pinned', [])
  const changes: Record<string, P.MarkChange> = { ...unsent.peek() }
  for (const [id, turns] of Object.entries(seen)) changes[id] = { seen_turns: turns, ...changes[id] }
  for (const id of pinned) changes[id] = { ...changes[id], pinned: true }
  if (!Object.keys(seen).length && !pinned.length) return
  setUnsent(changes)
  saveLocal('seen', undefined)
  saveLocal('pinned', undefined)
}
adoptLocal()
