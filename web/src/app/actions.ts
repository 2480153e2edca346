/** What can be done from the keyboard and the command palette: each action once, with its key and when it is possible. */
import { signal } from '@preact/signals'
import { togglePin } from '../sessions/marks'
import { loadLocal, saveLocal } from '../shared/local-storage'
import { visibleAsks } from '../store/store'
import { dock, isDesktop, setDock, type Panel } from './columns'
import { navigate, route, sessionUrl } from './router'

export interface Action {
  readonly name: string
  readonly icon: string
  readonly group: 'Go to' | 'Session' | 'Page'
  readonly keys?: string // pressed one after the other: "g s"
  readonly possible?: () => boolean
  readonly run: () => void
}

/** Which dialog of the keyboard's is open. */
export const overlay = signal<'' | 'palette' | 'keys'>('')

/** The ask that gets the focus as soon as its card is there. */
export const wantedAsk = signal('')

const openSession = (): string => (route.value.page === 'session' ? route.value.id : '')
const inSession = (): boolean => openSession() !== ''
const element = (selector: string) => document.querySelector<HTMLElement>(selector)

/** Opens a part of a session: docked where there is room, else as a sheet. The same again closes the dock, unless it is to stay. */
export function showPanel(session: string, panel: Panel, stay = false): void {
  if (!isDesktop.peek()) navigate(sessionUrl(session, panel))
  else setDock(dock.peek() === panel && !stay ? '' : panel)
}

function moveInList(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLAnchorElement>('.session-list .session')]
  const at = rows.findIndex((row) => row.getAttribute('aria-current'))
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by]
  if (!next) return
  next.scrollIntoView({ block: 'nearest' })
  navigate(next.pathname)
}

/** Those of the open session first, then the oldest. */
const pendingAsks = () => {
  const all = visibleAsks.value.filter((record) => record.status === 'pending')
  const here = openSession()
  return [...all.filter((record) => record.session === here), ...all.filter((record) => record.session !== here)]
}

function nextDecision(): void {
  const all = pendingAsks()
  const focused = (document.activeElement as HTMLElement | null)?.closest<HTMLElement>('.ask')?.dataset.ask
  const next = all[(all.findIndex((record) => record.id === focused) + 1) % all.length]
  if (next) goToAsk(next.session, next.id)
}

export function goToAsk(session: string, ask: string): void {
  wantedAsk.value = ask
  if (isDesktop.peek() || route.peek().page !== 'home') navigate(sessionUrl(session)) // a phone's list has the card itself
}

function openSearch(): void {
  if (route.peek().page === 'search') element('.search-field input')?.focus()
  else navigate('/search')
}

const go = (name: string, icon: string, to: string, keys: string): Action => ({ name, icon, group: 'Go to', keys, run: () => navigate(to) })

export const ACTIONS: readonly Action[] = [
  { name: 'New session', icon: 'plus', group: 'Page', keys: 'n', run: () => navigate('/new') },
  { name: 'New team', icon: 'members', group: 'Page', run: () => navigate('/teams/new') },
  { name: 'New schedule', icon: 'clock', group: 'Page', run: () => navigate('/schedules/new') },
  { name: 'Search everything', icon: 'search', group: 'Page', keys: '/', run: openSearch },
  { name: 'Filter the sessions', icon: 'list', group: 'Page', keys: 'f', possible: () => !!element('.list-tools input')?.checkVisibility(), run: () => element('.list-tools input')?.focus() },
  { name: 'Next decision', icon: 'bell', group: 'Session', keys: 'a', possible: () => pendingAsks().length > 0, run: nextDecision },
  { name: 'Next session', icon: 'down', group: 'Session', keys: 'j', run: () => moveInList(1) },
  { name: 'Previous session', icon: 'up', group: 'Session', keys: 'k', run: () => moveInList(-1) },
  { name: 'Write to the agent', icon: 'edit', group: 'Session', keys: 'r', possible: () => inSession() && !!element('.composer textarea'), run: () => element('.composer textarea')?.focus() },
  { name: 'Changes', icon: 'diff', group: 'Session', keys: 'd', possible: inSession, run: () => showPanel(openSession(), 'diff') },
  { name: 'About this session', icon: 'more', group: 'Session', keys: 'i', possible: inSession, run: () => showPanel(openSession(), 'info') },
  { name: 'Stop the agent', icon: 'stop', group: 'Session', keys: 'x', possible: () => !!element('.composer .stop'), run: () => element('.composer .stop')?.click() },
  { name: 'Pin or unpin', icon: 'pin', group: 'Session', keys: 'p', possible: inSession, run: () => togglePin(openSession()) },
  go('Sessions', 'sessions', '/', 'g s'),
  go('Teams', 'members', '/teams', 'g t'),
  go('Messages', 'message', '/messages', 'g m'),
  go('Members', 'members', '/members', 'g p'),
  go('Dead letters', 'dead', '/dead', 'g d'),
  go('Schedules', 'clock', '/schedules', 'g c'),
  go('Usage', 'usage', '/usage', 'g u'),
  go('Settings', 'settings', '/settings', 'g e'),
  { name: 'Keyboard shortcuts', icon: 'list', group: 'Page', keys: '?', run: () => (overlay.value = 'keys') },
]

/** Whether keys without Ctrl or ⌘ do anything: a person who dictates, or whose hand shakes, switches them off. */
export const singleKeys = signal(loadLocal('single-keys', true))

export function setSingleKeys(on: boolean): void {
  singleKeys.value = on
  saveLocal('single-keys', on)
}

const SEQUENCE_MS = 1500
let begun = ''
let begunAt = 0

/** Handles a key of the whole page. Text boxes keep theirs; while a dialog is open, so does the dialog. */
export function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return
  if (event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) {
    event.preventDefault()
    if (overlay.peek()) overlay.value = ''
    else if (!element('dialog[open]')) overlay.value = 'palette'
    return
  }
  const target = event.target instanceof Element ? event.target : document.body
  const typing = target.closest<HTMLElement>('input, textarea, select, [contenteditable]')
  if (typing) {
    if (event.key === 'Escape' && !target.closest('dialog')) typing.blur() // from here on the keys work
    return
  }
  if (!singleKeys.peek() || event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.key.length !== 1 || element('dialog[open]')) return
  const button = askButton(target, event.key)
  const keys = begun && event.timeStamp - begunAt < SEQUENCE_MS ? `${begun} ${event.key}` : event.key
  begun = ''
  const action = ACTIONS.find((candidate) => candidate.keys === keys && (candidate.possible?.() ?? true))
  if (button) button.click()
  else if (action) action.run()
  else if (ACTIONS.some((candidate) => candidate.keys?.startsWith(`${keys} `))) {
    begun = keys
    begunAt = event.timeStamp
    return
  } else return
  event.preventDefault()
}

/** In a focused card: `y` allows what is shown whole and need not be held, `n` begins to deny. */
function askButton(target: Element, key: string): HTMLButtonElement | null {
  const card = target.closest('.ask')
  if (!card || (key !== 'y' && key !== 'n')) return null
  return card.querySelector<HTMLButtonElement>(key === 'y' ? 'button.allow:not(.hold)' : '.ask-buttons button.deny')
}
