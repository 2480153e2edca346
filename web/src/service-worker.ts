/** The service worker: the page opens without a network, pushes become notifications, and these can be answered. */
import { danger } from './asks/danger'
import { readStoredKey } from './auth/device-key'
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
  if (event.request.mode === 'navigate') event.respondWith(document(event.request))
  else if (__SHELL__.includes(url.pathname)) event.respondWith(kept(event.request))
})

/** The page from the hub; when that is away, as it was. */
async function document(request: Request): Promise<Response> {
  try {
    const found = await fetch(request)
    if (found.status < 500) return found
    return (await caches.match('/')) ?? found
  } catch (error) {
    const found = await caches.match('/')
    if (found) return found
    throw error
  }
}

async function kept(request: Request): Promise<Response> {
  return (await caches.match(request)) ?? fetch(request)
}

// --- pushes --------------------------------------------------------------------------------------------------

self.addEventListener('push', (event) => {
  const notice = event.data?.json() as Notice
  const { title, options } = toNotification(notice, Date.now() / 1000)
  event.waitUntil(display(title, options as NotificationOptions))
})

/** The page has seen that it was decided: the notification about it is of no use. */
self.addEventListener('message', (event) => {
  const close = (event.data as { readonly close?: string } | null)?.close
  if (close) event.waitUntil(takeAway(close))
})

// Asked for its notifications while it is about to display one, Chromium forgets that one: it stays on the screen, and a tap
// on it does nothing. So neither happens during the other. Displaying may take long (it loads the icon), and others are not
// kept waiting for it; asking does not.
const displaying = new Set<Promise<void>>()
let asking: Promise<unknown> = Promise.resolve()

/** From here on nobody begins to ask until it is displayed; those who ask already are waited for. */
function display(title: string, options: NotificationOptions): Promise<void> {
  const shown = asking.then(() => self.registration.showNotification(title, options))
  displaying.add(shown)
  return shown.finally(() => displaying.delete(shown))
}

async function takeAway(tag: string): Promise<void> {
  while (displaying.size) await Promise.allSettled(displaying)
  const taken = self.registration.getNotifications({ tag }).then((all) => all.forEach((one) => one.close()))
  asking = Promise.allSettled([asking, taken])
  await taken
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
    const made = change.newSubscription ?? (options && (await self.registration.pushManager.subscribe(options)))
    const { endpoint, keys } = made?.toJSON() ?? {} // without its expirationTime: the hub refuses what it does not know
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

/** Answers exactly what was pushed: the digest says so. What is hard to undo is decided on the page, where it is shown. */
async function decide(notice: Notice, decision: Decision['decision']): Promise<void> {
  const ask = encodeURIComponent(notice.ask ?? '')
  try {
    if (decision === 'allow') {
      if (!canAllow(notice)) return open(notificationPath(notice))
      const found = await fetch(`/api/v1/asks/${ask}`, { credentials: 'omit', headers: await bearer() })
      if (found.ok && danger(((await found.json()) as AskRecord).ask)) return open(notificationPath(notice))
    }
    const answer = await post(`asks/${ask}/answer`, { decision, digest: notice.digest ?? '' } satisfies Decision)
    if (!answer.ok) throw new Error(((await answer.json()) as { detail?: string }).detail ?? '')
  } catch (error) {
    // Never silently: whoever tapped believes that it is done.
    const why = error instanceof Error && error.message ? error.message : 'The hub cannot be reached.'
    await display('That was not delivered', { body: why, tag: notice.tag, data: notice, icon: '/icons/icon-192.png' })
  }
}

async function post(path: string, body: unknown): Promise<Response> {
  const headers = { ...(await bearer()), 'Content-Type': 'application/json', 'Idempotency-Key': crypto.randomUUID() }
  return fetch(`/api/v1/${path}`, { method: 'POST', headers, credentials: 'omit', body: JSON.stringify(body) })
}

async function bearer(): Promise<Record<string, string>> {
  return { Authorization: `Bearer ${await readStoredKey()}` }
}
