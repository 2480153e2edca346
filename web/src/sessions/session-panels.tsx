/** What stands beside a conversation: its changes, its facts and what it used. Docked on a desktop, a sheet on a phone. */
import { useState } from 'preact/hooks'
import { dock, setDock, Separator, type Panel } from '../app/columns'
import { request, errorMessage } from '../api/client'
import { back, navigate, sessionUrl } from '../app/router'
import { commandsOfSession, PendingCommands, trackCommand } from '../commands/pending-commands'
import { openedFile } from '../files/opened-file'
import type * as P from '../generated/protocol'
import { agentName, ago, canDo, compactNumber, cost, duration, enforcement, sessionTitle, TURN_STATUS_LABELS } from '../shared/format'
import { visible } from '../shared/visible-text'
import { nodes, now, thread } from '../store/store'
import { PathText, Problem, Sheet } from '../ui/components'
import { Icon } from '../ui/icons'
import { lazy } from '../ui/lazy'
import { EffortSelect } from './effort-select'
import { effortsOf, ModelPicker } from './model-picker'
import { isPinned, togglePin } from './marks'
import { POLICIES } from './policies'

const Changes = lazy(() => import('../changes/changes-panel').then((module) => module.ChangesPanel))
const FileView = lazy(() => import('../files/file-view').then((module) => module.FileView))
const WorktreePanel = lazy<{ session: P.SessionRecord }>(() => import('./worktree-panel').then((module) => module.WorktreePanel))

const TITLES: Readonly<Record<Panel, string>> = { diff: 'Changes', info: 'About this session' }
const TABS: readonly (readonly [Panel, string])[] = [['diff', 'Changes'], ['info', 'About']]

/** Beside the conversation. */
export function Dock({ session }: { session: P.SessionRecord }) {
  const file = openedFile.value?.session === session.id ? openedFile.value : undefined
  const shown = file ? 'file' : dock.value
  if (!shown) return null
  const tabs: readonly (readonly [Panel | 'file', string])[] = file ? [...TABS, ['file', 'File']] : TABS
  const choose = (panel: Panel | 'file') => {
    if (panel === 'file') return
    openedFile.value = undefined
    setDock(panel)
  }
  const move = (by: 1 | -1) => {
    const next = tabs[(tabs.findIndex(([panel]) => panel === shown) + by + tabs.length) % tabs.length]![0]
    choose(next)
    document.getElementById(`dock-tab-${next}`)?.focus()
  }
  return (
    <aside class="dock" id="dock" aria-label="Changes and facts">
      <Separator column="dock" label="Width of the changes and facts" controls="dock" />
      <header class="dock-head">
        <div
          class="dock-tabs" role="tablist" aria-label="Beside the conversation"
          onKeyDown={(event) => {
            if (event.key === 'ArrowLeft') move(-1)
            else if (event.key === 'ArrowRight') move(1)
          }}
        >
          {tabs.map(([panel, label]) => (
            <button key={panel} id={`dock-tab-${panel}`} type="button" role="tab" aria-selected={panel === shown} aria-controls="dock-panel" tabIndex={panel === shown ? 0 : -1} onClick={() => choose(panel)}>{label}</button>
          ))}
        </div>
        <button type="button" class="plain" aria-label="Close the changes and facts" onClick={() => { if (file) openedFile.value = undefined; else setDock('') }}><Icon name="cross" /></button>
      </header>
      <div class="dock-body" id="dock-panel" role="tabpanel" aria-labelledby={`dock-tab-${shown}`} tabIndex={0}>
        {file ? <FileView {...file} /> : shown === 'diff' ? <Changes key={session.id} session={session} /> : <About key={session.id} session={session} docked />}
      </div>
    </aside>
  )
}

/** A file over the conversation, where there is no dock. */
export function FileSheet({ session }: { session: P.SessionRecord }) {
  const file = openedFile.value
  if (file?.session !== session.id) return null
  return <Sheet title="File" wide onClose={() => (openedFile.value = undefined)}><FileView {...file} /></Sheet>
}

/** Over the conversation. */
export function PanelSheet({ session, panel }: { session: P.SessionRecord; panel: Panel }) {
  return (
    <Sheet title={TITLES[panel]} wide={panel === 'diff'} onClose={() => back(sessionUrl(session.id))}>
      {panel === 'diff' ? <Changes session={session} /> : <About session={session} />}
    </Sheet>
  )
}

