// @vitest-environment jsdom
/** The queue before the message box, and what a stop asks about it. */
import { h, render } from 'preact'
import { expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { hub, load, settle } from './fake-hub'

const SESSION = { id: 's', agent: 'demo', node: 'n', cwd: '/work', title: 't', status: 'working', kind: 'driven', turns: 1, tokens: {} } as unknown as P.SessionRecord
const PROMPTS = ['first', 'second', 'third'].map((text, place) => ({ id: `p${place}`, session: 's', text, status: 'queued', place, created_at: place }) as P.PromptView)

async function composer(prompts: readonly P.PromptView[] = PROMPTS) {
  vi.stubGlobal('matchMedia', () => ({ matches: true, addEventListener() {} }))
  const { ready } = await load()
  const { Composer } = await import('../src/prompts/composer')
  ready({ sessions: [SESSION], prompts: [...prompts] })
  hub.reply = () => [200, {}]
  hub.requests = []
  const box = document.body.appendChild(document.createElement('div'))
  render(h(Composer, { session: SESSION }), box)
  const button = (name: string) => [...box.querySelectorAll('button')].find((one) => (one.getAttribute('aria-label') ?? one.textContent)!.startsWith(name))
  const press = async (name: string) => {
    button(name)!.click()
    await settle()
    await new Promise((done) => setTimeout(done, 30))
  }
  const sent = () => hub.requests.map(({ method, path, body }) => [method, path.replace('sessions/s/', ''), body])
  return { box, button, press, sent }
}

it('moves a waiting prompt by one place, and none beyond the ends', async () => {
  const { button, press, sent } = await composer()
  expect([button('Earlier: first'), button('Later: third')]).toEqual([undefined, undefined])
  await press('Earlier: third')
  await press('Later: first')
  await press('Later: second')
  expect(sent()).toEqual([['POST', 'prompts/p2/move', { before: 'p1' }], ['POST', 'prompts/p0/move', { before: 'p2' }], ['POST', 'prompts/p1/move', { before: '' }]])
})

it('edits a waiting prompt where it stands', async () => {
  const { box, press, sent } = await composer()
  await press('Edit: second')
  const area = box.querySelector<HTMLTextAreaElement>('[aria-label="Edit the waiting prompt"]')!
  expect(area.value).toBe('second')
  area.value = ' better '
  area.dispatchEvent(new Event('input', { bubbles: true }))
  await settle()
  await press('Save')
  expect(sent()).toEqual([['PATCH', 'prompts/p1', { text: 'better' }]])
})

it('stops at once when nothing waits', async () => {
  const { press, sent } = await composer([])
  await press('Stop')
  expect(sent()).toEqual([['POST', 'abort', {}]])
})

it('asks whether the queue goes on', async () => {
  const goes = await composer()
  await goes.press('Stop')
  expect(goes.sent(), 'nothing is done before it is said').toEqual([])
  expect(goes.box.textContent).toContain('3 prompts wait')
  await goes.press('Do not stop')
  expect(goes.sent()).toEqual([])
  await goes.press('Stop')
  await goes.press('Stop, go on')
  expect(goes.sent()).toEqual([['POST', 'abort', {}]])

  const ends = await composer()
  await ends.press('Stop')
  await ends.press('Stop and empty')
  expect(ends.sent(), 'emptied first, so that none starts meanwhile').toEqual([['DELETE', 'prompts/p0', {}], ['DELETE', 'prompts/p1', {}], ['DELETE', 'prompts/p2', {}], ['POST', 'abort', {}]])
  expect(ends.box.querySelector<HTMLTextAreaElement>('[aria-label="Message"]')!.value, 'nothing that was written is lost').toBe('first\n\nsecond\n\nthird')
})

it('takes no tap where a row has just moved, and every key', async () => {
  const { button, sent } = await composer()
  const { prompts } = await import('../src/store/store')
  prompts.value = new Map(PROMPTS.slice(1).map((one) => [one.id, one]))
  await settle()
  await vi.waitFor(() => expect(button('Remove from the queue: second')!.getAttribute('aria-disabled')).toBe('true'))
  const tap = () => button('Remove from the queue: second')!.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, detail: 1 }))
  tap()
  await settle()
  expect(sent()).toEqual([])
  await vi.waitFor(() => expect(button('Remove from the queue: second')!.getAttribute('aria-disabled')).toBe('false'))
  tap()
  await settle()
  expect(sent()).toEqual([['DELETE', 'prompts/p1', {}]])
})
