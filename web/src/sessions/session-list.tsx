/** The asks that need a decision, and the list of all sessions with search and filters. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { goToAsk } from '../app/actions'
import { isDesktop } from '../app/columns'
import { route, sessionUrl } from '../app/router'
import { AskCard, Countdown } from '../asks/ask-card'
import { danger } from '../asks/danger'
import type * as P from '../generated/protocol'
import { STATE_LABELS, abbreviateHome, actionSummary, agentName, ago, askHeading, cost, plainLine, sessionState, sessionTitle, type SessionState } from '../shared/format'
import { visibleLine } from '../shared/visible-text'
import { allSessionsLoaded, archivedSessions, nodes, now, pauseCardButtons, visibleAsks, sessions, sessionsByActivity, sessionsLeft } from '../store/store'
import { WaitingTeam, waitingTeams } from '../teams/teams'
import { AgentMark } from '../ui/agent-mark'
import { Empty } from '../ui/components'
import { Icon } from '../ui/icons'
import { grouping, groupSessions, isClosed, setGrouping, toggleGroup, type Group, type Grouping } from './grouping'
import { holdsOrder, ignoreLateTaps, inShownOrder, orderHeld, rowsCame, rowsMoved } from './held-order'
import { isPinned, pinnedSessions, sessionsOnTop, togglePin, unread, unreadSessions } from './marks'

export function NeedsYou() {
  const all = visibleAsks.value
  const open = all.filter((record) => record.status === 'pending').length
  const teams = waitingTeams.value
  const cards = useWhatMoves()
  if (!(isDesktop.value ? open : all.length) && !teams.length) return null
  return (
    <section class="needs" aria-label="Needs you" ref={cards}>
      <h2>Needs you {open + teams.length > 0 && <span class="badge" aria-label={`${open + teams.length} waiting`}>{open + teams.length}</span>}</h2>
      <p class="sr" role="status" aria-live="assertive">{open ? `${open} ${open === 1 ? 'decision waits' : 'decisions wait'} for you` : ''}</p>
      {/* On a desktop the conversation is beside the list: an ask is decided there, and shown once. */}
      {isDesktop.value ? all.filter((record) => record.status === 'pending').map((record) => <AskLink key={record.id} record={record} />) : all.map((record) => <AskCard key={record.id} record={record} />)}
      {teams.map((team) => <WaitingTeam key={team.id} team={team} />)}
    </section>
  )
}

/** A card that becomes shorter or longer moves those below it, and the rows; a line that appears above the list moves all. */
function useWhatMoves() {
  const observer = useRef<ResizeObserver | undefined>(undefined)
  return useCallback((section: HTMLElement | null) => {
    observer.current?.disconnect()
    rowsMoved() // the section appears, or leaves
    if (!section) return
    let began = false // it reports once what it begins with
    observer.current = new ResizeObserver(() => {
      if (began) rowsMoved()
      began = true
      if (!isDesktop.peek()) pauseCardButtons()
    })
    for (const element of [section, section.parentElement!]) observer.current.observe(element)
  }, [])
}

/** Leads to the ask in its conversation. */
function AskLink({ record }: { record: P.AskRecord }) {
  const session = sessions.value.get(record.session)
  const node = nodes.value.get(session?.node ?? '')
  const what = record.ask.kind === 'question' ? visibleLine(record.ask.questions?.[0]?.text ?? '') : actionSummary(record.ask.action, record.ask.title)
  return (
    <a class={`ask ask-link ${danger(record.ask) ? 'danger' : ''}`} href={sessionUrl(record.session)} data-internal="1" data-ask-link={record.id} onClick={() => goToAsk(record.session, record.id)}>
      <span class="row"><strong class="grow ellipsis">{askHeading(record.ask)}</strong>{record.expires_at > 0 && <Countdown until={record.expires_at} />}</span>
      {what && <span class="ellipsis mono">{what}</span>}
      {session && <span class="faint ellipsis small-text">{visibleLine([agentName(session.agent), sessionTitle(session), node?.name || session.node].join(' · '))}</span>}
    </a>
  )
}

