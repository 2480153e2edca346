/** The channels with their state, a test button and a reload of the configuration. */
import { useState } from 'preact/hooks'
import { get, post, errorMessage } from '../api/client'
import type * as P from '../generated/protocol'
import { Problem } from '../ui/components'
import { MessagesLayout, usePolled } from './layout'

const STATE_CHIPS: Record<P.ChannelView['state'], string> = { starting: 'working', running: 'done', failing: 'failed', stopped: '', broken: 'failed', untrusted: 'failed', disabled: '' }

export function Channels() {
  const [status, setStatus] = useState('')
  const [problem, setProblem] = useState('')
  const polled = usePolled(() => get<P.ChannelView[]>('channels'), [])
  const call = (what: Promise<unknown>) => void what.then(() => { setProblem(''); polled.reload() }, (error: unknown) => { setStatus(''); setProblem(errorMessage(error)) })
  const test = (id: string) => call(post<P.ChannelTestView>(`channels/${encodeURIComponent(id)}/test`).then((result) => setStatus(result.delivered ? `${id}: delivered` : `${id}: ${result.message.state}${result.message.reason ? `, ${result.message.reason}` : ''}`)))
  return (
    <MessagesLayout at="channels" title="Channels" actions={<button type="button" class="small" onClick={() => call(post<P.ReloadView>('channels/reload').then((result) => setStatus(result.problem || 'The configuration was reloaded.')))}>Reload configuration</button>}>
      <Problem text={problem || polled.problem} />
      <p role="status" class={status ? '' : 'sr'}>{status}</p>
      <ul class="letters">
        {(polled.value ?? []).map((channel) => (
          <li key={channel.id} class="card">
            <div class="row"><strong class="grow">{channel.name || channel.id}</strong><span class={`chip ${STATE_CHIPS[channel.state]}`}>{channel.state}</span></div>
            <p class="faint small-text">{[channel.source, channel.prefix, `${channel.delivered ?? 0} delivered`, channel.failed ? `${channel.failed} failed` : ''].filter(Boolean).join(' · ')}</p>
            {channel.problem && <Problem text={[channel.problem, channel.field && `(${channel.field})`, channel.hint].filter(Boolean).join(' ')} />}
            {!['disabled', 'broken', 'untrusted'].includes(channel.state) && <div class="row end"><button type="button" class="small" onClick={() => test(channel.id)}>Test</button></div>}
          </li>
        ))}
      </ul>
      {polled.value && <p class="faint small-text">Telegram, webhooks and notifications are set up in <code>tieline.toml</code>.</p>}
    </MessagesLayout>
  )
}
