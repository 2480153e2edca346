/** How this device groups the sessions in its list. */
import { signal } from '@preact/signals'
import type * as P from '../generated/protocol'
import { abbreviateHome } from '../shared/format'
import { loadLocal, saveLocal } from '../shared/local-storage'
import { visibleLine } from '../shared/visible-text'

export type Grouping = 'none' | 'project' | 'machine'
export const grouping = signal<Grouping>(loadLocal<Grouping>('grouping', 'none'))

export function setGrouping(by: Grouping): void {
  grouping.value = by
  saveLocal('grouping', by)
}

const closed = signal<readonly string[]>(loadLocal<string[]>('closed-groups', []))

export const isClosed = (group: string): boolean => closed.value.includes(group)

export function toggleGroup(group: string): void {
  closed.value = closed.peek().includes(group) ? closed.peek().filter((name) => name !== group) : [...closed.peek(), group]
  saveLocal('closed-groups', closed.value)
}

export interface Group {
  readonly key: string
  readonly title: string // empty: without a head
  readonly sessions: readonly P.SessionRecord[]
}

/** The pinned ones first, then the others by project or machine, in the order of their newest. */
export function groupSessions(all: readonly P.SessionRecord[], by: Grouping, isOnTop: (id: string) => boolean, machines: ReadonlyMap<string, P.NodeView>): readonly Group[] {
  const top = all.filter((session) => isOnTop(session.id))
  const groups = new Map<string, { title: string; sessions: P.SessionRecord[] }>()
  for (const session of all) {
    if (isOnTop(session.id)) continue
    const node = machines.get(session.node)
    const key = by === 'project' ? `project ${session.cwd}` : by === 'machine' ? `machine ${session.node}` : ''
    const title = by === 'project' ? visibleLine(abbreviateHome(session.cwd, node?.home)) : by === 'machine' ? visibleLine(node?.name || session.node || 'unknown machine') : top.length ? 'Others' : ''
    const group = groups.get(key)
    if (group) group.sessions.push(session)
    else groups.set(key, { title, sessions: [session] })
  }
  return [...(top.length ? [{ key: 'pinned', title: 'Pinned', sessions: top }] : []), ...[...groups].map(([key, group]) => ({ key, ...group }))]
}
