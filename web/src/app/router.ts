/** Where the page is: its path. Going back is the browser's own. */
import { computed, signal } from '@preact/signals'

export type Place =
  | { readonly page: 'home' | 'new' | 'settings' | 'messages' | 'inboxes' | 'dead' | 'channels' | 'unknown' }
  | { readonly page: 'session'; readonly id: string; readonly sheet: '' | 'diff' | 'info' }
  | { readonly page: 'message'; readonly id: string }

export function parse(path: string): Place {
  const parts = path.split('/').filter(Boolean).map(safely)
  const [first, second, third] = parts
  if (!first) return { page: 'home' }
  if (first === 's' && second) return { page: 'session', id: second, sheet: third === 'diff' || third === 'info' ? third : '' }
  if (first === 'messages' && second) return { page: 'message', id: second }
  if (!second && (first === 'new' || first === 'settings' || first === 'messages' || first === 'inboxes' || first === 'dead' || first === 'channels')) return { page: first }
  return { page: 'unknown' }
}

function safely(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

const path = signal(location.pathname)
export const place = computed(() => parse(path.value))

export function go(to: string, replace = false): void {
  if (to === location.pathname) return
  history[replace ? 'replaceState' : 'pushState']({ depth: depth() + (replace ? 0 : 1) }, '', to)
  path.value = location.pathname
}

/** Back, or to where back would be when the page was opened right here. */
export function back(to: string): void {
  if (depth() > 0) history.back()
  else go(to, true)
}

function depth(): number {
  return (history.state as { depth?: number } | null)?.depth ?? 0
}

export function session(id: string, sheet = ''): string {
  return `/s/${encodeURIComponent(id)}${sheet && `/${sheet}`}`
}

addEventListener('popstate', () => (path.value = location.pathname))

/** Links inside the page do not load it anew. */
addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  const link = (event.target as Element | null)?.closest?.('a')
  if (!link || link.target || link.origin !== location.origin || !link.dataset.inside) return
  event.preventDefault()
  go(link.pathname)
})
