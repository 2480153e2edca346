// @vitest-environment jsdom
/** Teams: their log as rows, what is loaded when, and what is said once. */
import { h, render } from 'preact'
import { describe, expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { hub, load, readyFrame, settle, type SentRequest } from './fake-hub'

const ended = (seq: number, member: string, text: string, more: object = {}): P.TeamEntry => ({ seq, entry: { type: 'turn_ended', turn: seq, member, status: 'success', text, ...more } })
const record = (more: Partial<P.TeamRecord> = {}): P.TeamRecord => ({ id: 't', name: 'shop', task: 'Build it.', status: 'running', members: ['dev', 'alice'], active_at: 1, ...more })
const view = (more: Partial<P.TeamView> = {}): P.TeamView => ({ ...record(), people: ['alice'], who: [{ name: 'dev', agent: 'codex', session: 's1' }, { name: 'alice', human: true }], ...more })

async function opened() {
  const loaded = await load()
  const teamStore = await import('../src/teams/team-store')
  const outbox = await import('../src/teams/team-outbox')
  const thread = await import('../src/teams/team-thread')
  const list = await import('../src/teams/teams')
  return { ...loaded, ...teamStore, ...outbox, ...thread, ...list }
}

/** A hub with one conversation; what is asked of it twice with one key, it does once. */
function conversation(entries: P.TeamEntry[], now: () => P.TeamView = () => view()) {
  const keys = new Set<string>()
  const lose = { answers: 0 }
  hub.reply = (request: SentRequest) => {
    const [path, query = ''] = request.path.split('?')
    const asked = new URLSearchParams(query)
    if (path === 'teams/t') return [200, now()]
    if (path === 'teams/t/entries') {
      const limit = Number(asked.get('limit'))
      expect(asked.get('prompts')).toBe('false')
      const before = asked.get('before')
      const fitting = entries.filter(({ seq }) => (before ? seq < Number(before) : seq > Number(asked.get('after'))))
      const page = before ? fitting.slice(-limit) : fitting.slice(0, limit)
      return [200, { entries: page, status: 'running', more: page.length < fitting.length }]
    }
    if (path === 'teams/t/actions') {
      if (!keys.has(request.key) && request.body.do === 'speak') entries.push({ seq: entries.length + 1, entry: { type: 'person_spoke', member: 'alice', text: String(request.body.text) } })
      keys.add(request.key)
      return lose.answers-- > 0 ? 'away' : [200, now()]
    }
    return [404, { title: 'not found' }]
  }
  return lose
}

describe('the log as rows', () => {
  it('has words, notices and who they are for', async () => {
    const { TeamThread } = await opened()
    const thread = new TeamThread('t')
    thread.setView(view())
    thread.addEntries([
      { seq: 1, entry: { type: 'started', by: 'owner', task: 'Build it.', team: { name: 'shop' } } },
      { seq: 2, entry: { type: 'turn_began', turn: 1, member: 'dev', session: 's1', prompt: 'p', text: '', seen: 0 } },
      ended(3, 'dev', 'Done.\n[NEXT: alice]', { markers: { next: [{ name: 'alice' }] }, work: { branch: 'team/dev', conflicts: ['a.py'] } }),
      { seq: 4, entry: { type: 'person_spoke', member: 'alice', text: '[NEXT: nobody] is quoted' } },
      { seq: 5, entry: { type: 'turn_ended', turn: 2, member: 'dev', status: 'error', error: 'no credit' } },
      { seq: 6, entry: { type: 'held', by: 'alice' } },
      { seq: 7, entry: { type: 'resumed', more_rounds: 5 } },
      { seq: 8, entry: { type: 'policy_changed', member: 'dev', policy: 'edits', by: 'alice' } },
      { seq: 9, entry: { type: 'policy_changed', member: 'dev', policy: { shell: 'deny' } as P.Policy } },
      { seq: 10, entry: { type: 'member_called', turn: 3, member: 'dev', text: 'By a tool.', markers: { done: true } } },
      { seq: 11, entry: { type: 'something_new', by: 'x' } as unknown as P.Held },
      { seq: 12, entry: { type: 'ended', reason: 'done, says dev' } },
    ])
    const rows = thread.rows.value
    expect(rows.map((row) => row.number)).toEqual(rows.map((_, index) => index))
    expect(rows[0]!.content).toEqual({ kind: 'task', by: 'owner', text: 'Build it.' })
    expect(rows[1]!.content).toMatchObject({ kind: 'said', speaker: 'dev', colour: 0, person: false, text: 'Done.', markers: { next: [{ name: 'alice' }] }, work: { branch: 'team/dev', conflicts: ['a.py'] } })
    expect(rows[2]!.content).toMatchObject({ kind: 'said', speaker: 'alice', colour: 1, person: true, text: '[NEXT: nobody] is quoted' })
    expect(rows.slice(3).map((row) => 'text' in row.content && row.content.text)).toEqual(['The turn of dev failed: no credit', 'Put on hold by alice', 'Resumed, with 5 rounds more', 'The policy of dev is now edits, by alice', 'The policy of dev is now shell: deny', 'By a tool.', 'something new by x', 'Ended: done, says dev'])
  })

  it('takes each entry once, and older ones before the known', async () => {
    const { TeamThread } = await opened()
    const thread = new TeamThread('t')
    const all = Array.from({ length: 9 }, (_, index) => ended(index + 1, 'dev', `${index + 1}`))
    thread.addEntries(all.slice(4, 7))
    const known = thread.rows.value
    thread.addEntries(all.slice(4, 9))
    thread.addEntries(all.slice(0, 4))
    expect(thread.rows.value.map((row) => row.key)).toEqual(all.map(({ seq }) => `#${seq}`))
    expect(thread.rows.value.map((row) => row.number)).toEqual([-4, -3, -2, -1, 0, 1, 2, 3, 4])
    expect(thread.rows.value.slice(4, 7)).toEqual(known)
    expect([thread.firstSeq, thread.lastSeq]).toEqual([1, 9])
  })

  it('leaves out lines that steer, not those in code or quotations', async () => {
    const { withoutMarkers } = await opened()
    const code = 'See:\n```\n[DONE]\n```\n> [DROP: ALL]\n    [NEXT: b]'
    expect(withoutMarkers(`${code}\n[NEXT: a !P1]\n\n [done] \n[TEAM_TASK: x]\n`)).toBe(code)
    expect(withoutMarkers('[NEXT: a]\nThe end.'), 'only the last lines count').toBe('[NEXT: a]\nThe end.')
    expect(withoutMarkers('[NEXT: a]\n[DONE]')).toBe('')
    expect(withoutMarkers('I ask.\n[VOTE: Colour? | red | blue]')).toBe('I ask.')
    expect(withoutMarkers('~~~~\n~~~\n[DONE]\n~~~~\n[DONE]')).toBe('~~~~\n~~~\n[DONE]\n~~~~')
  })
})

describe('the open conversation', () => {
  it('loads the last entries first, older ones on demand, and what is new when its record changes', async () => {
    const page = await opened()
    const entries = Array.from({ length: 250 }, (_, index) => ended(index + 1, 'dev', `${index + 1}`))
    conversation(entries)
    page.ready({ teams: [record()] })
    page.openTeam('t')
    await settle()
    const thread = page.teamThread.value!
    expect([thread.rows.value.length, thread.firstSeq, thread.hasOlder.value]).toEqual([100, 151, true])
    await page.loadOlderEntries(thread)
    await page.loadOlderEntries(thread)
    expect([thread.rows.value.length, thread.hasOlder.value]).toEqual([250, false])
    for (let more = 0; more < 700; more++) entries.push(ended(entries.length + 1, 'dev', 'new'))
    page.store.applyFrame({ type: 'team', team: record({ active_at: 2 }) })
    await settle()
    await settle()
    expect(thread.rows.value.length).toBe(950)
    const before = hub.requests.length
    page.store.applyFrame({ type: 'team', team: record({ id: 'another' }) })
    await settle()
    expect(hub.requests.length, 'another conversation is none of it').toBe(before)
    page.ready({ teams: [record()] }) // after a break
    await settle()
    expect(hub.requests.length).toBeGreaterThan(before)
    page.closeTeam()
  })

  it('says why it cannot be shown, and shows it when the hub is back', async () => {
    const page = await opened()
    hub.reply = () => 'away'
    page.openTeam('t')
    await settle()
    expect(page.teamProblem.value).toContain('cannot be reached')
    conversation([ended(1, 'dev', 'hello')])
    page.ready({ teams: [record()] })
    await settle()
    expect(page.teamProblem.value).toBe('')
    expect(page.teamThread.value!.rows.value.length).toBe(1)
    page.closeTeam()
  })
})

describe('what a person says', () => {
  it('shows a vote and its ballots in words', async () => {
    const { TeamThread } = await opened()
    const thread = new TeamThread('t')
    thread.addEntries([
      ended(1, 'dev', 'I ask.\n[VOTE: Colour? | red | blue]', { markers: { vote: { question: 'Colour?', options: ['red', 'blue'] } } }),
      ended(2, 'rev', '[BALLOT: red]', { markers: { ballot: 'red' } }),
    ])
    expect(thread.rows.value.map(({ content }) => (content as { text: string }).text)).toEqual(['I ask.\n\nVote: Colour? (red | blue)', 'Votes for red'])
  })

  it('is said once however often it is sent, also after a reload', async () => {
    const words: P.Speak = { do: 'speak', text: 'Hello.', to: [{ name: 'dev' }], member: 'alice' }
    const entries: P.TeamEntry[] = []
    let page = await opened()
    conversation(entries).answers = 2
    page.say('t', words)
    await settle()
    expect(page.outgoingWords.value.map((one) => one.state)).toEqual(['sending'])
    page = await opened() // reloaded
    page.ready({ teams: [record()] })
    await settle()
    page.ready({ teams: [record()] })
    await settle()
    expect(page.outgoingWords.value).toEqual([])
    const sent = hub.requests.filter((one) => one.path === 'teams/t/actions')
    expect(sent.length).toBe(3)
    expect(new Set(sent.map((one) => one.key)).size).toBe(1)
    expect(entries.length).toBe(1)
  })

  it('is kept with the reason when it is refused, and sent anew with another key', async () => {
    const page = await opened()
    hub.reply = () => [400, { title: 'bad', detail: 'the conversation has ended' }]
    page.say('t', { do: 'speak', text: 'Hello.', to: [], member: '' })
    await settle()
    const [refused] = page.outgoingWords.value
    expect([refused!.state, refused!.problem]).toEqual(['failed', 'the conversation has ended'])
    conversation([])
    page.retryWords(refused!.id)
    await settle()
    expect(page.outgoingWords.value).toEqual([])
    const keys = hub.requests.filter((one) => one.path === 'teams/t/actions').map((one) => one.key)
    expect(new Set(keys).size).toBe(2)
  })
})

describe('steering', () => {
  it('moves a name and sends only the places that change', async () => {
    const { moved } = await import('../src/teams/team-composer')
    expect(moved(['a', 'b', 'c', 'd'], 2, 1)).toEqual(['a', 'c', 'b'])
    expect(moved(['a', 'b', 'c', 'd'], 0, 1)).toEqual(['b', 'a'])
    expect(moved(['a', 'b', 'c', 'd'], 3, 0)).toEqual(['d', 'a', 'b', 'c'])
  })

  it('does one thing after the other and says what went wrong', async () => {
    const page = await opened()
    const queue = [{ name: 'a' }, { name: 'b' }, { name: 'c' }]
    conversation([ended(1, 'dev', 'hello')], () => view({ queue }))
    page.openTeam('t')
    await settle()
    const thread = page.teamThread.value!
    page.reorder(thread, ['b', 'a'])
    expect(thread.view.value!.queue!.map((one) => one.name), 'at once').toEqual(['b', 'a', 'c'])
    await page.act(thread, { do: 'hold' })
    expect(hub.requests.filter((one) => one.method === 'POST').map((one) => one.body)).toEqual([{ do: 'reorder', next: ['b', 'a'] }, { do: 'hold' }])
    const answered = hub.reply
    hub.reply = (request) => (request.method === 'POST' ? [400, { title: 'bad', detail: 'no member is called x' }] : answered(request))
    expect(await page.act(thread, { do: 'drop', members: ['x'] })).toBe(false)
    expect(thread.problem.value).toBe('no member is called x')
    page.closeTeam()
  })

  it('shows what was done here before the record says so, and what others did before the view does', async () => {
    const { latest } = await import('../src/teams/team-page')
    const shown = view({ active_at: 5, status: 'held', waiting_for: ['alice'] })
    expect(latest(shown, record({ active_at: 4 })).status).toBe('held')
    const newer = latest({ ...shown, task: 'whole\ntask' }, record({ active_at: 6 }))
    expect([newer.status, newer.waiting_for, newer.task, newer.people]).toEqual(['running', undefined, 'whole\ntask', ['alice']])
  })
})

describe('the list', () => {
  it('puts first who needs a person', async () => {
    const { sortTeams, teamState, waitingTeams, teamActivity, ready } = await opened()
    const all = [
      record({ id: 'over', status: 'ended', active_at: 9, waiting_for: ['alice'], reason: 'done' }),
      record({ id: 'held', status: 'held', active_at: 8, waiting_for: ['alice'] }),
      record({ id: 'works', active_at: 7, speaking: ['dev'] }),
      record({ id: 'both', active_at: 1, speaking: ['dev', 'rev'], waiting_for: ['alice'] }),
      record({ id: 'waits', status: 'waiting', active_at: 2, waiting_for: ['alice'] }),
    ]
    expect(sortTeams(all).map((one) => [one.id, teamState(one)])).toEqual([['waits', 'waiting'], ['both', 'waiting'], ['held', 'held'], ['works', 'working'], ['over', 'ended']])
    expect(all.map(teamActivity)).toEqual(['done', 'waits for alice', 'dev works', 'dev, rev work · waits for alice', 'waits for alice'])
    ready({ teams: all })
    expect(waitingTeams.value.map((one) => one.id)).toEqual(['both', 'waits'])
  })

  it('goes with a conversation that is removed', async () => {
    const { ready, store } = await opened()
    ready({ teams: [record()] })
    store.applyFrame({ type: 'gone', kind: 'team', id: 't' })
    expect(store.teams.value.size).toBe(0)
  })
})

it('a person who is not in the team may join; after the end the team goes on with more', async () => {
  class Observer { observe() {} unobserve() {} disconnect() {} } // jsdom has none
  vi.stubGlobal('IntersectionObserver', Observer)
  vi.stubGlobal('ResizeObserver', Observer)
  const { ready } = await opened()
  const { TeamPage } = await import('../src/teams/team-page')
  let now = view({ people: [], who: [{ name: 'dev', agent: 'codex', session: 's1' }], members: ['dev'] })
  conversation([ended(1, 'dev', '<img src=x> **hello**', { work: { branch: 'team/dev', conflicts: ['a.py'] } })], () => now)
  ready({ teams: [record()] })
  const box = document.body.appendChild(document.createElement('div'))
  render(h(TeamPage, { id: 't', sheet: '' }), box)
  const until = (ok: () => unknown) => vi.waitFor(() => expect(ok()).toBeTruthy(), { timeout: 20_000 })
  await until(() => box.querySelector('[aria-label="Your name"]'))
  expect(box.querySelector('.said img')).toBeNull()
  expect(box.querySelector('.said strong:not(.speaker)')?.textContent).toBe('hello')
  expect(box.querySelector('.said .warning')?.textContent).toContain('Does not merge by itself: a.py')
  const name = box.querySelector<HTMLInputElement>('[aria-label="Your name"]')!
  name.value = 'bob'
  name.dispatchEvent(new Event('input', { bubbles: true }))
  await until(() => !box.querySelector<HTMLButtonElement>('.words button')!.disabled)
  now = view({ status: 'ended', reason: 'the limit of 3 USD is reached', limits: { max_cost_usd: 3 }, active_at: 3 })
  box.querySelector('form')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }))
  await until(() => box.textContent?.includes('the limit of 3 USD is reached'))
  expect(hub.requests.find((one) => one.method === 'POST')!.body).toEqual({ do: 'add_member', member: { name: 'bob', human: true } })
  box.querySelector('form')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }))
  await until(() => hub.requests.some((one) => one.body.do === 'resume'))
  expect(hub.requests.find((one) => one.body.do === 'resume')!.body).toEqual({ do: 'resume', more_rounds: 10, more_cost_usd: 3, more_minutes: 0 })
  render(null, box)
})

