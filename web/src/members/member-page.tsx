/** One member: what you wrote to each other, and a box to write. */
import { useEffect, useState } from 'preact/hooks'
import { errorMessage, get, IdempotentRequest, post } from '../api/client'
import type * as P from '../generated/protocol'
import { MessagesLayout, OWNER, usePolled } from '../messages/layout'
import { ago } from '../shared/format'
import { visible } from '../shared/visible-text'
import { now } from '../store/store'
import { Problem } from '../ui/components'
import { memberName, memberPlace, memberSummary, Presence } from './members'

const STATE_LABELS: Partial<Record<P.PeerMessage['state'] & string, string>> = { stored: 'waits in the inbox', injected: 'delivered', seen: 'seen', answered: 'answered', dead: 'not delivered', expired: 'expired' }

export function MemberPage({ id }: { id: string }) {
  const [text, setText] = useState('')
  const [problem, setProblem] = useState('')
  const [sendRequest] = useState(() => new IdempotentRequest())
  const path = `members/${encodeURIComponent(id)}`
  const member = usePolled(() => get<P.MemberView>(path), [id])
  const thread = usePolled(() => get<P.PeerMessage[]>(`${path}/messages?limit=100`), [id])
  const messages = [...(thread.value ?? [])].reverse()
  const unread = messages.filter((message) => message.to === 'owner' && (message.state ?? 'stored') === 'stored').map((message) => message.id)
  useEffect(() => {
    // Shown is read: the sender's receipt says `seen`.
    if (unread.length && document.visibilityState === 'visible') void post(`inboxes/${OWNER}/read`, { ids: unread } satisfies P.InboxRead).then(thread.reload, () => undefined)
  }, [unread.join()])
  const send = async () => {
    try {
      await sendRequest.send('POST', 'messages', { to: member.value!.address, text } satisfies P.NewMessage)
      setText('')
      setProblem('')
      thread.reload()
    } catch (error) {
      setProblem(errorMessage(error))
    }
  }
  const view = member.value
  return (
    <MessagesLayout at="members" title={view ? memberName(view) : 'Member'} actions={view && <Presence of={view} />}>
      <Problem text={member.problem || thread.problem} />
      {view && <div class="letters">{memberSummary(view) && <p>{memberSummary(view)}</p>}<p class="faint small-text">{memberPlace(view)}</p></div>}
      <div class="letters" role="log" aria-label="Messages">
        {thread.value && !messages.length && <p class="faint">You have not written to each other yet.</p>}
        {messages.map((message) => (
          <article key={message.id} class="letter">
            <div class="letter-head"><strong>{message.sender === 'owner' ? 'you' : message.sender}</strong><span class="faint">{ago(message.sent_at ?? 0, now.value)}</span>{message.sender === 'owner' && <span class="tag">{STATE_LABELS[message.state ?? 'stored'] ?? message.state}</span>}</div>
            <div class="letter-text">{visible(message.text ?? '')}</div>
          </article>
        ))}
      </div>
      {view && (
        <form class="letters" onSubmit={(event) => { event.preventDefault(); void send() }}>
          <label>To {memberName(view)}<textarea rows={3} value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
          {view.ended && <p class="faint small-text">Its session is over. It gets the message when the session is resumed.</p>}
          <Problem text={problem} />
          <button type="submit" class="primary" disabled={!text.trim()}>Send</button>
        </form>
      )}
    </MessagesLayout>
  )
}
