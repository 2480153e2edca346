// @vitest-environment jsdom
/** Search: what is asked of the hub and when, how hits are grouped, where each leads, and that the thread finds it. */
import { h, render } from 'preact'
import { expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { parseWanted, searchUrl, groupHits, hitUrl, requestPath, KINDS } from '../src/search/search'
import { Thread } from '../src/thread/thread'
import { hub, load } from './fake-hub'

const hit = (id: number, more: Partial<P.SearchHit> = {}): P.SearchHit => ({ id, kind: 'text', at: 1, session: 's', seq: id, title: 'Mend it', agent: 'codex', snippet: [{ text: 'a ' }, { text: 'quokka', match: true }, { text: ' sleeps' }], ...more })
const found = (hits: readonly P.SearchHit[], more: Partial<P.SearchResults> = {}): P.SearchResults => ({ hits, sessions: [], more: false, indexed: 1, ...more })
const until = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 5 })

it('keeps what is wanted in the address, and only what it knows', () => {
  const wanted = { q: 'a b', kind: 'ask', agent: 'codex', project: 'shop', days: 7 } as const
  expect(parseWanted(searchUrl(wanted).slice('/search'.length))).toEqual(wanted)
  expect(searchUrl({ q: '', kind: '', agent: '', project: '', days: 0 })).toBe('/search')
  expect(parseWanted('?q=x&kind=nonsense&days=3')).toEqual({ q: 'x', kind: '', agent: '', project: '', days: 0 })
  expect(requestPath({ ...wanted, project: ' shop ' }, 1_000_000)).toBe('search?q=a+b&limit=50&kind=ask&agent=codex&project=shop&since=395200')
  expect(KINDS.map(([kind]) => kind).sort()).toEqual(['ask', 'error', 'message', 'output', 'prompt', 'text', 'thinking', 'tool'] satisfies P.SearchHit['kind'][])
})

it('groups hits by conversation and leads to their place', () => {
  const groups = groupHits([hit(9), hit(8, { session: undefined, kind: 'message', message: 'm2', thread: 'm1' }), hit(7), hit(6, { session: 't' })])
  expect(groups.map((one) => [one.session, one.hits.map((two) => two.id)])).toEqual([['s', [9, 7]], ['', [8]], ['t', [6]]])
  expect(groups.flatMap((one) => one.hits.map(hitUrl))).toEqual(['/s/s/at/9', '/s/s/at/7', '/messages/m1/m2', '/s/t/at/6'])
})

async function page(search = '') {
  history.replaceState(null, '', `/search${search}`)
  const { ready } = await load()
  const { SearchPage } = await import('../src/search/search-page')
  ready()
  const box = document.body.appendChild(document.createElement('div'))
  render(h(SearchPage, {}), box)
  const field = box.querySelector<HTMLInputElement>('input[type=search]')!
  const type = (text: string) => { field.value = text; field.dispatchEvent(new Event('input', { bubbles: true })) }
  const key = (name: string) => document.activeElement!.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }))
  return { box, field, type, key, text: () => box.textContent! }
}

it('shows a place on one line, whatever lines it had', async () => {
  vi.stubGlobal('fetch', async () => ({ ok: true, status: 200, text: async () => JSON.stringify(found([hit(1, { snippet: [{ text: 'npm test\n\n  ' }, { text: 'quokka', match: true }] })])) }))
  const { box } = await page('?q=quokka')
  await until(() => expect(box.querySelector('.snippet')!.textContent).toBe('npm test quokka'))
})

it('searches once a person stops typing, and cancels what it asked before', async () => {
  const { type, box, text } = await page()
  expect(text()).toContain('Search everything')
  const asked: (AbortSignal | null | undefined)[] = []
  const answer: ((value: unknown) => void)[] = []
  vi.stubGlobal('fetch', (url: string, { signal }: RequestInit) => new Promise((done, fail) => {
    asked.push(signal)
    signal?.addEventListener('abort', () => fail(new DOMException('aborted')))
    answer.push(() => done({ ok: true, status: 200, text: async () => JSON.stringify(found([hit(asked.length)], { more: url.includes('before') === false })) }))
  }))
  type('q')
  await until(() => expect(asked.length).toBe(1)) // the first letter is not held back
  for (const typed of ['qu', 'quo', 'quok']) type(typed)
  await until(() => expect(asked.length).toBe(2))
  expect(asked.map((one) => one!.aborted)).toEqual([true, false])
  answer[0]!(0)
  answer[1]!(0)
  await until(() => expect(box.querySelectorAll('a.hit').length).toBe(1))
  expect(box.querySelector('a.hit')!.getAttribute('href')).toBe('/s/s/at/2')
  expect(box.querySelector('mark')!.textContent).toBe('quokka')
  expect(location.search).toBe('?q=quok')
  box.querySelector<HTMLButtonElement>('.more-hits')!.click()
  await until(() => expect(asked.length).toBe(3))
  answer[2]!(0)
  await until(() => expect(box.querySelectorAll('a.hit').length).toBe(2))
  expect(box.querySelector('.more-hits')).toBeNull()
  type('')
  await until(() => expect(text()).toContain('Search everything'))
})

