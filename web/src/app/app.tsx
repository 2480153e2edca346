/** The page's layout: on a desktop navigation, list, content and dock side by side; on a phone one at a time. */
import { effect, signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { Login } from '../auth/login'
import { commandsOfMissingSessions, PendingCommands } from '../commands/pending-commands'
import { ConnectionBar } from '../connection/connection-bar'
import { MemberPage } from '../members/member-page'
import { Members } from '../members/members'
import { Channels } from '../messages/channels'
import { DeadLetters } from '../messages/dead-letters'
import { Inboxes } from '../messages/inboxes'
import { MessageThreads, MessageThread } from '../messages/message-threads'
import { unreadSessions } from '../sessions/marks'
import { NewSession } from '../sessions/new-session'
import { NeedsYou, SessionList } from '../sessions/session-list'
import { SessionPage } from '../sessions/session-page'
import { Settings } from '../settings/settings'
import { asks, me } from '../store/store'
import { NewTeam } from '../teams/new-team'
import { TeamPage } from '../teams/team-page'
import { Teams, waitingTeams } from '../teams/teams'
import { Empty, Pane } from '../ui/components'
import { Icon } from '../ui/icons'
import { lazy } from '../ui/lazy'
import { onKey, overlay } from './actions'
import { columnStyle, isDesktop, Separator } from './columns'
import { route, type Route } from './router'

/** Why the device is signed out; undefined while it is signed in. */
export const signedOut = signal<string | undefined>(undefined)

effect(() => {
  const count = asks.value.size + waitingTeams.value.length
  document.title = `${count ? `(${count}) ` : ''}Tieline${unreadSessions.value ? ` · ${unreadSessions.value} unread` : ''}`
  const badge = navigator as Navigator & { setAppBadge?: (count: number) => Promise<void> }
  void badge.setAppBadge?.(count).catch(() => undefined)
})
effect(() => {
  if (me.value) signedOut.value = undefined
})

const LINKS: readonly (readonly [string, string, string, readonly Route['page'][]])[] = [
  ['/', 'sessions', 'Sessions', ['home', 'session', 'new']],
  ['/teams', 'members', 'Teams', ['teams', 'team', 'new-team']],
  ['/messages', 'message', 'Messages', ['messages', 'message', 'members', 'member', 'inboxes', 'dead', 'channels']],
  ['/schedules', 'clock', 'Schedules', ['schedules', 'schedule', 'new-schedule']],
  ['/usage', 'usage', 'Usage', ['usage']], // on a phone in the settings
  ['/settings', 'settings', 'Settings', ['settings']],
]

const loading = <Pane><p class="loading" role="status">Loading …</p></Pane>
const SearchPage = lazy(() => import('../search/search-page').then((module) => module.SearchPage), loading)
const UsagePage = lazy(() => import('../usage/usage-page').then((module) => module.UsagePage), loading)
const ScheduleList = lazy(() => import('../schedules/schedule-list').then((module) => module.ScheduleList), loading)
const SchedulePage = lazy(() => import('../schedules/schedule-page').then((module) => module.SchedulePage), loading)
const CommandPalette = lazy(() => import('./command-palette').then((module) => module.CommandPalette))
const KeyList = lazy(() => import('./command-palette').then((module) => module.KeyList))

function Navigation() {
  const waiting: Readonly<Record<string, number>> = { '/': asks.value.size, '/teams': waitingTeams.value.length }
  return (
    <nav class="nav" aria-label="Main">
      {LINKS.map(([to, icon, label, pages]) => (
        <a key={to} href={to} data-internal="1" aria-current={pages.includes(route.value.page) || (to === '/settings' && route.value.page === 'usage' && !isDesktop.value) ? 'page' : undefined}>
          <Icon name={icon} /><span>{label}</span>
          {!!waiting[to] && <span class="badge" aria-label={`${waiting[to]} waiting for you`}>{waiting[to]}</span>}
        </a>
      ))}
      {isDesktop.value && (
        <div class="rail-tools">
          <button type="button" class="plain" aria-label="Command palette" title="Command palette (Ctrl+K or ⌘K)" onClick={() => (overlay.value = 'palette')}><Icon name="search" /></button>
          <button type="button" class="plain" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={() => (overlay.value = 'keys')}><Icon name="keyboard" /></button>
        </div>
      )}
    </nav>
  )
}

function Content({ at }: { at: Route }) {
  switch (at.page) {
    case 'session': return <SessionPage key={at.id} id={at.id} sheet={at.sheet} at={at.at} />
    case 'team': return <TeamPage key={at.id} id={at.id} sheet={at.sheet} />
    case 'teams':
    case 'new-team': return <Teams />
    case 'settings': return <Settings />
    case 'messages': return <MessageThreads />
    case 'message': return <MessageThread key={at.id} id={at.id} at={at.at} />
    case 'members': return <Members />
    case 'member': return <MemberPage key={at.id} id={at.id} />
    case 'inboxes': return <Inboxes />
    case 'dead': return <DeadLetters />
    case 'channels': return <Channels />
    case 'search': return <SearchPage />
    case 'usage': return <UsagePage />
    case 'schedules':
    case 'new-schedule': return <ScheduleList adding={at.page === 'new-schedule'} />
    case 'schedule': return <SchedulePage key={at.id} id={at.id} />
    case 'unknown': return <Pane><Empty icon="search" title="Page not found"><a class="button" href="/" data-internal="1">All sessions</a></Empty></Pane>
    default: return <section class="pane welcome" aria-label="No session is open"><Empty icon="sessions" title="Choose a session"><p>Or start a new one. <kbd>Ctrl+K</kbd> finds anything.</p><a class="button primary" href="/new" data-internal="1">New session</a></Empty></section>
  }
}

export function App() {
  const at = route.value
  const list = at.page === 'home' || at.page === 'new'
  const content = () => document.getElementById('content')
  const where = list ? '' : `${at.page === 'new-team' ? 'teams' : at.page === 'new-schedule' ? 'schedules' : at.page} ${'id' in at ? at.id : ''}`
  const before = useRef(where)
  useEffect(() => {
    // The followed link may be gone with its page: keyboard and screen reader continue in the new one.
    if (before.current !== where && !content()?.contains(document.activeElement)) content()?.focus({ preventScroll: true })
    before.current = where
  }, [where])
  useEffect(() => {
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  if (signedOut.value !== undefined) return <Login problem={signedOut.value} />
  return (
    <div class={list ? 'app at-list' : 'app at-pane'} data-page={at.page} style={columnStyle()}>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); content()?.focus() }}>Skip to content</a>
      {/* One element for both roles, so that the list keeps its scroll position. */}
      <div class="side" id={list ? 'content' : 'side'} role={list ? 'main' : 'complementary'} tabIndex={-1} aria-label="Sessions and decisions">
        {list && <h1 class="sr">Sessions</h1>}
        <div class="side-head">
          <a href="/" data-internal="1" class="brand"><img src="/icons/icon.svg" alt="" width="26" height="26" /> Tieline</a>
          <a class="button plain" href="/search" data-internal="1" aria-label="Search everything" title="Search everything (/)" aria-current={at.page === 'search' ? 'page' : undefined}><Icon name="search" /></a>
          <a class="button primary small-button" href="/new" data-internal="1"><Icon name="plus" /> New</a>
        </div>
        <ConnectionBar />
        <div class="side-scroll">
          <NeedsYou />
          <PendingCommands of={commandsOfMissingSessions()} />
          <SessionList />
        </div>
        {isDesktop.value && <Separator column="list" label="Width of the list" controls={list ? 'content' : 'side'} />}
      </div>
      <Content at={at} />
      <Navigation />
      {at.page === 'new' && <NewSession />}
      {at.page === 'new-team' && <NewTeam />}
      {overlay.value === 'palette' && <CommandPalette />}
      {overlay.value === 'keys' && <KeyList />}
    </div>
  )
}
