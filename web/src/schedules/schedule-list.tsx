/** All schedules: when each runs next, what became of its last run; pause, resume, run now. Loaded when it is opened. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { errorMessage, get, IdempotentRequest } from '../api/client'
import { back, navigate } from '../app/router'
import type * as P from '../generated/protocol'
import { usePolled } from '../messages/layout'
import { agentName, ago, baseName } from '../shared/format'
import { visibleLine } from '../shared/visible-text'
import { nodes, now } from '../store/store'
import { Empty, Pane, Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { ScheduleForm } from './schedule-form'
import { schedulePath, scheduleUrl } from './schedule-paths'
import { momentIn, runResult, until, whenText } from './when'
import './schedules.css'

export function ScheduleList({ adding }: { adding: boolean }) {
  const { value, problem, reload } = usePolled(() => get<P.ScheduleView[]>('schedules'), [])
  return (
    <Pane label="Schedules">
      <header class="pane-head">
        <div class="pane-title"><h1>Schedules</h1></div>
        <a class="button primary small-button" href="/schedules/new" data-internal="1"><Icon name="plus" /> New schedule</a>
      </header>
      <div class="pane-scroll page" tabIndex={0}>
        <Problem text={problem} />
        {!value && !problem && <p class="loading" role="status">Loading …</p>}
        {value && !value.length && <Empty icon="clock" title="No schedules yet"><p>Start an agent at set times: every weekday at nine, every half hour, once next Tuesday.</p></Empty>}
        <ul class="schedules">
          {(value ?? []).map((schedule) => <li key={schedule.id}><ScheduleCard schedule={schedule} onChange={reload} /></li>)}
        </ul>
      </div>
      {adding && <ScheduleForm onClose={() => back('/schedules')} onSaved={(made) => navigate(scheduleUrl(made.id), true)} />}
    </Pane>
  )
}

function ScheduleCard({ schedule, onChange }: { schedule: P.ScheduleView; onChange: () => void }) {
  const last = schedule.runs[0]
  return (
    <article class="card schedule" aria-label={visibleLine(schedule.name)}>
      <div class="row wrap"><a class="grow" href={scheduleUrl(schedule.id)} data-internal="1"><strong>{visibleLine(schedule.name)}</strong></a><NextTime schedule={schedule} /></div>
      <p class="ellipsis">{visibleLine(schedule.prompt)}</p>
      <p class="faint small-text">{visibleLine([whenText(schedule), agentName(schedule.agent), baseName(schedule.cwd), nodes.value.size > 1 ? nodes.value.get(schedule.node)?.name ?? schedule.node : ''].filter(Boolean).join(' · '))}</p>
      {schedule.next[0] !== undefined && <p class="small-text"><span class="faint">Next</span> {momentIn(schedule.zone, schedule.next[0])}</p>}
      {last && <p class="small-text"><RunChip run={last} /> <span class="faint">{ago(last.ended_at || last.started_at || last.due_at, now.value)}</span> {visibleLine(last.problem || last.text || '').slice(0, 120)}</p>}
      <ScheduleButtons schedule={schedule} onChange={onChange} />
    </article>
  )
}

export function NextTime({ schedule }: { schedule: P.ScheduleView }) {
  if (schedule.paused) return <span class="chip waiting">Paused</span>
  const next = schedule.next[0]
  if (next === undefined) return <span class="chip">Over</span>
  return <span class="chip working" title={`${momentIn(schedule.zone, next)} (${schedule.zone})`}>{until(next, now.value)}</span>
}

export function RunChip({ run }: { run: P.ScheduleRun }) {
  const { label, chip } = runResult(run)
  return <span class={`chip ${chip}`}>{label}</span>
}

/** `children`: further buttons. */
export function ScheduleButtons({ schedule, onChange, children }: { schedule: P.ScheduleView; onChange: () => void; children?: ComponentChildren }) {
  const [problem, setProblem] = useState('')
  const [started, setStarted] = useState(false)
  const [busy, setBusy] = useState(false)
  const [sending] = useState(() => new IdempotentRequest())
  const call = async (method: string, path: string, body: unknown, then: () => void) => {
    setBusy(true)
    try {
      await sending.send(method, path, body)
      setProblem('')
      then()
    } catch (error) {
      setProblem(errorMessage(error))
    } finally {
      setBusy(false)
      onChange()
    }
  }
  const path = schedulePath(schedule.id)
  const name = visibleLine(schedule.name)
  return (
    <>
      <div class="row wrap">
        <button type="button" class="small" disabled={busy} aria-label={`Run now: ${name}`} onClick={() => void call('POST', `${path}/run`, {}, () => setStarted(true))}><Icon name="play" /> Run now</button>
        {(schedule.paused || schedule.next.length > 0) && (
          <button type="button" class="small" disabled={busy} aria-label={`${schedule.paused ? 'Resume' : 'Pause'}: ${name}`} onClick={() => void call('PATCH', path, { paused: !schedule.paused } satisfies P.ScheduleChange, () => undefined)}>
            <Icon name={schedule.paused ? 'play' : 'pause'} /> {schedule.paused ? 'Resume' : 'Pause'}
          </button>
        )}
        {children}
        <span class="faint small-text" role="status">{started && 'Started.'}</span>
      </div>
      <Problem text={problem} />
    </>
  )
}
