/** The service worker: opens the page offline, shows pushes as notifications and answers asks from them. */
import { danger } from './asks/danger'
import { readStoredKey } from './auth/api-key-storage'
import type { AskRecord, Decision, Notice, PushSubscription as Wanted } from './generated/protocol'
import { canAllow, toNotification, notificationPath } from './push/notification'

declare const self: ServiceWorkerGlobalScope
declare const __SHELL__: readonly string[]
declare const __SHELL_VERSION__: string

const CACHE = `shell-${__SHELL_VERSION__}`

self.addEventListener('install', (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll([...__SHELL__])).then(() => self.skipWaiting()))
})

self.addEventListener('activate', (event) => {
  event.waitUntil((async () => {
    for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name)
    await self.clients.claim()
  })())
})

self.addEventListener('fetch', (event) => {
  const url = new URL(event.request.url)
  if (event.request.method !== 'GET' || url.origin !== location.origin || url.pathname.startsWith('/api/')) return
  if (event.request.mode === 'navigate') event.respondWith(fetchPage(event.request))
  else if (__SHELL__.includes(url.pathname)) event.respondWith(cachedOrFetched(event.request))
})

/** The page from the hub, or from the cache when the hub is offline. */
async function fetchPage(request: Request): Promise<Response> {
  try {
    const response = await fetch(request)
    if (response.status < 500) return response
    return (await caches.match('/')) ?? response
  } catch (error) {
    const cached = await caches.match('/')
    if (cached) return cached
    throw error
  }
}

async function cachedOrFetched(request: Request): Promise<Response> {
  return (await caches.match(request)) ?? fetch(request)
}

// --- pushes --------------------------------------------------------------------------------------------------

self.addEventListener('push', (event) => {
  const notice = event.data?.json() as Notice
  const { title, options } = toNotification(notice, Date.now() / 1000)
  event.waitUntil(display(title, options as NotificationOptions))
})

/** The page asks to close the notification of a decided ask. */
self.addEventListener('message', (event) => {
  const close = (event.data as { readonly close?: string } | null)?.close
  if (close) event.waitUntil(closeNotifications(close))
})

// Chromium loses a notification that is being displayed while getNotifications runs: it stays on the screen and a tap does
// nothing. So neither runs during the other. Displaying may take long (it loads the icon) and must not block other displays.
const displaying = new Set<Promise<void>>()
let querying: Promise<unknown> = Promise.resolve()

/** Waits for running queries; new queries wait until the notification is displayed. */
function display(title: string, options: NotificationOptions): Promise<void> {
  const shown = querying.then(() => self.registration.showNotification(title, options))
  displaying.add(shown)
  return shown.finally(() => displaying.delete(shown))
}

async function closeNotifications(tag: string): Promise<void> {
  while (displaying.size) await Promise.allSettled(displaying)
  const closed = self.registration.getNotifications({ tag }).then((all) => all.forEach((one) => one.close()))
  querying = Promise.allSettled([querying, closed])
  await closed
}

self.addEventListener('notificationclick', (event) => {
  const notice = event.notification.data as Notice
  event.notification.close()
  event.waitUntil(event.action === 'allow' || event.action === 'deny' ? decide(notice, event.action) : open(notificationPath(notice)))
})

self.addEventListener('pushsubscriptionchange', (event) => {
  const change = event as ExtendableEvent & { readonly oldSubscription?: PushSubscription; readonly newSubscription?: PushSubscription }
  change.waitUntil((async () => {
    const options = change.oldSubscription?.options
    const subscription = change.newSubscription ?? (options && (await self.registration.pushManager.subscribe(options)))
    const { endpoint, keys } = subscription?.toJSON() ?? {} // without expirationTime: the hub refuses unknown fields
    if (endpoint && keys) await post('push/subscriptions', { endpoint, keys } satisfies Wanted)
  })())
})

async function open(path: string): Promise<void> {
  const all = await self.clients.matchAll({ type: 'window', includeUncontrolled: true })
  const client = all.find((one) => one.visibilityState === 'visible') ?? all[0]
  if (client) {
    client.postMessage({ go: path })
    await client.focus().catch(() => undefined)
  } else await self.clients.openWindow(path)
}

/** Answers exactly the ask that was pushed (by its digest). An action that is hard to undo is decided on the page. */
async function decide(notice: Notice, decision: Decision['decision']): Promise<void> {
  const ask = encodeURIComponent(notice.ask ?? '')
  try {
    if (decision === 'allow') {
      if (!canAllow(notice)) return open(notificationPath(notice))
      const response = await fetch(`/api/v1/asks/${ask}`, { credentials: 'omit', headers: await bearer() })
      if (response.ok && danger(((await response.json()) as AskRecord).ask)) return open(notificationPath(notice))
    }
    const answer = await post(`asks/${ask}/answer`, { decision, digest: notice.digest ?? '' } satisfies Decision)
    if (!answer.ok) throw new Error(((await answer.json()) as { detail?: string }).detail ?? '')
  } catch (error) {
    // Never silently: the person believes that the decision was made.
    const why = error instanceof Error && error.message ? error.message : 'The hub cannot be reached.'
    await display('Decision not delivered', { body: why, tag: notice.tag, data: notice, icon: '/icons/icon-192.png' })
  }
}

async function post(path: string, body: unknown): Promise<Response> {
  const headers = { ...(await bearer()), 'Content-Type': 'application/json', 'Idempotency-Key': crypto.randomUUID() }
  return fetch(`/api/v1/${path}`, { method: 'POST', headers, credentials: 'omit', body: JSON.stringify(body) })
}

async function bearer(): Promise<Record<string, string>> {
  return { Authorization: `Bearer ${await readStoredKey()}` }
}
