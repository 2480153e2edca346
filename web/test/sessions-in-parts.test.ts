/** Sessions that the hub sends in parts: nothing newer is overwritten, and what is gone goes at the end. */
import { expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { load, readyFrame } from './fake-hub'

const session = (id: string, turns = 0) => ({ id, agent: 'codex', node: 'n', cwd: '/', turns, created_at: 1, active_at: 0 }) as unknown as P.SessionRecord
const PARTS = { snapshot_sent: 'parts' } as const

async function page() {
  const { store, ready } = await load()
  return {
    store,
    ready: (ids: readonly string[], left: number, state: P.Ready['state'] = 'ok') => ready({ sessions: ids.map((id) => session(id)) }, { ...PARTS, state, sessions_left: left }),
    part: (left: number, ...all: P.SessionRecord[]) => store.applyFrame({ type: 'sessions', sessions: all, left }),
    known: () => Object.fromEntries([...store.sessions.value].map(([id, one]) => [id, one.turns]).sort()),
  }
}

it('shows those that matter at once and the others when they have come', async () => {
  const { store, ready, part, known } = await page()
  ready(['a'], 3)
  expect([store.loaded.value, store.allSessionsLoaded.value, store.sessionsLeft.value]).toEqual([true, false, 3])
  part(1, session('b'), session('c'))
  part(0, session('d'))
  expect(known()).toEqual({ a: 0, b: 0, c: 0, d: 0 })
  expect([store.allSessionsLoaded.value, store.sessionsLeft.value]).toEqual([true, 0])
})

it('draws thousands of parts a few times only', async () => {
  const { store, ready, part } = await page()
  vi.useFakeTimers()
  ready(['a'], 5000)
  let drawn = 0
  store.sessionsByActivity.subscribe(() => drawn++)
  for (let left = 4999; left > 0; left--) part(left, session(`s${left}`))
  expect(drawn).toBe(1)
  vi.advanceTimersByTime(500)
  expect(drawn).toBe(2)
  expect(store.sessions.value.size).toBe(5000)
  part(0)
  expect(drawn).toBe(3)
})

it('never replaces what the hub said later by what a part had', async () => {
  const { store, ready, part, known } = await page()
  ready([], 4)
  part(2, session('changed', 1), session('gone', 1))
  store.applyFrame({ type: 'session', session: session('changed', 2) })
  store.applyFrame({ type: 'gone', kind: 'session', id: 'gone' })
  part(0, session('late', 1))
  expect(known()).toEqual({ changed: 2, late: 1 })
})

it('after a sleep keeps what it knew until the last part, then drops what is gone', async () => {
  const { ready, part, known, store } = await page()
  ready(['a', 'b', 'removed', 'new since', 'last'], 0)
  ready(['a'], 3)
  expect(Object.keys(known())).toEqual(['a', 'b', 'last', 'new since', 'removed'])
  store.applyFrame({ type: 'session', session: session('new since', 5) }) // it comes by itself, not in a part
  part(1, session('b'))
  ready(['a'], 2) // the connection was lost again, in the middle
  part(1, session('b'))
  store.applyFrame({ type: 'session', session: session('new since', 6) })
  expect(known()).toHaveProperty('removed')
  part(0, session('last'))
  expect(known()).toEqual({ a: 0, b: 0, last: 0, 'new since': 6 })
})

it('has nothing of another log', async () => {
  const { ready, known } = await page()
  ready(['a', 'b'], 0)
  ready(['c'], 7, 'reset')
  expect(Object.keys(known())).toEqual(['c'])
})

it('keeps all it has when it subscribes again on the same connection', async () => {
  const { store, ready, known } = await page()
  ready(['a', 'b'], 0)
  store.applyFrame({ type: 'ask', ask: { id: 'q', session: 'a', status: 'pending', created_at: 1, ask: {} } as unknown as P.AskRecord })
  store.applyFrame(readyFrame({}, { cursor: 3, snapshot_sent: 'known' }))
  expect(Object.keys(known())).toEqual(['a', 'b'])
  expect([...store.asks.value.keys()]).toEqual(['q'])
})

it('has the marks of sessions that come later, and none that is older than what was said since', async () => {
  const { store, ready, part } = await page()
  ready(['a', 'removed'], 0)
  store.applyFrame({ type: 'mark', mark: { id: 'removed', seen_turns: 1, pinned: true } })
  ready(['a'], 2)
  store.applyFrame({ type: 'sessions', sessions: [session('b', 4), session('c', 4)], marks: [{ id: 'b', seen_turns: 3, pinned: true }, { id: 'c', seen_turns: 1, pinned: false }], left: 1 })
  store.applyFrame({ type: 'mark', mark: { id: 'c', seen_turns: 4, pinned: false } })
  part(0)
  expect([...store.marks.value.values()].map((one) => [one.id, one.seen_turns]).sort()).toEqual([['b', 3], ['c', 4]])
})
