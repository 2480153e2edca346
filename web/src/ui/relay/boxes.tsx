/** Inboxes, dead letters and channels. */
import { useState } from 'preact/hooks'
import { get, post, words } from '../../api'
import { ago } from '../../format'
import type * as P from '../../protocol'
import { now } from '../../store'
import { Icon } from '../icons'
import { Empty, Problem } from '../parts'
import { Letter, nameOf, plain, RelayPage, textOf, useFresh } from './frame'

export function Inboxes() {
  const [open, setOpen] = useState('')
  const { value, problem } = useFresh(() => get<P.InboxView[]>('inboxes'), [])
  return (
    <RelayPage at="inboxes" title="Inboxes">
      <Problem text={problem} />
      <ul class="letters">
        {(value ?? []).map((box) => (
          <li key={box.subject} class="card">
            <button type="button" class="fold-head" aria-expanded={open === box.subject} onClick={() => setOpen(open === box.subject ? '' : box.subject)}>
              <strong class="grow ellipsis">{nameOf(box.subject)}</strong>
              {box.channel && <span class="tag">{box.channel}</span>}
              <span class={box.waiting ? 'badge' : 'faint'}>{box.waiting ?? 0}</span>
              <span class={open === box.subject ? 'turned' : ''}><Icon name="chevron" /></span>
            </button>
            {open === box.subject && <Inbox subject={box.subject} readable={!box.channel} />}
          </li>
        ))}
      </ul>
    </RelayPage>
  )
}

function Inbox({ subject, readable }: { subject: string; readable: boolean }) {
  const [problem, setProblem] = useState('')
  const path = `inboxes/${encodeURIComponent(subject)}`
  const found = useFresh(() => get<P.MessageView[]>(path), [subject])
  const read = (id: string) => void post(`${path}/read`, { ids: [id] } satisfies P.InboxRead).then(() => { setProblem(''); found.reload() }, (error: unknown) => setProblem(words(error)))
  return (
    <div class="letters">
      <Problem text={problem || found.problem} />
      {(found.value ?? []).map((one) => (
        <Letter key={one.receipt.id} of={one}>
          <div class="row end">
            <a class="button small-button" href={`/messages/${encodeURIComponent(one.receipt.thread)}`} data-inside="1">Thread</a>
            {readable && !one.receipt.over && one.state !== 'seen' && <button type="button" class="small" onClick={() => read(one.receipt.id)}>Mark as read</button>}
          </div>
        </Letter>
      ))}
      {found.value && !found.value.length && <p class="faint">Empty.</p>}
    </div>
  )
}

export function DeadLetters() {
  const [problem, setProblem] = useState('')
  const found = useFresh(() => get<P.DeadLetter[]>('dead'), [])
  const call = (what: Promise<unknown>) => void what.then(() => found.reload(), (error: unknown) => setProblem(words(error)))
  const retry = (ids: readonly string[]) => call(post<P.DeadOutcome[]>('dead/retry', { ids } satisfies P.DeadSelection).then((outcomes) => setProblem(outcomes.filter((one) => !one.done).map((one) => one.problem).join(' '))))
  const letters = found.value ?? []
  return (
    <RelayPage at="dead" title="Dead letters" actions={letters.length > 1 && <button type="button" class="small" onClick={() => retry(letters.map((one) => one.envelope.id))}>Send all again</button>}>
      <Problem text={problem || found.problem} />
      {found.value && !letters.length && <Empty icon="inbox" title="Everything arrived"><p>What cannot be delivered is kept here, with its reason, and can be sent again.</p></Empty>}
      <ul class="letters">
        {letters.map((one) => (
          <li key={one.envelope.id} class="letter">
            <div class="letter-head"><strong>{nameOf(one.envelope.from)}</strong><span class="faint">to</span><strong>{nameOf(one.envelope.subject)}</strong>{one.at ? <span class="faint">{ago(one.at, now.value)}</span> : null}</div>
            <p><span class="chip failed">{plain(one.reason)}</span> <span class="faint">{one.detail}</span></p>
            <div class="letter-text">{textOf(one.envelope.payload)}</div>
            <div class="row end">
              {one.retried_as && <span class="faint small-text grow">Was sent again</span>}
              <button type="button" class="small deny" onClick={() => call(post('dead/drop', { ids: [one.envelope.id] } satisfies P.DeadSelection))}>Drop</button>
              <button type="button" class="small" onClick={() => retry([one.envelope.id])}>Send again</button>
            </div>
          </li>
        ))}
      </ul>
    </RelayPage>
  )
}

const CHIP: Record<P.ChannelView['state'], string> = { starting: 'working', running: 'done', failing: 'failed', stopped: '', broken: 'failed', untrusted: 'failed', disabled: '' }

export function Channels() {
  const [said, setSaid] = useState('')
  const [problem, setProblem] = useState('')
  const found = useFresh(() => get<P.ChannelView[]>('channels'), [])
  const call = (what: Promise<unknown>) => void what.then(() => { setProblem(''); found.reload() }, (error: unknown) => { setSaid(''); setProblem(words(error)) })
  const test = (id: string) => call(post<P.ChannelTestView>(`channels/${encodeURIComponent(id)}/test`).then((told) => setSaid(told.delivered ? `${id}: it arrived` : `${id}: ${told.message.state}${told.message.reason ? `, ${told.message.reason}` : ''}`)))
  return (
    <RelayPage at="channels" title="Channels" actions={<button type="button" class="small" onClick={() => call(post<P.ReloadView>('channels/reload').then((told) => setSaid(told.problem || 'The configuration was read again.')))}>Read the configuration again</button>}>
      <Problem text={problem || found.problem} />
      <p role="status" class={said ? '' : 'sr'}>{said}</p>
      {found.value && !found.value.length && <Empty icon="channel" title="No channels"><p>Telegram, webhooks and notifications are set up in <code>tieline.toml</code>.</p></Empty>}
      <ul class="letters">
        {(found.value ?? []).map((one) => (
          <li key={one.id} class="card">
            <div class="row"><strong class="grow">{one.name || one.id}</strong><span class={`chip ${CHIP[one.state]}`}>{one.state}</span></div>
            <p class="faint small-text">{[one.source, one.prefix, `${one.delivered ?? 0} delivered`, one.failed ? `${one.failed} failed` : ''].filter(Boolean).join(' · ')}</p>
            {one.problem && <Problem text={[one.problem, one.field && `(${one.field})`, one.hint].filter(Boolean).join(' ')} />}
            {!['disabled', 'broken', 'untrusted'].includes(one.state) && <div class="row end"><button type="button" class="small" onClick={() => test(one.id)}>Test</button></div>}
          </li>
        ))}
      </ul>
    </RelayPage>
  )
}