it('walks through the hits with the arrow keys', async () => {
  hub.reply = () => [200, found([hit(2), hit(1, { session: 't' })])]
  const { box, field, key } = await page('?q=quokka&kind=text')
  await until(() => expect(box.querySelectorAll('a.hit').length).toBe(2))
  expect(hub.requests.at(-1)!.path).toBe('search?q=quokka&limit=50&kind=text')
  const hits = [...box.querySelectorAll<HTMLElement>('a.hit')]
  await until(() => expect(document.activeElement).toBe(field))
  for (const [name, focused] of [['ArrowDown', hits[0]], ['ArrowDown', hits[1]], ['ArrowDown', hits[1]], ['ArrowUp', hits[0]], ['ArrowUp', field]] as const) {
    key(name)
    expect(document.activeElement, name).toBe(focused)
  }
})

it('says why it finds nothing', async () => {
  hub.reply = () => [400, { title: 'nothing to search for', status: 400, hint: 'Add a word that it must have.' }]
  const { text, box, type } = await page('?q=-x&days=7')
  await until(() => expect(box.querySelector('[role=alert]')!.textContent).toContain('nothing to search for Add a word'))
  hub.reply = () => [200, found([], { indexed: 0.4 })]
  type('zebra')
  await until(() => expect(text()).toContain('40 % so far'))
  expect(box.querySelector('[role=status]')!.textContent).toBe('Nothing was found.')
  const anywhere = [...box.querySelectorAll('button')].find((one) => one.textContent === 'Search without filters')!
  anywhere.click()
  await until(() => expect(hub.requests.at(-1)!.path).toBe('search?q=zebra&limit=50'))
  hub.reply = () => 'away'
  type('zebras')
  await until(() => expect(box.querySelector('[role=alert]')!.textContent).toContain('cannot be reached'))
})

it('finds the row that shows an event, folded ones too', () => {
  const thread = new Thread('s')
  const events: P.EventFrame['event'][] = [
    { type: 'turn_started', prompt: 'go', id: 'p' }, { type: 'thinking', text: 'hm' }, { type: 'tool_use', id: 't1', name: 'Bash', action: { kind: 'command', command: 'ls' } },
    { type: 'tool_use', id: 't2', name: 'Bash', action: { kind: 'command', command: 'pwd' } }, { type: 'ask', id: 'a1', kind: 'permission', tool: 't1' }, { type: 'answer', ask: 'a1', decision: 'allow', by: 'me' },
    { type: 'tool_result', id: 't1', status: 'ok', output: 'x' }, { type: 'text', text: 'done' }, { type: 'warning', message: 'one' }, { type: 'warning', message: 'two' }, { type: 'error', message: 'late' }, { type: 'done', status: 'error', error: 'late' },
  ] as P.EventFrame['event'][]
  thread.addEvents(events.map((event, index) => ({ type: 'event', session: 's', seq: 10 + index, at: 1, event }) as P.EventFrame))
  expect(events.map((_, index) => thread.rowOf(10 + index))).toEqual(['#10', '#11', 'tool #12', 'tool #13', 'tool #12', 'tool #12', 'tool #12', '#17', '#18', '#18', '#20', '#21'])
  expect(thread.rowOf(9)).toBe('')
  expect(thread.rowOf(99)).toBe('#21')
})

it('loads back to an event that is far away, and says when it cannot', async () => {
  const { store } = await load()
  const frames = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => ({ type: 'event', session: 's', seq: from + index, at: 1, event: { type: 'text', text: 'x' } }))
  let away = false
  hub.reply = ({ path }) => {
    if (away) return 'away'
    const { before, limit } = Object.fromEntries(new URLSearchParams(path.split('?')[1]))
    const end = Number(before ?? 5001)
    const begin = Math.max(1, end - Number(limit))
    return [200, { events: frames(begin, end), first: 1, last: 5000, more: begin > 1 }]
  }
  await store.openThread('s')
  const thread = store.thread.value!
  expect(thread.firstSeq).toBe(4801)
  expect(await store.loadBackTo(thread, 3500)).toBe(true)
  expect([thread.firstSeq, thread.rowOf(3500)]).toEqual([2801, '#3500'])
  away = true
  expect(await store.loadBackTo(thread, 1)).toBe(false)
  away = false
  expect(await store.loadBackTo(thread, 1)).toBe(true)
  expect(thread.rowOf(1)).toBe('#1')
  expect(hub.requests.filter((one) => one.path.includes('limit=1000')).length).toBe(6)
})
