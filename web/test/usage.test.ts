// @vitest-environment jsdom
/** The usage page: what is summed, what is said of sums that are known in part, a bar for each day, a table for each chart. */
import { h, render } from 'preact'
import { expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { byValue, dayKey, daysAgo, everyDay, incompleteNotes, valueText } from '../src/usage/usage'
import { hub, load } from './fake-hub'

const row = (key: string, more: Partial<P.UsageRow> = {}): P.UsageRow => ({ key, agent: '', project: '', title: '', turns: 1, partial_turns: 0, unknown_turns: 0, turns_with_cost: 1, model_calls: 1, duration_s: 90, tokens: { input: 1000, output: 500, cost_usd: 0.5 }, ...more })
const until = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 5 })

it('says of a sum whether it is all of it', () => {
  const cases: readonly (readonly [Partial<P.UsageRow>, string, string, string])[] = [
    [{}, '$0.50', '1.5k', '1 min 30 s'],
    [{ tokens: { input: 0, output: 0, cost_usd: 0 } }, '$0.00', '0', '1 min 30 s'], // a measured zero
    [{ partial_turns: 1 }, '≥ $0.50', '≥ 1.5k', '1 min 30 s'],
    [{ turns: 2, unknown_turns: 1 }, '≥ $0.50', '≥ 1.5k', '1 min 30 s'],
    [{ turns: 3, turns_with_cost: 1 }, '≥ $0.50', '1.5k', '1 min 30 s'],
    [{ turns_with_cost: 0, tokens: { output: 7 } }, 'not reported', '7', '1 min 30 s'],
    [{ tokens: {}, unknown_turns: 1, turns_with_cost: 0, duration_s: 7500 }, 'not reported', 'not reported', '2 h 5 min'],
    [{ turns: 0, turns_with_cost: 0, tokens: {}, duration_s: 0 }, '–', '–', '0 ms'],
  ]
  for (const [more, ...expected] of cases) expect((['cost', 'tokens', 'time'] as const).map((measure) => valueText(row('x', more), measure))).toEqual(expected)
  expect(incompleteNotes(row('x'))).toEqual([])
  expect(incompleteNotes(row('x', { turns: 5, partial_turns: 2, unknown_turns: 1, turns_with_cost: 4 }))).toEqual(['≥: at least. Of 5 turns, 2 reported only a part of what was used and 1 reported nothing.', 'No cost is known for 1 turn: not every agent reports it.'])
})

it('has a row for every day, also over a change of the clocks', () => {
  const now = new Date(2026, 10, 3, 15)
  const days = everyDay([row('2026-11-01', { turns: 4 })], 7, now)
  expect(days.map((one) => one.key)).toEqual(['2026-10-28', '2026-10-29', '2026-10-30', '2026-10-31', '2026-11-01', '2026-11-02', '2026-11-03'])
  expect(days.map((one) => one.turns)).toEqual([0, 0, 0, 0, 4, 0, 0])
  expect(new Set(everyDay([], 90, new Date(2026, 3, 1)).map((one) => one.key)).size).toBe(90)
  expect(byValue([row('a', { tokens: {} }), row('b', { tokens: { cost_usd: 1 } }), row('c', { tokens: { cost_usd: 2 } })], 'cost').map((one) => one.key)).toEqual(['c', 'b', 'a'])
})

it('shows charts, each with a table, for the days that are chosen', async () => {
  const { ready } = await load()
  const { UsagePage } = await import('../src/usage/usage-page')
  ready({ sessions: [{ id: 's1', agent: 'codex', turns: 0 } as unknown as P.SessionRecord] })
  const today = dayKey(new Date())
  const rows: Record<string, P.UsageRow[]> = { day: [row(today, { turns: 3, partial_turns: 1 })], agent: [row('codex'), row('claude-code', { partial_turns: 1, turns: 2 })], project: [row('')], session: [row('s1', { title: 'Mend \u202e it' }), row('gone', { title: 'Old' })] }
  hub.reply = ({ path }) => {
    const by = new URLSearchParams(path.split('?')[1]).get('by')!
    return [200, { by, since: 0, until: 0, time_zone: '', rows: rows[by], total: row('', { turns: 3, partial_turns: 1 }), up_to_date: false }]
  }
  const box = document.body.appendChild(document.createElement('div'))
  render(h(UsagePage, {}), box)
  await until(() => expect(box.querySelectorAll('.chart').length).toBe(4))
  expect(box.querySelectorAll('.day-bars rect').length).toBe(30)
  expect(box.querySelectorAll('.day-bars rect.partial').length).toBe(1)
  expect(box.querySelector('.day-bars')!.getAttribute('aria-label')).toContain(`the most on ${today}: ≥ $0.50`)
  expect([...box.querySelectorAll('.chart')].every((one) => one.querySelector('details table'))).toBe(true)
  expect(box.textContent).toContain('1 reported only a part of what was used')
  expect(box.textContent).toContain('still being counted')
  expect([...box.querySelectorAll('.chart:last-child a')].map((one) => one.getAttribute('href'))).toEqual(['/s/s1'])
  expect(box.textContent).toContain('⟨U+202E⟩')
  const press = (text: string) => [...box.querySelectorAll<HTMLButtonElement>('button')].find((one) => one.textContent === text)!.click()
  const before = hub.requests.length
  press('Tokens')
  await until(() => expect(box.querySelector('.day-bars')!.getAttribute('aria-label')).toContain('Tokens by day'))
  expect(hub.requests.length).toBe(before)
  press('7 days')
  await until(() => expect(box.querySelectorAll('.day-bars rect').length).toBe(7))
  const since = Number(new URLSearchParams(hub.requests.at(-1)!.path.split('?')[1]).get('since'))
  expect(since).toBe(daysAgo(6, new Date()).getTime() / 1000)
  hub.reply = () => 'away'
  press('90 days')
  await until(() => expect(box.querySelector('[role=alert]')).not.toBeNull())
})
