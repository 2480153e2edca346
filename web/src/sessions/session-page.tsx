/** The page of a session: conversation, connection, composer, changes and details. */
import { useEffect, useLayoutEffect, useState } from 'preact/hooks'
import { get, request, errorMessage } from '../api/client'
import { back, navigate, sessionUrl } from '../app/router'
import { commandsOfSession, trackCommand, PendingCommands } from '../commands/pending-commands'
import { ConnectionBar } from '../connection/connection-bar'
import { DiffView } from '../diff/diff-view'
import { formatComment } from '../diff/parse-diff'
import type * as P from '../generated/protocol'
import { addToDraft, Composer } from '../prompts/composer'
import { sendPrompt } from '../prompts/outbox'
import { agentName, canDo, compactNumber, cost, STATE_LABELS, sessionState, abbreviateHome, sessionTitle } from '../shared/format'
import { visibleLine, visible } from '../shared/visible-text'
import { closeThread, loaded, loadOlder, markSeen, nodes, openThread, sessions, thread, threadProblem } from '../store/store'
import { ThreadRow } from '../thread/thread-rows'
import { VirtualList } from '../thread/virtual-list'
import { Empty, Pane, Problem, Sheet, useFetched } from '../ui/components'
import { Icon } from '../ui/icons'
import { POLICIES } from './policies'

export function SessionPage({ id, sheet }: { id: string; sheet: '' | 'diff' | 'info' }) {
  const session = sessions.value.get(id)
  // A passive effect is cleaned up after the next paint, maybe after the next page has opened its thread.
  useLayoutEffect(() => {
    void openThread(id)
    return closeThread
  }, [id])
  useEffect(() => {
    if (session && document.visibilityState === 'visible') markSeen(session)
  }, [session?.turns, id, !!session])
  const open = thread.value?.session === id ? thread.value : undefined
  if (!session && loaded.value) {
    return <Pane><Empty icon="sessions" title="Session not found"><p>{threadProblem.value || 'It may have been removed.'}</p><a class="button" href="/" data-internal="1">All sessions</a></Empty></Pane>
  }
  if (!session) return <Pane><p class="loading" role="status">Loading …</p></Pane>
  const node = nodes.value.get(session.node)
  const shown = sessionState(session, node)
  return (
    <Pane class="thread" label={sessionTitle(session)}>
      <header class="pane-head">
        <button type="button" class="plain back" aria-label="Back to all sessions" onClick={() => navigate('/')}><Icon name="back" /></button>
        <div class="pane-title">
          <h1>{sessionTitle(session)}</h1>
          <p class="faint"><span class={`chip ${shown}`}>{STATE_LABELS[shown]}</span> {session.kind === 'attached' && <span class="chip" title="Somebody runs it in a terminal">terminal</span>} <span class="ellipsis">{visibleLine(abbreviateHome(session.cwd, node?.home))}</span></p>
        </div>
        <button type="button" class="plain" aria-label="Changes" title="Changes" onClick={() => navigate(sessionUrl(id, 'diff'))}><Icon name="diff" /></button>
        <button type="button" class="plain" aria-label="About this session" title="About" onClick={() => navigate(sessionUrl(id, 'info'))}><Icon name="more" /></button>
      </header>
      <ConnectionBar session={session} />
      {sheet !== 'info' && <PendingCommands of={commandsOfSession(id)} />}
      {threadProblem.value && <Problem text={threadProblem.value} />}
      {open ? (
        <VirtualList key={open.session} items={open.items.value} row={(item) => <ThreadRow key={item.key} item={item} session={open.session} />} onTop={() => void loadOlder(open)}>
          {open.items.value.length === 0 && <Empty icon="sessions" title="No messages yet"><p>Write the first prompt below. {agentName(session.agent)} works in <code>{abbreviateHome(session.cwd, node?.home)}</code>.</p></Empty>}
          {shown === 'working' && <p class="working" aria-hidden="true"><span class="dots"><i /><i /><i /></span></p>}
        </VirtualList>
      ) : <div class="thread-frame"><p class="loading" role="status">Loading …</p></div>}
      {session.kind === 'attached' && session.status === 'closed' ? <TerminalClosed session={session} />
        : canDo(session, 'prompt') ? <Composer key={id} session={session} />
          : <p class="composer faint center">It takes no prompts from elsewhere: type at its terminal.</p>}
      <p class="sr" role="status">{shown === 'waiting' ? 'The agent needs your decision' : shown === 'done' ? 'The agent is done' : ''}</p>
      {sheet === 'diff' && <DiffSheet session={session} />}
      {sheet === 'info' && <InfoSheet session={session} />}
    </Pane>
  )
}

/** Its terminal is gone: from here on it can only be driven by us. */
function TerminalClosed({ session }: { session: P.SessionRecord }) {
  const [problem, setProblem] = useState('')
  const adopt = () => void trackCommand('Take over', session.id, request('POST', `sessions/${encodeURIComponent(session.id)}/adopt`, {})).then(() => setProblem(''), (error: unknown) => setProblem(errorMessage(error)))
  return (
    <div class="composer">
      <Problem text={problem} />
      <p class="faint">Its terminal is closed. Resume it there, or go on from here, in the same conversation.</p>
      <button type="button" class="primary" onClick={adopt}>Take over</button>
    </div>
  )
}

