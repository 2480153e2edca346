import { describe, expect, it } from 'vitest'
import type * as P from '../src/protocol'
import { Thread, type AnyEvent, type Content } from '../src/thread'

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
    thread.take(FRAMES)
    expect(kinds(thread)).toEqual(['user', 'thinking', 'plan', 'text', 'tool', 'ask', 'diff', 'done'])
    expect(contents(thread)[2]).toMatchObject({ steps: [{ status: 'done' }] })
    expect(contents(thread)[4]).toMatchObject({ result: { output: 'x' } })
    expect(contents(thread)[5]).toMatchObject({ answer: { decision: 'allow' } })
    expect(contents(thread)[6]).toMatchObject({ diff: { diff: 'd2' } })
    expect(thread.working.value).toBe(false)
  })

  it('is the same whatever the pages and their order', () => {
    const whole = new Thread('s')
    whole.take(FRAMES)
    for (let cut = 1; cut < FRAMES.length; cut++) {
      const thread = new Thread('s')
      thread.take(FRAMES.slice(cut))
      thread.take(FRAMES.slice(0, cut))
      expect(contents(thread)).toEqual(contents(whole))
      expect(thread.last).toBe(whole.last)
    }
  })

  it('draws nothing anew because older events come before it', () => {
    const thread = new Thread('s')
    thread.take(FRAMES.slice(5)) // the tool's call is on the older page
    const before = new Map(thread.items.value.map((item) => [item.key, item.content.value]))
    thread.take([...FRAMES.slice(0, 5), frame(1, { type: 'text', text: 'long ago' })])
    const after = new Map(thread.items.value.map((item) => [item.key, item.content.value]))
    expect([...before.keys()].filter((key) => after.has(key) && before.get(key) !== after.get(key))).toEqual([])
    expect(after.get('ask q1')).toBe(before.get('ask q1'))
    expect(after.get('tool t1')).toMatchObject({ result: { output: 'x' } })
  })

  it('takes nothing twice', () => {
    const thread = new Thread('s')
    thread.take(FRAMES)
    expect(thread.take(FRAMES.slice(3))).toBe(false)
    expect(thread.items.value).toHaveLength(8)
  })

  it('keeps rows and their numbers when older ones come before them', () => {
    const thread = new Thread('s')
    thread.take(FRAMES.slice(6))
    const before = thread.items.value.map((item) => [item.key, item.number] as const)
    thread.take(FRAMES.slice(0, 6))
    const after = new Map(thread.items.value.map((item) => [item.key, item.number]))
    for (const [key, number] of before) if (after.has(key)) expect(after.get(key)).toBe(number)
    const numbers = thread.items.value.map((item) => item.number)
    expect(numbers).toEqual([...numbers].sort((one, other) => one - other))
    expect(numbers[0]).toBeLessThan(0)
  })

  it('shows deltas at once and lets the whole item take their place', () => {
    const thread = new Thread('s')
    thread.take([frame(1, { type: 'turn_started', prompt: 'go' })])
    thread.delta({ type: 'text_delta', text: 'Hel', item: 'b' })
    thread.delta({ type: 'text_delta', text: 'lo', item: 'b' })
    expect(contents(thread)[1]).toEqual({ kind: 'text', text: 'Hello', live: true })
    const key = thread.items.value[1]!.key
    thread.take([frame(2, { type: 'text', text: 'Hello!', item: 'b' })])
    expect(thread.items.value[1]!.key).toBe(key)
    expect(contents(thread)[1]).toEqual({ kind: 'text', text: 'Hello!', live: false })
    thread.delta({ type: 'text_delta', text: 'late', item: 'b' })
    expect(thread.items.value).toHaveLength(2)
    thread.take([frame(0.5, { type: 'turn_started', prompt: 'older' })])
    expect(thread.items.value.map((item) => item.key)).toContain(key)
  })

  it('drops what was only announced when the turn ends or the connection was away', () => {
    const thread = new Thread('s')
    thread.take([frame(1, { type: 'turn_started', prompt: 'go' })])
    thread.delta({ type: 'thinking_delta', text: 'x', item: '' })
    thread.forget()
    expect(kinds(thread)).toEqual(['user'])
    thread.delta({ type: 'text_delta', text: 'x', item: '' })
    thread.take([frame(2, { type: 'done', status: 'interrupted' })])
    expect(kinds(thread)).toEqual(['user', 'done'])
  })

  it('shows the output of a running tool, and its end only afterwards', () => {
    const thread = new Thread('s')
    thread.take([frame(1, TURN[4]!)])
    thread.delta({ type: 'tool_output', id: 't1', text: 'a' })
    thread.delta({ type: 'tool_output', id: 't1', text: 'b' })
    expect(contents(thread)[0]).toMatchObject({ output: 'ab' })
    thread.take([frame(2, TURN[7]!)])
    expect(contents(thread)[0]).toMatchObject({ output: '', result: { output: 'x' } })
  })

  it('says when the policy refused something that was never asked', () => {
    const thread = new Thread('s')
    thread.take([frame(1, { type: 'answer', ask: 'q', decision: 'deny', by: 'policy', reason: 'no' })])
    expect(kinds(thread)).toEqual(['ask'])
  })

  it('leaves unknown events alone', () => {
    const thread = new Thread('s')
    thread.take([frame(1, { type: 'other', raw: {} }), frame(2, { type: 'brand_new' } as unknown as AnyEvent)])
    expect(thread.items.value).toEqual([])
    expect(thread.last).toBe(2)
  })
  it('says of a tool that has not told its result when the turn ends that it does not run any more', () => {
    const thread = new Thread('s')
    const use = (id: string): AnyEvent => ({ type: 'tool_use', id, name: 'Bash', action: { kind: 'command', command: 'ls' } })
    thread.take([use('before'), TURN[0]!, use('t1')].map((event, index) => frame(index + 1, event)))
    expect(contents(thread)[2]).toMatchObject({ over: false })
    thread.take([frame(4, { type: 'done', status: 'interrupted' })])
    expect(contents(thread).map((one) => one.kind === 'tool' && one.over)).toEqual([false, false, true, false])
  })
})
