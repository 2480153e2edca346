// @vitest-environment jsdom
/** The pane of a session: which one is shown, and what its head says. */
import { h, render } from 'preact'
import { expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { hub, load } from './fake-hub'

const painted = () => new Promise((done) => setTimeout(done, 80)) // longer than the hooks wait for a frame

it('shows the session that was opened last, however fast', async () => {
  class Observer { observe() {} unobserve() {} disconnect() {} } // jsdom has none
  vi.stubGlobal('IntersectionObserver', Observer)
  vi.stubGlobal('ResizeObserver', Observer)
  const { store } = await load()
  const { SessionPage: ThreadPane } = await import('../src/sessions/session-page')
  hub.reply = () => [200, { events: [], first: 0, last: 0, more: false }]
  let turns = 0
  const change = () => ['a', 'b'].forEach((id) => store.applyFrame({ type: 'session', session: { id, agent: 'demo', node: 'n', cwd: '/work', title: id, status: 'idle', turns, tokens: {} } as unknown as P.SessionRecord }))
  const box = document.body.appendChild(document.createElement('div'))
  const show = async (id: string) => {
    render(id.trim() && h(ThreadPane, { key: id, id, sheet: '' }), box)
    // The session changes, as when an ask comes up: the pane is drawn again before the browser has painted it.
    turns++
    change()
    await Promise.resolve()
  }
  change()
  for (const path of ['ab', 'aba', 'ab ab', 'a a']) {
    await show('a')
    await painted()
    expect(store.thread.value?.session).toBe('a')
    for (const id of path.slice(1)) await show(id)
    await painted()
    expect(store.thread.value?.session, path).toBe(path.at(-1))
    expect(box.textContent).not.toContain('Loading')
    await show(' ')
    await painted()
    expect(store.thread.value).toBeUndefined()
  }
  render(null, box)
})

it('says why an agent ended, unless the conversation shows it', async () => {
  const { store, ready } = await load()
  const { agentHop: agentLeg } = await import('../src/connection/connection-bar')
  store.connectionState.value = { ...store.connectionState.value, state: 'online' }
  const node = { id: 'n', online: true } as P.NodeView
  const failed = { id: 's', agent: 'codex', status: 'failed', problem: 'no credit\u202e' } as unknown as P.SessionRecord
  expect(agentLeg(failed, node).description).toBe('Codex ended: no credit⟨U+202E⟩. The next prompt starts it again')
  hub.reply = () => [200, { events: [{ type: 'event', session: 's', seq: 1, at: 1, event: { type: 'error', message: failed.problem } }], first: 1, last: 1, more: false }]
  ready()
  await store.openThread('s')
  expect(agentLeg(failed, node).description).toBe('Codex ended. The next prompt starts it again')
})
