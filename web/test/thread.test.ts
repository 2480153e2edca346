import { describe, expect, it } from 'vitest'
import type * as P from '../src/generated/protocol'
import { Thread, type AnyEvent, type Content } from '../src/thread/thread'

const frame = (seq: number, event: AnyEvent): P.EventFrame => ({ type: 'event', seq, session: 's', at: seq, event })
const contents = (thread: Thread): Content[] => thread.items.value.map((item) => item.content.value)
const kinds = (thread: Thread): string[] => contents(thread).map((content) => content.kind)

const TURN: AnyEvent[] = [
  { type: 'turn_started', prompt: 'go' },
  { type: 'thinking', text: 'hm', item: 'a' },
  { type: 'plan', steps: [{ text: 'one', status: 'pending' }] },
  { type: 'text', text: 'hello', item: 'b' },
  { type: 'tool_use', id: 't1', name: 'Bash', action: { kind: 'command', command: 'ls' } },
  { type: 'ask', id: 'q1', kind: 'permission', tool: 't1' },
  { type: 'answer', ask: 'q1', decision: 'allow', by: 'page' },
  { type: 'tool_result', id: 't1', status: 'ok', output: 'x' },
  { type: 'plan', steps: [{ text: 'one', status: 'done' }] },
  { type: 'diff', diff: 'd1' },
  { type: 'diff', diff: 'd2' },
  { type: 'done', status: 'success' },
]
const FRAMES = TURN.map((event, index) => frame(10 + index, event))