type Filter = 'all' | 'active' | 'unread' | 'archived'
const FILTERS: readonly (readonly [Filter, string])[] = [['all', 'All'], ['active', 'Active'], ['unread', 'Unread'], ['archived', 'Archived']]
const ACTIVE: readonly SessionState[] = ['working', 'waiting', 'stuck']

/** The first ones that match, the pinned ones before the others, each in their order. No more are looked at than are needed:
 * there may be 10,000 sessions. */
export function filterSessions(all: Iterable<P.SessionRecord>, pinned: readonly P.SessionRecord[], matches: (session: P.SessionRecord) => boolean, limit: number): P.SessionRecord[] {
  const filtered = pinned.filter(matches)
  const onTop = new Set(pinned)
  for (const session of all) {
    if (filtered.length >= limit) break
    if (!onTop.has(session) && matches(session)) filtered.push(session)
  }
  return filtered
}

function sessionFilter(filter: Filter, query: string, machines: ReadonlyMap<string, P.NodeView>): (session: P.SessionRecord) => boolean {
  const terms = query.trim().toLowerCase().split(/\s+/).filter(Boolean)
  return (session) => {
    if (session.archived !== (filter === 'archived')) return false
    if (filter === 'active' && !ACTIVE.includes(sessionState(session, machines.get(session.node)))) return false
    if (filter === 'unread' && !(unread(session) > 0)) return false
    if (!terms.length) return true
    const text = `${searchText(session)} ${machines.get(session.node)?.name?.toLowerCase() ?? ''}`
    return terms.every((word) => text.includes(word))
  }
}

const searchTexts = new WeakMap<P.SessionRecord, string>()

/** What a search looks at: made once for a record, because each letter of a search looks at all of them. */
function searchText(session: P.SessionRecord): string {
  let text = searchTexts.get(session)
  if (text === undefined) searchTexts.set(session, text = [sessionTitle(session), session.agent, agentName(session.agent), session.cwd, session.branch, session.last_line].join(' ').toLowerCase())
  return text
}

const GROUPINGS: readonly (readonly [Grouping, string])[] = [['none', 'Ungrouped'], ['project', 'By project'], ['machine', 'By machine']]
const PAGE = 100 // rows that are in the document at first; more come when the person scrolls there

export function SessionList() {
  const [filter, setFilter] = useState<Filter>('all')
  const [query, setQuery] = useState('')
  const all = sessionsByActivity.value
  const left = sessionsLeft.value
  const [limit, setLimit] = useState(PAGE)
  const unfiltered = filter === 'all' && !query.trim() // how many there are is known without looking at each
  const matches = filterSessions(all, sessionsOnTop.value, sessionFilter(filter, query, nodes.value), unfiltered ? limit : Infinity)
  const more = (unfiltered ? all.length - archivedSessions.value : matches.length) - limit
  const rows = useHeldOrder(matches.slice(0, limit), [filter, query, grouping.value, ...pinnedSessions.value].join('\n'), limit)
  const shown = groupSessions(rows, grouping.value, isPinned, nodes.value)
  if (!all.length && allSessionsLoaded.value) {
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
        <div class="row">
          <label class="search grow"><Icon name="search" /><span class="sr">Filter sessions</span>
            <input type="search" value={query} placeholder="Filter" onInput={(event) => setQuery(event.currentTarget.value)} />
          </label>
          <select aria-label="Group by" value={grouping.value} onChange={(event) => setGrouping(event.currentTarget.value as Grouping)}>
            {GROUPINGS.map(([name, label]) => <option key={name} value={name}>{label}</option>)}
          </select>
        </div>
        <div class="filters" role="group" aria-label="Show">
          {FILTERS.map(([name, label]) => <button key={name} type="button" class={filter === name ? 'on' : ''} aria-pressed={filter === name} onClick={() => setFilter(name)}>{label}{name === 'unread' && unreadSessions.value > 0 && <span class="badge">{unreadSessions.value}</span>}</button>)}
        </div>
      </div>
      <div class="session-list" {...holdsOrder} onClickCapture={ignoreLateTaps}>
        {shown.map((group) => <SessionGroup key={group.key} group={group} />)}
        {more > 0 && <MoreRows left={more} onMore={() => setLimit(limit + PAGE)} />}
      </div>
      <p class="faint center" role="status">{left > 0 ? `${query.trim() ? 'Searched' : 'Shown'} so far: ${all.length.toLocaleString()} sessions. ${left.toLocaleString()} more are coming …` : ''}</p>
      {!matches.length && allSessionsLoaded.value && <p class="faint center">No matching sessions.</p>}
    </section>
  )
}

