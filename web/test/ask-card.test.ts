// @vitest-environment jsdom
/** The card of an ask: what it shows, and when it has an Allow. */
import { signal } from '@preact/signals'
import { h, render } from 'preact'
import { beforeAll, describe, expect, it } from 'vitest'
import { excerpt, isLong, partsOf } from '../src/asks/ask-parts'
import type * as P from '../src/generated/protocol'
import type { ThreadItem } from '../src/thread/thread'
import './fake-hub'

let AskCard: typeof import('../src/asks/ask-card').AskCard
let Row: typeof import('../src/thread/thread-rows').ThreadRow
beforeAll(async () => {
  ({ AskCard } = await import('../src/asks/ask-card'));
  ({ ThreadRow: Row } = await import('../src/thread/thread-rows'))
})

const ask = (more: Partial<P.Ask>): P.Ask => ({ type: 'ask', id: 'q', kind: 'permission', ...more })
const record = (one: P.Ask, parts?: readonly P.Part[]): P.AskRecord => ({ id: 'q', session: 's', digest: 'd', ask: one, status: 'pending', created_at: 1, expires_at: 0, parts: parts ?? [], answer: null })

function card(one: P.AskRecord) {
  const box = document.body.appendChild(document.createElement('div'))
  render(h(AskCard, { record: one }), box)
  const button = (name: string) => [...box.querySelectorAll('button')].find((found) => found.textContent!.includes(name))
  return { box, button, text: () => box.textContent!, shown: () => new Promise((done) => setTimeout(done, 20)) }
}

const LONG = `echo first\n${'echo again and again\n'.repeat(1000)}echo MIDDLE\n${'true\n'.repeat(50)}rm LAST`

