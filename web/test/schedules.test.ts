// @vitest-environment jsdom
/** Schedules on the page: their times in words, what became of their runs, and the form with its preview. */
import { h, render } from 'preact'
import { expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { cronText, momentIn, runResult, until as timeUntil } from '../src/schedules/when'
import { hub, load } from './fake-hub'

const schedule = (more: Partial<P.ScheduleView> = {}) => ({ id: 's1', name: 'triage', cron: '0 9 * * 1-5', once: '', zone: 'Europe/Berlin', agent: 'codex', cwd: '/home/me/shop', node: 'n', prompt: 'triage the issues', overlap: 'skip', missed: 'once', paused: false, policy: { shell: 'deny' }, created_by: 'Phone', next: [Date.now() / 1000 + 7200], runs: [], ...more }) as unknown as P.ScheduleView
const wait = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 5 })
const NODES = [{ id: 'n', name: 'laptop', online: true, local: true, home: '/home/me', default_agent: 'codex', agents: [{ name: 'codex', ready: true, found: true }, { name: 'torn', ready: false, found: true }] }] as unknown as P.NodeView[]

it('says usual times in words, and others as they are', () => {
  const texts: Record<string, string> = {
    '0 9 * * 1-5': 'every weekday at 9:00', '@daily': 'every day at 0:00', '*/30 * * * *': 'every 30 minutes', '5 * * * *': 'every hour at :05', '0 * * * *': 'every hour', '30 22 * * *': 'every day at 22:30', '0 9 * * 1': 'every Monday at 9:00',
    '0 9 1 * *': '0 9 1 * *', '0 9 * 6 *': '0 9 * 6 *', '0 8-18 * * *': '0 8-18 * * *', '*/5 9 * * *': '*/5 9 * * *', '0 * * * 1': '0 * * * 1', nonsense: 'nonsense', '': '', '@reboot': '@reboot',
  }
  for (const [cron, text] of Object.entries(texts)) expect(cronText(cron), cron).toBe(text)
  const noon = Date.UTC(new Date().getUTCFullYear(), 5, 1, 12) / 1000
  expect(momentIn('Europe/Berlin', noon)).toContain('14:00')
  expect(momentIn('no such zone', noon)).toBe(new Date(noon * 1000).toLocaleString(undefined, { weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }))
  expect([timeUntil(110, 100), timeUntil(7300, 100)]).toEqual(['in a moment', 'in 2 h'])
})

it('has words for every end of a run', () => {
  const states: readonly NonNullable<P.ScheduleRun['state']>[] = ['starting', 'waiting', 'running', 'ended', 'failed', 'skipped', 'missed']
  const outcomes: readonly NonNullable<P.ScheduleRun['outcome']>[] = ['success', 'error', 'interrupted', 'max_turns', 'max_budget', 'timeout', 'cancelled', 'indeterminate']
  const run = (more: Partial<P.ScheduleRun>): P.ScheduleRun => ({ id: 'r', schedule: 's1', due_at: 1, ...more })
  const labels = [...states.map((state) => runResult(run({ state })).label), ...outcomes.map((outcome) => runResult(run({ state: 'ended', outcome })).label)]
  expect(new Set(labels).size).toBe(labels.length)
  expect(runResult(run({ state: 'ended', outcome: 'success' })).label).toBe('Done')
})

async function show(path: 'list' | 'new' | 'one') {
  const { ready } = await load()
  const [{ ScheduleList }, { SchedulePage }] = await Promise.all([import('../src/schedules/schedule-list'), import('../src/schedules/schedule-page')])
  ready({ nodes: NODES, sessions: [{ id: 'run1', agent: 'codex', turns: 1 } as unknown as P.SessionRecord] })
  HTMLDialogElement.prototype.showModal = function () { this.open = true }
  HTMLDialogElement.prototype.close = function () { this.open = false }
  const box = document.body.appendChild(document.createElement('div'))
  render(path === 'one' ? h(SchedulePage, { id: 's1' }) : h(ScheduleList, { adding: path === 'new' }), box)
  const button = (name: string) => [...box.querySelectorAll('button')].find((one) => (one.getAttribute('aria-label') ?? one.textContent!.trim()) === name)!
  const type = (label: string, text: string) => {
    const field = [...box.querySelectorAll('label')].find((one) => one.textContent!.startsWith(label))!.querySelector<HTMLInputElement>('input, textarea, select')!
    field.value = text
    field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input', { bubbles: true }))
  }
  return { box, button, type }
}

