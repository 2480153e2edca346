// @vitest-environment jsdom
/** The form for a new team: the hub reads its file; what is wrong is shown with its line; it is started once. */
import { h, render } from 'preact'
import { expect, it } from 'vitest'
import type * as P from '../src/generated/protocol'
import { hub, load, settle } from './fake-hub'

const FILE = 'name = "shop"\n\n[[members]]\nagnet = "codex"\n'
const TEAM: P.Team = { name: 'shop', members: [{ name: 'dev', agent: 'codex', cwd: '/home/me' }, { name: 'alice', human: true }] }
const WRONG: P.CheckedTeamFile = { mistakes: [{ line: 4, key: 'members[0].agnet', problem: 'unknown key', hint: 'Did you mean agent?' }] }

async function form() {
  const { ready } = await load()
  ready({ nodes: [{ id: 'n', name: 'here', online: true, local: true, home: '/home/me' } as unknown as P.NodeView] })
  const { NewTeam } = await import('../src/teams/new-team')
  Object.assign(HTMLDialogElement.prototype, { showModal() {}, close() {} }) // jsdom has none
  const box = document.body.appendChild(document.createElement('div'))
  render(h(NewTeam, {}), box)
  const [file, task] = box.querySelectorAll('textarea') as unknown as [HTMLTextAreaElement, HTMLTextAreaElement]
  const write = async (field: HTMLTextAreaElement, text: string) => {
    field.value = text
    field.dispatchEvent(new Event('input', { bubbles: true }))
    await settled()
  }
  const press = async (name: string) => {
    ;[...box.querySelectorAll('button')].find((one) => one.textContent === name)!.click()
    await settled()
  }
  return { box, file, task, write, press }
}

const settled = async () => { for (let round = 0; round < 5; round++) await settle() }
const sent = (path: string) => hub.requests.filter((one) => one.path === path)

it('shows mistakes with their lines, and starts nothing', async () => {
  const { box, file, write, press } = await form()
  hub.reply = () => [200, WRONG]
  await write(file, FILE)
  await press('Start')
  expect(sent('team-file')[0]!.body).toEqual({ text: FILE, cwd: '/home/me' })
  expect(sent('teams')).toEqual([])
  expect(box.querySelector('.mistakes')!.textContent).toMatch(/Line 4 members\[0\]\.agnet unknown key\. Did you mean agent\?/)
  expect(file.getAttribute('aria-invalid')).toBe('true')
  await press('Line 4')
  expect(FILE.slice(file.selectionStart, file.selectionEnd)).toBe('agnet = "codex"')
  await write(file, 'name = "shop"')
  expect(box.querySelector('.mistakes')).toBeNull()
})

it('starts the team that the hub has read, and keeps the text until then', async () => {
  const { box, file, task, write, press } = await form()
  let away = true
  hub.reply = ({ path }) => (path === 'team-file' ? [200, { team: TEAM }] : away ? 'away' : [201, { id: 't1' }])
  await write(file, FILE)
  await press('Check')
  expect(box.textContent).toContain('The file is valid: shop, 1 agent and 1 person.')
  expect(sent('teams')).toEqual([])
  await write(task, ' Build it. ')
  await press('Start')
  expect(box.querySelector('[role=alert]')!.textContent).toContain('cannot be reached')
  expect([...hub.storage.values()].join()).toContain('agnet')
  away = false
  await press('Start')
  expect(sent('teams').map((one) => one.body)).toEqual([{ team: TEAM, task: 'Build it.', id: '' }, { team: TEAM, task: 'Build it.', id: '' }])
  expect(new Set(sent('teams').map((one) => one.key)).size).toBe(1)
  expect(location.pathname).toBe('/teams/t1')
})

it('takes a file from the device, unless it is too large for one', async () => {
  const { box, file } = await form()
  const picker = box.querySelector<HTMLInputElement>('input[type=file]')!
  const pick = async (content: string) => {
    const picked = { name: 'team.toml', size: content.length, text: async () => content } // jsdom's File has no text()
    Object.defineProperty(picker, 'files', { value: [picked], configurable: true })
    picker.dispatchEvent(new Event('change', { bubbles: true }))
    await settled()
  }
  await pick(FILE)
  expect(file.value).toBe(FILE)
  await pick('x'.repeat(64_001))
  expect(file.value).toBe(FILE)
  expect(box.querySelector('[role=alert]')!.textContent).toContain('team.toml is not a team file')
})
