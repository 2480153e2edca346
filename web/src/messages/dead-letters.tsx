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
  const polled = usePolled(() => get<P.DeadLetter[]>('dead'), [])
  const call = (what: Promise<unknown>) => void what.then(() => polled.reload(), (error: unknown) => setProblem(errorMessage(error)))
  const retry = (ids: readonly string[]) => call(post<P.DeadOutcome[]>('dead/retry', { ids } satisfies P.DeadSelection).then((outcomes) => setProblem(outcomes.filter((outcome) => !outcome.done).map((outcome) => outcome.problem).join(' '))))
  const letters = polled.value ?? []
  return (
    <MessagesLayout at="dead" title="Dead letters" actions={letters.length > 1 && <button type="button" class="small" onClick={() => retry(letters.map((letter) => letter.envelope.id))}>Send all again</button>}>
      <Problem text={problem || polled.problem} />
      {polled.value && !letters.length && <Empty icon="inbox" title="No dead letters"><p>Messages that cannot be delivered are stored here with the reason, and can be sent again.</p></Empty>}
      <ul class="letters">
        {letters.map((letter) => (
          <li key={letter.envelope.id} class="letter">
            <div class="letter-head"><strong>{addressLabel(letter.envelope.from)}</strong><span class="faint">to</span><strong>{addressLabel(letter.envelope.subject)}</strong>{letter.at ? <span class="faint">{ago(letter.at, now.value)}</span> : null}</div>
            <p><span class="chip failed">{reasonLabel(letter.reason)}</span> <span class="faint">{letter.detail}</span></p>
            <div class="letter-text">{payloadText(letter.envelope.payload)}</div>
            <div class="row end">
              {letter.retried_as && <span class="faint small-text grow">Sent again</span>}
              <button type="button" class="small deny" onClick={() => call(post('dead/drop', { ids: [letter.envelope.id] } satisfies P.DeadSelection))}>Delete</button>
              <button type="button" class="small" onClick={() => retry([letter.envelope.id])}>Send again</button>
            </div>
          </li>
        ))}
      </ul>
    </MessagesLayout>
  )
}
