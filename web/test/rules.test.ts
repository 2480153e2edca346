// @vitest-environment jsdom
/** "Always allow" on an ask, and the list of rules. */
import { h, render } from 'preact'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { hub, load } from './fake-hub'

const ask: P.Ask = { type: 'ask', id: 'q', kind: 'permission', action: { kind: 'command', command: 'npm test' }, input: { command: 'npm test' } }
const record: P.AskRecord = { id: 'q', session: 's', digest: 'd', ask, status: 'pending', created_at: 1, expires_at: 0, parts: [], answer: null }
const choices: P.RuleChoice[] = [
  { label: 'the command `npm test`, exactly', rule: { match: 'exact', pattern: 'npm test', directory: '/home/me/shop', node: 'n', ask: 'q' } },
  { label: 'commands that begin with `npm test`', rule: { match: 'prefix', pattern: 'npm test', directory: '/home/me/shop', node: 'n', ask: 'q' } },
]
const preview: P.RulePreview = { text: 'would have allowed 2 of the last 60; 1 of them were denied by a person', tested: 60, matched: 2, contradicted: 1, asks: [{ ask: 'a', session: 's', text: 'npm test \u202e', at: 1, decision: 'deny', by: 'Phone', person: true }] }
const rule: P.RuleView = {
  id: 'r1', match: 'prefix', pattern: 'npm test', decision: 'allow', directory: '/home/me/shop', node: '', agent: '', made_by: 'Phone', made_at: 1, ask: '', expires_at: 0, revoked_by: '', revoked_at: 0,
  text: 'allow commands that begin with `npm test`, in /home/me/shop, on every machine', uses: 3, used_at: 2, waiting: [],
}

beforeEach(() => {
  HTMLDialogElement.prototype.showModal = function () { this.open = true }
  HTMLDialogElement.prototype.close = function () { this.open = false }
})

/** Effects run after a paint. */
const until = (holds: () => void) => vi.waitFor(holds, { timeout: 5000 })

async function shown(make: () => Promise<Parameters<typeof render>[0]>) {
  const box = document.body.appendChild(document.createElement('div'))
  render(await make(), box)
  return { box, text: () => box.textContent!, button: (name: string) => [...box.querySelectorAll('button')].find((one) => (one.getAttribute('aria-label') ?? one.textContent!).includes(name)) }
}

describe('always allow', () => {
  it('offers the hub’s choices, shows what each would have decided, saves it and allows the ask', async () => {
    await load()
    hub.reply = ({ method, path }) => path.endsWith('rule-choices') ? [200, choices] : path === 'rules/preview' ? [200, preview] : path === 'rules' && method === 'POST' ? [201, rule] : [200, { id: 'c1', node: 'n', name: 'x', state: 'applied' }]
    const { RuleSheet } = await import('../src/rules/rule-sheet')
    const closed = vi.fn()
    const { box, text, button } = await shown(async () => h(RuleSheet, { record, onClose: closed }))
    await until(() => expect(text()).toContain('would have allowed 2 of the last 60; 1 of them were denied by a person'))
    expect(text()).toContain('the command npm test, exactly')
    expect([...box.querySelectorAll('fieldset code')].map((one) => one.textContent)).toEqual(['npm test', 'npm test'])
    expect(text()).toContain('npm test ⟨U+202E⟩')
    box.querySelectorAll<HTMLInputElement>('input[name=rule]')[1]!.click()
    box.querySelectorAll<HTMLInputElement>('input[name=where]')[1]!.click()
    await until(() => expect(hub.requests.filter(({ path }) => path === 'rules/preview').at(-1)!.body).toMatchObject({ match: 'prefix', directory: '', node: '' }))
    await until(() => expect(button('Save')!.disabled).toBe(false))
    button('Save')!.click()
    await until(() => expect(closed).toHaveBeenCalledOnce())
    expect(hub.requests.find(({ path, method }) => path === 'rules' && method === 'POST')!.body).toEqual({ match: 'prefix', pattern: 'npm test', directory: '', node: '', ask: 'q' })
    await until(() => expect(hub.requests.at(-1)).toMatchObject({ path: 'asks/q/answer', body: { decision: 'allow', digest: 'd' } }))
  })
  it('saves nothing before it was tested, and says what went wrong', async () => {
    await load()
    hub.reply = ({ path }) => path.endsWith('rule-choices') ? [200, choices] : [400, { title: 'x', detail: 'that is no rule', hint: 'Try another.' }]
    const { RuleSheet } = await import('../src/rules/rule-sheet')
    const { text, button } = await shown(async () => h(RuleSheet, { record, onClose: () => undefined }))
    await until(() => expect(text()).toContain('that is no rule Try another.'))
    expect(button('Save')!.disabled).toBe(true)
    hub.reply = () => [200, []]
    const none = await shown(async () => h(RuleSheet, { record, onClose: () => undefined }))
    await until(() => expect(none.text()).toContain('cannot become a rule'))
    expect(none.button('Save')).toBeUndefined()
  })
  it('is offered only where a rule can answer', async () => {
    await load()
    const { AskCard } = await import('../src/asks/ask-card')
    const offered = async (more: Partial<P.Ask>) => (await shown(async () => h(AskCard, { record: { ...record, ask: { ...ask, ...more } } }))).button('Always')
    expect(await offered({})).toBeTruthy()
    expect(await offered({ wider: true })).toBeUndefined()
    expect(await offered({ withheld: 'something' })).toBeUndefined()
    expect(await offered({ kind: 'plan', plan: 'x' })).toBeUndefined()
    expect(await offered({ action: null })).toBeUndefined()
    expect(await offered({ action: { kind: 'command', command: 'rm -rf /' } }), 'hard to undo').toBeUndefined()
    expect(await offered({ action: { kind: 'command', command: 'x\n'.repeat(3000) } }), 'not shown whole').toBeUndefined()
  })
})

describe('the list of rules', () => {
  it('says who, when, how often, who has not heard; and revokes with one tap', async () => {
    await load()
    const revoked = { ...rule, id: 'r2', text: 'deny the command `x`, exactly, in every directory, on every machine', revoked_at: 3, revoked_by: 'owner', waiting: ['laptop'] }
    hub.reply = ({ method }) => method === 'DELETE' ? [200, { ...rule, revoked_at: 4 }] : [200, [rule, revoked]]
    const { Rules } = await import('../src/rules/rules')
    const { box, text, button } = await shown(async () => h(Rules, {}))
    await until(() => expect(text()).toContain('allow commands that begin with npm test, in'))
    expect(text()).toMatch(/made .* by Phone · decided 3 requests in the last day/)
    expect(text()).toContain('It still holds on laptop')
    expect(box.querySelector('details')!.textContent).toContain('revoked')
    button('Revoke: allow commands')!.click()
    await until(() => expect(hub.requests.find(({ method }) => method === 'DELETE')?.path).toBe('rules/r1'))
    expect(button('Revoke: deny')).toBeUndefined()
  })
})
