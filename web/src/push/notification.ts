/** A push message as a browser notification. */
import type { Notice } from '../generated/protocol'

export interface NotificationContent {
  readonly title: string
  readonly options: NotificationOptions & {
    readonly renotify?: boolean
    readonly timestamp?: number
    readonly actions?: readonly { readonly action: string; readonly title: string }[]
  }
}

/** Whether the notification may have an Allow button: only when the hub says that it shows the whole action. */
export function canAllow(notice: Notice): boolean {
  return notice.allow === true
}

export function toNotification(notice: Notice, now: number): NotificationContent {
  const expired = !!notice.expires_at && notice.expires_at < now
  return {
    title: notice.title,
    options: {
      body: expired ? [notice.body, 'The request has expired.'].filter(Boolean).join('\n') : notice.body ?? '',
      tag: notice.tag,
      renotify: notice.kind === 'ask' || notice.kind === 'team',
      requireInteraction: notice.kind === 'ask' && !expired,
      silent: notice.kind === 'turn' ? null : false,
      timestamp: notice.at ? notice.at * 1000 : undefined,
      icon: '/icons/icon-192.png',
      badge: '/icons/badge-96.png',
      actions: expired ? [] : (notice.actions ?? []).filter(({ action }) => action !== 'allow' || canAllow(notice)),
      data: notice,
    },
  }
}

/** The path that a tap on the notification opens. */
export function notificationPath(notice: Notice): string {
  if (notice.session) return `/s/${encodeURIComponent(notice.session)}`
  if (notice.team) return `/teams/${encodeURIComponent(notice.team)}`
  return notice.kind === 'node' || notice.kind === 'test' ? '/settings' : '/'
}
