// @vitest-environment jsdom
import { describe, expect, it } from 'vitest'
import { advice } from '../src/thread/error-advice'
import { ago, answeredBy, canDo, cost, actionSummary, duration, askHeading, enforcement, relativeTo, timeLeft, sessionState, abbreviateHome, sessionTitle } from '../src/shared/format'
import type * as P from '../src/generated/protocol'
import { parseRoute } from '../src/app/router'

describe('format', () => {
  it('does to a session in a terminal only what its harness allows', () => {
    const session = { kind: 'driven', remote: [] } as unknown as P.SessionRecord
    expect(canDo(session, 'prompt')).toBe(true)
    expect(canDo({ ...session, kind: 'attached' }, 'prompt')).toBe(false)
    expect(canDo({ ...session, kind: 'attached', remote: ['prompt'] }, 'prompt')).toBe(true)
    expect(canDo({ ...session, kind: 'attached', remote: ['prompt'] }, 'abort')).toBe(false)
  })
  it('says who answered', () => {
    expect(answeredBy({ type: 'answer', ask: 'a', decision: 'allow', by: 'terminal' })).toBe(' at the terminal')
    expect(answeredBy({ type: 'answer', ask: 'a', decision: 'allow', by: 'Ada' })).toBe(' by Ada')
  })

  it('formats times and durations', () => {
    expect([0, 60, 7200, 200_000].map((past) => ago(1_000_000 - past, 1_000_000))).toEqual(['now', '1 min', '2 h', '2 d'])
    expect([-1, 5, 75, 3661].map(timeLeft)).toEqual(['expired', '5 s left', '1:15 left', '1 h 1 min left'])
    expect([0.2, 2.34, 75, 7500].map(duration)).toEqual(['200 ms', '2.3 s', '1 min 15 s', '2 h 5 min'])
  })
  it('distinguishes zero from a missing value', () => {
    expect(cost({ cost_usd: 0 })).toBe('$0.00')
    expect(cost({ cost_usd: 0.001 })).toBe('<$0.01')
    expect(cost({ input: 1200, output: 300 })).toBe('1.5k tokens')
    expect(cost({})).toBe('')
    expect(cost(null)).toBe('')
  })
  it('shows an offline machine’s session as offline', () => {
    const session = { status: 'working', turns: 1 } as P.SessionRecord
    expect(sessionState(session, { id: 'n', online: true })).toBe('working')
    expect(sessionState(session, { id: 'n' })).toBe('offline')
    expect(sessionState({ ...session, status: 'idle' }, { id: 'n', online: true })).toBe('done')
    expect(sessionState({ ...session, status: 'idle', turns: 0 }, { id: 'n', online: true })).toBe('ready')
  })
  it('distinguishes done, stopped and failed', () => {
    const after = (outcome?: string) => sessionState({ status: 'idle', turns: 1, outcome } as unknown as P.SessionRecord, { id: 'n', online: true })
    expect([undefined, 'success', 'interrupted', 'timeout', 'error'].map(after)).toEqual(['done', 'done', 'stopped', 'stopped', 'failed'])
  })
  it('marks line breaks and invisible characters', () => {
    expect(actionSummary({ kind: 'command', command: 'ls\nrm x\u202e' })).toBe('ls ⏎ rm x⟨U+202E⟩')
    expect(actionSummary({ kind: 'command', command: 'x'.repeat(400) })).toBe(`${'x'.repeat(300)} …`)
    expect(sessionTitle({ title: 'a\u202eb\nc', cwd: '/' } as P.SessionRecord)).toBe('a⟨U+202E⟩b ⏎ c')
    const edit = (...paths: string[]) => askHeading({ type: 'ask', id: 'q', kind: 'permission', action: { kind: 'edit', paths } })
    expect([edit(), edit('/x/a\u200b.py'), edit('a', 'b')]).toEqual(['Edit files?', 'Edit a⟨U+200B⟩.py?', 'Edit 2 files?'])
  })
  it('shortens paths inside the directory', () => expect([relativeTo('w/p/a.ts', '/w/p'), relativeTo('/w/p/b/a.ts', '/w/p/'), relativeTo('/w/pa/a.ts', '/w/p'), relativeTo('a.ts', '/w/p'), relativeTo('/a.ts', '')]).toEqual(['a.ts', 'b/a.ts', '/w/pa/a.ts', 'a.ts', '/a.ts']))
  it('abbreviates the home directory', () => expect([abbreviateHome('/home/a/x', '/home/a'), abbreviateHome('/home/ab', '/home/a'), abbreviateHome('/home/a', '/home/a')]).toEqual(['~/x', '/home/ab', '~']))
  it.each([['401 Unauthorized', 'Sign'], ['rate_limit exceeded', 'busy'], ['ECONNREFUSED', 'reach'], ['the agent was killed', 'process'], ['what', 'again']])(
    'knows what to do about %s', (message, word) => expect(advice(message)).toContain(word))
})

describe('routes', () => {
  it.each([
    ['/', { page: 'home' }], ['/new', { page: 'new' }], ['/s/abc', { page: 'session', id: 'abc', sheet: '', at: 0 }], ['/s/abc/diff', { page: 'session', id: 'abc', sheet: 'diff', at: 0 }],
    ['/messages/x%2Fy', { page: 'message', id: 'x/y', at: '' }], ['/settings', { page: 'settings' }], ['/nope', { page: 'unknown' }], ['/s/%E0%A4%A', { page: 'session', id: '%E0%A4%A', sheet: '', at: 0 }],
    ['/s/abc/at/12', { page: 'session', id: 'abc', sheet: '', at: 12 }], ['/s/abc/at/x', { page: 'session', id: 'abc', sheet: '', at: 0 }], ['/messages/m1/m2', { page: 'message', id: 'm1', at: 'm2' }], ['/search', { page: 'search' }], ['/usage', { page: 'usage' }], ['/schedules/new', { page: 'new-schedule' }], ['/schedules/x', { page: 'schedule', id: 'x' }],
  ])('%s', (path, expected) => expect(parseRoute(path)).toEqual(expected))
})

it('says what makes a policy hold', () => {
  expect(enforcement({ level: 'ask', means: 'prompt' })).toBe('ask, by prompt')
  expect(enforcement({ level: 'deny', means: 'sandbox', note: 'but for /tmp' })).toBe('deny, by sandbox (but for /tmp)')
  expect(enforcement({ level: 'deny', means: 'none' })).toBe('deny, but nothing enforces it')
  expect(enforcement({ level: 'allow', means: 'prompt' })).toBe('allow')
})
