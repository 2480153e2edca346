/** What the members of the open team say while their turns run. */
import { signal } from '@preact/signals'
import { get } from '../api/client'
import type * as P from '../generated/protocol'
import { followSessions, onReady } from '../store/store'
import { Thread } from '../thread/thread'

/** The running turn, by session. */
export const liveTurns = signal<ReadonlyMap<string, Thread>>(new Map())

const TURN_SIZE = 100 // events of a turn that runs already; of a longer one, the last
let followed = ''

/** Follows the members' sessions; of those whose turn runs, what was said before is loaded. */
export function followTurns(sessions: readonly string[], running: readonly string[]): void {
  const wanted = sessions.join()
  if (wanted !== followed) {
    followed = wanted
    followSessions(sessions, receive)
  }
  const kept = [...liveTurns.peek()].filter(([id, turn]) => sessions.includes(id) && (running.includes(id) || turn.working.peek()))
  if (kept.length < liveTurns.peek().size) liveTurns.value = new Map(kept)
  for (const id of running) if (!liveTurns.peek().has(id)) void loadTurn(begin(id))
}

export function unfollowTurns(): void {
  if (followed) followTurns([], [])
}

function begin(session: string): Thread {
  const turn = new Thread(session)
  liveTurns.value = new Map(liveTurns.peek()).set(session, turn)
  return turn
}

function receive(frame: P.EventFrame | P.DeltaFrame): void {
  const known = liveTurns.peek().get(frame.session)
  const turn = !known || (frame.type === 'event' && frame.event.type === 'turn_started' && frame.seq > known.lastSeq) ? begin(frame.session) : known
  if (frame.type === 'event') turn.addEvents([frame])
  else turn.applyDelta(frame.event)
}

async function loadTurn(turn: Thread): Promise<void> {
  try {
    const { events } = await get<P.EventPage>(`sessions/${encodeURIComponent(turn.session)}/events?limit=${TURN_SIZE}`)
    const started = events.findLastIndex((frame) => frame.event.type === 'turn_started')
    const turnEvents = events.slice(Math.max(0, started))
    if (liveTurns.peek().get(turn.session) !== turn || turnEvents.some((frame) => frame.event.type === 'done')) return // it is the turn before
    turn.addEvents(turnEvents)
  } catch {
    // what follows is shown all the same, and the whole message when the turn has ended
  }
}

onReady((log) => {
  for (const turn of liveTurns.peek().values()) void loadTurn(log === 'ok' ? turn : begin(turn.session))
})

export interface LiveWords {
  readonly text: string // so far
  readonly tool: P.ToolUse | undefined // that runs
}

/** What a member says and does in its running turn; undefined: nothing yet. */
export function liveWords(session: string): LiveWords | undefined {
  const contents = (liveTurns.value.get(session)?.items.value ?? []).filter((item) => !item.parent).map((item) => item.content.value)
  const last = contents.at(-1)
  if (!last) return undefined
  const text = contents.flatMap((content) => (content.kind === 'text' ? [content.text] : [])).join('\n\n')
  return { text, tool: last.kind === 'tool' && !last.result && !last.unfinished ? last.use : undefined }
}
