/** The page's frame: the list beside the pane on wide screens, one of them at a time on a phone. */
import { effect, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { place, type Place } from '../route'
import { asks, me } from '../store'
import { ConnectionBar } from './connection'
import { NeedsYou, Sessions } from './home'
import { Icon } from './icons'
import { Login } from './login'
import { NewSession } from './newsession'
import { Empty } from './parts'
import { Channels, DeadLetters, Inboxes } from './relay/boxes'
import { Messages, MessageThread } from './relay/threads'
import { Settings } from './settings'
import { ThreadPane } from './threadpane'

/** Why nobody is signed in; undefined while somebody is. */
export const signedOut = signal<string | undefined>(undefined)

effect(() => {
  const count = asks.value.size
  document.title = count ? `(${count}) Tieline` : 'Tieline'
  const badge = navigator as Navigator & { setAppBadge?: (count: number) => Promise<void> }
  void badge.setAppBadge?.(count).catch(() => undefined)
})
effect(() => {
  if (me.value) signedOut.value = undefined
})

const LINKS: readonly (readonly [string, string, string, readonly Place['page'][]])[] = [
  ['/', 'sessions', 'Sessions', ['home', 'session', 'new']],
  ['/messages', 'message', 'Messages', ['messages', 'message', 'inboxes', 'dead', 'channels']],
  ['/settings', 'settings', 'Settings', ['settings']],
]

function Navigation() {
  const waiting = asks.value.size
  return (
    <nav class="nav" aria-label="Main">
      {LINKS.map(([to, icon, label, pages]) => (
        <a key={to} href={to} data-inside="1" aria-current={pages.includes(place.value.page) ? 'page' : undefined}>
          <Icon name={icon} /><span>{label}</span>
          {to === '/' && waiting > 0 && <span class="badge" aria-label={`${waiting} waiting for you`}>{waiting}</span>}
        </a>
      ))}
    </nav>
  )
}

function Pane({ at }: { at: Place }) {
  switch (at.page) {
    case 'session': return <ThreadPane key={at.id} id={at.id} sheet={at.sheet} />
    case 'settings': return <Settings />
    case 'messages': return <Messages />
    case 'message': return <MessageThread id={at.id} />
    case 'inboxes': return <Inboxes />
    case 'dead': return <DeadLetters />
    case 'channels': return <Channels />
    case 'unknown': return <main class="pane"><Empty icon="search" title="There is nothing here"><a class="button" href="/" data-inside="1">All sessions</a></Empty></main>
    default: return <main class="pane welcome"><Empty icon="sessions" title="Choose a session"><p>Or start a new one.</p><a class="button primary" href="/new" data-inside="1">New session</a></Empty></main>
  }
}

export function App() {
  const at = place.value
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === '/' && !(event.target as Element).closest('input, textarea, select')) {
        event.preventDefault()
        document.querySelector<HTMLInputElement>('.search input')?.focus()
      }
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  if (signedOut.value !== undefined) return <Login problem={signedOut.value} />
  const list = at.page === 'home' || at.page === 'new'
  return (
    <div class={list ? 'app at-list' : 'app at-pane'} data-page={at.page}>
      <a class="skip" href="#pane" onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>('main')?.focus() }}>To the content</a>
      <aside class="side" aria-label="Sessions and decisions">
        <header class="side-head">
          <a href="/" data-inside="1" class="brand"><img src="/icons/icon.svg" alt="" width="26" height="26" /> Tieline</a>
          <a class="button primary small-button" href="/new" data-inside="1"><Icon name="plus" /> New</a>
        </header>
        <ConnectionBar />
        <div class="side-scroll">
          <NeedsYou />
          <Sessions />
        </div>
      </aside>
      <Pane at={at} />
      <Navigation />
      {at.page === 'new' && <NewSession />}
    </div>
  )
}