function DiffSheet({ session }: { session: P.SessionRecord }) {
  const { value, problem } = useFetched(() => get<P.DiffText>(`sessions/${encodeURIComponent(session.id)}/diff`), [session.id, session.turns, session.status])
  const close = () => back(sessionUrl(session.id))
  return (
    <Sheet title="Changes" wide onClose={close}>
      <Problem text={problem} />
      {!value && !problem && <p class="loading" role="status">Loading …</p>}
      {value && !value.diff.trim() && <Empty icon="diff" title="No changes"><p>Since this session began.</p></Empty>}
      {value && (
        <DiffView
          diff={value.diff}
          onComment={(path, line, comment, send) => {
            const text = formatComment(path, line, comment)
            if (send) sendPrompt(session.id, text)
            else addToDraft(session.id, text)
          }}
        />
      )}
      {value?.diff.trim() && <p class="faint small-text">Tap a line to comment on it.</p>}
    </Sheet>
  )
}

function InfoSheet({ session }: { session: P.SessionRecord }) {
  const [problem, setProblem] = useState('')
  const [name, setName] = useState(session.title)
  const [model, setModel] = useState(session.model)
  const node = nodes.value.get(session.node)
  const agent = node?.agents?.find((one) => one.name === session.agent)
  const features = agent?.features ?? []
  const init = thread.value?.init.value
  const usage = thread.value?.usage.value
  const path = `sessions/${encodeURIComponent(session.id)}`
  const sendCommand = <T,>(what: string, method: string, at: string, body: unknown, then?: (value: T | undefined) => void) =>
    void trackCommand<T>(what, session.id, request(method, at, body)).then((value) => { setProblem(''); then?.(value) }, (error: unknown) => setProblem(errorMessage(error)))
  const change = (what: string, body: P.SessionChange, then?: () => void) => sendCommand(what, 'PATCH', path, body, then)
  const driven = session.kind !== 'attached'
  const archive = session.archived ? 'Unarchive' : 'Archive'
  const close = () => back(sessionUrl(session.id))
  const policy = POLICIES.find((one) => (['file_write', 'shell', 'network'] as const).every((part) => one.policy[part] === session.policy[part]))
  return (
    <Sheet title="About this session" onClose={close}>
      <Problem text={problem} />
      <form class="stack" onSubmit={(event) => { event.preventDefault(); change('Title and model', { title: name, ...(features.includes('model') && driven && model !== session.model ? { model } : {}) }, close) }}>
        <label>Title<input type="text" value={name} placeholder={sessionTitle(session)} onInput={(event) => setName(event.currentTarget.value)} /></label>
        {features.includes('model') && driven && <label>Model, from the next turn<input type="text" value={model} list="models" placeholder={init?.model || 'the agent’s own choice'} onInput={(event) => setModel(event.currentTarget.value)} /></label>}
        <datalist id="models">{(agent?.models ?? []).map((one) => <option key={one} value={one} />)}</datalist>
        {driven && <label>Policy
          <select value={policy?.name ?? ''} onChange={(event) => change('Policy', { policy: event.currentTarget.value })}>
            {!policy && <option value="">Custom</option>}
            {POLICIES.map((one) => <option key={one.name} value={one.name}>{one.title}</option>)}
          </select>
          {policy && <small class="faint">It {policy.description}.</small>}
        </label>}
        {!driven && <p class="faint">It runs in a terminal: its model, its permissions and its end are decided there.</p>}
        <button type="submit" class="primary">Save</button>
      </form>
      <dl class="facts">
        <div><dt>Agent</dt><dd>{agentName(session.agent)} {init?.version ?? agent?.version ?? ''}</dd></div>
        {(init?.model || session.model) && <div><dt>Model</dt><dd>{init?.model || session.model}</dd></div>}
        <div><dt>Machine</dt><dd>{node?.name || session.node}</dd></div>
        <div><dt>Directory</dt><dd><code>{visible(session.cwd)}</code></dd></div>
        {session.branch && <div><dt>Branch</dt><dd><code>{visible(session.branch)}</code></dd></div>}
        <div><dt>Turns</dt><dd>{session.turns}</dd></div>
        <div><dt>Used</dt><dd>{cost(session.tokens) || 'not reported'}{session.tokens.input != null && ` · ${compactNumber(session.tokens.input)} in, ${compactNumber(session.tokens.output ?? 0)} out`}{usage?.context_window ? ` · window ${compactNumber(usage.context_window)}` : ''}</dd></div>
        {init?.receipt && (['file_write', 'shell', 'network'] as const).map((one) => (
          <div key={one}><dt>{one.replace('_', ' ')}</dt><dd>{init.receipt![one].level}, by {init.receipt![one].means}{init.receipt![one].note && ` (${init.receipt![one].note})`}</dd></div>
        ))}
      </dl>
      <PendingCommands of={commandsOfSession(session.id)} />
      <div class="row wrap">
        {features.includes('fork') && <button type="button" onClick={() => sendCommand<P.SessionRecord>('Fork', 'POST', `${path}/fork`, {}, (fork) => { if (fork) navigate(sessionUrl(fork.id)) })}>Fork</button>}
        <button type="button" onClick={() => change(archive, { archived: !session.archived }, close)}>{archive}</button>
        {driven && session.status !== 'closed' && <button type="button" class="deny" onClick={() => sendCommand('End the agent', 'POST', `${path}/close`, {}, close)}>End the agent</button>}
      </div>
    </Sheet>
  )
}
