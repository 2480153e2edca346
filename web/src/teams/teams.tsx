/** The list of team conversations, and what is said of one in a line. */
import { computed } from '@preact/signals'
import { useState } from 'preact/hooks'
import { teamUrl } from '../app/router'
import { ConnectionBar } from '../connection/connection-bar'
import type * as P from '../generated/protocol'
import { ago, dollars } from '../shared/format'
import { visibleLine } from '../shared/visible-text'
import { loaded, now, sessions, teams } from '../store/store'
import { Empty, Pane } from '../ui/components'
import { Icon } from '../ui/icons'

export type TeamState = 'working' | 'waiting' | 'held' | 'ended'

/** A person is waited for: that is more important than who works meanwhile. */
export function teamState({ status, waiting_for }: P.TeamRecord): TeamState {
  if (status === 'ended' || status === 'held') return status
  return status === 'waiting' || waiting_for?.length ? 'waiting' : 'working'
}

export const TEAM_LABELS: Record<TeamState, string> = { working: 'Working', waiting: 'Needs you', held: 'On hold', ended: 'Ended' }
const CHIPS: Record<TeamState, string> = { working: 'working', waiting: 'waiting', held: '', ended: '' }

export const waitingTeams = computed(() => [...teams.value.values()].filter((team) => teamState(team) === 'waiting').sort((team, other) => (team.active_at ?? 0) - (other.active_at ?? 0)))

/** Who works and who is waited for. */
export function teamActivity({ status, speaking, waiting_for, reason }: P.TeamRecord): string {
  if (status === 'ended') return reason ?? ''
  const parts = [speaking?.length && `${speaking.join(', ')} ${speaking.length > 1 ? 'work' : 'works'}`, waiting_for?.length && `waits for ${waiting_for.join(', ')}`]
  return parts.filter(Boolean).join(' · ')
}

export const teamSpent = ({ rounds, max_rounds, cost_usd }: P.TeamRecord): string =>
  [`round ${rounds ?? 0} of ${max_rounds ?? 0}`, dollars(cost_usd)].filter(Boolean).join(' · ')

export function TeamChip({ team }: { team: P.TeamRecord }) {
  const asked = team.sessions?.some((id) => sessions.value.get(id)?.status === 'waiting')
  const state = asked && teamState(team) === 'working' ? 'waiting' : teamState(team)
  return <span class={`chip ${CHIPS[state]}`}>{TEAM_LABELS[state]}</span>
}

/** The most urgent first: those that wait for a person, those that go on, those that are over. */
export function sortTeams(all: Iterable<P.TeamRecord>): P.TeamRecord[] {
  const rank = (team: P.TeamRecord) => ({ waiting: 0, working: 1, held: 1, ended: 2 })[teamState(team)]
  return [...all].sort((team, other) => rank(team) - rank(other) || (other.active_at ?? 0) - (team.active_at ?? 0))
}

const FIRST_SHOWN = 50

export function Teams() {
  const [whole, setWhole] = useState(false)
  const all = sortTeams(teams.value.values())
  const shown = whole ? all : all.slice(0, FIRST_SHOWN)
  return (
    <Pane label="Teams">
      <header class="pane-head"><div class="pane-title"><h1>Teams</h1></div><a class="button primary small-button" href="/teams/new" data-internal="1"><Icon name="plus" /> New team</a></header>
      <ConnectionBar />
      <div class="pane-scroll page" tabIndex={0}>
        {!loaded.value && <p class="loading" role="status">Loading …</p>}
        {loaded.value && !all.length && <Empty icon="members" title="No team conversations yet"><p>Several agents and people in one conversation. A team is a file: start one here, or in a terminal:</p><code>tieline team run team.toml "task"</code></Empty>}
        <ul class="letters">
          {shown.map((team) => <li key={team.id}><TeamCard team={team} /></li>)}
        </ul>
        {shown.length < all.length && <button type="button" onClick={() => setWhole(true)}>Show all {all.length}</button>}
      </div>
    </Pane>
  )
}

function TeamCard({ team }: { team: P.TeamRecord }) {
  return (
    <a class="letter team-card" href={teamUrl(team.id)} data-internal="1">
      <div class="row"><strong class="grow ellipsis">{visibleLine(team.name)}</strong><TeamChip team={team} /><span class="faint when">{ago(team.active_at || team.created_at || 0, now.value)}</span></div>
      <div class="ellipsis">{visibleLine(team.task)}</div>
      {team.last_line && <div class="session-line ellipsis">{visibleLine(team.last_line)}</div>}
      <div class="letter-head faint"><span>{visibleLine(teamActivity(team))}</span><span>{teamSpent(team)}</span></div>
    </a>
  )
}

/** Among what needs the person. */
export function WaitingTeam({ team }: { team: P.TeamRecord }) {
  return (
    <a class="ask waiting-team" href={teamUrl(team.id)} data-internal="1">
      <span class="row"><Icon name="members" /><strong class="grow ellipsis">{visibleLine(team.name)}</strong><span class="faint when">{ago(team.active_at ?? 0, now.value)}</span></span>
      <span class="faint">The team waits for {visibleLine((team.waiting_for ?? []).join(', '))}</span>
      {team.last_line && <span class="ellipsis">{visibleLine(team.last_line)}</span>}
    </a>
  )
}
