/** One schedule: what it does, its coming times and the history of its runs; edit and remove it. */
import { useState } from 'preact/hooks'
import { errorMessage, get, remove } from '../api/client'
import { navigate, sessionUrl } from '../app/router'
import type * as P from '../generated/protocol'
import { usePolled } from '../messages/layout'
import { abbreviateHome, agentName } from '../shared/format'
import { visible, visibleLine } from '../shared/visible-text'
import { nodes, now, sessions } from '../store/store'
import { Pane, PathText, Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { ScheduleForm } from './schedule-form'
import { NextTime, RunChip, ScheduleButtons } from './schedule-list'
import { schedulePath } from './schedule-paths'
import { momentIn, runLength, until, whenText } from './when'

const OVERLAP = { skip: 'A time is skipped while the run before goes on', queue: 'It runs after the run before' }
const MISSED = { once: 'One run makes up for missed times', never: 'Missed times are not made up for' }

export function SchedulePage({ id }: { id: string }) {
  const { value, problem, reload } = usePolled(() => get<P.ScheduleView>(schedulePath(id)), [id])
  const [editing, setEditing] = useState(false)
  return (
    <Pane label={value ? visibleLine(value.name) : 'Schedule'}>
      <header class="pane-head">
        <a class="button plain" href="/schedules" data-internal="1" aria-label="All schedules"><Icon name="back" /></a>
        <div class="pane-title"><h1>{value ? visibleLine(value.name) : 'Schedule'}</h1></div>
        {value && <NextTime schedule={value} />}
      </header>
      <div class="pane-scroll page">
        <Problem text={problem} />
        {!value && !problem && <p class="loading" role="status">Loading …</p>}
        {value && (
          <>
            <section aria-label="What it does">
              <pre class="code">{visible(value.prompt)}</pre>
              <Facts schedule={value} />
              <ScheduleButtons schedule={value} onChange={reload}>
                <button type="button" class="small" onClick={() => setEditing(true)}><Icon name="edit" /> Edit</button>
                <Remove schedule={value} />
              </ScheduleButtons>
            </section>
            {value.next.length > 0 && (
              <section aria-label="Upcoming runs">
                <h2><Icon name="clock" /> Upcoming runs</h2>
                <ul class="times">{value.next.map((at) => <li key={at}>{momentIn(value.zone, at)} <span class="faint">{until(at, now.value)}</span></li>)}</ul>
              </section>
            )}
            <section aria-label="History">
              <h2><Icon name="list" /> History</h2>
              {!value.runs.length && <p class="faint">It has not run yet.</p>}
              <ul class="cards">{value.runs.map((run) => <li key={run.id}><Run run={run} zone={value.zone} /></li>)}</ul>
            </section>
          </>
        )}
      </div>
      {editing && value && <ScheduleForm schedule={value} onClose={() => setEditing(false)} onSaved={() => { setEditing(false); reload() }} />}
    </Pane>
  )
}

function Facts({ schedule }: { schedule: P.ScheduleView }) {
  const node = nodes.value.get(schedule.node)
  const { policy } = schedule
  const facts: readonly (readonly [string, string])[] = [
    ['When', whenText(schedule)], ['Agent', [agentName(schedule.agent || node?.default_agent || ''), schedule.model, schedule.effort].filter(Boolean).join(' · ')], ['Machine', node?.name || schedule.node], ['Directory', abbreviateHome(schedule.cwd, node?.home)], ['Worktree', schedule.branch ? `one for each run, on ${schedule.branch}-…` : schedule.worktree ? 'one for each run' : ''],
    ['Policy', `edits: ${policy.file_write ?? 'ask'}, commands: ${policy.shell ?? 'ask'}, network: ${policy.network ?? 'ask'}`],
    ['Overlap', OVERLAP[schedule.overlap]], ['Missed', MISSED[schedule.missed]], ['Added by', schedule.created_by],
  ]
  return <dl class="facts">{facts.filter(([, text]) => text).map(([name, text]) => <div key={name}><dt>{name}</dt><dd>{name === 'Directory' ? <PathText text={visibleLine(text)} /> : visibleLine(text)}</dd></div>)}</dl>
}

function Run({ run, zone }: { run: P.ScheduleRun; zone: string }) {
  const session = run.session && sessions.value.has(run.session) ? run.session : ''
  return (
    <article class="card" aria-label={momentIn(zone, run.due_at)}>
      <div class="row wrap"><RunChip run={run} /><span class="run-when">{momentIn(zone, run.due_at)}</span><span class="faint small-text">{[runLength(run), run.by && `started by ${visibleLine(run.by)}`].filter(Boolean).join(' · ')}</span></div>
      {run.problem && <p class="small-text deny">{visible(run.problem)}</p>}
      {run.text && <p class="run-text">{visible(run.text)}</p>}
      {session && <a href={sessionUrl(session)} data-internal="1">Open the session</a>}
    </article>
  )
}

function Remove({ schedule }: { schedule: P.ScheduleView }) {
  const [asked, setAsked] = useState(false)
  const [problem, setProblem] = useState('')
  if (!asked) return <button type="button" class="small deny" onClick={() => setAsked(true)}>Remove …</button>
  return (
    <div role="group" aria-label={`Remove ${visibleLine(schedule.name)}`} class="stop-choice">
      <p>Its history goes with it. A run that is under way goes on; the sessions stay.</p>
      <Problem text={problem} />
      <div class="row wrap">
        <button type="button" class="small deny" onClick={() => void remove(schedulePath(schedule.id)).then(() => navigate('/schedules', true), (error: unknown) => setProblem(errorMessage(error)))}>Remove it</button>
        <button type="button" class="small" onClick={() => setAsked(false)}>Keep it</button>
      </div>
    </div>
  )
}
