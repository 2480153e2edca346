/** What is searched for, as it stands in the address; and the hits, by the conversation that they are in. */
import { eventUrl } from '../app/router'
import type * as P from '../generated/protocol'

export type Kind = P.SearchHit['kind']

export interface Wanted {
  readonly q: string
  readonly kind: Kind | ''
  readonly agent: string
  readonly project: string
  readonly days: number // not older than; 0: from the beginning
}

export const KINDS: readonly (readonly [kind: Kind, name: string, icon: string])[] = [
  ['prompt', 'Prompts', 'send'], ['text', 'Answers', 'sessions'], ['thinking', 'Thoughts', 'thinking'], ['tool', 'Tool calls', 'command'],
  ['output', 'Output', 'list'], ['ask', 'Decisions', 'bell'], ['error', 'Errors', 'warn'], ['message', 'Messages', 'message'],
]
export const PERIODS: readonly (readonly [days: number, name: string])[] = [[0, 'Any time'], [1, 'Last day'], [7, 'Last week'], [30, 'Last month'], [365, 'Last year']]

export function parseWanted(search: string): Wanted {
  const values = new URLSearchParams(search)
  const text = (name: string) => values.get(name) ?? ''
  const kind = KINDS.find(([name]) => name === text('kind'))?.[0] ?? ''
  const days = PERIODS.find(([period]) => String(period) === text('days'))?.[0] ?? 0
  return { q: text('q'), kind, agent: text('agent'), project: text('project'), days }
}

/** The page's own address for it. */
export function searchUrl(wanted: Wanted): string {
  const values = Object.entries(wanted).filter(([, value]) => value).map(([name, value]): [string, string] => [name, String(value)])
  return values.length ? `/search?${new URLSearchParams(values)}` : '/search'
}

/** The hub's. */
export function requestPath({ q, kind, agent, project, days }: Wanted, now: number): string {
  const values: Record<string, string> = { q, limit: '50' }
  if (kind) values.kind = kind
  if (agent) values.agent = agent
  if (project.trim()) values.project = project.trim()
  if (days) values.since = String(Math.floor(now - days * 86400))
  return `search?${new URLSearchParams(values)}`
}

export interface HitGroup {
  readonly key: string
  readonly session: string // empty: a thread of messages
  readonly hits: readonly P.SearchHit[]
}

/** Hits of one conversation together, in the order of their newest. */
export function groupHits(hits: readonly P.SearchHit[]): readonly HitGroup[] {
  const groups = new Map<string, { session: string; hits: P.SearchHit[] }>()
  for (const hit of hits) {
    const key = hit.session ? `session ${hit.session}` : `thread ${hit.thread || hit.message}`
    const group = groups.get(key)
    if (group) group.hits.push(hit)
    else groups.set(key, { session: hit.session ?? '', hits: [hit] })
  }
  return [...groups].map(([key, group]) => ({ key, ...group }))
}

/** Where a hit stands: in its conversation, marked. */
export function hitUrl(hit: P.SearchHit): string {
  if (hit.session) return eventUrl(hit.session, hit.seq ?? 0)
  return `/messages/${encodeURIComponent(hit.thread || hit.message || '')}/${encodeURIComponent(hit.message ?? '')}`
}
