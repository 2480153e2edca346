/** The form for a new session: the first prompt, and below it where and how it runs, as it was the last time. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import { get, newId, ApiError, IdempotentRequest, errorMessage } from '../api/client'
import { isDesktop } from '../app/columns'
import { back, navigate, sessionUrl } from '../app/router'
import { dismissCommand, commandsOfMissingSessions, commandsOfSession, trackCommand, PendingCommands, missingAnswer } from '../commands/pending-commands'
import type * as P from '../generated/protocol'
import { agentName, baseName, abbreviateHome } from '../shared/format'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { AttachButton, FileList, onPasteFiles, refusalOf, useAttachments } from '../prompts/attach-files'
import { nodes, sessions } from '../store/store'
import { Problem, Sheet } from '../ui/components'
import { Icon } from '../ui/icons'
import { EffortSelect } from './effort-select'
import { effortsOf, ModelPicker } from './model-picker'
import { POLICIES } from './policies'

/** What was used last, as the next session probably wants it. */
interface LastChoice { readonly node: string; readonly agent: string; readonly policy: string; readonly cwd?: string; readonly models?: Readonly<Record<string, string>>; readonly efforts?: Readonly<Record<string, string>> }

export function NewSession() {
  const machines = [...nodes.value.values()].sort((machine, other) => Number(other.online ?? false) - Number(machine.online ?? false) || Number(other.local ?? false) - Number(machine.local ?? false))
  const last = useMemo(() => loadLocal<LastChoice>('last', { node: '', agent: '', policy: 'ask' }), [])
  const [nodeId, setNode] = useState(last.node)
  const node = nodes.value.get(nodeId) ?? machines[0]
  const agents = [...(node?.agents ?? [])].sort((candidate, other) => Number(other.ready ?? false) - Number(candidate.ready ?? false))
  const [agentId, setAgent] = useState(last.agent)
  const agent = agents.find((candidate) => candidate.name === agentId) ?? agents.find((candidate) => candidate.name === node?.default_agent) ?? agents[0]
  const [all, setAll] = useState(false)
  const installedAgents = agents.filter((candidate) => candidate.found || candidate.name === agent?.name)
  const recent = useMemo(() => [...new Set([...(last.cwd && last.node === node?.id ? [last.cwd] : []), ...recentDirectories(node?.id ?? '')])], [node?.id, sessions.value.size])
  const [typed, setCwd] = useState<string | undefined>(undefined)
  const cwd = typed ?? recent[0] ?? node?.home ?? ''
  const [policy, setPolicy] = useState(last.policy)
  const [worktree, setWorktree] = useState(false)
  const [branch, setBranch] = useState('')
  const [typedModel, setModel] = useState<string | undefined>(undefined)
  const model = typedModel ?? last.models?.[agent?.name ?? ''] ?? ''
  const efforts = effortsOf(agent, model)
  const [chosenEffort, setEffort] = useState<string | undefined>(undefined)
  const lastEffort = last.efforts?.[agent?.name ?? ''] ?? ''
  const wantedEffort = chosenEffort ?? lastEffort
  const effort = efforts.includes(wantedEffort) ? wantedEffort : '' // another model may not take it, and an update may have taken it away
  const [prompt, setPrompt] = useState(() => loadLocal('draft.new', ''))
  const recipient = { name: agentName(agent?.name ?? ''), types: agent && (agent.attachments ?? []) }
  const attached = useAttachments(recipient)
  const refusedFiles = refusalOf(recipient, attached.files) // another agent may have been chosen since
  const [browsing, setBrowsing] = useState(false)
  const [problem, setProblem] = useState<ApiError | string>('')
  const [accept, setAccept] = useState(false)
  const [busy, setBusy] = useState(false)
  const [pending, setPending] = useState(false)
  const [id, setId] = useState(newId) // the same id until a machine has refused it, so that a resend makes one session
  const [sessionRequest] = useState(() => new IdempotentRequest())

  const unenforced = problem instanceof ApiError && problem.problem.code === 'PolicyUnenforceable'
  const create = async () => {
    setBusy(true)
    setProblem('')
    const body: P.NewSession = {
      id, node: node?.id ?? '', agent: agent?.name ?? '', cwd, policy, model, effort, prompt: prompt.trim(), ...(attached.files.length ? { attachments: attached.files } : {}), ...(worktree ? { worktree, branch: branch.trim() } : {}), ...(accept ? { accept_unenforced: true } : {}),
    }
    try {
      const createdSession = await trackCommand<P.SessionRecord>(`New session in ${baseName(cwd)}`, id, sessionRequest.send('POST', 'sessions', body), prompt)
      saveLocal('last', { node: node?.id ?? '', agent: agent?.name ?? '', policy, cwd, models: { ...last.models, [agent?.name ?? '']: model }, efforts: { ...last.efforts, [agent?.name ?? '']: effort } } satisfies LastChoice)
      if (!createdSession) return setPending(true) // pending: the draft may be needed again
      saveLocal('draft.new', '')
      navigate(sessionUrl(id), true)
    } catch (error) {
      setProblem(error instanceof ApiError ? error : errorMessage(error))
      setBusy(false)
    }
  }
  const begun = pending && sessions.value.has(id)
  useEffect(() => { if (begun) navigate(sessionUrl(id), true) }, [begun])
  const refused = commandsOfSession(id).find((command) => command.problem)
  useEffect(() => {
    if (!refused) return
    dismissCommand(refused.id) // the form shows it
    setProblem(refused.problem)
    setId(newId())
    setPending(false)
    setBusy(false)
  }, [refused?.id])
  if (pending) {
    return (
      <Sheet title="New session" onClose={() => back('/')}>
        <p role="status">Received by the hub. {missingAnswer(node?.id ?? '')}: the session starts when the machine is back.</p>
        <button type="button" onClick={() => back('/')}>All sessions</button>
      </Sheet>
    )
  }
  const foot = (
    <>
      <Problem text={refusedFiles || (problem instanceof ApiError ? errorMessage(problem) : problem)} />
      {unenforced && (
        <label class="option"><input type="checkbox" checked={accept} onChange={(event) => setAccept(event.currentTarget.checked)} /> <span>Start anyway: this agent cannot enforce the policy</span></label>
      )}
      <button type="submit" form="new-session" class="primary big" disabled={busy || !node || !agent || !cwd || !!refusedFiles}>{busy ? 'Starting …' : 'Start'}</button>
    </>
  )
  return (
    <Sheet title="New session" onClose={() => back('/')} foot={foot}>
      <form id="new-session" class="stack new-session" onSubmit={(event) => { event.preventDefault(); void create() }}>
        <PendingCommands of={commandsOfMissingSessions()} />
        {machines.length === 0 && <Problem text="No machine is connected yet. Join one in Settings." />}
        <div class={attached.dropping ? 'first-prompt dropping' : 'first-prompt'}>
          <label>First prompt
            <textarea
              rows={4} autofocus={isDesktop.value} value={prompt} placeholder="What should it do? You can also write it later."
              onKeyDown={(event) => { if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) event.currentTarget.form!.requestSubmit() }}
              onInput={(event) => { setPrompt(event.currentTarget.value); saveLocal('draft.new', event.currentTarget.value) }}
              onPaste={(event) => onPasteFiles(event, attached.add)}
            />
          </label>
          <Problem text={attached.problem} />
          <FileList files={attached.files} onRemove={attached.remove} />
          <AttachButton types={recipient.types} add={attached.add} label="Attach" />
        </div>
        {(machines.length > 1 || machines.some((machine) => !machine.online)) && (
          <fieldset>
            <legend>Machine</legend>
            <div class="options">
              {machines.map((machine) => (
                <label key={machine.id} class="option">
                  <input type="radio" name="node" checked={machine.id === node?.id} onChange={() => { setNode(machine.id); setCwd(undefined) }} />
                  <Icon name="machine" /><span>{machine.name || machine.id}</span>{!machine.online && <small>offline</small>}
                </label>
              ))}
            </div>
          </fieldset>
        )}
        <fieldset>
          <legend>Agent</legend>
          <div class="options">
            {(all ? agents : installedAgents).map((option) => (
              <label key={option.name} class={option.ready ? 'option' : 'option off'}>
                <input type="radio" name="agent" checked={option.name === agent?.name} onChange={() => { setAgent(option.name); setModel(undefined); setEffort(undefined) }} />
                <span class="agent-dot" data-agent={option.name} aria-hidden="true" /><span>{agentName(option.name)}</span>
                {!option.ready && <small>{option.found ? 'not ready' : 'not installed'}</small>}
              </label>
            ))}
            {!all && agents.length > installedAgents.length && <button type="button" class="small" onClick={() => setAll(true)}>{agents.length - installedAgents.length} more, not installed</button>}
          </div>
          {agent && !agent.ready && (agent.problem || agent.hint) && <p class="faint small-text">{[agent.problem, agent.hint].filter(Boolean).join(' ')}</p>}
          {agent?.basis === 'unverified' && <p class="faint small-text">It has never run on this machine, so what it can do is unverified.</p>}
        </fieldset>
        <fieldset>
          <legend>Directory</legend>
          <div class="row">
            <input type="text" class="mono grow" value={cwd} aria-label="Directory" spellcheck={false} autocapitalize="off" autocomplete="off" list="recent" onInput={(event) => setCwd(event.currentTarget.value)} />
            <button type="button" aria-expanded={browsing} onClick={() => setBrowsing(!browsing)}><Icon name="folder" /> Browse</button>
          </div>
          <datalist id="recent">{recent.map((directory) => <option key={directory} value={directory} />)}</datalist>
          {recent.length > 0 && !browsing && (
            <div class="recents" role="group" aria-label="Recent directories">
              {recent.slice(0, 6).map((directory) => <button key={directory} type="button" class={directory === cwd ? 'small on' : 'small'} title={directory} onClick={() => setCwd(directory)}>{abbreviateHome(directory, node?.home).length < 28 ? abbreviateHome(directory, node?.home) : baseName(directory)}</button>)}
            </div>
          )}
          {browsing && node && <DirectoryBrowser node={node} from={cwd} onPick={setCwd} />}
          <label class="option"><input type="checkbox" checked={worktree} onChange={(event) => setWorktree(event.currentTarget.checked)} /> <span>Work in a git worktree of its own</span></label>
          {worktree && <label>Branch<input type="text" class="mono" value={branch} placeholder="By the first prompt" spellcheck={false} autocapitalize="off" autocomplete="off" onInput={(event) => setBranch(event.currentTarget.value)} /></label>}
        </fieldset>
        <fieldset>
          <legend>Policy</legend>
          <div class="policies">
            {POLICIES.map((option) => (
              <label key={option.name} class="option tall">
                <input type="radio" name="policy" checked={policy === option.name} onChange={() => { setPolicy(option.name); setAccept(false) }} />
                <span><strong>{option.title}</strong><small>{option.description}</small></span>
              </label>
            ))}
          </div>
        </fieldset>
        {agent?.features?.includes('model') && <ModelPicker node={node} agent={agent} value={model} onChange={setModel} />}
        <EffortSelect levels={efforts} value={effort} onChange={setEffort} />
      </form>
    </Sheet>
  )
}

