/** The asks that need a decision, and the list of all sessions with search and filters. */
import { useState } from 'preact/hooks'
import { route, sessionUrl } from '../app/router'
import { AskCard } from '../asks/ask-card'
import type * as P from '../generated/protocol'
import { STATE_LABELS, agentName, ago, cost, sessionState, sessionTitle, type SessionState } from '../shared/format'
import { visibleLine } from '../shared/visible-text'
import { loaded, nodes, now, visibleAsks, sessions, unread } from '../store/store'
import { WaitingTeam, waitingTeams } from '../teams/teams'
import { Empty } from '../ui/components'
import { Icon } from '../ui/icons'

export function NeedsYou() {
  const all = visibleAsks.value
  const open = all.filter((one) => one.status === 'pending').length
  const teams = waitingTeams.value
  if (!all.length && !teams.length) return null
  return (
    <section class="needs" aria-label="Needs you">
      <h2>Needs you {open + teams.length > 0 && <span class="badge" aria-label={`${open + teams.length} waiting`}>{open + teams.length}</span>}</h2>
      <p class="sr" role="status" aria-live="assertive">{open ? `${open} ${open === 1 ? 'decision waits' : 'decisions wait'} for you` : ''}</p>
      {all.map((record) => <AskCard key={record.id} record={record} />)}
      {teams.map((team) => <WaitingTeam key={team.id} team={team} />)}
    </section>
  )
}

type Filter = 'all' | 'active' | 'unread' | 'archived'
const FILTERS: readonly (readonly [Filter, string])[] = [['all', 'All'], ['active', 'Active'], ['unread', 'Unread'], ['archived', 'Archived']]
const ACTIVE: readonly SessionState[] = ['working', 'waiting', 'stuck']

export function filterSessions(all: Iterable<P.SessionRecord>, filter: Filter, query: string, machines: ReadonlyMap<string, P.NodeView>, isUnread: (one: P.SessionRecord) => boolean): P.SessionRecord[] {
  const terms = query.trim().toLowerCase().split(/\s+/).filter(Boolean)
  return [...all]
    .filter((one) => one.archived === (filter === 'archived'))
    .filter((one) => filter !== 'active' || ACTIVE.includes(sessionState(one, machines.get(one.node))))
    .filter((one) => filter !== 'unread' || isUnread(one))
    .filter((one) => {
      const text = [sessionTitle(one), one.agent, agentName(one.agent), one.cwd, one.branch, one.last_line, machines.get(one.node)?.name].join(' ').toLowerCase()
      return terms.every((word) => text.includes(word))
    })
    .sort((one, other) => (other.active_at || other.created_at) - (one.active_at || one.created_at))
}

export function SessionList() {
  const [filter, setFilter] = useState<Filter>('all')
  const [query, setQuery] = useState('')
  const all = [...sessions.value.values()]
  const matches = filterSessions(all, filter, query, nodes.value, (one) => unread(one) > 0)
  if (!all.length && loaded.value) {
    return (
      <Empty icon="sessions" title="No sessions yet">
        <p>Start an agent on one of your machines, watch it work, and decide from here.</p>
        <a class="button primary" href="/new" data-internal="1">New session</a>
      </Empty>
    )
  }
  return (
    <section class="sessions" aria-label="Sessions">
      <div class="list-tools">
        <label class="search"><Icon name="search" /><span class="sr">Search sessions</span>
          <input type="search" value={query} placeholder="Search" onInput={(event) => setQuery(event.currentTarget.value)} />
        </label>
        <div class="filters" role="group" aria-label="Show">
          {FILTERS.map(([name, label]) => <button key={name} type="button" class={filter === name ? 'on' : ''} aria-pressed={filter === name} onClick={() => setFilter(name)}>{label}</button>)}
        </div>
      </div>
      <ul class="session-list">
        {matches.map((session) => <li key={session.id}><SessionRow session={session} /></li>)}
      </ul>
      {!matches.length && loaded.value && <p class="faint center">No matching sessions.</p>}
    </section>
  )
}

function SessionRow({ session }: { session: P.SessionRecord }) {
  const node = nodes.value.get(session.node)
  const shown = sessionState(session, node)
  const count = unread(session)
  const here = route.value
  const current = here.page === 'session' && here.id === session.id
  const spent = cost(session.tokens)
  return (
    <a class={`session ${shown} ${count ? 'unread' : ''}`} href={sessionUrl(session.id)} data-internal="1" aria-current={current ? 'page' : undefined}>
      <span class="agent-mark" data-agent={session.agent} aria-hidden="true">{agentName(session.agent)[0]}</span>
      <span class="session-main">
        <span class="session-top">
          <strong class="ellipsis">{sessionTitle(session)}</strong>
          <span class="faint when">{ago(session.active_at || session.created_at, now.value)}</span>
        </span>
        <span class="session-line ellipsis">{visibleLine(session.status === 'failed' && session.problem ? session.problem : session.last_line || agentName(session.agent))}</span>
        <span class="session-tags">
          <span class={`chip ${shown}`}>{STATE_LABELS[shown]}</span>
          {session.kind === 'attached' && <span class="chip">terminal</span>}
          <span class="faint ellipsis">{visibleLine([agentName(session.agent), node?.name || session.node, session.branch, spent].filter(Boolean).join(' · '))}</span>
          {count > 0 && !current && <span class="badge" aria-label={`${count} unread`}>{count}</span>}
        </span>
      </span>
    </a>
  )
}
