import { describe, expect, it } from 'vitest'
import { toNotification, notificationPath } from '../src/push/notification'
import type { Notice } from '../src/generated/protocol'

const ASK: Notice = {
  kind: 'ask', tag: 'ask-1', title: 'Codex asks for permission', session: 's/1', ask: '1', digest: 'd', at: 100, expires_at: 200,
  actions: [{ action: 'allow', title: 'Allow' }, { action: 'deny', title: 'Deny' }],
}

const WHOLE = { ...ASK, allow: true }

describe('notifications', () => {
  it('offer the actions and replace each other by tag', () => {
    const { options } = toNotification(WHOLE, 150)
    expect(options.actions).toHaveLength(2)
    expect(options).toMatchObject({ tag: 'ask-1', renotify: true, requireInteraction: true, timestamp: 100_000, data: WHOLE })
  })
  it('offer Allow only when they show the whole action', () => {
    for (const one of [ASK, { ...ASK, allow: false }, { ...ASK, allow: 'yes' } as unknown as Notice]) {
      expect(toNotification(one, 150).options.actions?.map(({ action }) => action)).toEqual(['deny'])
    }
  })
  it('offer no actions when the ask has expired', () => {
    const { options } = toNotification(ASK, 201)
    expect(options.actions).toEqual([])
    expect(options.body).toContain('expired')
  })
  it('open the right page', () => {
    expect(notificationPath(ASK)).toBe('/s/s%2F1')
    expect(notificationPath({ kind: 'node', tag: 'n', title: 'x' })).toBe('/settings')
    expect(notificationPath({ kind: 'team', tag: 't', title: 'x', team: '0199' })).toBe('/teams/0199')
  })
})