describe('a running turn', () => {
  const event = (seq: number, event: P.EventFrame['event'], session = 's1'): P.EventFrame => ({ type: 'event', seq, at: 0, session, event })
  const delta = (text: string, session = 's1'): P.DeltaFrame => ({ type: 'delta', session, event: { type: 'text_delta', text, item: 'i' } })
  const started = (seq: number, session = 's1') => event(seq, { type: 'turn_started', prompt: 'Go.', id: 'p' }, session)

  async function speaking(events: P.EventFrame[]) {
    const state = { speaking: ['dev'] as string[] }
    conversation([], () => view({ speaking: state.speaking }))
    const replies = hub.reply
    hub.reply = (request) => (request.path.startsWith('sessions/s1/events') ? [200, { events, more: false, first: 1 }] : replies(request))
    const page = await opened()
    const live = await import('../src/teams/live-turns')
    page.ready()
    page.openTeam('t')
    await page.refreshTeam()
    await settle()
    return { ...page, ...live, state }
  }

  it('shows what was said before the page was opened, and what follows', async () => {
    const { liveWords, store } = await speaking([event(1, { type: 'text', text: 'An earlier turn.' }), started(2), event(3, { type: 'text', text: 'First.' })])
    store.applyFrame(delta('Sec'))
    store.applyFrame(delta('ond'))
    expect(liveWords('s1')?.text).toBe('First.\n\nSecond')
    store.applyFrame(event(4, { type: 'text', text: 'Second.', item: 'i' }))
    store.applyFrame(event(5, { type: 'tool_use', id: 'c', name: 'Bash', action: { kind: 'command', command: 'make test' } }))
    expect(liveWords('s1')).toMatchObject({ text: 'First.\n\nSecond.', tool: { name: 'Bash' } })
    store.applyFrame(event(6, { type: 'tool_result', id: 'c', status: 'ok' }))
    expect(liveWords('s1')?.tool).toBeUndefined()
  })

  it('shows nothing of the turn before', async () => {
    const { liveWords, store } = await speaking([started(1), event(2, { type: 'text', text: 'Old.' }), event(3, { type: 'done', status: 'success' })])
    expect(liveWords('s1')).toBeUndefined()
    store.applyFrame(started(4))
    store.applyFrame(event(5, { type: 'text', text: 'New.' }))
    expect(liveWords('s1')?.text).toBe('New.')
  })

  it('stays until its row is there, and goes then', async () => {
    const { liveWords, store, refreshTeam, state } = await speaking([started(1)])
    store.applyFrame(event(2, { type: 'text', text: 'Done.' }))
    store.applyFrame(event(3, { type: 'done', status: 'success' }))
    expect(liveWords('s1')?.text).toBe('Done.')
    state.speaking = []
    await refreshTeam()
    expect(liveWords('s1')).toBeUndefined()
  })

  it('is not heard of sessions of others, nor after the page was left', async () => {
    const { liveWords, store, closeTeam } = await speaking([started(1)])
    store.applyFrame(event(2, { type: 'text', text: 'Whose?' }, 's2'))
    expect(liveWords('s2')).toBeUndefined()
    closeTeam()
    store.applyFrame(event(3, { type: 'text', text: 'Late.' }))
    expect(liveWords('s1')).toBeUndefined()
  })

  it('is loaded again when a part of the log was missed', async () => {
    const events = [started(1)]
    const { liveWords, store } = await speaking(events)
    events.push(event(2, { type: 'text', text: 'Meanwhile.' }))
    store.applyFrame(readyFrame({}, { state: 'gap', cursor: 2 }))
    await settle()
    expect(liveWords('s1')?.text).toBe('Meanwhile.')
  })
})
