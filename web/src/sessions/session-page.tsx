/** The page of a session: conversation, connection, composer, changes and details. */
import { useEffect, useLayoutEffect, useState } from 'preact/hooks'
import { request, errorMessage } from '../api/client'
import { showPanel } from '../app/actions'
import { dock, isDesktop, setDock } from '../app/columns'
import { navigate, sessionUrl } from '../app/router'
import { AskCard } from '../asks/ask-card'
import { commandsOfSession, trackCommand, PendingCommands } from '../commands/pending-commands'
import { ConnectionBar } from '../connection/connection-bar'
import { FilesOf } from '../files/opened-file'
import type * as P from '../generated/protocol'
import { Composer } from '../prompts/composer'
import { agentName, canDo, STATE_LABELS, sessionState, abbreviateHome, sessionTitle } from '../shared/format'
import { visibleLine } from '../shared/visible-text'
import { allSessionsLoaded, closeThread, connectionState, loadBackTo, loadOlder, nodes, openThread, sessions, thread, threadProblem, visibleAsks } from '../store/store'
import { ThreadRow } from '../thread/thread-rows'
import type { Thread } from '../thread/thread'
import { VirtualList } from '../thread/virtual-list'
import { Empty, Pane, Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { markSeen } from './marks'
import { Dock, FileSheet, PanelSheet } from './session-panels'

export function SessionPage({ id, sheet, at = 0 }: { id: string; sheet: '' | 'diff' | 'info'; at?: number }) {
  const session = sessions.value.get(id)
  // A passive effect is cleaned up after the next paint, maybe after the next page has opened its thread.
  useLayoutEffect(() => {
    void openThread(id)
    return closeThread
  }, [id])
  useEffect(() => {
    const look = () => { if (session && document.visibilityState === 'visible') markSeen(session) }
    look()
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [session?.turns, id, !!session])
  useLayoutEffect(() => {
    if (!isDesktop.value || !sheet) return
    setDock(sheet) // a link to a sheet: here it is docked
    navigate(sessionUrl(id), true)
  }, [id, sheet, isDesktop.value])
  const open = thread.value?.session === id ? thread.value : undefined
  const target = useEvent(open, at)
  if (!session && allSessionsLoaded.value) {
    return <Pane><Empty icon="sessions" title="Session not found"><p>{threadProblem.value || 'It may have been removed.'}</p><a class="button" href="/" data-internal="1">All sessions</a></Empty></Pane>
  }
  if (!session) return <Pane><p class="loading" role="status">Loading …</p></Pane>
  const node = nodes.value.get(session.node)
  const shown = sessionState(session, node)
  const asked = visibleAsks.value.some((record) => record.session === id && record.status === 'pending') // told before the session waits: what follows then moves nothing
  const docked = (panel: 'diff' | 'info') => (isDesktop.value ? dock.value === panel : undefined)
  return (
    <>
      <Pane class="thread" label={sessionTitle(session)}>
        <header class="pane-head">
          <button type="button" class="plain back" aria-label="Back to all sessions" onClick={() => navigate('/')}><Icon name="back" /></button>
          <div class="pane-title">
            <h1>{sessionTitle(session)}</h1>
            <p class="faint"><span class={`chip ${shown}`}>{STATE_LABELS[shown]}</span> {session.kind === 'attached' && <span class="chip" title="Runs in a terminal">terminal</span>} <span class="ellipsis path"><bdi>{visibleLine(abbreviateHome(session.cwd, node?.home))}</bdi></span></p>
          </div>
          <button type="button" class="plain" aria-label="Changes" title="Changes (d)" aria-expanded={docked('diff')} onClick={() => showPanel(id, 'diff')}><Icon name="diff" /></button>
          <button type="button" class="plain" aria-label="About this session" title="About (i)" aria-expanded={docked('info')} onClick={() => showPanel(id, 'info')}><Icon name="more" /></button>
        </header>
        <ConnectionBar session={session} />
        {(!sheet || isDesktop.value) && <PendingCommands of={commandsOfSession(id)} />}
        {threadProblem.value && <Problem text={threadProblem.value} />}
        {target.note && <p class="order" role="status"><Icon name="search" /> {target.note}</p>}
        {open ? (
          <FilesOf.Provider value={id}><VirtualList key={open.session} items={open.items.value} row={(item) => <ThreadRow key={item.key} item={item} session={open.session} marked={item.key === target.row} />} marked={target.row} onTop={() => void loadOlder(open)}>
            {open.items.value.length === 0 && <Empty icon="sessions" title="No messages yet"><p>Write the first prompt below. {agentName(session.agent)} works in <code>{abbreviateHome(session.cwd, node?.home)}</code>.</p></Empty>}
            <OtherAsks session={id} thread={open} />
            {shown === 'working' && !asked && <p class="working" aria-hidden="true"><span class="dots"><i /><i /><i /></span></p>}
          </VirtualList></FilesOf.Provider>
        ) : <div class="thread-frame"><p class="loading" role="status">Loading …</p></div>}
        {session.kind === 'attached' && session.status === 'closed' ? <TerminalClosed session={session} />
          : canDo(session, 'prompt') ? <Composer key={id} session={session} />
            : <p class="composer faint center">This session takes no prompts from here: type in its terminal.</p>}
        <p class="sr" role="status">{shown === 'waiting' ? 'The agent needs your decision' : shown === 'done' ? 'The agent is done' : ''}</p>
        {sheet && !isDesktop.value && <PanelSheet session={session} panel={sheet} />}
        {!isDesktop.value && <FileSheet session={session} />}
      </Pane>
      {isDesktop.value && <Dock session={session} />}
    </>
  )
}

/** The row of the event that the conversation is opened at, as soon as it is loaded; or why there is none. */
function useEvent(open: Thread | undefined, seq: number): { readonly row: string; readonly note: string } {
  const [target, setTarget] = useState({ row: '', note: '' })
  const online = connectionState.value.state === 'online'
  useEffect(() => {
    if (!open || !seq) return setTarget({ row: '', note: '' })
    let live = true
    if (open.hasOlder.peek() && open.firstSeq > seq) setTarget({ row: '', note: 'Loading what was said before …' })
    void loadBackTo(open, seq).then((loaded) => {
      if (!live) return
      const row = loaded ? open.rowOf(seq) : ''
      setTarget({ row, note: row ? '' : loaded ? 'That place is no longer stored.' : 'That place could not be loaded.' })
    })
    return () => { live = false }
  }, [open, seq, online])
  return target
}

/** Asks that wait and whose event is not among the loaded ones. */
function OtherAsks({ session, thread: open }: { session: string; thread: Thread }) {
  const waiting = visibleAsks.value.filter((record) => record.session === session && record.status === 'pending')
  if (!waiting.length) return null
  const shown = new Set(open.items.value.flatMap(({ content: { value } }) => (value.kind === 'ask' && value.ask ? [value.ask.id] : [])))
  return <>{waiting.filter((record) => !shown.has(record.id)).map((record) => <LateAsk key={record.id} record={record} />)}</>
}

const EVENT_MS = 300 // within which an ask's event follows its record: a card that moves would lose what was typed into it

function LateAsk({ record }: { record: P.AskRecord }) {
  const [late, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), EVENT_MS)
    return () => clearTimeout(timer)
  }, [])
  return late ? <AskCard record={record} inThread /> : null
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
