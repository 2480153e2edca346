/** Search over all sessions, messages and asks. Loaded when it is opened. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { errorMessage, get } from '../api/client'
import { back, sessionUrl } from '../app/router'
import type * as P from '../generated/protocol'
import { abbreviateHome, agentName, ago, baseName } from '../shared/format'
import { visibleLine } from '../shared/visible-text'
import { nodes, now, sessions } from '../store/store'
import { AgentMark } from '../ui/agent-mark'
import { Empty, Pane, Problem } from '../ui/components'
import { useDebouncedGet } from '../ui/debounced-get'
import { Icon } from '../ui/icons'
import { groupHits, hitUrl, KINDS, parseWanted, PERIODS, requestPath, searchUrl, type HitGroup, type Wanted } from './search'
import './search.css'

export const TYPING_MS = 250 // after which what was typed is searched for

/** What the hub finds; `more` adds the next page. */
function useSearch(wanted: Wanted) {
  const path = useMemo(() => (wanted.q.trim() ? requestPath(wanted, Date.now() / 1000) : ''), [wanted])
  const first = useDebouncedGet<P.SearchResults>(path, TYPING_MS)
  const [rest, setRest] = useState({ of: '', pages: [] as readonly P.SearchResults[], problem: '', busy: false })
  const pages = [...(first.value ? [first.value] : []), ...(rest.of === first.of ? rest.pages : [])]
  const hits = pages.flatMap((page) => page.hits)
  const last = pages.at(-1)
  const more = async () => {
    const known = { of: first.of, pages: pages.slice(1) }
    setRest({ ...known, problem: '', busy: true })
    try {
      const page = await get<P.SearchResults>(`${first.of}&before=${hits.at(-1)!.id}`)
      setRest((now) => (now.of === known.of ? { ...known, pages: [...known.pages, page], problem: '', busy: false } : now))
    } catch (error) {
      setRest((now) => (now.of === known.of ? { ...known, problem: errorMessage(error), busy: false } : now))
    }
  }
  const own = rest.of === first.of && first.of !== ''
  return { results: first.value && last && { ...first.value, hits, more: last.more }, problem: first.problem || (own ? rest.problem : ''), busy: first.busy, busyMore: own && rest.busy, more }
}

export function SearchPage() {
  const [wanted, setWanted] = useState(() => parseWanted(location.search))
  const search = useSearch(wanted)
  const field = useRef<HTMLInputElement>(null)
  const box = useRef<HTMLDivElement>(null)
  const set = (change: Partial<Wanted>) => {
    const next = { ...wanted, ...change }
    setWanted(next)
    history.replaceState(history.state, '', searchUrl(next)) // back from a hit, it is there again
  }
  useEffect(() => field.current!.focus(), [])
  const onKey = (event: KeyboardEvent) => {
    if ((event.key !== 'ArrowDown' && event.key !== 'ArrowUp') || (event.target as Element).closest('select')) return
    const stops = [field.current!, ...box.current!.querySelectorAll<HTMLElement>('a.hit')]
    const at = stops.indexOf(document.activeElement as HTMLElement)
    const next = stops[at + (event.key === 'ArrowDown' ? 1 : -1)]
    if (at < 0 || !next) return
    event.preventDefault()
    next.focus()
  }
  const agents = [...new Set([...sessions.value.values()].map((session) => session.agent))].sort()
  const projects = [...new Set([...sessions.value.values()].map((session) => baseName(session.cwd)))].sort()
  const filtered = !!(wanted.kind || wanted.agent || wanted.project || wanted.days)
  return (
    <Pane label="Search">
      <header class="pane-head">
        <button type="button" class="plain search-back" aria-label="Back" onClick={() => back('/')}><Icon name="back" /></button>
        <div class="pane-title"><h1>Search</h1></div>
      </header>
      <div class="pane-scroll page search-page" ref={box} onKeyDown={onKey}>
        <form class="search-form" role="search" onSubmit={(event) => event.preventDefault()}>
          <label class="search search-field"><Icon name="search" /><span class="sr">Search everything</span>
            <input ref={field} type="search" value={wanted.q} maxLength={500} placeholder="All sessions, messages and decisions" autocomplete="off" spellcheck={false} onInput={(event) => set({ q: event.currentTarget.value })} />
          </label>
          <div class="search-filters" role="group" aria-label="Filters">
            <select aria-label="Kind" value={wanted.kind} onChange={(event) => set({ kind: event.currentTarget.value as Wanted['kind'] })}>
              <option value="">All kinds</option>{KINDS.map(([kind, name]) => <option key={kind} value={kind}>{name}</option>)}
            </select>
            <select aria-label="Agent" value={wanted.agent} onChange={(event) => set({ agent: event.currentTarget.value })}>
              <option value="">All agents</option>{[...new Set([...agents, ...(wanted.agent ? [wanted.agent] : [])])].map((name) => <option key={name} value={name}>{agentName(name)}</option>)}
            </select>
            <select aria-label="Since" value={wanted.days} onChange={(event) => set({ days: Number(event.currentTarget.value) })}>
              {PERIODS.map(([days, name]) => <option key={days} value={days}>{name}</option>)}
            </select>
            <input type="text" aria-label="Project" value={wanted.project} list="search-projects" placeholder="All projects" maxLength={200} autocapitalize="off" autocomplete="off" spellcheck={false} onInput={(event) => set({ project: event.currentTarget.value })} />
            <datalist id="search-projects">{projects.map((name) => <option key={name} value={name} />)}</datalist>
          </div>
        </form>
        <Results search={search} filtered={filtered} onClear={() => set({ kind: '', agent: '', project: '', days: 0 })} />
      </div>
    </Pane>
  )
}

