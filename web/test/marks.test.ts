/** Read marks and pins, which the hub keeps: shown at once, sent until the hub has them, the same on every device. */
import { expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { hub, load, settle } from './fake-hub'

const session = (id: string, turns: number, more: Partial<P.SessionRecord> = {}) => ({ id, turns, archived: false, ...more }) as unknown as P.SessionRecord
const until = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 5 })

async function page(marks: readonly P.SessionMark[] = []) {
  const loaded = await load()
  const own = await import('../src/sessions/marks')
  const sessions = [session('a', 3), session('b', 1), session('old', 5, { archived: true })]
  loaded.ready({ sessions, marks: [...marks] })
  return { ...loaded, ...own, a: sessions[0]! }
}

it('shows what another device reads and pins', async () => {
  const { store, unread, unreadSessions, isPinned, a } = await page([{ id: 'a', seen_turns: 1, pinned: false }])
  expect([unread(a), unreadSessions.value, isPinned('a')]).toEqual([2, 2, false])
  store.applyFrame({ type: 'mark', mark: { id: 'a', seen_turns: 3, pinned: true } })
  expect([unread(a), unreadSessions.value, isPinned('a')]).toEqual([0, 1, true])
  store.applyFrame({ type: 'gone', kind: 'session', id: 'a' })
  expect(store.marks.value.has('a')).toBe(false)
})

it('shows a change at once and sends it until the hub has it', async () => {
  const { store, ready, unread, isPinned, markSeen, togglePin, a } = await page()
  markSeen(a)
  togglePin('a')
  expect([unread(a), isPinned('a')]).toEqual([0, true])
  await settle()
  expect(hub.requests.length).toBe(1) // the hub is away
  expect(JSON.parse(hub.storage.get('tieline.marks')!)).toEqual({ a: { seen_turns: 3, pinned: true } })
  hub.reply = ({ body }) => [200, { id: 'a', seen_turns: 0, pinned: false, ...body }]
  ready({ sessions: [a] })
  await until(() => expect(hub.storage.has('tieline.marks')).toBe(false))
  expect(hub.requests.at(-1)).toMatchObject({ method: 'PATCH', path: 'sessions/a/mark', body: { seen_turns: 3, pinned: true } })
  expect(store.marks.value.get('a')).toEqual({ id: 'a', seen_turns: 3, pinned: true })
  const before = hub.requests.length
  markSeen(a)
  expect(hub.requests.length).toBe(before) // it is read already
})

it('forgets what is refused, and sends what changed meanwhile', async () => {
  const { togglePin, isPinned } = await page()
  hub.reply = () => [404, { title: 'no such session', status: 404 }]
  togglePin('gone')
  await until(() => expect(hub.storage.has('tieline.marks')).toBe(false))
  expect(isPinned('gone')).toBe(false)
  hub.reply = ({ body }) => {
    if (hub.requests.filter((one) => one.path.includes('/a/')).length === 1) togglePin('a') // while the first is on its way
    return [200, { id: 'a', seen_turns: 0, pinned: body.pinned }]
  }
  togglePin('a')
  await until(() => expect(hub.storage.has('tieline.marks')).toBe(false))
  expect(hub.requests.filter((one) => one.path.includes('/a/')).map((one) => one.body.pinned)).toEqual([true, false])
  expect(isPinned('a')).toBe(false)
})

it('gives the hub what this browser kept for itself before', async () => {
  hub.storage.set('tieline.seen', JSON.stringify({ a: 2, b: 1 }))
  hub.storage.set('tieline.pinned', JSON.stringify(['b']))
  hub.reply = ({ path, body }) => [200, { id: path.split('/')[1], seen_turns: 0, pinned: false, ...body }]
  const { isPinned, unread, a } = await page()
  await until(() => expect(hub.requests.length).toBe(2))
  expect(hub.requests.map((one) => [one.path, one.body])).toEqual([['sessions/a/mark', { seen_turns: 2 }], ['sessions/b/mark', { seen_turns: 1, pinned: true }]])
  expect([isPinned('b'), unread(a)]).toEqual([true, 1])
  await until(() => expect(['seen', 'pinned', 'marks'].some((name) => hub.storage.has(`tieline.${name}`))).toBe(false))
})
