// @vitest-environment jsdom
/** The form for a new session: what it says of the agent that is chosen. */
import { h, render } from 'preact'
import { expect, it } from 'vitest'
import type * as P from '../src/generated/protocol'
import { load } from './fake-hub'

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
    return box.textContent!.includes('unverified until it has')
  }
  expect([await choose(0), await choose(1), await choose(2)]).toEqual([false, true, false])
})
