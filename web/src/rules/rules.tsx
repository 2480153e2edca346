/** The rules for requests: what is decided without asking again, and Revoke. Loaded with the settings. */
import { useState } from 'preact/hooks'
import { errorMessage, get, remove } from '../api/client'
import type * as P from '../generated/protocol'
import { ago } from '../shared/format'
import { visibleLine } from '../shared/visible-text'
import { connectionState, now } from '../store/store'
import { Problem, useFetched } from '../ui/components'
import { Icon } from '../ui/icons'
import { RuleText } from './rule-text'

function holds(rule: P.RuleView, at: number): boolean {
  return !rule.revoked_at && !(rule.expires_at > 0 && rule.expires_at <= at)
}

function facts(rule: P.RuleView, at: number): string {
  return [
    `made ${ago(rule.made_at, at)} by ${visibleLine(rule.made_by)}`,
    rule.uses ? `decided ${rule.uses} ${rule.uses === 1 ? 'request' : 'requests'} in the last day, last ${ago(rule.used_at, at)}` : 'not used in the last day',
    rule.expires_at > 0 && !rule.revoked_at ? `until ${new Date(rule.expires_at * 1000).toLocaleString()}` : '',
    rule.revoked_at ? `revoked ${ago(rule.revoked_at, at)} by ${visibleLine(rule.revoked_by)}` : '',
  ].filter(Boolean).join(' · ')
}

export function Rules() {
  const [problem, setProblem] = useState('')
  const { value, problem: loadProblem, reload } = useFetched(() => get<P.RuleView[]>('rules'), [connectionState.value.state === 'online'])
  const revoke = (id: string) => void remove(`rules/${encodeURIComponent(id)}`).then(() => { setProblem(''); reload() }, (error: unknown) => setProblem(errorMessage(error)))
  const all = value ?? []
  const over = all.filter((rule) => !holds(rule, now.value))
  return (
    <section aria-label="Rules">
      <h2><Icon name="check" /> Rules</h2>
      <p class="faint">What is decided without asking you again. A request offers “Always …” to make one.</p>
      <Problem text={problem || loadProblem} />
      {value && !all.length && <p class="faint">No rules yet.</p>}
      <ul class="cards">{all.filter((rule) => holds(rule, now.value)).map((rule) => <RuleCard key={rule.id} rule={rule} revoke={() => revoke(rule.id)} />)}</ul>
      {over.length > 0 && <details><summary>{over.length} revoked or over</summary><ul class="cards">{over.map((rule) => <RuleCard key={rule.id} rule={rule} />)}</ul></details>}
    </section>
  )
}

function RuleCard({ rule, revoke }: { rule: P.RuleView; revoke?: () => void }) {
  return (
    <li class="card">
      <div class="row">
        <span class="grow"><strong class="rule-text"><RuleText text={rule.text} pattern={rule.pattern} /></strong><small class="faint block">{facts(rule, now.value)}</small></span>
        {revoke && <button type="button" class="small deny" aria-label={`Revoke: ${visibleLine(rule.text)}`} onClick={revoke}>Revoke</button>}
      </div>
      {rule.waiting.length > 0 && <p class="problem"><Icon name="warn" /> {rule.revoked_at ? 'It still holds' : 'It does not hold yet'} on {rule.waiting.map((name) => visibleLine(name)).join(', ')}, which has not heard of it.</p>}
    </li>
  )
}
