/** A team's conversation as a thread, with all that a person can do in it. */
import { useLayoutEffect, useState } from 'preact/hooks'
import { errorMessage } from '../api/client'
import { back, navigate, teamUrl } from '../app/router'
import { AskCard } from '../asks/ask-card'
import { ConnectionBar } from '../connection/connection-bar'
import type * as P from '../generated/protocol'
import { POLICIES } from '../sessions/policies'
import { agentName, dollars } from '../shared/format'
import { visible, visibleLine } from '../shared/visible-text'
import { sessions, teams, visibleAsks } from '../store/store'
import { Ticks, toolLine } from '../thread/thread-rows'
import { VirtualList } from '../thread/virtual-list'
import { Empty, Pane, Problem, Sheet } from '../ui/components'
import { Icon } from '../ui/icons'
import { Markdown } from '../ui/markdown'
import { liveWords } from './live-turns'
import { TeamComposer } from './team-composer'
import { dismissWords, outgoingWords, retryWords } from './team-outbox'
import { SessionLink, speakerStyle, TeamRowView } from './team-rows'
import { act, closeTeam, loadOlderEntries, openTeam, reorder, startAgain, teamProblem, teamThread } from './team-store'
import { withoutMarkers, type TeamThread } from './team-thread'
import { TeamChip, teamSpent, teamState } from './teams'

export function TeamPage({ id, sheet }: { id: string; sheet: '' | 'info' }) {
  useLayoutEffect(() => {
    openTeam(id)
    return closeTeam
  }, [id])
  const thread = teamThread.value?.id === id ? teamThread.value : undefined
  const view = thread?.view.value
  const shown = view && latest(view, teams.value.get(id))
  if (!thread || !shown) {
    return teamProblem.value
      ? <Pane><Empty icon="members" title="The conversation cannot be shown"><p>{teamProblem.value}</p><a class="button" href="/teams" data-internal="1">All teams</a></Empty></Pane>
      : <Pane><p class="loading" role="status">Loading …</p></Pane>
  }
  const state = teamState(shown)
  return (
    <Pane class="thread" label={visibleLine(shown.name)}>
      <header class="pane-head">
        <button type="button" class="plain back" aria-label="Back to all teams" onClick={() => navigate('/teams')}><Icon name="back" /></button>
        <div class="pane-title">
          <h1>{visibleLine(shown.name)}</h1>
          <p class="faint"><TeamChip team={shown} /> <span class="ellipsis">{teamSpent(shown)}</span></p>
        </div>
        {state === 'held' && <button type="button" class="small primary" onClick={() => void act(thread, { do: 'resume', more_rounds: 0, more_cost_usd: 0, more_minutes: 0 })}><Icon name="play" /> Resume</button>}
        {(state === 'working' || state === 'waiting') && <button type="button" class="small" onClick={() => void act(thread, { do: 'hold' })}><Icon name="pause" /> Hold</button>}
        <button type="button" class="plain" aria-label="About this team" title="Members, costs, end" onClick={() => navigate(teamUrl(id, 'info'))}><Icon name="more" /></button>
      </header>
      <ConnectionBar />
      {teamProblem.value && <Problem text={teamProblem.value} />}
      <VirtualList key={id} items={thread.rows.value} row={(item) => <TeamRowView key={item.key} item={item} thread={thread} />} onTop={() => void loadOlderEntries(thread)}>
        <Outgoing team={id} />
        <Working thread={thread} record={shown} />
        <Asks thread={thread} />
      </VirtualList>
      <TeamComposer key={id} thread={thread} view={shown} />
      <p class="sr" role="status">{state === 'waiting' ? `The team waits for ${(shown.waiting_for ?? []).join(', ')}` : state === 'ended' ? `The conversation has ended: ${shown.reason}` : ''}</p>
      {sheet === 'info' && <TeamSheet thread={thread} view={shown} />}
    </Pane>
  )
}

/** The record is there first when others change something, the view after what is done here. */
export function latest(view: P.TeamView, record: P.TeamRecord | undefined): P.TeamView {
  if (!record || (view.active_at ?? 0) >= (record.active_at ?? 0)) return view
  return { ...record, task: view.task, people: view.people, who: view.who, queue: view.queue, limits: view.limits }
}