function Results({ search, filtered, onClear }: { search: ReturnType<typeof useSearch>; filtered: boolean; onClear: () => void }) {
  const { results, problem, busy } = search
  const groups = groupHits(results?.hits ?? [])
  const count = results ? results.hits.length + results.sessions.length : 0
  const summary = problem ? '' : busy && !results ? 'Searching …' : !results ? '' : !count ? 'Nothing was found.' : `${results.hits.length}${results.more ? ' and more' : ''} ${results.hits.length === 1 ? 'place' : 'places'} in ${groups.length} ${groups.length === 1 ? 'conversation' : 'conversations'}`
  return (
    <>
      <p class={count || !results ? 'faint small-text search-said' : 'sr'} role="status">{summary}</p>
      <Problem text={problem} />
      {results && results.indexed < 1 && <p class="faint small-text"><Icon name="clock" /> The index is being built ({Math.floor(results.indexed * 100)} % so far): something may be missing.</p>}
      {!results && !problem && !busy && (
        <Empty icon="search" title="Search everything">
          <p>What was said, run, asked and sent, on all machines. All words must match; <code>"two words"</code> finds them exactly as written, <code>begin*</code> words that begin so, and <code>-without</code> leaves a word out.</p>
        </Empty>
      )}
      {results && !count && (
        <Empty icon="search" title="Nothing was found">
          {filtered ? <button type="button" onClick={onClear}>Search without filters</button> : <p>Try fewer words, or the beginning of one: <code>begin*</code>.</p>}
        </Empty>
      )}
      {!!results?.sessions.length && (
        <div class="hits" role="group" aria-label="Sessions by name">
          <h2>Sessions</h2>
          <ul>{results.sessions.map((hit) => <li key={hit.session}><SessionHit hit={hit} /></li>)}</ul>
        </div>
      )}
      {groups.map((group) => <Group key={group.key} group={group} />)}
      {results?.more && <button type="button" class="more-hits" disabled={search.busyMore} onClick={() => void search.more()}>{search.busyMore ? 'Searching …' : 'More'}</button>}
    </>
  )
}

function SessionHit({ hit }: { hit: P.SessionHit }) {
  const node = nodes.value.get(sessions.value.get(hit.session)?.node ?? '')
  return (
    <a class="hit session-hit" href={sessionUrl(hit.session)} data-internal="1">
      <AgentMark agent={hit.agent} />
      <span class="grow"><strong class="ellipsis block">{visibleLine(hit.title || baseName(hit.cwd))}</strong><span class="faint ellipsis path block small-text"><bdi>{visibleLine(abbreviateHome(hit.cwd, node?.home))}</bdi></span></span>
      <span class="faint when">{ago(hit.active_at, now.value)}</span>
    </a>
  )
}

function Group({ group }: { group: HitGroup }) {
  const first = group.hits[0]!
  const title = visibleLine(first.title || (group.session ? 'Session' : 'Messages'))
  return (
    <div class="hits" role="group" aria-label={title}>
      <h2>
        {group.session ? <AgentMark agent={first.agent ?? ''} /> : <Icon name="message" />}<span class="ellipsis">{title}</span>
        <span class="faint ellipsis">{visibleLine([first.agent && agentName(first.agent), first.project].filter(Boolean).join(' · '))}</span>
      </h2>
      <ul>{group.hits.map((hit) => <li key={hit.id}><Hit hit={hit} /></li>)}</ul>
    </div>
  )
}

/** Where lines end says nothing in a snippet. */
const oneLine = (text: string): string => visibleLine(text.replace(/\s+/g, ' '))

function Hit({ hit }: { hit: P.SearchHit }) {
  const [, name, icon] = KINDS.find(([kind]) => kind === hit.kind)!
  return (
    <a class="hit" href={hitUrl(hit)} data-internal="1">
      <Icon name={icon} label={name} />
      <span class="snippet">{(hit.snippet ?? []).map((part, index) => (part.match ? <mark key={index}>{oneLine(part.text)}</mark> : <span key={index}>{oneLine(part.text)}</span>))}</span>
      <time class="faint when" dateTime={new Date(hit.at * 1000).toISOString()} title={new Date(hit.at * 1000).toLocaleString()}>{ago(hit.at, now.value)}</time>
    </a>
  )
}
