/** Adds or edits a schedule; the next times are shown while it is typed. */
import { useMemo, useState } from 'preact/hooks'
import { errorMessage, IdempotentRequest, newId } from '../api/client'
import type * as P from '../generated/protocol'
import { EffortSelect } from '../sessions/effort-select'
import { effortsOf, ModelPicker } from '../sessions/model-picker'
import { recentDirectories } from '../sessions/new-session'
import { POLICIES } from '../sessions/policies'
import { agentName } from '../shared/format'
import { nodes } from '../store/store'
import { Problem, Sheet } from '../ui/components'
import { useDebouncedGet } from '../ui/debounced-get'
import { schedulePath } from './schedule-paths'
import { cronText, momentIn } from './when'

const TYPING_MS = 250
const SUGGESTIONS = ['0 9 * * 1-5', '0 * * * *', '*/30 * * * *', '0 22 * * *', '0 9 * * 1'] as const

const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'

/** `schedule`: the one that is edited; without it, a new one is added. */
export function ScheduleForm(props: { schedule?: P.ScheduleView; onClose: () => void; onSaved: (saved: P.ScheduleView) => void }) {
  const known = props.schedule
  const machines = [...nodes.value.values()]
  const [id] = useState(newId) // sent twice, it is one schedule
  const [sending] = useState(() => new IdempotentRequest())
  const [repeats, setRepeats] = useState(!known?.once)
  const [cron, setCron] = useState(known?.cron || SUGGESTIONS[0])
  const [once, setOnce] = useState((known?.once ?? '').replace(' ', 'T'))
  const [zone, setZone] = useState(known?.zone ?? ownZone())
  const [prompt, setPrompt] = useState(known?.prompt ?? '')
  const [name, setName] = useState(known?.name ?? '')
  const [nodeId, setNode] = useState('')
  const node = nodes.value.get(nodeId) ?? machines.find((machine) => machine.local) ?? machines[0]
  const agents = (node?.agents ?? []).filter((candidate) => candidate.ready)
  const [agent, setAgent] = useState('')
  const recent = useMemo(() => recentDirectories(node?.id ?? ''), [node?.id])
  const [typedCwd, setCwd] = useState<string | undefined>(undefined)
  const cwd = typedCwd ?? recent[0] ?? node?.home ?? ''
  const hadWorktree = !!known && (known.worktree || !!known.branch)
  const [worktree, setWorktree] = useState(hadWorktree)
  const chosen = known ? nodes.value.get(known.node)?.agents?.find((candidate) => candidate.name === (known.agent || nodes.value.get(known.node)?.default_agent)) : agents.find((candidate) => candidate.name === (agent || node?.default_agent)) ?? agents[0]
  const [model, setModel] = useState(known?.model ?? '')
  const [typedEffort, setEffort] = useState(known?.effort ?? '')
  const efforts = effortsOf(chosen, model)
  const effort = efforts.includes(typedEffort) || typedEffort === known?.effort ? typedEffort : '' // another agent or model may not take it
  const [policy, setPolicy] = useState(known ? '' : 'ask') // empty: as it is
  const [overlap, setOverlap] = useState<P.ScheduleView['overlap']>(known?.overlap ?? 'skip')
  const [missed, setMissed] = useState<P.ScheduleView['missed']>(known?.missed ?? 'once')
  const [problem, setProblem] = useState('')
  const [busy, setBusy] = useState(false)
  const zones = useMemo(() => ['UTC', ...(Intl.supportedValuesOf?.('timeZone') ?? [])], [])

  const when = repeats ? cron.trim() : once
  const times = useDebouncedGet<P.ScheduleTimes>(when && `schedule-times?${new URLSearchParams({ [repeats ? 'cron' : 'once']: when, zone: zone.trim(), count: '3' })}`, TYPING_MS)

  const save = async () => {
    setBusy(true)
    try {
      const shared = { ...(repeats ? { cron: when } : { once: when }), zone: zone.trim(), prompt: prompt.trim(), overlap, missed, ...(worktree !== hadWorktree ? { worktree } : {}), ...(model !== (known?.model ?? '') ? { model } : {}), ...(effort !== (known?.effort ?? '') ? { effort } : {}), ...(name.trim() ? { name: name.trim() } : {}), ...(policy ? { policy } : {}) }
      const { value } = known
        ? await sending.send<P.ScheduleView>('PATCH', schedulePath(known.id), shared satisfies P.ScheduleChange)
        : await sending.send<P.ScheduleView>('POST', 'schedules', { ...shared, id, node: node?.id ?? '', agent: agent || node?.default_agent || agents[0]?.name || '', cwd } satisfies P.NewSchedule)
      props.onSaved(value)
    } catch (error) {
      setProblem(errorMessage(error))
      setBusy(false)
    }
  }
  const title = known ? 'Edit the schedule' : 'New schedule'
  const foot = (
    <>
      <Problem text={problem} />
      <button type="submit" form="schedule" class="primary big" disabled={busy || !prompt.trim() || !when || !cwd}>{busy ? 'Saving …' : known ? 'Save' : 'Add'}</button>
    </>
  )
  return (
    <Sheet title={title} onClose={props.onClose} foot={foot}>
      <form id="schedule" class="stack" onSubmit={(event) => { event.preventDefault(); void save() }}>
        <label>Prompt<textarea rows={4} value={prompt} placeholder="What should it do each time?" onInput={(event) => setPrompt(event.currentTarget.value)} /></label>
        <fieldset>
          <legend>When</legend>
          <div class="options">
            <label class="option"><input type="radio" name="repeats" checked={repeats} onChange={() => setRepeats(true)} /><span>Repeatedly</span></label>
            <label class="option"><input type="radio" name="repeats" checked={!repeats} onChange={() => setRepeats(false)} /><span>Once</span></label>
          </div>
          {repeats ? (
            <>
              <label class="field">Cron expression
                <input type="text" class="mono" value={cron} maxLength={200} autocapitalize="off" autocomplete="off" spellcheck={false} aria-describedby="cron-help" onInput={(event) => setCron(event.currentTarget.value)} />
              </label>
              <p class="faint small-text" id="cron-help">Minute, hour, day of the month, month, weekday; or <code>@daily</code> and the like.</p>
              <div class="recents" role="group" aria-label="Usual times">{SUGGESTIONS.map((suggestion) => <button key={suggestion} type="button" class={suggestion === cron.trim() ? 'small on' : 'small'} onClick={() => setCron(suggestion)}>{cronText(suggestion)}</button>)}</div>
            </>
          ) : <label class="field">Time<input type="datetime-local" value={once} onInput={(event) => setOnce(event.currentTarget.value)} /></label>}
          <label class="field">Time zone
            <input type="text" value={zone} list="zones" maxLength={200} autocapitalize="off" autocomplete="off" spellcheck={false} onInput={(event) => setZone(event.currentTarget.value)} />
          </label>
          <datalist id="zones">{zones.map((zoneName) => <option key={zoneName} value={zoneName} />)}</datalist>
          <NextTimes times={times} zone={zone.trim()} />
        </fieldset>
        {!known && (
          <fieldset class="pairs">
            <legend>Where</legend>
            {machines.length > 1 && <label>Machine<select value={node?.id} onChange={(event) => { setNode(event.currentTarget.value); setCwd(undefined) }}>{machines.map((machine) => <option key={machine.id} value={machine.id}>{machine.name || machine.id}</option>)}</select></label>}
            <label>Agent<select value={agent || node?.default_agent || agents[0]?.name} onChange={(event) => { setAgent(event.currentTarget.value); setModel(''); setEffort('') }}>{agents.map((candidate) => <option key={candidate.name} value={candidate.name}>{agentName(candidate.name)}</option>)}</select></label>
            <label>Directory<input type="text" class="mono" value={cwd} list="schedule-directories" autocapitalize="off" autocomplete="off" spellcheck={false} onInput={(event) => setCwd(event.currentTarget.value)} /></label>
            <datalist id="schedule-directories">{recent.map((directory) => <option key={directory} value={directory} />)}</datalist>
          </fieldset>
        )}
        <label class="option"><input type="checkbox" checked={worktree} onChange={(event) => setWorktree(event.currentTarget.checked)} /> <span>Each run in a git worktree of its own</span></label>
        {chosen?.features?.includes('model') && <ModelPicker node={known ? nodes.value.get(known.node) : node} agent={chosen} value={model} onChange={setModel} />}
        <EffortSelect levels={efforts} value={effort} onChange={setEffort} />
        <fieldset class="pairs">
          <legend>Rules</legend>
          <label>Policy
            <select value={policy} onChange={(event) => setPolicy(event.currentTarget.value)}>
              {known && <option value="">As it is</option>}{POLICIES.map((preset) => <option key={preset.name} value={preset.name}>{preset.title}</option>)}
            </select>
            {POLICIES.filter((preset) => preset.name === policy).map((preset) => <small key={preset.name} class="faint">It {preset.description}.</small>)}
          </label>
          <label>While the run before goes on
            <select value={overlap} onChange={(event) => setOverlap(event.currentTarget.value as typeof overlap)}><option value="skip">Skip</option><option value="queue">Run afterwards</option></select>
          </label>
          <label>After missed times
            <select value={missed} onChange={(event) => setMissed(event.currentTarget.value as typeof missed)}><option value="once">Run once</option><option value="never">Do nothing</option></select>
          </label>
          <label>Name<input type="text" value={name} maxLength={64} placeholder="From the prompt" pattern="[a-z0-9][a-z0-9\-]*" title="lowercase letters, digits and -" autocapitalize="off" autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} /></label>
        </fieldset>
      </form>
    </Sheet>
  )
}

/** What is typed means this. */
function NextTimes({ times, zone }: { times: { readonly value?: P.ScheduleTimes; readonly problem: string }; zone: string }) {
  return (
    <div class="next-times" role="status" aria-label="Next times">
      {times.problem ? <Problem text={times.problem} /> : times.value && (times.value.next.length ? <><span class="faint small-text">Next</span><ul class="times">{times.value.next.map((at) => <li key={at}>{momentIn(zone, at)}</li>)}</ul></> : <p class="problem">That time is in the past.</p>)}
    </div>
  )
}