/** What was said here and is not yet at the hub. */
function Outgoing({ team }: { team: string }) {
  return (
    <>
      {outgoingWords.value.filter((words) => words.team === team).map((words) => (
        <div key={words.id} class="bubble outgoing">
          <div class="bubble-text">{words.body.text}</div>
          <Ticks tick={words.state} />
          {words.state === 'failed' && (
            <>
              <Problem text={words.problem} />
              <div class="row end"><button type="button" class="small" onClick={() => dismissWords(words.id)}>Discard</button><button type="button" class="small" onClick={() => retryWords(words.id)}>Retry</button></div>
            </>
          )}
        </div>
      ))}
    </>
  )
}

/** Asks of the members. */
function Asks({ thread }: { thread: TeamThread }) {
  const bySession = new Map([...thread.sessions.value].map(([name, session]) => [session, name]))
  return (
    <>
      {visibleAsks.value.filter((record) => bySession.has(record.session)).map((record) => (
        <div key={record.id} class="thread-row team-ask" style={speakerStyle(thread.colourOf(bySession.get(record.session)!))}>
          <p class="speaker">{visibleLine(bySession.get(record.session)!)} asks</p>
          <AskCard record={record} inThread />
        </div>
      ))}
    </>
  )
}

function Working({ thread, record }: { thread: TeamThread; record: P.TeamRecord }) {
  // A record says first that a turn has ended: what was said stays until its row is there.
  const speaking = [...new Set([...(thread.view.value?.speaking ?? []), ...(record.speaking ?? [])])]
  const waiting = record.status === 'ended' ? [] : record.waiting_for ?? []
  return (
    <>
      {speaking.map((name) => <Speaking key={name} name={name} thread={thread} />)}
      {waiting.length > 0 && <p class="works"><span class="chip waiting">Waits for {visibleLine(waiting.join(', '))}</span></p>}
    </>
  )
}

/** What a member says in its turn, while it says it. */
function Speaking({ name, thread }: { name: string; thread: TeamThread }) {
  const session = thread.sessions.value.get(name) ?? ''
  const words = liveWords(session)
  const text = words && withoutMarkers(words.text)
  return (
    <div class="speaking" style={speakerStyle(thread.colourOf(name))}>
      <p class="works">
        <span class="speaker">{visibleLine(name)}</span>
        <span class="dots" aria-hidden="true"><i /><i /><i /></span>
        <span class="faint ellipsis grow">{sessions.value.get(session)?.status === 'waiting' ? 'waits for a decision' : words?.tool ? toolLine(words.tool) : 'works'}</span>
        <SessionLink name={name} thread={thread} label="Watch" />
      </p>
      {text && <article class="said" aria-label={`${visibleLine(name)} says`}><Markdown text={text} /></article>}
    </div>
  )
}

function TeamSheet({ thread, view }: { thread: TeamThread; view: P.TeamView }) {
  const [ending, setEnding] = useState(false)
  const [reason, setReason] = useState('')
  const limits = view.limits ?? {}
  const over = view.status === 'ended'
  const close = () => back(teamUrl(thread.id))
  return (
    <Sheet title="About this team" onClose={close}>
      <Problem text={thread.problem.value} />
      <section class="stack-small">
        <h3>Task</h3>
        <p class="letter-text">{visible(view.task)}</p>
      </section>
      <section class="stack-small">
        <h3>Members</h3>
        <ul class="team-members">{(view.who ?? []).map((member) => <Member key={member.name} thread={thread} member={member} over={over} />)}</ul>
      </section>
      <dl class="facts">
        <div><dt>Rounds</dt><dd>{view.rounds ?? 0} of {view.max_rounds ?? 0}</dd></div>
        <div><dt>Cost</dt><dd>{dollars(view.cost_usd) || 'not reported'}{limits.max_cost_usd ? ` of ${dollars(limits.max_cost_usd)}` : ''}</dd></div>
        {!!limits.max_minutes && <div><dt>Time limit</dt><dd>{limits.max_minutes} minutes</dd></div>}
        {over && <div><dt>Ended</dt><dd>{visible(view.reason ?? '')}</dd></div>}
      </dl>
      {!over && (ending ? (
        <form class="deny-form" onSubmit={(event) => { event.preventDefault(); void act(thread, { do: 'end', reason: reason.trim() }).then((done) => { if (done) close() }) }}>
          <label>End the conversation? Who works is stopped. Reason:
            <input type="text" value={reason} placeholder="Optional" ref={(box) => { if (box && !reason) box.focus() }} onInput={(event) => setReason(event.currentTarget.value)} />
          </label>
          <div class="row"><button type="button" onClick={() => setEnding(false)}>Back</button><button type="submit" class="deny grow">End it</button></div>
        </form>
      ) : <button type="button" class="deny" onClick={() => setEnding(true)}>End the conversation …</button>)}
      <StartAgain thread={thread} />
    </Sheet>
  )
}

