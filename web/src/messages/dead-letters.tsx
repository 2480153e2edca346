/** Messages that could not be delivered: retry or delete them. */
import { useState } from 'preact/hooks'
import { get, post, errorMessage } from '../api/client'
import type * as P from '../generated/protocol'
import { ago } from '../shared/format'
import { now } from '../store/store'
import { Empty, Problem } from '../ui/components'
import { addressLabel, reasonLabel, MessagesLayout, payloadText, usePolled } from './layout'

export function DeadLetters() {
  const [problem, setProblem] = useState('')
  const found = usePolled(() => get<P.DeadLetter[]>('dead'), [])
  const call = (what: Promise<unknown>) => void what.then(() => found.reload(), (error: unknown) => setProblem(errorMessage(error)))
  const retry = (ids: readonly string[]) => call(post<P.DeadOutcome[]>('dead/retry', { ids } satisfies P.DeadSelection).then((outcomes) => setProblem(outcomes.filter((one) => !one.done).map((one) => one.problem).join(' '))))
  const letters = found.value ?? []
  return (
    <MessagesLayout at="dead" title="Dead letters" actions={letters.length > 1 && <button type="button" class="small" onClick={() => retry(letters.map((one) => one.envelope.id))}>Send all again</button>}>
      <Problem text={problem || found.problem} />
      {found.value && !letters.length && <Empty icon="inbox" title="Everything arrived"><p>What cannot be delivered is kept here, with its reason, and can be sent again.</p></Empty>}
      <ul class="letters">
        {letters.map((one) => (
          <li key={one.envelope.id} class="letter">
            <div class="letter-head"><strong>{addressLabel(one.envelope.from)}</strong><span class="faint">to</span><strong>{addressLabel(one.envelope.subject)}</strong>{one.at ? <span class="faint">{ago(one.at, now.value)}</span> : null}</div>
            <p><span class="chip failed">{reasonLabel(one.reason)}</span> <span class="faint">{one.detail}</span></p>
            <div class="letter-text">{payloadText(one.envelope.payload)}</div>
            <div class="row end">
              {one.retried_as && <span class="faint small-text grow">Was sent again</span>}
              <button type="button" class="small deny" onClick={() => call(post('dead/drop', { ids: [one.envelope.id] } satisfies P.DeadSelection))}>Drop</button>
              <button type="button" class="small" onClick={() => retry([one.envelope.id])}>Send again</button>
            </div>
          </li>
        ))}
      </ul>
    </MessagesLayout>
  )
}
