/** The prompt's text box, attachments and queue. Never disabled: a prompt that cannot be delivered now is delivered later. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { request, errorMessage } from '../api/client'
import { trackCommand } from '../commands/pending-commands'
import type * as P from '../generated/protocol'
import { agentName, canDo } from '../shared/format'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { visibleLine } from '../shared/visible-text'
import { nodes, thread } from '../store/store'
import { Ticks } from '../thread/thread-rows'
import { Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { ignoreTaps, useMoving } from '../ui/moved-buttons'
import { AttachButton, FileList, onPasteFiles, useAttachments } from './attach-files'
import { retryPrompt, dismissPrompt, sendPrompt, queuedPrompts, type QueuedPrompt } from './outbox'

/** Other components append to a draft, such as a comment on a line of the diff. */
const insertions = new Map<string, (text: string) => void>()

export function addToDraft(session: string, text: string): void {
  const insert = insertions.get(session)
  if (insert) insert(text)
  else saveLocal(`draft.${session}`, [loadLocal(`draft.${session}`, ''), text].filter(Boolean).join('\n\n'))
}

const hasMouse = () => matchMedia('(pointer: fine)').matches

export function Composer({ session }: { session: P.SessionRecord }) {
  const [text, setText] = useState(() => loadLocal(`draft.${session.id}`, ''))
  const [problem, setProblem] = useState('')
  const [stopping, setStopping] = useState(false)
  const box = useRef<HTMLTextAreaElement>(null)
  const agent = nodes.value.get(session.node)?.agents?.find((agent) => agent.name === session.agent)
  const busy = session.status === 'working' || session.status === 'waiting' || session.status === 'stuck'
  const driven = session.kind !== 'attached'
  const recipient = driven ? { name: agentName(session.agent), types: agent && (agent.attachments ?? []) } : { name: 'A session in a terminal', types: [] }
  const attached = useAttachments(recipient)
  const { files } = attached
  const steers = busy && !files.length && (driven ? (agent?.features ?? []).includes('steer') : canDo(session, 'steer'))

  const write = (value: string) => {
    setText(value)
    saveLocal(`draft.${session.id}`, value)
  }
  useEffect(() => {
    insertions.set(session.id, (more) => setText((before) => {
      const joined = [before, more].filter(Boolean).join('\n\n')
      saveLocal(`draft.${session.id}`, joined)
      return joined
    }))
    return () => { insertions.delete(session.id) }
  }, [session.id])
  useEffect(() => setStopping(false), [busy])
  useLayoutEffect(() => {
    const area = box.current!
    area.style.height = 'auto'
    area.style.height = `${Math.min(area.scrollHeight, innerHeight * 0.4)}px`
  }, [text, busy])

  const send = (steer: boolean) => {
    if (!text.trim() && !files.length) return
    sendPrompt(session.id, text.trim(), files, steer)
    write('')
    attached.clear()
    setProblem('')
    box.current?.focus()
  }
  const waiting = queuedPrompts(session.id).filter((prompt) => prompt.tick === 'node')
  const [stopAsked, setAsking] = useState(false)
  const asking = stopAsked && busy && waiting.length > 0 // whether what waits goes on after the stop
  const stop = async (empty = false) => {
    setStopping(true)
    setAsking(false)
    try {
      if (empty) await emptyQueue(session.id, waiting)
      const stopped = await trackCommand<boolean>('Stop', session.id, request('POST', `sessions/${encodeURIComponent(session.id)}/abort`, {}))
      if (stopped === undefined) setStopping(false) // pending: shown above the conversation
    } catch (error) {
      setProblem(errorMessage(error))
      setStopping(false)
    }
  }
  return (
    <form class={attached.dropping ? 'composer dropping' : 'composer'} aria-label="Message to the agent" onSubmit={(event) => { event.preventDefault(); send(false) }}>
      <Queue session={session.id} onProblem={setProblem} />
      {asking && (
        <div class="stop-choice" role="group" aria-label="Stop the agent">
          <p>{waiting.length === 1 ? 'A prompt waits' : `${waiting.length} prompts wait`} behind this turn.</p>
          <div class="row wrap">
            <button type="button" class="small" onClick={() => setAsking(false)}>Do not stop</button>
            <button type="button" class="small" ref={(button) => button?.focus()} onClick={() => void stop()}>Stop, go on with the queue</button>
            <button type="button" class="small deny" onClick={() => void stop(true)}>Stop and empty the queue</button>
          </div>
          <p class="faint small-text">What is taken out of the queue comes back into the message box{waiting.some((prompt) => prompt.files.length) ? ', without its files' : ''}.</p>
        </div>
      )}
      <Problem text={problem || attached.problem} />
      <Commands text={text} onPick={(command) => { write(`${command} `); box.current?.focus() }} />
      <FileList files={files} onRemove={attached.remove} />
      <div class="composer-box">
        {driven && <AttachButton types={recipient.types} add={attached.add} />}
        <textarea
          ref={box} rows={1} value={text} aria-label="Message" placeholder={busy ? (steers ? 'Queue or steer' : 'Queue a prompt') : 'What should it do?'}
          onInput={(event) => write(event.currentTarget.value)}
          onPaste={(event) => onPasteFiles(event, attached.add)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.isComposing || event.shiftKey) return
            if (event.metaKey || event.ctrlKey || hasMouse()) { event.preventDefault(); send(event.altKey && steers) }
          }}
        />
        {busy && canDo(session, 'abort') && <button type="button" class="round stop" aria-label={stopping ? 'Stopping' : 'Stop'} title="Stop (x)" onClick={() => (waiting.length ? setAsking(true) : void stop())}><Icon name="stop" /></button>}
        {steers && !!text.trim() && <button type="button" class="round" aria-label="Steer: send into the running turn" title="Steer" onClick={() => send(true)}><Icon name="steer" /></button>}
        <button type="submit" class="round primary" aria-label={busy ? 'Queue' : 'Send'} title={busy ? 'Queue' : 'Send'}><Icon name="send" /></button>
      </div>
    </form>
  )
}

