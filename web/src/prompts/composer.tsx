/** The prompt's text box, attachments and queue. Never disabled: a prompt that cannot be delivered now is delivered later. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { request, errorMessage } from '../api/client'
import { trackCommand } from '../commands/pending-commands'
import type * as P from '../generated/protocol'
import { agentName, canDo } from '../shared/format'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { nodes, thread } from '../store/store'
import { Ticks } from '../thread/thread-rows'
import { Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { readAttachment, acceptsType, MAX_TOTAL_BYTES, attachmentSize } from './attachments'
import { retryPrompt, dismissPrompt, sendPrompt, queuedPrompts, type Attachment, type QueuedPrompt } from './outbox'

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
  const [files, setFiles] = useState<readonly Attachment[]>([])
  const [problem, setProblem] = useState('')
  const [stopping, setStopping] = useState(false)
  const box = useRef<HTMLTextAreaElement>(null)
  const picker = useRef<HTMLInputElement>(null)
  const agent = nodes.value.get(session.node)?.agents?.find((agent) => agent.name === session.agent)
  const busy = session.status === 'working' || session.status === 'waiting' || session.status === 'stuck'
  const driven = session.kind !== 'attached'
  const steers = busy && (driven ? (agent?.features ?? []).includes('steer') : canDo(session, 'steer'))

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
    setFiles([])
    setProblem('')
    box.current?.focus()
  }
  const add = async (list: Iterable<File>) => {
    try {
      const more = await Promise.all([...list].map(readAttachment))
      const all = [...files, ...more]
      const unsupported = agent && more.find((file) => !acceptsType(file.media_type, agent.attachments ?? []))
      if (unsupported) setProblem(`${agentName(session.agent)} does not accept ${unsupported.name} (${unsupported.media_type}).`)
      else if (all.reduce((sum, file) => sum + attachmentSize(file), 0) > MAX_TOTAL_BYTES) setProblem('The files are too large: a prompt takes at most 700 KB in all.')
      else { setFiles(all); setProblem('') }
    } catch {
      setProblem('The file cannot be read.')
    }
  }
  const stop = async () => {
    setStopping(true)
    try {
      const stopped = await trackCommand<boolean>('Stop', session.id, request('POST', `sessions/${encodeURIComponent(session.id)}/abort`, {}))
      if (stopped === undefined) setStopping(false) // pending: shown above the conversation
    } catch (error) {
      setProblem(errorMessage(error))
      setStopping(false)
    }
  }
  return (
    <form class="composer" aria-label="Message to the agent" onSubmit={(event) => { event.preventDefault(); send(false) }}>
      <Queue session={session.id} />
      <Problem text={problem} />
      <Commands text={text} onPick={(command) => { write(`${command} `); box.current?.focus() }} />
      {files.length > 0 && (
        <ul class="files">
          {files.map((file, index) => (
            <li key={index}><Icon name="clip" />{file.name}
              <button type="button" class="plain" aria-label={`Remove ${file.name}`} onClick={() => setFiles(files.filter((_, other) => other !== index))}><Icon name="cross" /></button>
            </li>
          ))}
        </ul>
      )}
      <div class="composer-box">
        {driven && <button type="button" class="plain" aria-label="Attach a file" onClick={() => picker.current!.click()}><Icon name="clip" /></button>}
        <input ref={picker} type="file" multiple hidden onChange={(event) => { void add(event.currentTarget.files ?? []); event.currentTarget.value = '' }} />
        <textarea
          ref={box} rows={1} value={text} aria-label="Message" placeholder={busy ? (steers ? 'Queue or steer' : 'Queue a prompt') : 'What should it do?'}
          onInput={(event) => write(event.currentTarget.value)}
          onPaste={(event) => { const list = event.clipboardData?.files; if (driven && list?.length) { event.preventDefault(); void add(list) } }}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.isComposing || event.shiftKey) return
            if (event.metaKey || event.ctrlKey || hasMouse()) { event.preventDefault(); send(event.altKey && steers) }
          }}
        />
        {busy && canDo(session, 'abort') && <button type="button" class="round stop" aria-label={stopping ? 'Stopping' : 'Stop'} onClick={() => void stop()}><Icon name="stop" /></button>}
        {steers && !!text.trim() && <button type="button" class="round" aria-label="Steer: send into the running turn" title="Steer" onClick={() => send(true)}><Icon name="steer" /></button>}
        <button type="submit" class="round primary" aria-label={busy ? 'Queue' : 'Send'} title={busy ? 'Queue' : 'Send'}><Icon name="send" /></button>
      </div>
    </form>
  )
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

function Queue({ session }: { session: string }) {
  const all = queuedPrompts(session)
  const [problem, setProblem] = useState('')
  if (!all.length) return null
  const sendCommand = (what: string, method: string, id: string, more = '', body?: unknown) =>
    void trackCommand(what, session, request(method, `sessions/${encodeURIComponent(session)}/prompts/${encodeURIComponent(id)}${more}`, body)).then(() => setProblem(''), (error: unknown) => setProblem(errorMessage(error)))
  return (
    <section class="queue" aria-label="Waiting prompts">
      <Problem text={problem} />
      <ol>
        {all.map((prompt, index) => (
          <QueueRow
            key={prompt.id} prompt={prompt}
            onDrop={() => (prompt.tick === 'node' ? sendCommand('Remove from the queue', 'DELETE', prompt.id) : dismissPrompt(prompt.id))}
            onFirst={prompt.tick === 'node' && index > 0 ? () => sendCommand('Move to the front', 'POST', prompt.id, '/move', { before: all[0]!.id }) : undefined}
          />
        ))}
      </ol>
    </section>
  )
}

function QueueRow({ prompt, onDrop, onFirst }: { prompt: QueuedPrompt; onDrop: () => void; onFirst?: () => void }) {
  return (
    <li class={prompt.tick}>
      <div class="queue-text">
        {prompt.steer && <span class="tag">steer</span>}{prompt.text || prompt.files.join(', ')}
        {prompt.problem && <span class="problem" role="alert">{prompt.problem}</span>}
      </div>
      <Ticks tick={prompt.tick} />
      {prompt.tick === 'failed' && <button type="button" class="small" onClick={() => retryPrompt(prompt.id)}>Retry</button>}
      {onFirst && <button type="button" class="plain" aria-label="Next" title="Next" onClick={onFirst}><Icon name="up" /></button>}
      {prompt.tick !== 'hub' && (prompt.tick !== 'sending' || prompt.problem) && <button type="button" class="plain" aria-label="Remove from the queue" onClick={onDrop}><Icon name="cross" /></button>}
    </li>
  )
}