/** The same team, another task. */
function StartAgain({ thread }: { thread: TeamThread }) {
  const [task, setTask] = useState('')
  const [problem, setProblem] = useState('')
  const start = () => void startAgain(thread, task.trim()).then((id) => navigate(teamUrl(id)), (error: unknown) => setProblem(errorMessage(error)))
  return (
    <form class="stack-small" onSubmit={(event) => { event.preventDefault(); if (task.trim()) start() }}>
      <label>A new conversation of the same team<textarea rows={2} value={task} placeholder="Its task" onInput={(event) => setTask(event.currentTarget.value)} /></label>
      <Problem text={problem} />
      <div class="row end"><button type="submit" disabled={!task.trim()}>Start</button></div>
    </form>
  )
}

function MemberPolicy({ thread, member }: { thread: TeamThread; member: P.TeamMemberView }) {
  const { policy = 'ask' } = member
  const known = POLICIES.find((preset) => (typeof policy === 'string' ? preset.name === policy : policy && (['file_write', 'shell', 'network'] as const).every((part) => preset.policy[part] === policy[part])))
  return (
    <select class="member-policy" aria-label={`Policy of ${visibleLine(member.name)}, from its next turn`} value={known?.name ?? ''} onChange={(event) => void act(thread, { do: 'change_policy', member: member.name, policy: event.currentTarget.value })}>
      {!known && <option value="">{typeof policy === 'string' ? policy : 'Custom'}</option>}
      {POLICIES.map((preset) => <option key={preset.name} value={preset.name}>{preset.title}</option>)}
    </select>
  )
}

function Member({ thread, member, over }: { thread: TeamThread; member: P.TeamMemberView; over: boolean }) {
  const [removing, setRemoving] = useState(false)
  const name = visibleLine(member.name)
  const turns = member.turns ?? 0
  return (
    <li style={speakerStyle(thread.colourOf(member.name))}>
      <div class="grow">
        <strong class="speaker">{name}</strong>
        <div class="faint small-text">{visibleLine([member.human ? 'Person' : agentName(member.agent || 'session'), member.role].filter(Boolean).join(' · '))}</div>
        {!member.human && <div class="small-text">{[`${turns} ${turns === 1 ? 'turn' : 'turns'}`, dollars(member.cost_usd)].filter(Boolean).join(' · ')} <SessionLink name={member.name} thread={thread} label="Session" /></div>}
        {!member.human && !over && <MemberPolicy thread={thread} member={member} />}
      </div>
      {!over && !removing && (
        <>
          {!member.human && <button type="button" class="small" aria-label={`${name} speaks next`} onClick={() => reorder(thread, [member.name])}>Next</button>}
          <button type="button" class="plain" aria-label={`Remove ${name} from the team`} onClick={() => setRemoving(true)}><Icon name="cross" /></button>
        </>
      )}
      {removing && (
        <span class="row">
          <button type="button" class="small" onClick={() => setRemoving(false)}>Keep</button>
          <button type="button" class="small deny" aria-label={`Remove ${name}: confirm`} onClick={() => { setRemoving(false); void act(thread, { do: 'remove_member', member: member.name }) }}>Remove</button>
        </span>
      )}
    </li>
  )
}