const promptPath = (session: string, id: string, more = ''): string => `sessions/${encodeURIComponent(session)}/prompts/${encodeURIComponent(id)}${more}`

/** Takes all that waits out of the queue; what a person wrote comes back into the message box. */
async function emptyQueue(session: string, waiting: readonly QueuedPrompt[]): Promise<void> {
  for (const prompt of waiting) {
    await trackCommand('Remove from the queue', session, request('DELETE', promptPath(session, prompt.id)))
    if (prompt.text) addToDraft(session, prompt.text)
  }
}

/** The agent's own slash commands, while one is being typed. */
function Commands({ text, onPick }: { text: string; onPick: (command: string) => void }) {
  const typed = /^\/(\S*)$/.exec(text)?.[1]
  if (typed === undefined) return null
  const all = (thread.value?.init.value?.commands ?? []).map((command) => (command.startsWith('/') ? command : `/${command}`))
  const matches = all.filter((command) => command.slice(1).toLowerCase().includes(typed.toLowerCase())).slice(0, 8)
  if (!matches.length) return null
  return (
    <ul class="commands" aria-label="Commands of the agent">
      {matches.map((command) => <li key={command}><button type="button" onClick={() => onPick(command)}>{command}</button></li>)}
    </ul>
  )
}

function Queue({ session, onProblem }: { session: string; onProblem: (text: string) => void }) {
  const all = queuedPrompts(session)
  const moving = useMoving(all.map((prompt) => prompt.id).join())
  if (!all.length) return null
  const sendCommand = (what: string, method: string, id: string, more = '', body?: unknown) =>
    trackCommand(what, session, request(method, promptPath(session, id, more), body)).then(() => onProblem(''))
  const run = (sent: Promise<void>) => void sent.catch((error: unknown) => onProblem(errorMessage(error)))
  /** Nothing that was written is lost because the agent was faster. */
  const keep = (text: string, why: string) => {
    addToDraft(session, text)
    onProblem(`${why} What you wrote is in the message box.`)
  }
  const atNode = all.filter((prompt) => prompt.tick === 'node')
  /** Before the prompt at this place of the queue; beyond the last one: at its end. */
  const moveTo = (id: string, to: number) => sendCommand('Move in the queue', 'POST', id, '/move', { before: atNode[to]?.id ?? '' })
  return (
    <section class={moving ? 'queue moving' : 'queue'} aria-label="Waiting prompts" onClickCapture={ignoreTaps}>
      <ol>
        {all.map((prompt, index) => (
          <QueueRow
            key={prompt.id} prompt={prompt} moving={moving} onGone={(text) => keep(text, 'The prompt left the queue before it was saved.')}
            onDrop={() => (prompt.tick === 'node' ? run(sendCommand('Remove from the queue', 'DELETE', prompt.id)) : dismissPrompt(prompt.id))}
            onUp={prompt.tick === 'node' && index > 0 ? () => run(moveTo(prompt.id, index - 1)) : undefined}
            onDown={prompt.tick === 'node' && index < atNode.length - 1 ? () => run(moveTo(prompt.id, index + 2)) : undefined}
            onEdit={prompt.tick === 'node' ? (text) => void sendCommand('Edit in the queue', 'PATCH', prompt.id, '', { text }).catch((error: unknown) => keep(text, errorMessage(error))) : undefined}
          />
        ))}
      </ol>
    </section>
  )
}

