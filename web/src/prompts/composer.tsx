/** Where a person writes. It is never disabled: what cannot be delivered now is kept and delivered later. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { request, errorMessage } from '../api/client'
import { trackCommand } from '../commands/pending-commands'
import type * as P from '../generated/protocol'
import { agentName } from '../shared/format'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { nodes, thread } from '../store/store'
import { Ticks } from '../thread/thread-rows'
import { Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { readAttachment, acceptsType, MAX_TOTAL_BYTES, attachmentSize } from './attachments'
import { retryPrompt, dismissPrompt, sendPrompt, queuedPrompts, type Attachment, type QueuedPrompt } from './outbox'

/** Others may put words into a draft: a remark on a line of the diff. */
const insertions = new Map<string, (text: string) => void>()

export function addToDraft(session: string, text: string): void {
  const insert = insertions.get(session)
  if (insert) insert(text)
  else saveLocal(`draft.${session}`, [loadLocal(`draft.${session}`, ''), text].filter(Boolean).join('\n\n'))
}

const fine = () => matchMedia('(pointer: fine)').matches

export function Composer({ session }: { session: P.SessionRecord }) {
  const [text, setText] = useState(() => loadLocal(`draft.${session.id}`, ''))
  const [files, setFiles] = useState<readonly Attachment[]>([])
  const [problem, setProblem] = useState('')
  const [stopping, setStopping] = useState(false)
  const box = useRef<HTMLTextAreaElement>(null)
  const picker = useRef<HTMLInputElement>(null)
  const agent = nodes.value.get(session.node)?.agents?.find((one) => one.name === session.agent)
  const busy = session.status === 'working' || session.status === 'waiting' || session.status === 'stuck'
  const steers = busy && (agent?.features ?? []).includes('steer')

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
      const strange = agent && more.find((one) => !acceptsType(one.media_type, agent.attachments ?? []))
      if (strange) setProblem(`${agentName(session.agent)} cannot take ${strange.name} (${strange.media_type}).`)
      else if (all.reduce((sum, one) => sum + attachmentSize(one), 0) > MAX_TOTAL_BYTES) setProblem('These files are too large together: at most 700 KB fit into a prompt.')
      else { setFiles(all); setProblem('') }
    } catch {
      setProblem('This file cannot be read.')
    }
  }
  const stop = async () => {
    setStopping(true)
    try {
      const heard = await trackCommand<boolean>('Stop', session.id, request('POST', `sessions/${encodeURIComponent(session.id)}/abort`, {}))
      if (heard === undefined) setStopping(false) // the machine has not heard of it: that stands above
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
        <button type="button" class="plain" aria-label="Attach a file" onClick={() => picker.current!.click()}><Icon name="clip" /></button>
        <input ref={picker} type="file" multiple hidden onChange={(event) => { void add(event.currentTarget.files ?? []); event.currentTarget.value = '' }} />
        <textarea
          ref={box} rows={1} value={text} aria-label="Message" placeholder={busy ? (steers ? 'Queue or steer' : 'Queue a prompt') : 'What should it do?'}
          onInput={(event) => write(event.currentTarget.value)}
          onPaste={(event) => { const list = event.clipboardData?.files; if (list?.length) { event.preventDefault(); void add(list) } }}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.isComposing || event.shiftKey) return
            if (event.metaKey || event.ctrlKey || fine()) { event.preventDefault(); send(event.altKey && steers) }
          }}
        />
        {busy && <button type="button" class="round stop" aria-label={stopping ? 'Stopping' : 'Stop'} onClick={() => void stop()}><Icon name="stop" /></button>}
        {steers && !!text.trim() && <button type="button" class="round" aria-label="Steer: say it in the middle of the turn" title="Steer" onClick={() => send(true)}><Icon name="steer" /></button>}
        <button type="submit" class="round primary" aria-label={busy ? 'Queue' : 'Send'} title={busy ? 'Queue' : 'Send'}><Icon name="send" /></button>
      </div>
    </form>
  )
}

/** The agent's own slash commands, while one is being typed. */
function Commands({ text, onPick }: { text: string; onPick: (command: string) => void }) {
  const typed = /^\/(\S*)$/.exec(text)?.[1]
  if (typed === undefined) return null
  const all = (thread.value?.init.value?.commands ?? []).map((one) => (one.startsWith('/') ? one : `/${one}`))
  const found = all.filter((one) => one.slice(1).toLowerCase().includes(typed.toLowerCase())).slice(0, 8)
  if (!found.length) return null
  return (
    <ul class="commands" aria-label="Commands of the agent">
      {found.map((one) => <li key={one}><button type="button" onClick={() => onPick(one)}>{one}</button></li>)}
    </ul>
  )
}

function Queue({ session }: { session: string }) {
  const all = queuedPrompts(session)
  const [problem, setProblem] = useState('')
  if (!all.length) return null
  const tell = (what: string, method: string, id: string, more = '', body?: unknown) =>
    void trackCommand(what, session, request(method, `sessions/${encodeURIComponent(session)}/prompts/${encodeURIComponent(id)}${more}`, body)).then(() => setProblem(''), (error: unknown) => setProblem(errorMessage(error)))
  return (
    <section class="queue" aria-label="Waiting prompts">
      <Problem text={problem} />
      <ol>
        {all.map((one, index) => (
          <QueueRow
            key={one.id} one={one}
            onDrop={() => (one.tick === 'node' ? tell('Remove from the queue', 'DELETE', one.id) : dismissPrompt(one.id))}
            onFirst={one.tick === 'node' && index > 0 ? () => tell('Move to the front', 'POST', one.id, '/move', { before: all[0]!.id }) : undefined}
          />
        ))}
      </ol>
    </section>
  )
}

function QueueRow({ one, onDrop, onFirst }: { one: QueuedPrompt; onDrop: () => void; onFirst?: () => void }) {
  return (
    <li class={one.tick}>
      <div class="queue-text">
        {one.steer && <span class="tag">steer</span>}{one.text || one.files.join(', ')}
        {one.problem && <span class="problem" role="alert">{one.problem}</span>}
      </div>
      <Ticks tick={one.tick} />
      {one.tick === 'failed' && <button type="button" class="small" onClick={() => retryPrompt(one.id)}>Again</button>}
      {onFirst && <button type="button" class="plain" aria-label="Next" title="Next" onClick={onFirst}><Icon name="up" /></button>}
      {one.tick !== 'hub' && (one.tick !== 'sending' || one.problem) && <button type="button" class="plain" aria-label="Remove from the queue" onClick={onDrop}><Icon name="cross" /></button>}
    </li>
  )
}