/** The rows as they are shown: in their own order, or in the order of before as long as that is held. What the person does
 * (`chosen`) is shown at once. */
function useHeldOrder(next: readonly P.SessionRecord[], chosen: string, limit: number): readonly P.SessionRecord[] {
  const shown = useRef({ rows: next, chosen, limit })
  const before = shown.current
  const held = orderHeld.value && before.chosen === chosen && before.rows.length > 0
  const rows = held ? inShownOrder(before.rows, sessions.value, next, limit - before.limit) : next
  useLayoutEffect(() => {
    if (!before.rows.length) rowsCame()
    else if (before.rows.some((session, index) => rows[index]?.id !== session.id)) rowsMoved()
    shown.current = { rows, chosen, limit }
  })
  return rows
}

/** The end of the shown rows: the next ones come as soon as it is near. */
function MoreRows({ left, onMore }: { left: number; onMore: () => void }) {
  const button = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) onMore() }, { rootMargin: '600px' })
    observer.observe(button.current!)
    return () => observer.disconnect()
  }, [onMore])
  return <button type="button" class="more-rows" ref={button} onClick={onMore}>{left} more</button>
}

function SessionGroup({ group }: { group: Group }) {
  const open = !group.title || !isClosed(group.key)
  return (
    <section aria-label={group.title || 'All'}>
      {group.title && (
        <h2 class="group-head">
          <button type="button" aria-expanded={open} onClick={() => toggleGroup(group.key)}><span class={open ? 'turned' : ''}><Icon name="chevron" /></span><span class={`ellipsis ${group.key.startsWith('project ') ? 'path' : ''}`}><bdi>{group.title}</bdi></span><span class="faint">{group.sessions.length}</span></button>
        </h2>
      )}
      {open && <ul>{group.sessions.map((session) => <li key={session.id} class="session-item"><SessionRow session={session} /></li>)}</ul>}
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
  const pinnedHere = isPinned(session.id)
  const lastLine = session.status === 'failed' && session.problem ? visibleLine(session.problem) : plainLine(session.last_line)
  return (
    <>
      <a class={`session ${shown} ${count ? 'unread' : ''}`} href={sessionUrl(session.id)} data-internal="1" aria-current={current ? 'page' : undefined}>
        <AgentMark agent={session.agent} />
        <span class="session-main">
          <span class="session-top">
            <strong class="ellipsis">{sessionTitle(session)}</strong>
            <span class="faint when">{ago(session.active_at || session.created_at, now.value)}</span>
          </span>
          {lastLine ? <span class="session-line ellipsis">{lastLine}</span> : <span class="session-line ellipsis path"><bdi>{visibleLine(abbreviateHome(session.cwd, node?.home))}</bdi></span>}
          <span class="session-tags">
            <span class={`chip ${shown}`}>{STATE_LABELS[shown]}</span>
            {session.kind === 'attached' && <span class="chip">terminal</span>}
            <span class="faint ellipsis">{visibleLine([agentName(session.agent), node?.name || session.node, session.branch, spent].filter(Boolean).join(' · '))}</span>
            {count > 0 && !current && <span class="badge" aria-label={`${count} unread`}>{count}</span>}
          </span>
        </span>
      </a>
      <button type="button" class="plain pin" aria-pressed={pinnedHere} aria-label={`Pin: ${sessionTitle(session)}`} title={pinnedHere ? 'Unpin' : 'Pin to the top'} onClick={() => togglePin(session.id)}><Icon name="pin" /></button>
    </>
  )
}
