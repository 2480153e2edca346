/** Message threads between people, agents and channels, with the receipt of each message. */
import { useState } from 'preact/hooks'
import { get, IdempotentRequest, errorMessage } from '../api/client'
import { navigate } from '../app/router'
import type * as P from '../generated/protocol'
import { ago, plainLine } from '../shared/format'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { now, sessions } from '../store/store'
import { Empty, Problem, Sheet } from '../ui/components'
import { Icon } from '../ui/icons'
import { Message, addressLabel, OWNER, reasonLabel, MessagesLayout, payloadText, usePolled } from './layout'

export function MessageThreads() {
  const [writing, setWriting] = useState(false)
  const { value, problem } = usePolled(() => get<P.ThreadView[]>('messages?limit=100'), [])
  return (
    <MessagesLayout at="messages" title="Messages" actions={<button type="button" class="primary small-button" onClick={() => setWriting(true)}><Icon name="plus" /> New message</button>}>
      <Problem text={problem} />
      {value && !value.length && <Empty icon="message" title="No messages yet"><p>Agents, people and channels write to each other here. Start with a message to a session.</p></Empty>}
      <ul class="letters">
        {(value ?? []).map((thread) => (
          <li key={thread.id}>
            <a class="letter" href={`/messages/${encodeURIComponent(thread.id)}`} data-internal="1">
              <div class="letter-head"><strong>{(thread.parties ?? []).map(addressLabel).join(', ')}</strong><span class="faint">{ago(thread.last.receipt.steps?.at(-1)?.at ?? 0, now.value)}</span></div>
              <div class="ellipsis">{plainLine(payloadText((thread.last.envelope ?? thread.first.envelope)?.payload))}</div>
              <div class="letter-head"><span class={thread.open ? 'chip working' : thread.last.state === 'dead' || thread.last.state === 'expired' ? 'chip failed' : 'chip done'}>{thread.open ? 'in delivery' : thread.last.state}</span><span class="faint">{thread.count ?? 1} {(thread.count ?? 1) === 1 ? 'message' : 'messages'}</span></div>
            </a>
          </li>
        ))}
      </ul>
      {writing && <NewMessage onClose={() => setWriting(false)} />}
    </MessagesLayout>
  )
}

function NewMessage({ onClose }: { onClose: () => void }) {
  const [to, setTo] = useState('')
  const [text, setText] = useState(() => loadLocal('draft.message', ''))
  const [reply, setReply] = useState(true)
  const [problem, setProblem] = useState('')
  const [sendRequest] = useState(() => new IdempotentRequest())
  const inboxes = usePolled(() => get<P.InboxView[]>('inboxes'), [])
  const all = [...sessions.value.values()].filter((session) => !session.archived)
  const known = [...all.map((session) => `relay.agent.${session.id}`), ...(inboxes.value ?? []).map((inbox) => inbox.subject).filter((address) => address !== OWNER)]
  const send = async () => {
    try {
      const { value: message } = await sendRequest.send<P.MessageView>('POST', 'messages', { to, text, no_reply: !reply } satisfies P.NewMessage)
      saveLocal('draft.message', '')
      onClose()
      navigate(`/messages/${encodeURIComponent(message.receipt.thread)}`)
    } catch (error) {
      setProblem(errorMessage(error))
    }
  }
  return (
    <Sheet title="New message" onClose={onClose}>
      <form class="stack" onSubmit={(event) => { event.preventDefault(); void send() }}>
        <label>To
          <input type="text" value={to} list="addresses" placeholder="relay.agent.… or another address" autocapitalize="off" autocomplete="off" spellcheck={false} onInput={(event) => setTo(event.currentTarget.value)} />
        </label>
        <datalist id="addresses">{[...new Set(known)].map((address) => <option key={address} value={address}>{addressLabel(address)}</option>)}</datalist>
        {all.length > 0 && (
          <div class="recents" role="group" aria-label="Sessions">
            {all.sort((session, other) => other.active_at - session.active_at).slice(0, 6).map((session) => {
              const address = `relay.agent.${session.id}`
              return <button key={session.id} type="button" class={to === address ? 'small on' : 'small'} onClick={() => setTo(address)}>{addressLabel(address)}</button>
            })}
          </div>
        )}
        <label>Message<textarea rows={5} value={text} onInput={(event) => { setText(event.currentTarget.value); saveLocal('draft.message', event.currentTarget.value) }} /></label>
        <label class="option"><input type="checkbox" checked={reply} onChange={(event) => setReply(event.currentTarget.checked)} /><span>Request a reply</span></label>
        <Problem text={problem} />
        <button type="submit" class="primary big" disabled={!to.trim() || !text.trim()}>Send</button>
      </form>
    </Sheet>
  )
}

/** `at`: the message that a link leads to. */
export function MessageThread({ id, at = '' }: { id: string; at?: string }) {
  const [text, setText] = useState('')
  const [problem, setProblem] = useState('')
  const [sendRequest] = useState(() => new IdempotentRequest())
  const polled = usePolled(() => get<P.TraceView>(`messages/${encodeURIComponent(id)}/trace`), [id])
  const messages = polled.value?.messages ?? []
  const last = messages.at(-1)
  const theirs = [...messages].reverse().find((message) => message.receipt.sender !== OWNER)
  const to = theirs ? theirs.envelope?.reply_to || theirs.receipt.sender : last?.receipt.subject
  const send = async () => {
    try {
      await sendRequest.send('POST', 'messages', { to: to ?? '', text, thread: polled.value!.thread, in_reply_to: theirs?.receipt.id ?? '' } satisfies P.NewMessage)
      setText('')
      setProblem('')
      polled.reload()
    } catch (error) {
      setProblem(errorMessage(error))
    }
  }
  return (
    <MessagesLayout at="messages" title="Thread">
      <Problem text={polled.problem} />
      <div class="letters">
        {messages.map((message) => <Message key={message.receipt.id} of={message} marked={message.receipt.id === at} />)}
        {(polled.value?.dead ?? []).map((letter) => (
          <article key={letter.envelope.id} class="letter"><div class="letter-head"><strong>{addressLabel(letter.envelope.from)}</strong><span class="faint">to</span><strong>{addressLabel(letter.envelope.subject)}</strong><span class="chip failed">{letter.state ?? 'dead'}: {reasonLabel(letter.reason)}</span></div>
            <div class="letter-text">{payloadText(letter.envelope.payload)}</div>{letter.detail && <p class="faint small-text">{letter.detail}</p>}</article>
        ))}
      </div>
      {to && (
        <form class="letters" onSubmit={(event) => { event.preventDefault(); void send() }}>
          <label>To {addressLabel(to)}<textarea rows={3} value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
          <Problem text={problem} />
          <button type="submit" class="primary" disabled={!text.trim()}>Send</button>
        </form>
      )}
    </MessagesLayout>
  )
}
