/** Routes by the URL's path, on the browser's own history. */
import { computed, signal } from '@preact/signals'

export type Route =
  | { readonly page: 'home' | 'new' | 'settings' | 'members' | 'messages' | 'inboxes' | 'dead' | 'channels' | 'teams' | 'new-team' | 'search' | 'usage' | 'schedules' | 'new-schedule' | 'unknown' }
  | { readonly page: 'session'; readonly id: string; readonly sheet: '' | 'diff' | 'info'; readonly at: number } // at: the event that it is opened at; 0: the latest
  | { readonly page: 'team'; readonly id: string; readonly sheet: '' | 'info' }
  | { readonly page: 'message'; readonly id: string; readonly at: string }
  | { readonly page: 'member' | 'schedule'; readonly id: string }

export function parseRoute(path: string): Route {
  const parts = path.split('/').filter(Boolean).map(decodeSegment)
  const [first, second, third, fourth] = parts
  if (!first) return { page: 'home' }
  if (first === 's' && second) return { page: 'session', id: second, sheet: third === 'diff' || third === 'info' ? third : '', at: third === 'at' ? Number(fourth) || 0 : 0 }
  if (first === 'teams' && second === 'new' && !third) return { page: 'new-team' }
  if (first === 'teams' && second) return { page: 'team', id: second, sheet: third === 'info' ? third : '' }
  if (first === 'messages' && second) return { page: 'message', id: second, at: third ?? '' }
  if (first === 'schedules' && second && !third) return second === 'new' ? { page: 'new-schedule' } : { page: 'schedule', id: second }
  if (first === 'members' && second) return { page: 'member', id: second }
  if (!second && (first === 'new' || first === 'settings' || first === 'members' || first === 'messages' || first === 'inboxes' || first === 'dead' || first === 'channels' || first === 'teams' || first === 'search' || first === 'usage' || first === 'schedules')) return { page: first }
  return { page: 'unknown' }
}

function decodeSegment(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

const path = signal(location.pathname)
export const route = computed(() => parseRoute(path.value))

export function navigate(to: string, replace = false): void {
  if (to === location.pathname) return
  history[replace ? 'replaceState' : 'pushState']({ depth: depth() + (replace ? 0 : 1) }, '', to)
  path.value = location.pathname
}

/** Goes back, or to the parent page when the page was opened at this URL. */
export function back(to: string): void {
  if (depth() > 0) history.back()
  else navigate(to, true)
}

function depth(): number {
  return (history.state as { depth?: number } | null)?.depth ?? 0
}

export function sessionUrl(id: string, sheet = ''): string {
  return `/s/${encodeURIComponent(id)}${sheet && `/${sheet}`}`
}

/** A session, opened at one of its events. */
export function eventUrl(session: string, seq: number): string {
  return `${sessionUrl(session)}/at/${seq}`
}

export function teamUrl(id: string, sheet = ''): string {
  return `/teams/${encodeURIComponent(id)}${sheet && `/${sheet}`}`
}

addEventListener('popstate', () => (path.value = location.pathname))

/** Internal links change the route without loading the page again. */
addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  const link = (event.target as Element | null)?.closest?.('a')
  if (!link || link.target || link.origin !== location.origin || !link.dataset.internal) return
  event.preventDefault()
  navigate(link.pathname)
})
