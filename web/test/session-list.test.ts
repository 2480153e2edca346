// @vitest-environment jsdom
/** The list of sessions: what a row says, what is pinned and how the others are grouped. */
import { h, render } from 'preact'
import { beforeEach, expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { plainLine } from '../src/shared/format'
import { initials } from '../src/ui/agent-mark'
import { hub, load } from './fake-hub'

const session = (id: string, more: Partial<P.SessionRecord> = {}) => ({ id, agent: 'codex', node: 'n', cwd: '/home/me/shop', title: id, status: 'idle', turns: 0, tokens: {}, archived: false, created_at: 1, active_at: 0, last_line: '', branch: '', ...more }) as unknown as P.SessionRecord
const NODES = [{ id: 'n', name: 'laptop', online: true, home: '/home/me' }, { id: 'm', name: 'server', online: true, home: '/root' }] as P.NodeView[]

beforeEach(() => {
  vi.stubGlobal('IntersectionObserver', class { observe() {} disconnect() {} }) // jsdom has none
})

async function list(all: readonly P.SessionRecord[], how: Partial<P.Ready> = {}) {
  const { ready, store } = await load()
  const { SessionList } = await import('../src/sessions/session-list')
  const pins = await import('../src/sessions/grouping')
  ready({ sessions: [...all], nodes: NODES }, how)
  const box = document.body.appendChild(document.createElement('div'))
  render(h(SessionList, {}), box)
  const painted = () => new Promise((done) => setTimeout(done, 30))
  const groups = () => [...box.querySelectorAll('.session-list > section')].map((one) => [one.getAttribute('aria-label'), [...one.querySelectorAll('strong')].map((row) => row.textContent)])
  return { box, groups, painted, store, ...pins }
}

it('shows the last line without Markdown’s marks', () => {
  const lines: Record<string, string> = {
    '**Done**: see `x.py` and [the docs](https://example.com)': 'Done: see x.py and the docs', '## A heading': 'A heading', '- [x] _all_ of it': 'all of it', '> quoted ~~not~~': 'quoted not',
    'snake_case stays, 2 * 3 * 4 too': 'snake_case stays, 2 * 3 * 4 too', '1. first': 'first', '```': '', 'a\u202eb': 'a⟨U+202E⟩b',
  }
  for (const [text, expected] of Object.entries(lines)) expect(plainLine(text)).toBe(expected)
})

it('has a mark for each agent, and no two of ours are the same', async () => {
  const { box } = await list(['claude-code', 'codex', 'cline', 'copilot'].map((agent) => session(agent, { agent })))
  const marks = [...box.querySelectorAll('.agent-mark')].map((one) => one.innerHTML)
  expect(new Set(marks).size).toBe(4)
  expect(['Mistral Vibe', 'auggie', 'x', ''].map(initials)).toEqual(['MV', 'Au', 'X', '?'])
})

it('puts pinned sessions first, and remembers them', async () => {
  const all = [session('old', { created_at: 1 }), session('new', { created_at: 3 }), session('middle', { created_at: 2 })]
  const { box, groups, painted } = await list(all)
  expect(groups()).toEqual([['All', ['new', 'middle', 'old']]])
  box.querySelector<HTMLButtonElement>('[aria-label="Pin: old"]')!.click()
  await painted()
  expect(groups()).toEqual([['Pinned', ['old']], ['Others', ['new', 'middle']]])
  expect(box.querySelector('[aria-label="Pin: old"]')!.getAttribute('aria-pressed')).toBe('true')
  expect(JSON.parse(hub.storage.get('tieline.marks')!)).toEqual({ old: { pinned: true } }) // until the hub has it
  const storage = hub.storage
  const again = await list(all)
  expect(hub.storage).toBe(storage)
  expect(again.groups()[0]).toEqual(['Pinned', ['old']])
})

it('groups by project or machine; a group can be closed', async () => {
  const { box, groups, painted, setGrouping } = await list([session('a', { created_at: 3 }), session('b', { created_at: 2, cwd: '/root/x', node: 'm' }), session('c', { created_at: 1 })])
  setGrouping('project')
  await painted()
  expect(groups()).toEqual([['~/shop', ['a', 'c']], ['~/x', ['b']]])
  setGrouping('machine')
  await painted()
  expect(groups()).toEqual([['laptop', ['a', 'c']], ['server', ['b']]])
  box.querySelector<HTMLButtonElement>('.group-head button')!.click()
  await painted()
  expect(groups()).toEqual([['laptop', []], ['server', ['b']]])
})

it('has few of very many rows in the document', async () => {
  const { box, painted } = await list(Array.from({ length: 10_000 }, (_, number) => session(`s${number}`, { created_at: number })))
  expect(box.querySelectorAll('.session')).toHaveLength(100)
  const more = [...box.querySelectorAll('button')].find((one) => one.textContent === '9900 more')!
  more.click()
  await painted()
  expect(box.querySelectorAll('.session')).toHaveLength(200)
})

it('says so while the hub has not sent all sessions, also in a search', async () => {
  const { box, painted, store } = await list([session('first')], { snapshot_sent: 'parts', sessions_left: 1500 })
  const status = () => box.querySelector('[role=status]')!.textContent
  expect(status()).toBe('Shown so far: 1 sessions. 1,500 more are coming …')
  const search = box.querySelector<HTMLInputElement>('input[type=search]')!
  search.value = 'second'
  search.dispatchEvent(new Event('input', { bubbles: true }))
  await painted()
  expect(status()).toMatch(/^Searched so far/)
  expect(box.textContent).not.toContain('No matching sessions')
  store.applyFrame({ type: 'sessions', sessions: [session('second')], left: 0 })
  await painted()
  expect(box.querySelector('.session strong')!.textContent).toBe('second')
  expect(status()).toBe('')
})

it('looks at one session when one of 10,000 has changed', async () => {
  let looked = 0
  const watched = (id: string, at: number) => Object.defineProperty(session(id, { active_at: at }), 'archived', { get: () => { looked++; return false } })
  const { box, painted, store } = await list(Array.from({ length: 10_000 }, (_, index) => watched(`s${index}`, index)))
  await painted()
  looked = 0
  store.applyFrame({ type: 'session', session: watched('s42', 20_000) })
  await painted()
  expect(box.querySelector('.session strong')!.textContent).toBe('s42')
  expect([...box.querySelectorAll('button')].some((one) => one.textContent === '9900 more')).toBe(true)
  expect(looked).toBeLessThan(200) // the rows on the screen, and the one that has changed
})