describe('a thread', () => {
  it('folds calls and results, asks and answers, plans and diffs', () => {
    const thread = new Thread('s')
    thread.addEvents(FRAMES)
    expect(kinds(thread)).toEqual(['user', 'thinking', 'plan', 'text', 'tool', 'diff', 'done'])
    expect(contents(thread)[2]).toMatchObject({ steps: [{ status: 'done' }] })
    expect(contents(thread)[4]).toMatchObject({ result: { output: 'x' }, ask: { id: 'q1' }, answer: { decision: 'allow', by: 'page' } })
    expect(contents(thread)[5]).toMatchObject({ diff: { diff: 'd2' } })
    expect(thread.working.value).toBe(false)
  })

  it('is the same for any pages in any order', () => {
    const whole = new Thread('s')
    whole.addEvents(FRAMES)
    for (let cut = 1; cut < FRAMES.length; cut++) {
      const thread = new Thread('s')
      thread.addEvents(FRAMES.slice(cut))
      thread.addEvents(FRAMES.slice(0, cut))
      expect(contents(thread)).toEqual(contents(whole))
      expect(thread.lastSeq).toBe(whole.lastSeq)
    }
  })

  it('renders no row again when older events arrive', () => {
    const thread = new Thread('s')
    thread.addEvents(FRAMES.slice(5)) // the tool's call is on the older page
    const before = new Map(thread.items.value.map((item) => [item.key, item.content.value]))
    thread.addEvents([...FRAMES.slice(0, 5), frame(1, { type: 'text', text: 'long ago' })])
    const after = new Map(thread.items.value.map((item) => [item.key, item.content.value]))
    expect([...before.keys()].filter((key) => after.has(key) && before.get(key) !== after.get(key))).toEqual([])
    expect(before.get('ask q1'), 'a row of its own, as long as its tool is not there').toMatchObject({ answer: { decision: 'allow' } })
    expect(after.has('ask q1')).toBe(false)
    expect(after.get('tool #14')).toMatchObject({ result: { output: 'x' }, answer: { decision: 'allow' } })
  })

  it('applies no event twice', () => {
    const thread = new Thread('s')
    thread.addEvents(FRAMES)
    expect(thread.addEvents(FRAMES.slice(3))).toBe(false)
    expect(thread.items.value).toHaveLength(7)
  })

  it('keeps rows and numbers when older rows are inserted', () => {
    const thread = new Thread('s')
    thread.addEvents(FRAMES.slice(6))
    const before = thread.items.value.map((item) => [item.key, item.number] as const)
    thread.addEvents(FRAMES.slice(0, 6))
    const after = new Map(thread.items.value.map((item) => [item.key, item.number]))
    for (const [key, number] of before) if (after.has(key)) expect(after.get(key)).toBe(number)
    const numbers = thread.items.value.map((item) => item.number)
    expect(numbers).toEqual([...numbers].sort((one, other) => one - other))
    expect(numbers[0]).toBeLessThan(0)
  })

  it('shows deltas at once and replaces them by the complete item', () => {
    const thread = new Thread('s')
    thread.addEvents([frame(1, { type: 'turn_started', prompt: 'go' })])
    thread.applyDelta({ type: 'text_delta', text: 'Hel', item: 'b' })
    thread.applyDelta({ type: 'text_delta', text: 'lo', item: 'b' })
    expect(contents(thread)[1]).toEqual({ kind: 'text', text: 'Hello', live: true })
    const key = thread.items.value[1]!.key
    thread.addEvents([frame(2, { type: 'text', text: 'Hello!', item: 'b' })])
    expect(thread.items.value[1]!.key).toBe(key)
    expect(contents(thread)[1]).toEqual({ kind: 'text', text: 'Hello!', live: false })
    thread.applyDelta({ type: 'text_delta', text: 'late', item: 'b' })
    expect(thread.items.value).toHaveLength(2)
    thread.addEvents([frame(0.5, { type: 'turn_started', prompt: 'older' })])
    expect(thread.items.value.map((item) => item.key)).toContain(key)
  })

  it('drops deltas when the turn ends or the connection was lost', () => {
    const thread = new Thread('s')
    thread.addEvents([frame(1, { type: 'turn_started', prompt: 'go' })])
    thread.applyDelta({ type: 'thinking_delta', text: 'x', item: '' })
    thread.discardDeltas()
    expect(kinds(thread)).toEqual(['user'])
    thread.applyDelta({ type: 'text_delta', text: 'x', item: '' })
    thread.addEvents([frame(2, { type: 'done', status: 'interrupted' })])
    expect(kinds(thread)).toEqual(['user', 'done'])
  })

  it('shows the output of a running tool, then its result', () => {
    const thread = new Thread('s')
    thread.addEvents([frame(1, TURN[4]!)])
    thread.applyDelta({ type: 'tool_output', id: 't1', text: 'a' })
    thread.applyDelta({ type: 'tool_output', id: 't1', text: 'b' })
    expect(contents(thread)[0]).toMatchObject({ output: 'ab' })
    thread.addEvents([frame(2, TURN[7]!)])
    expect(contents(thread)[0]).toMatchObject({ output: '', result: { output: 'x' } })
  })

  it('shows a refusal by policy without an ask', () => {
    const thread = new Thread('s')
    thread.addEvents([frame(1, { type: 'answer', ask: 'q', decision: 'deny', by: 'policy', reason: 'no' })])
    expect(kinds(thread)).toEqual(['ask'])
  })

  it('makes a decision a part of its tool’s row, in any order, and leaves an open ask and a question alone', () => {
    const use: AnyEvent = { type: 'tool_use', id: 't1', name: 'Bash', action: { kind: 'command', command: 'ls' } }
    const ask = (kind: P.Ask['kind']): AnyEvent => ({ type: 'ask', id: 'q1', kind, tool: 't1' })
    const answer = (more: Partial<P.Answer> = {}): AnyEvent => ({ type: 'answer', ask: 'q1', decision: 'deny', by: 'Phone', ...more })
    const rows = (...all: AnyEvent[]) => {
      const thread = new Thread('s')
      all.forEach((event, index) => thread.addEvents([frame(index + 1, event)]))
      return thread
    }
    for (const order of [[use, ask('permission'), answer()], [ask('permission'), use, answer()], [ask('permission'), answer(), use], [use, answer({ by: 'policy', tool: 't1' })]]) {
      expect(kinds(rows(...order))).toEqual(['tool'])
      expect(contents(rows(...order))[0]).toMatchObject({ answer: { decision: 'deny' } })
    }
    expect(kinds(rows(use, ask('permission')))).toEqual(['tool', 'ask'])
    expect(kinds(rows(use, ask('question'), answer()))).toEqual(['tool', 'ask'])
    const later = rows(ask('permission'), answer(), TURN[0]!, use)
    expect(kinds(later), 'a call of a later turn with the same id is another').toEqual(['ask', 'user', 'tool'])
    expect(contents(later)[2]).not.toHaveProperty('answer')
  })

  it('keeps what an agent tells one after the other in one row', () => {
    const thread = new Thread('s')
    const notes: AnyEvent[] = [{ type: 'warning', message: 'one' }, { type: 'status', state: 'commands', detail: '/a /b' }, { type: 'warning', message: 'two' }]
    const frames = [...notes, TURN[3]!, notes[0]!].map((event, index) => frame(index + 1, event))
    thread.addEvents(frames)
    expect(kinds(thread)).toEqual(['notes', 'text', 'notes'])
    expect(contents(thread)[0]).toEqual({ kind: 'notes', notes })
    const before = contents(thread)
    thread.addEvents([frame(0.5, TURN[0]!)])
    expect(contents(thread).slice(1).every((content, index) => content === before[index]), 'none is rendered again').toBe(true)
  })

  it('can retry the prompt of a turn that failed, where its error is said', () => {
    const turn = (status: P.Done['status'], ...more: AnyEvent[]) => {
      const thread = new Thread('s')
      thread.addEvents([{ type: 'turn_started', prompt: 'go', id: 'p1' } as const, ...more, { type: 'done', status, error: status === 'success' ? '' : 'no credit' } as const].map((event, index) => frame(index + 1, event)))
      expect(thread.lastPrompt.value).toBe('p1')
      return contents(thread).flatMap((one) => ('retry' in one && one.retry ? [[one.kind, one.retry]] : []))
    }
    const error: AnyEvent = { type: 'error', message: 'no credit' }
    expect(turn('error')).toEqual([['done', 'p1']])
    expect(turn('timeout', error)).toEqual([['error', 'p1']])
    expect(turn('error', error, error)).toEqual([['error', 'p1']])
    expect(turn('success', error)).toEqual([])
    expect(turn('interrupted', error)).toEqual([])
  })

  it('ignores unknown events', () => {
    const thread = new Thread('s')
    thread.addEvents([frame(1, { type: 'other', raw: {} }), frame(2, { type: 'brand_new' } as unknown as AnyEvent)])
    expect(thread.items.value).toEqual([])
    expect(thread.lastSeq).toBe(2)
  })
  it('marks a tool without a result as unfinished when the turn ends', () => {
    const thread = new Thread('s')
    const use = (id: string): AnyEvent => ({ type: 'tool_use', id, name: 'Bash', action: { kind: 'command', command: 'ls' } })
    thread.addEvents([use('before'), TURN[0]!, use('t1')].map((event, index) => frame(index + 1, event)))
    expect(contents(thread)[2]).toMatchObject({ unfinished: false })
    thread.addEvents([frame(4, { type: 'done', status: 'interrupted' })])
    expect(contents(thread).map((one) => one.kind === 'tool' && one.unfinished)).toEqual([false, false, true, false])
  })
  it('keeps a call apart from that of a later turn with the same id', () => {
    const call = (command: string): AnyEvent => ({ type: 'tool_use', id: 'call_0', name: 'Bash', action: { kind: 'command', command } })
    const result = (output: string): AnyEvent => ({ type: 'tool_result', id: 'call_0', status: 'ok', output })
    const events = [TURN[0]!, call('first'), result('1'), { type: 'done', status: 'success' } as const, TURN[0]!, call('second'), call('second, in full'), result('2')]
    const frames = events.map((event, index) => frame(index + 1, event))
    const tools = (thread: Thread) => contents(thread).flatMap((one) => one.kind === 'tool' ? [[(one.use.action as P.Command).command, one.result?.output]] : [])
    for (let cut = 0; cut < frames.length; cut++) {
      const thread = new Thread('s')
      thread.addEvents(frames.slice(cut))
      thread.addEvents(frames.slice(0, cut))
      expect(tools(thread)).toEqual([['first', '1'], ['second, in full', '2']])
    }
    const late = new Thread('s')
    late.addEvents(frames.slice(2, 6))
    expect(tools(late), 'without the result of the earlier turn, whose call lies on an older page').toEqual([['second', undefined]])
    const live = new Thread('s')
    live.addEvents(frames.slice(5, 6))
    live.addEvents(frames.slice(0, 5))
    live.applyDelta({ type: 'tool_output', id: 'call_0', text: 'on its way' })
    expect(contents(live).flatMap((one) => one.kind === 'tool' ? [one.output] : [])).toEqual(['', 'on its way'])
  })
  it('shows an interruption once', () => {
    const thread = new Thread('s')
    const late: AnyEvent = { type: 'error', message: '[ede_diagnostic] result_type=user' }
    thread.addEvents([TURN[0]!, late, { type: 'error', message: 'tried again', recoverable: true }, late, { type: 'done', status: 'interrupted', error: late.message }].map((event, index) => frame(index + 1, event as AnyEvent)))
    expect(kinds(thread)).toEqual(['user', 'error', 'done'])
    expect(contents(thread).at(-1)).toMatchObject({ done: { status: 'interrupted', error: '' } })
  })
  it('shows an error once', () => {
    const turn = (...more: AnyEvent[]) => {
      const thread = new Thread('s')
      thread.addEvents([TURN[0]!, ...more, { type: 'done', status: 'error', error: 'no credit' } as const].map((event, index) => frame(index + 1, event)))
      return contents(thread).slice(1).map((one) => one.kind === 'error' ? one.error.message : one.kind === 'done' ? one.done.error : '')
    }
    expect(turn()).toEqual(['no credit'])
    expect(turn({ type: 'error', message: 'no credit' }, { type: 'error', message: 'no credit' })).toEqual(['no credit', ''])
    expect(turn({ type: 'error', message: 'something else' })).toEqual(['something else', 'no credit'])
  })
})