interface QueueRowProps {
  readonly prompt: QueuedPrompt
  readonly moving: boolean
  readonly onGone: (text: string) => void // while it was edited
  readonly onDrop: () => void
  readonly onUp?: () => void
  readonly onDown?: () => void
  readonly onEdit?: (text: string) => void
}

function QueueRow({ prompt, moving, onGone, onDrop, onUp, onDown, onEdit }: QueueRowProps) {
  const [edited, setEdited] = useState<string | undefined>(undefined)
  const unsaved = useRef('')
  unsaved.current = edited !== undefined && edited !== prompt.text ? edited.trim() : ''
  useEffect(() => () => { if (unsaved.current) onGone(unsaved.current) }, [])
  const name = prompt.text ? visibleLine(prompt.text).slice(0, 40) : prompt.files.join(', ')
  if (edited !== undefined && onEdit) {
    const save = () => {
      if (edited.trim() && edited !== prompt.text) onEdit(edited.trim())
      setEdited(undefined)
    }
    return (
      <li class="editing">
        <textarea
          rows={3} value={edited} aria-label="Edit the waiting prompt" ref={(area) => { if (area && document.activeElement !== area) area.focus() }}
          onInput={(event) => setEdited(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') { event.preventDefault(); setEdited(undefined) }
            else if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) { event.preventDefault(); save() }
          }}
        />
        <div class="row end"><button type="button" class="small" aria-disabled={moving} onClick={() => setEdited(undefined)}>Cancel</button><button type="button" class="small primary" disabled={!edited.trim()} aria-disabled={moving} onClick={save}>Save</button></div>
      </li>
    )
  }
  return (
    <li class={prompt.tick}>
      <div class="queue-text">
        {prompt.steer && <span class="tag">steer</span>}{prompt.text || prompt.files.join(', ')}
        {prompt.problem && <span class="problem" role="alert">{prompt.problem}</span>}
      </div>
      <Ticks tick={prompt.tick} />
      {prompt.tick === 'failed' && <button type="button" class="small" onClick={() => retryPrompt(prompt.id)}>Retry</button>}
      {onEdit && <button type="button" class="plain" aria-disabled={moving} aria-label={`Edit: ${name}`} title="Edit" onClick={() => setEdited(prompt.text)}><Icon name="edit" /></button>}
      {onUp && <button type="button" class="plain" aria-disabled={moving} aria-label={`Earlier: ${name}`} title="Earlier" onClick={onUp}><Icon name="up" /></button>}
      {onDown && <button type="button" class="plain turned-down" aria-disabled={moving} aria-label={`Later: ${name}`} title="Later" onClick={onDown}><Icon name="up" /></button>}
      {prompt.tick !== 'hub' && (prompt.tick !== 'sending' || prompt.problem) && <button type="button" class="plain" aria-disabled={moving} aria-label={`Remove from the queue: ${name}`} title="Remove" onClick={onDrop}><Icon name="cross" /></button>}
    </li>
  )
}