export function recentDirectories(node: string): string[] {
  const own = [...sessions.peek().values()].filter((session) => session.node === node).sort((session, other) => other.created_at - session.created_at)
  return [...new Set(own.flatMap((session) => (session.worktree ? session.worktree.repository || [] : session.cwd)))]
}

function DirectoryBrowser({ node, from, onPick }: { node: P.NodeView; from: string; onPick: (path: string) => void }) {
  const [path, setPath] = useState(from)
  const [directory, setDirectory] = useState<P.DirectoryView | undefined>(undefined)
  const [problem, setProblem] = useState('')
  useEffect(() => {
    let live = true
    get<P.DirectoryView>(`nodes/${encodeURIComponent(node.id)}/browse?path=${encodeURIComponent(path)}`).then(
      (view) => { if (live) { setDirectory(view); setProblem(''); onPick(view.path) } },
      (error: unknown) => {
        if (!live) return
        if (path && !directory) setPath('') // the typed directory does not exist: start at home
        else setProblem(errorMessage(error))
      },
    )
    return () => { live = false }
  }, [node.id, path])
  return (
    <div class="browser">
      <Problem text={problem} />
      {directory && (
        <ul aria-label={`Directories in ${directory.path}`}>
          {directory.parent && <li><button type="button" onClick={() => setPath(directory.parent)}><Icon name="up" /> ..</button></li>}
          {directory.names.map((name) => <li key={name}><button type="button" onClick={() => setPath(`${directory.path.replace(/\/$/, '')}/${name}`)}><Icon name="folder" /> {name}</button></li>)}
          {!directory.names.length && <li class="faint">No directories inside</li>}
          {!directory.whole && <li class="faint">… and more: type the path</li>}
        </ul>
      )}
    </div>
  )
}
