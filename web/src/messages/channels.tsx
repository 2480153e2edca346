/** The channels with their state, a test button and a reload of the configuration. */
import { useState } from 'preact/hooks'
import { get, post, errorMessage } from '../api/client'
import type * as P from '../generated/protocol'
import { Empty, Problem } from '../ui/components'
import { MessagesLayout, usePolled } from './layout'

const STATE_CHIPS: Record<P.ChannelView['state'], string> = { starting: 'working', running: 'done', failing: 'failed', stopped: '', broken: 'failed', untrusted: 'failed', disabled: '' }

export function Channels() {
  const [said, setSaid] = useState('')
  const [problem, setProblem] = useState('')
  const found = usePolled(() => get<P.ChannelView[]>('channels'), [])
  const call = (what: Promise<unknown>) => void what.then(() => { setProblem(''); found.reload() }, (error: unknown) => { setSaid(''); setProblem(errorMessage(error)) })
  const test = (id: string) => call(post<P.ChannelTestView>(`channels/${encodeURIComponent(id)}/test`).then((told) => setSaid(told.delivered ? `${id}: it arrived` : `${id}: ${told.message.state}${told.message.reason ? `, ${told.message.reason}` : ''}`)))
  return (
    <MessagesLayout at="channels" title="Channels" actions={<button type="button" class="small" onClick={() => call(post<P.ReloadView>('channels/reload').then((told) => setSaid(told.problem || 'The configuration was read again.')))}>Read the configuration again</button>}>
      <Problem text={problem || found.problem} />
      <p role="status" class={said ? '' : 'sr'}>{said}</p>
      {found.value && !found.value.length && <Empty icon="channel" title="No channels"><p>Telegram, webhooks and notifications are set up in <code>tieline.toml</code>.</p></Empty>}
      <ul class="letters">
        {(found.value ?? []).map((one) => (
          <li key={one.id} class="card">
            <div class="row"><strong class="grow">{one.name || one.id}</strong><span class={`chip ${STATE_CHIPS[one.state]}`}>{one.state}</span></div>
            <p class="faint small-text">{[one.source, one.prefix, `${one.delivered ?? 0} delivered`, one.failed ? `${one.failed} failed` : ''].filter(Boolean).join(' · ')}</p>
            {one.problem && <Problem text={[one.problem, one.field && `(${one.field})`, one.hint].filter(Boolean).join(' ')} />}
            {!['disabled', 'broken', 'untrusted'].includes(one.state) && <div class="row end"><button type="button" class="small" onClick={() => test(one.id)}>Test</button></div>}
          </li>
        ))}
      </ul>
    </MessagesLayout>
  )
}
