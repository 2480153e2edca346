// @vitest-environment jsdom
/** The list of sessions: what a row says, what is pinned and how the others are grouped. */
import { h, render } from 'preact'
import { beforeEach, describe, expect, it, vi } from 'vitest'
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

describe('the order', () => {
  const ALL = [session('a', { created_at: 3 }), session('b', { created_at: 2 }), session('c', { created_at: 1 })]
  const names = (groups: () => (string | null | (string | null)[])[][]) => groups()[0]![1]
  const pointer = (box: Element, type: string, pointerType = 'mouse') => box.querySelector('.session-list')!.dispatchEvent(Object.assign(new MouseEvent(type, { bubbles: type !== 'pointerleave' }), { pointerType }))

  async function opened() {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    const page = await list(ALL)
    const drawn = () => vi.advanceTimersByTimeAsync(50)
    const worked = async (id: string, at: number) => {
      page.store.sessions.upsert(session(id, { active_at: at, last_line: `worked at ${at}` }))
      await drawn()
    }
    const tap = (id: string, detail = 1) => {
      let taken = false
      page.box.addEventListener('click', (event) => { taken = true; event.preventDefault() }, { once: true })
      page.box.querySelector(`a[href="/s/${id}"]`)!.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, detail }))
      return taken
    }
    return { ...page, worked, drawn, tap }
  }

  it('stays while a pointer is on the list, and settles when it leaves', async () => {
    const { box, groups, worked, drawn } = await opened()
    pointer(box, 'pointermove')
    await worked('c', 9)
    expect(names(groups)).toEqual(['a', 'b', 'c'])
    expect(box.textContent).toContain('worked at 9')
    await worked('new', 10)
    expect(names(groups)).toEqual(['a', 'b', 'c'])
    pointer(box, 'pointerleave')
    await drawn()
    expect(names(groups)).toEqual(['new', 'c', 'a', 'b'])
  })

  it('stays for a moment after a finger has left, and while the list goes on scrolling', async () => {
    const { box, groups, worked, drawn } = await opened()
    pointer(box, 'pointerdown', 'touch')
    pointer(box, 'pointerleave', 'touch')
    await worked('c', 9)
    await vi.advanceTimersByTimeAsync(1500)
    document.dispatchEvent(new Event('scroll'))
    await vi.advanceTimersByTimeAsync(1500)
    expect(names(groups)).toEqual(['a', 'b', 'c'])
    await vi.advanceTimersByTimeAsync(600)
    await drawn()
    expect(names(groups)).toEqual(['c', 'a', 'b'])
  })

  it('stays while a row has the focus, but not for a pointer or a focus that only rests there', async () => {
    const { box, groups, worked, drawn } = await opened()
    const row = box.querySelector<HTMLElement>('a[href="/s/b"]')!
    row.dispatchEvent(new FocusEvent('focusin', { bubbles: true }))
    await worked('c', 9)
    expect(names(groups)).toEqual(['a', 'b', 'c'])
    row.dispatchEvent(new FocusEvent('focusout', { bubbles: true, relatedTarget: document.body }))
    await drawn()
    expect(names(groups)).toEqual(['c', 'a', 'b'])
    pointer(box, 'pointermove')
    await worked('b', 10)
    expect(names(groups)).toEqual(['c', 'a', 'b'])
    await vi.advanceTimersByTimeAsync(10_000)
    await drawn()
    expect(names(groups)).toEqual(['b', 'c', 'a'])
  })

  it('follows what the person does at once', async () => {
    const { box, groups, worked, drawn } = await opened()
    pointer(box, 'pointermove')
    await worked('c', 9)
    box.querySelector<HTMLButtonElement>('[aria-label="Pin: b"]')!.click()
    await drawn()
    expect(groups()).toEqual([['Pinned', ['b']], ['Others', ['c', 'a']]])
  })

  it('takes no tap on rows that have just moved, except by a key', async () => {
    const { worked, tap } = await opened()
    await vi.advanceTimersByTimeAsync(1000)
    expect(tap('a')).toBe(true)
    await worked('c', 9)
    expect(tap('a')).toBe(false)
    expect(tap('a', 0)).toBe(true)
    await vi.advanceTimersByTimeAsync(400)
    expect(tap('a')).toBe(true)
  })
})
