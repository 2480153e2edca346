/** What a push looks like as a notification. Pure. */
import type { Notice } from '../generated/protocol'

export interface NotificationContent {
  readonly title: string
  readonly options: NotificationOptions & {
    readonly renotify?: boolean
    readonly timestamp?: number
    readonly actions?: readonly { readonly action: string; readonly title: string }[]
  }
}

/** Whether it may be allowed from the notification: only where the hub says that all of the action stands on it. */
export function canAllow(notice: Notice): boolean {
  return notice.allow === true
}

export function toNotification(notice: Notice, now: number): NotificationContent {
  const late = !!notice.expires_at && notice.expires_at < now
  return {
    title: notice.title,
    options: {
      body: late ? [notice.body, 'It has expired meanwhile.'].filter(Boolean).join('\n') : notice.body ?? '',
      tag: notice.tag,
      renotify: notice.kind === 'ask',
      requireInteraction: notice.kind === 'ask' && !late,
      silent: notice.kind === 'turn' ? null : false,
      timestamp: notice.at ? notice.at * 1000 : undefined,
      icon: '/icons/icon-192.png',
      badge: '/icons/badge-96.png',
      actions: late ? [] : (notice.actions ?? []).filter(({ action }) => action !== 'allow' || canAllow(notice)),
      data: notice,
    },
  }
}

/** Where a tap on it leads. */
export function notificationPath(notice: Notice): string {
  if (notice.session) return `/s/${encodeURIComponent(notice.session)}`
  return notice.kind === 'node' || notice.kind === 'test' ? '/settings' : '/'
}