describe('the card of an ask', () => {
  it('shows an edit whose hunks have no numbers', () => {
    const { text, button } = card(record(ask({ action: { kind: 'edit', paths: ['/x/greeting.py'], diff: '--- a/x/greeting.py\n+++ b/x/greeting.py\n@@ @@\n-old words\n+new words\n' } })))
    expect(text()).toContain('old words')
    expect(text()).toContain('new words')
    expect(text()).toContain('+1−1')
    expect(button('Allow once')).toBeTruthy()
  })
  it('shows the node’s parts, with marks for invisible characters', () => {
    const { box, text } = card(record(ask({ action: { kind: 'command', command: 'ls' } }), [{ label: 'Command', text: 'ls \u202e -la', form: 'code' }, { label: 'Note', text: 'a\u200bb' }]))
    expect(box.querySelector('pre[aria-label=Command]')!.textContent).toBe('ls ⟨U+202E⟩ -la')
    expect(text()).toContain('a⟨U+200B⟩b')
  })
  it('has no Allow before a long command is shown whole, and says how much is missing', async () => {
    const { box, text, button, shown } = card(record(ask({ action: { kind: 'command', command: LONG } })))
    expect(text()).not.toContain('LAST')
    expect(button('Allow')).toBeUndefined()
    expect(box.querySelector('select')).toBeNull()
    expect(button('Deny')).toBeTruthy()
    const seen = box.querySelector('pre')!.textContent!.length
    const lines = LONG.slice(seen + 1).split('\n').length
    expect(text()).toContain(`${(LONG.length - seen).toLocaleString('en')} characters in ${lines.toLocaleString('en')} lines are not shown yet`)
    button('Show all of it')!.click()
    await shown()
    expect(button('Allow once')!.getAttribute('aria-disabled'), 'for a moment: it appears where the thumb may still be').toBe('true')
    expect(box.querySelector('pre')!.textContent).toBe(LONG)
    expect(button('Allow once')).toBeTruthy()
    expect(text()).not.toContain('not shown')
  })
  it('does the same with a long diff', async () => {
    const diff = `--- a/x\n+++ b/x\n@@ -1,0 +1,200 @@\n${Array.from({ length: 200 }, (_, line) => `+line ${line}`).join('\n')}\n`
    const { text, button, shown } = card(record(ask({ action: { kind: 'edit', paths: ['x'], diff } })))
    expect(text()).toContain('+200')
    expect(button('Allow')).toBeUndefined()
    button('Show all of it')!.click()
    await shown()
    expect(text()).toContain('line 199')
    expect(button('Allow once')).toBeTruthy()
  })
  it('shows an action of an unknown kind raw', () => {
    const { text } = card(record(ask({ action: { kind: 'brand_new', target: 'the moon' } as unknown as P.Ask['action'], input: { deep: { er: ['nested'] }, command: 'x' } })))
    for (const one of ['target', 'the moon', 'nested', 'command']) expect(text()).toContain(one)
    expect(card(record(ask({ action: { kind: 'brand_new' } as unknown as P.Ask['action'] }))).text()).toContain('brand_new')
    expect(card(record(ask({ questions: [{ id: '1', text: 'beside a permission' }] }))).text()).toContain('beside a permission')
  })
  it('shows a plan as raw text', () => {
    expect(card(record(ask({ kind: 'plan', plan: '1. [harmless](https://evil.example)\n<!-- and this -->' }))).text()).toContain('[harmless](https://evil.example)\n<!-- and this -->')
  })
  it('shows all of a question', () => {
    const questions: P.Question[] = [{ id: '1', text: 'Which\u200b?', header: 'Colour', choices: [{ id: 'a', label: 'Red', description: 'like \u202ethis' }] }, { id: '2', text: 'And?', header: 'Second' }]
    for (const one of ['Which⟨U+200B⟩?', 'Colour', 'Red', 'like ⟨U+202E⟩this', 'Second', 'why']) expect(card(record(ask({ kind: 'question', questions, reason: 'why' }))).text()).toContain(one)
  })
  it('can only be denied when the agent withholds the action', () => {
    const { text, button } = card(record(ask({ action: { kind: 'edit', paths: ['x'] }, withheld: 'The agent does not tell what it writes.' })))
    expect(text()).toContain('The agent does not tell what it writes.')
    expect(button('Allow')).toBeUndefined()
    expect(button('Deny')).toBeTruthy()
    const question = card(record(ask({ kind: 'question', questions: [{ id: '1', text: 'Which?', choices: [{ id: 'a', label: 'Red' }] }], withheld: 'A part is missing.' })))
    expect([question.button('Red'), question.button('Answer')]).toEqual([undefined, undefined])
    expect(question.button('Deny')).toBeTruthy()
  })
  it('says where it is answered, and has no buttons, when only its terminal takes the answer', () => {
    const at_terminal = 'Answer it there.'
    const questions: P.Question[] = [{ id: '1', text: 'Which?', choices: [{ id: 'a', label: 'Red' }] }]
    for (const one of [ask({ at_terminal, action: { kind: 'command', command: `begin ${'x'.repeat(20_000)} end` } }), ask({ at_terminal, withheld: 'A part is missing.' }), ask({ at_terminal, kind: 'question', questions }), ask({ at_terminal, kind: 'plan', plan: 'Step one' })]) {
      const { box, text } = card(record(one))
      expect(text()).toContain(at_terminal)
      expect(text()).not.toContain('only be denied')
      expect(box.querySelectorAll('button, select, input').length).toBe(0)
    }
    expect(card(record(ask({ at_terminal, kind: 'question', questions }))).text()).toMatch(/Which\?.*Red/s)
    expect(card(record(ask({ at_terminal, action: { kind: 'command', command: `begin ${'x'.repeat(20_000)} end` } }))).text()).toContain(' end')
  })
  it('says on the button what is remembered', async () => {
    const choose = async (one: P.Ask, span: string) => {
      const { box, button, shown } = card(record(one))
      const select = box.querySelector('select')!
      const words = [...select.options].map((option) => option.textContent)
      select.value = span
      select.dispatchEvent(new Event('change', { bubbles: true }))
      await shown()
      return [words, button('Allow')!.textContent]
    }
    const edit = { action: { kind: 'edit', paths: ['x'] } } as const
    expect(await choose(ask({ ...edit, remember: ['session'], scopes: { session: 'all edits in this directory, this session' } }), 'session')).toEqual([
      ['Only this once', 'all edits in this directory, this session'], 'Allow: all edits in this directory, this session',
    ])
    expect(await choose(ask(edit), 'session')).toEqual([['Only this once', 'Exactly this again, in this session'], 'Allow: Exactly this again, in this session'])
    expect((await choose(ask({ ...edit, remember: ['session', 'always'] }), 'always'))[0]).toEqual(['Only this once', 'Whatever the agent counts as the same, in this session', 'Whatever the agent counts as the same, from now on'])
  })
  it('remembers nothing that is hard to undo', () => {
    const { box, button } = card(record(ask({ action: { kind: 'command', command: 'rm -rf /' }, remember: ['session', 'always'], scopes: { session: 'all commands' } })))
    expect(button('Hold to allow')).toBeTruthy()
    expect(box.querySelector('select')).toBeNull()
  })
  it('says who decided elsewhere, and from where', () => {
    const answer: P.Answer = { type: 'answer', ask: 'q', decision: 'allow', by: 'owner', via: 'pid 123 tieline approve' }
    expect(card({ ...record(ask({})), status: 'answered', answer }).text()).toContain('Allowed by owner (pid 123 tieline approve).')
  })
  it('says when a restart prevented an answer', () => {
    const answer: P.Answer = { type: 'answer', ask: 'q', decision: 'deny', by: 'restart', reason: 'Tieline was restarted before anyone answered' }
    expect(card({ ...record(ask({})), status: 'expired', answer }).text()).toContain('Denied: Tieline was restarted before anyone answered.')
    const row = document.body.appendChild(document.createElement('div'))
    render(h(Row, { item: { key: 'k', seq: 1, at: 1, content: signal({ kind: 'ask', ask: ask({ id: 'gone' }), answer }) } as unknown as ThreadItem, session: 's' }), row)
    expect(row.textContent!.match(/restart/g)).toHaveLength(1)
    expect(row.textContent).toContain('Tieline was restarted before anyone answered')
  })
})

describe('an excerpt', () => {
  it('and the rest are the whole text', () => {
    for (const text of [LONG, 'é'.repeat(9000), '😀'.repeat(5000), '\n'.repeat(300), `${'x'.repeat(5000)}\n`]) {
      const { shown, rest } = excerpt(text)
      expect(isLong(text)).toBe(true)
      expect(text.startsWith(shown)).toBe(true)
      expect(rest).toContain(`${([...text].length - [...shown].length).toLocaleString('en')} character`)
    }
  })
})

describe('an ask without its list of parts', () => {
  it('is shown with everything that is in it', () => {
    const one = ask({ reason: 'REASON', title: 'TITLE', plan: 'PLAN', action: { kind: 'mcp', server: 'SERVER', tool: 'TOOL' }, input: { a: [1, { b: 'DEEP' }], c: 'TEXT', d: false } })
    const all = JSON.stringify(partsOf(one))
    for (const word of ['REASON', 'TITLE', 'PLAN', 'SERVER', 'TOOL', 'DEEP', 'TEXT', 'false']) expect(all).toContain(word)
  })
})