function About({ session, docked = false }: { session: P.SessionRecord; docked?: boolean }) {
  const [problem, setProblem] = useState('')
  const [name, setName] = useState(session.title)
  const [model, setModel] = useState(session.model)
  const [effort, setEffort] = useState(session.effort)
  const node = nodes.value.get(session.node)
  const agent = node?.agents?.find((candidate) => candidate.name === session.agent)
  const features = agent?.features ?? []
  const init = thread.value?.init.value
  const path = `sessions/${encodeURIComponent(session.id)}`
  const sendCommand = <T,>(what: string, method: string, at: string, body: unknown, then?: (value: T | undefined) => void) =>
    void trackCommand<T>(what, session.id, request(method, at, body)).then((value) => { setProblem(''); then?.(value) }, (error: unknown) => setProblem(errorMessage(error)))
  const change = (what: string, body: P.SessionChange, then?: () => void) => sendCommand(what, 'PATCH', path, body, then)
  const driven = session.kind !== 'attached'
  const modelNow = driven ? init?.model || session.model : session.model // a terminal may have another by now
  const choosesModel = canDo(session, 'model')
  const archive = session.archived ? 'Unarchive' : 'Archive'
  const close = () => { if (!docked) back(sessionUrl(session.id)) }
  const policy = POLICIES.find((preset) => (['file_write', 'shell', 'network'] as const).every((part) => preset.policy[part] === session.policy[part]))
  return (
    <>
      <Problem text={problem} />
      <form class="stack" onSubmit={(event) => { event.preventDefault(); change('Title, model and effort', { title: name, ...(features.includes('model') && choosesModel && model !== session.model ? { model } : {}), ...(choosesModel && effort !== session.effort ? { effort } : {}) }, close) }}>
        <label>Title<input type="text" value={name} placeholder={sessionTitle(session)} onInput={(event) => setName(event.currentTarget.value)} /></label>
        {agent && features.includes('model') && choosesModel && <ModelPicker label={driven ? 'Model, from the next turn' : 'Model, from the next prompt from here'} node={node} agent={agent} value={model} placeholder={init?.model || 'The agent’s own choice'} onChange={setModel} />}
        {choosesModel && <EffortSelect label={driven ? 'Effort, from the next turn' : 'Effort, from the next prompt from here'} levels={effortsOf(agent, model)} value={effort} onChange={setEffort} />}
        {driven && <label>Policy
          <select value={policy?.name ?? ''} onChange={(event) => change('Policy', { policy: event.currentTarget.value })}>
            {!policy && <option value="">Custom</option>}
            {POLICIES.map((preset) => <option key={preset.name} value={preset.name}>{preset.title}</option>)}
          </select>
          {policy && <small class="faint">It {policy.description}.</small>}
        </label>}
        {!driven && <p class="faint">It runs in a terminal: its {choosesModel ? '' : 'model, its '}permissions and its end are decided there.</p>}
        <button type="submit" class="primary">Save</button>
      </form>
      <dl class="facts">
        <div><dt>Agent</dt><dd>{agentName(session.agent)} {init?.version ?? agent?.version ?? ''}</dd></div>
        {modelNow && <div><dt>Model</dt><dd>{modelNow}</dd></div>}
        {session.mode && <div><dt>Mode</dt><dd>{session.mode}</dd></div>}
        <div><dt>Machine</dt><dd>{node?.name || session.node}</dd></div>
        <div><dt>Directory</dt><dd><code><PathText text={visible(session.cwd)} /></code></dd></div>
        {session.branch && <div><dt>Branch</dt><dd><code>{visible(session.branch)}</code></dd></div>}
        {init?.receipt && ([['file_write', 'Edits'], ['shell', 'Commands'], ['network', 'Network']] as const).map(([capability, name]) => (
          <div key={capability}><dt>{name}</dt><dd>{enforcement(init.receipt![capability])}</dd></div>
        ))}
      </dl>
      {session.worktree && <WorktreePanel session={session} />}
      <Usage session={session} />
      {!docked && <PendingCommands of={commandsOfSession(session.id)} />}
      <div class="row wrap">
        {features.includes('fork') && <button type="button" onClick={() => sendCommand<P.SessionRecord>('Fork', 'POST', `${path}/fork`, {}, (fork) => { if (fork) navigate(sessionUrl(fork.id)) })}>Fork</button>}
        <button type="button" aria-pressed={isPinned(session.id)} onClick={() => togglePin(session.id)}>{isPinned(session.id) ? 'Unpin' : 'Pin'}</button>
        <button type="button" onClick={() => change(archive, { archived: !session.archived }, close)}>{archive}</button>
        {driven && session.status !== 'closed' && <button type="button" class="deny" onClick={() => sendCommand('End the agent', 'POST', `${path}/close`, {}, close)}>End the agent</button>}
      </div>
    </>
  )
}

const TURNS_SHOWN = 8

/** What it used so far, and the last turns one by one. */
function Usage({ session }: { session: P.SessionRecord }) {
  const { tokens } = session
  const open = thread.value?.session === session.id ? thread.value : undefined
  const usage = open?.usage.value
  const ends = (open?.items.value ?? []).flatMap(({ key, at, content: { value } }) => (value.kind === 'done' ? [{ key, at, done: value.done }] : [])).slice(-TURNS_SHOWN).reverse()
  const window = usage?.context_window
  const counts = ([['in', tokens.input], ['out', tokens.output], ['read from the cache', tokens.cache_read], ['written to the cache', tokens.cache_write]] as const).filter(([, count]) => count != null)
  return (
    <section class="usage" aria-label="Usage">
      <p><strong>Usage</strong></p>
      {session.turns > 0 && <p><strong class="amount">{cost(tokens) || 'Not reported'}</strong> <span class="faint">in {session.turns} {session.turns === 1 ? 'turn' : 'turns'}</span></p>}
      {!session.turns && !ends.length && <p class="faint">No turn has ended yet.</p>}
      {counts.length > 0 && <p class="faint small-text">Tokens: {counts.map(([name, count]) => `${compactNumber(count!)} ${name}`).join(', ')}</p>}
      {window ? <p class="faint small-text">The model’s window: {compactNumber(window)} tokens</p> : null}
      {ends.length > 0 && (
        <table>
          <thead><tr><th scope="col">Turn</th><th scope="col">Time</th><th scope="col">Used</th></tr></thead>
          <tbody>{ends.map(({ key, at, done }) => <tr key={key}><td>{TURN_STATUS_LABELS[done.status]}, {ago(at, now.value)}{at && now.value - at > 45 ? ' ago' : ''}</td><td>{done.duration_s ? duration(done.duration_s) : '–'}</td><td>{cost(done.tokens) || '–'}</td></tr>)}</tbody>
        </table>
      )}
    </section>
  )
}
