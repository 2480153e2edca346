/** This browser's push subscription: enable, disable, test. */
import { signal } from '@preact/signals'
import { get, post, remove } from '../api/client'
import type * as P from '../generated/protocol'

export type PushState = 'unknown' | 'unsupported' | 'off' | 'on' | 'blocked'
export const pushState = signal<PushState>('unknown')
export const pushView = signal<P.PushView | undefined>(undefined)

const pushSupported = () => 'serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window

export async function refreshPushState(): Promise<void> {
  if (!pushSupported()) { pushState.value = 'unsupported'; return }
  if (Notification.permission === 'denied') { pushState.value = 'blocked'; return }
  const [worker, known] = await Promise.all([navigator.serviceWorker.ready, get<P.PushView[]>('push/subscriptions')])
  pushView.value = (await worker.pushManager.getSubscription()) ? known[0] : undefined
  pushState.value = pushView.value ? 'on' : 'off'
}

export async function enablePush(content: boolean): Promise<void> {
  if ((await Notification.requestPermission()) !== 'granted') { pushState.value = Notification.permission === 'denied' ? 'blocked' : 'off'; return }
  const worker = await navigator.serviceWorker.ready
  const { key } = await get<P.PushKey>('push/key')
  let before = await worker.pushManager.getSubscription()
  if (before && !pushView.value) {
    await before.unsubscribe() // of another hub's key, or dropped by the hub because it had failed
    before = null
  }
  const subscription = before ?? (await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: decodeBase64Url(key) }))
  const { endpoint, keys } = subscription.toJSON()
  const body: P.PushSubscription = { endpoint: endpoint!, keys: { p256dh: keys!.p256dh!, auth: keys!.auth! }, content }
  pushView.value = await post<P.PushView>('push/subscriptions', body)
  pushState.value = 'on'
}

export async function disablePush(): Promise<void> {
  const worker = await navigator.serviceWorker.ready
  await (await worker.pushManager.getSubscription())?.unsubscribe()
  if (pushView.value) await remove(`push/subscriptions/${encodeURIComponent(pushView.value.id)}`)
  pushView.value = undefined
  pushState.value = 'off'
}

export const testPush = () => post<P.PushTest>('push/test')

function decodeBase64Url(text: string): Uint8Array<ArrayBuffer> {
  const plain = atob(text.replace(/-/g, '+').replace(/_/g, '/').padEnd(Math.ceil(text.length / 4) * 4, '='))
  return Uint8Array.from(plain, (character) => character.charCodeAt(0))
}

/** Closes the notification of a decided ask. The service worker does it, because it knows when it is safe. */
export async function closeNotification(tag: string): Promise<void> {
  if (!('serviceWorker' in navigator)) return
  const registration = await navigator.serviceWorker.getRegistration()
  registration?.active?.postMessage({ close: tag })
}
