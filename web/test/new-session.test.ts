// @vitest-environment jsdom
/** The form for a new session: what it says of the agent that is chosen. */
import { h, render } from 'preact'
import { expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { hub, load } from './fake-hub'

it('says that an agent never ran there, and only of that one', async () => {
  const { ready } = await load()
  const { NewSession } = await import('../src/sessions/new-session')
  const agents = [{ name: 'gemini', found: true, ready: true, basis: 'tested' }, { name: 'qwen', found: true, ready: true, basis: 'unverified' }, { name: 'cline', found: true, ready: true, basis: 'told' }]
  ready({ nodes: [{ id: 'n', name: 'here', online: true, local: true, agents, default_agent: 'gemini' } as unknown as P.NodeView] })
  Object.assign(HTMLDialogElement.prototype, { showModal() {}, close() {} }) // jsdom has none
  const box = document.body.appendChild(document.createElement('div'))
  render(h(NewSession, {}), box)
  const choose = async (name: number) => {
    box.querySelectorAll<HTMLInputElement>('input[name=agent]')[name]!.click()
    await new Promise((done) => setTimeout(done, 20))
    return box.textContent!.includes('so what it can do is unverified')
  }
  expect([await choose(0), await choose(1), await choose(2)]).toEqual([false, true, false])
})

it('has the prompt first, Start always in sight, and what was used last', async () => {
  hub.storage.set('tieline.last', JSON.stringify({ node: 'n', agent: 'codex', policy: 'edits', cwd: '/home/me/last', models: { codex: 'big', gemini: 'other' } }))
  const { ready } = await load()
  const { NewSession } = await import('../src/sessions/new-session')
  const agents = ['gemini', 'codex'].map((name) => ({ name, found: true, ready: true, features: ['model'] }))
  ready({ nodes: [{ id: 'n', name: 'here', online: true, agents, default_agent: 'gemini', home: '/home/me' } as unknown as P.NodeView], sessions: [{ id: 's', node: 'n', agent: 'codex', cwd: '/home/me/shop', tokens: {} } as unknown as P.SessionRecord] })
  Object.assign(HTMLDialogElement.prototype, { showModal() {}, close() {} }) // jsdom has none
  const box = document.body.appendChild(document.createElement('div'))
  render(h(NewSession, {}), box)
  const field = <T extends Element>(selector: string) => box.querySelector<T>(selector)!
  expect(box.querySelector('form textarea, form input')).toBe(field('textarea'))
  expect(field('.sheet-foot button[type=submit]').getAttribute('form')).toBe('new-session')
  expect(field<HTMLInputElement>('[aria-label=Directory]').value).toBe('/home/me/last')
  expect(field<HTMLInputElement>('input[list^=models-]').value).toBe('big')
  expect([...box.querySelectorAll<HTMLInputElement>('input:checked')].map((one) => one.closest('label')!.textContent)).toEqual(['Codex', 'Editsedits freely, asks before commands and the network'])
  expect(box.querySelector('input[name=node]'), 'there is one machine').toBeNull()
  const recent = [...box.querySelectorAll<HTMLButtonElement>('[aria-label="Recent directories"] button')]
  expect(recent.map((one) => one.textContent)).toEqual(['~/last', '~/shop'])
  recent[1]!.click()
  await vi.waitFor(() => expect(field<HTMLInputElement>('[aria-label=Directory]').value).toBe('/home/me/shop'))
  recent[0]!.click()
  hub.reply = () => [201, { id: 'x' }]
  field<HTMLTextAreaElement>('textarea').value = 'Mend it.'
  field('textarea').dispatchEvent(new Event('input', { bubbles: true }))
  await new Promise((done) => setTimeout(done, 20))
  field<HTMLFormElement>('form').requestSubmit()
  await new Promise((done) => setTimeout(done, 20))
  expect(hub.requests.at(-1)!.body).toMatchObject({ agent: 'codex', cwd: '/home/me/last', policy: 'edits', model: 'big', prompt: 'Mend it.' })
})

it('offers the efforts and models that the agent has, and none where it has none', async () => {
  hub.storage.set('tieline.last', JSON.stringify({ node: 'n', agent: 'codex', policy: 'ask', efforts: { codex: 'high', old: 'gone' } }))
  const { ready } = await load()
  const { NewSession } = await import('../src/sessions/new-session')
  const agents = [
    { name: 'codex', found: true, ready: true, features: ['model', 'effort'], efforts: ['low', 'high'], models: ['big', 'small'] },
    { name: 'old', found: true, ready: true, features: ['model', 'effort'], efforts: ['low'] },
    { name: 'gemini', found: true, ready: true, features: ['model'] },
  ]
  ready({ nodes: [{ id: 'n', name: 'here', online: true, agents, default_agent: 'codex', home: '/home/me' } as unknown as P.NodeView] })
  Object.assign(HTMLDialogElement.prototype, { showModal() {}, close() {} }) // jsdom has none
  const box = document.body.appendChild(document.createElement('div'))
  render(h(NewSession, {}), box)
  const painted = () => new Promise((done) => setTimeout(done, 20))
  const effort = () => [...box.querySelectorAll('label')].find((one) => one.textContent!.startsWith('Effort'))?.querySelector('select')
  const levels = () => [...effort()!.options].map((one) => one.value)
  expect([effort()!.value, levels()]).toEqual(['high', ['', 'low', 'high']])
  expect([...box.querySelectorAll<HTMLOptionElement>('[id^=models-] option')].map((one) => one.value)).toEqual(['big', 'small'])
  const choose = async (at: number) => {
    box.querySelectorAll<HTMLInputElement>('input[name=agent]')[at]!.click()
    await painted()
  }
  await choose(1)
  expect([effort()!.value, levels()]).toEqual(['', ['', 'low']]) // what it no longer has is not sent
  await choose(2)
  expect(effort()).toBeUndefined()
  await choose(0)
  effort()!.value = 'low'
  effort()!.dispatchEvent(new Event('change', { bubbles: true }))
  await painted()
  hub.reply = () => [201, { id: 'x' }]
  box.querySelector<HTMLFormElement>('form')!.requestSubmit()
  await painted()
  expect(hub.requests.at(-1)!.body).toMatchObject({ agent: 'codex', effort: 'low' })
  expect(JSON.parse(hub.storage.get('tieline.last')!)).toMatchObject({ efforts: { codex: 'low', old: 'gone' } })
})

it('asks an agent for its models when its list is missing or old, says how old it is, and keeps to the efforts of the model', async () => {
  hub.storage.set('tieline.last', JSON.stringify({ node: 'n', agent: 'codex', policy: 'ask' }))
  const { ready } = await load()
  const { NewSession } = await import('../src/sessions/new-session')
  const common = { found: true, ready: true, features: ['model', 'effort'], efforts: ['low', 'high', 'max'] }
  const agents = [
    { ...common, name: 'codex', lists_models: true },
    { ...common, name: 'pi', lists_models: true, models: ['big', 'small'], models_stale: true, models_seen_at: Date.now() / 1000 - 3 * 86400 },
    { ...common, name: 'opencode', lists_models: true, models: ['big', 'small'], model_efforts: { small: ['low'], big: [] }, models_seen_at: Date.now() / 1000 },
    { ...common, name: 'claude-code', models: [] },
  ]
  hub.reply = () => [200, {}]
  ready({ nodes: [{ id: 'n', name: 'here', online: true, agents, default_agent: 'codex', home: '/home/me' } as unknown as P.NodeView] })
  Object.assign(HTMLDialogElement.prototype, { showModal() {}, close() {} }) // jsdom has none
  const box = document.body.appendChild(document.createElement('div'))
  render(h(NewSession, {}), box)
  const painted = () => new Promise((done) => setTimeout(done, 50))
  const asked = () => hub.requests.filter((one) => one.path.endsWith('/models')).map((one) => one.path.split('/').at(-2))
  const efforts = () => [...([...box.querySelectorAll('label')].find((one) => one.textContent!.startsWith('Effort'))?.querySelectorAll('option') ?? [])].map((one) => one.value)
  const choose = async (at: number) => {
    box.querySelectorAll<HTMLInputElement>('input[name=agent]')[at]!.click()
    await painted()
  }
  const type = async (model: string) => {
    const field = box.querySelector<HTMLInputElement>('input[list^=models-]')!
    field.value = model
    field.dispatchEvent(new Event('input', { bubbles: true }))
    await painted()
  }
  for (const at of [0, 1, 2, 3]) await choose(at)
  expect(asked(), 'not the one that told it lately, nor the one that tells it in a session only').toEqual(['codex', 'pi'])
  await choose(1)
  expect(box.textContent).toContain('The list is from 3 d ago')
  await choose(2)
  expect(box.textContent).not.toContain('The list is from')
  expect(efforts()).toEqual(['', 'low', 'high', 'max'])
  await type('small')
  expect(efforts()).toEqual(['', 'low'])
  await type('big')
  expect(efforts(), 'it takes none').toEqual([])
  expect(box.textContent).not.toContain('Not among the models')
  await type('bigger')
  expect(box.textContent).toContain('Not among the models that OpenCode lists')
  expect(efforts()).toEqual(['', 'low', 'high', 'max'])
})
