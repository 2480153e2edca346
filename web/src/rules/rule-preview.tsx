/** What a rule would have decided of the last requests. */
import type * as P from '../generated/protocol'
import { ago } from '../shared/format'
import { visible, visibleLine } from '../shared/visible-text'
import { now } from '../store/store'
import { Icon } from '../ui/icons'

const DECIDED = { allow: 'allowed', deny: 'denied', '': 'not decided' }

export function Preview({ of }: { of: P.RulePreview }) {
  return (
    <section class="rule-preview" aria-label="What it would have decided">
      <p class={of.contradicted ? 'problem' : ''} role="status">{!!of.contradicted && <Icon name="warn" />} It {visible(of.text)}.</p>
      {of.asks.length > 0 && (
        <details>
          <summary>Which</summary>
          <ul>
            {of.asks.map((ask) => (
              <li key={ask.ask}><code>{visibleLine(ask.text)}</code><small class="faint block">{ago(ask.at, now.value)} · {DECIDED[ask.decision]}{ask.by && ` by ${visibleLine(ask.by)}`}</small></li>
            ))}
          </ul>
        </details>
      )}
    </section>
  )
}
