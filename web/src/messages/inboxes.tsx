/** The list of inboxes and the messages in the open one. */
import { useState } from 'preact/hooks'
import { get, post, errorMessage } from '../api/client'
import type * as P from '../generated/protocol'
import { Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { Message, addressLabel, MessagesLayout, usePolled } from './layout'

export function Inboxes() {
  const [open, setOpen] = useState('')
  const { value, problem } = usePolled(() => get<P.InboxView[]>('inboxes'), [])
  return (
    <MessagesLayout at="inboxes" title="Inboxes">
      <Problem text={problem} />
      <ul class="letters">
        {(value ?? []).map((box) => (
          <li key={box.subject} class="card">
            <button type="button" class="fold-head" aria-expanded={open === box.subject} onClick={() => setOpen(open === box.subject ? '' : box.subject)}>
              <strong class="grow ellipsis">{addressLabel(box.subject)}</strong>
              {box.channel && <span class="tag">{box.channel}</span>}
              {box.waiting ? <span class="badge" role="img" aria-label={`${box.waiting} waiting`}>{box.waiting}</span> : <span class="faint small-text">nothing waits</span>}
              <span class={open === box.subject ? 'turned' : ''}><Icon name="chevron" /></span>
            </button>
            {open === box.subject && <Inbox subject={box.subject} readable={!box.channel} />}
          </li>
        ))}
      </ul>
    </MessagesLayout>
  )
}

function Inbox({ subject, readable }: { subject: string; readable: boolean }) {
  const [problem, setProblem] = useState('')
  const path = `inboxes/${encodeURIComponent(subject)}`
  const polled = usePolled(() => get<P.MessageView[]>(path), [subject])
  const read = (id: string) => void post(`${path}/read`, { ids: [id] } satisfies P.InboxRead).then(() => { setProblem(''); polled.reload() }, (error: unknown) => setProblem(errorMessage(error)))
  return (
    <div class="letters">
      <Problem text={problem || polled.problem} />
      {(polled.value ?? []).map((message) => (
        <Message key={message.receipt.id} of={message}>
          <div class="row end">
            <a class="button small-button" href={`/messages/${encodeURIComponent(message.receipt.thread)}`} data-internal="1">Thread</a>
            {readable && !message.receipt.over && message.state !== 'seen' && <button type="button" class="small" onClick={() => read(message.receipt.id)}>Mark as read</button>}
          </div>
        </Message>
      ))}
      {polled.value && !polled.value.length && <p class="faint">Empty.</p>}
    </div>
  )
}