it('lists them with their next time and last result; runs, pauses, resumes', async () => {
  let all = [schedule({ runs: [{ id: 'r', schedule: 's1', due_at: 1, state: 'failed', problem: 'the machine is off' }] }), schedule({ id: 's2', name: 'old', next: [], once: '2020-01-01 09:00', cron: '' })]
  let refuse = false
  hub.reply = ({ method, path, body }) => {
    if (method === 'GET') return [200, all]
    if (refuse) return [400, { title: 'the run before has not ended', status: 400 }]
    if (method === 'PATCH') all = all.map((one) => (path.endsWith(one.id) ? { ...one, paused: body.paused as boolean, next: [] } : one))
    return [200, {}]
  }
  const { box, button } = await show('list')
  await wait(() => expect(box.querySelectorAll('article').length).toBe(2))
  expect(box.querySelector('article')!.textContent).toContain('in 2 h')
  expect(box.querySelector('article')!.textContent).toContain('Not started')
  expect(box.querySelector('article')!.textContent).toContain('the machine is off')
  expect(box.querySelectorAll('article')[1]!.textContent).toContain('Over')
  expect(button('Pause: old')).toBeUndefined()
  button('Pause: triage').click()
  await wait(() => expect(button('Resume: triage')).toBeDefined())
  expect(hub.requests.find((one) => one.method === 'PATCH')).toMatchObject({ path: 'schedules/s1', body: { paused: true } })
  refuse = true
  button('Run now: triage').click()
  await wait(() => expect(box.querySelector('[role=alert]')!.textContent).toContain('has not ended'))
  refuse = false
  button('Run now: triage').click()
  await wait(() => expect(box.textContent).toContain('Started.'))
  render(null, box)
})

it('shows what is typed as times, and adds it once', async () => {
  let fail = true
  hub.reply = ({ method, path }) => {
    if (path.startsWith('schedule-times')) return path.includes('61') ? [400, { title: '61 is not a minute', status: 400 }] : [200, { next: [1795000000, 1795086400, 1795172800] }]
    if (method === 'POST') return fail ? 'away' : [201, schedule()]
    return [200, []]
  }
  const { box, button, type } = await show('new')
  const next = () => box.querySelector('[aria-label="Next times"]')!
  await wait(() => expect(next().querySelectorAll('li').length).toBe(3))
  for (const typed of ['6', '61', '61 9 * * *']) type('Cron expression', typed)
  await wait(() => expect(next().textContent).toContain('61 is not a minute'))
  expect(hub.requests.filter((one) => one.path.startsWith('schedule-times')).length).toBe(2)
  type('Cron expression', '5 9 * * *')
  await wait(() => expect(next().querySelectorAll('li').length).toBe(3))
  expect([...box.querySelectorAll('option')].map((one) => one.textContent)).not.toContain('torn')
  type('Prompt', 'look around')
  type('Time zone', 'Europe/Berlin')
  await wait(() => expect(button('Add').disabled).toBe(false))
  const submit = () => box.querySelector('form')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }))
  submit()
  await wait(() => expect(box.querySelector('.sheet-foot [role=alert]')).not.toBeNull())
  fail = false
  submit()
  await wait(() => expect(hub.requests.filter((one) => one.method === 'POST').length).toBe(2))
  const [first, second] = hub.requests.filter((one) => one.method === 'POST')
  expect(first!.body).toEqual(second!.body)
  expect(first!.key).toBe(second!.key)
  expect(first!.body).toMatchObject({ cron: '5 9 * * *', zone: 'Europe/Berlin', prompt: 'look around', agent: 'codex', node: 'n', cwd: '/home/me', policy: 'ask', overlap: 'skip', missed: 'once' })
  render(null, box)
})

it('shows its runs, edits it, and removes it after a question', async () => {
  hub.reply = ({ method, path }) => {
    if (path.startsWith('schedule-times')) return [200, { next: [] }]
    if (method === 'GET') return [200, schedule({ runs: [{ id: 'r2', schedule: 's1', due_at: 2, state: 'ended', outcome: 'success', session: 'run1', text: 'All \u202e done.' }, { id: 'r1', schedule: 's1', due_at: 1, state: 'ended', outcome: 'error', session: 'gone', problem: 'no credit' }] })]
    return [200, schedule()]
  }
  const { box, button, type } = await show('one')
  await wait(() => expect(box.querySelectorAll('[aria-label="History"] article').length).toBe(2))
  expect([...box.querySelectorAll('[aria-label="History"] a')].map((one) => one.getAttribute('href'))).toEqual(['/s/run1'])
  expect(box.textContent).toContain('All ⟨U+202E⟩ done.')
  expect(box.textContent).toContain('edits: ask, commands: deny, network: ask')
  button('Edit').click()
  await wait(() => expect(box.textContent).toContain('That time is in the past.'))
  type('While the run before', 'queue')
  await wait(() => undefined)
  box.querySelector('form')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }))
  await wait(() => expect(hub.requests.find((one) => one.method === 'PATCH')).toBeDefined())
  const { body } = hub.requests.find((one) => one.method === 'PATCH')!
  expect(body).toEqual({ cron: '0 9 * * 1-5', zone: 'Europe/Berlin', prompt: 'triage the issues', overlap: 'queue', missed: 'once', name: 'triage' }) // the policy stays
  await wait(() => expect(box.querySelector('dialog')).toBeNull())
  button('Remove …').click()
  await wait(() => expect(button('Remove it')).toBeDefined())
  expect(hub.requests.some((one) => one.method === 'DELETE')).toBe(false)
  button('Remove it').click()
  await wait(() => expect(hub.requests.some((one) => one.method === 'DELETE' && one.path === 'schedules/s1')).toBe(true))
  render(null, box)
})
