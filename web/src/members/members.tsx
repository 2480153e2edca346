/** Who can be written to: agents in harnesses, sessions and people, with what they do and whether they are there. */
import { useState } from 'preact/hooks'
import { get } from '../api/client'
import type * as P from '../generated/protocol'
import { MessagesLayout, OWNER, usePolled } from '../messages/layout'
import { agentName, ago } from '../shared/format'
import { visibleLine } from '../shared/visible-text'
import { now } from '../store/store'
import { Empty, Problem } from '../ui/components'
import { Icon } from '../ui/icons'

export const memberUrl = (member: P.MemberView): string => `/members/${encodeURIComponent(member.id)}`

export function Members() {
  const [query, setQuery] = useState('')
  const { value, problem } = usePolled(() => get<P.MemberView[]>(`members?ended=true&q=${encodeURIComponent(query.trim())}`), [query])
  const members = (value ?? []).filter((member) => member.address !== OWNER)
  return (
    <MessagesLayout at="members" title="Members">
      <Problem text={problem} />
      <div class="letters">
        <label class="search"><Icon name="search" /><span class="sr">Search members</span>
          <input type="search" value={query} placeholder="Name, project, what they do" onInput={(event) => setQuery(event.currentTarget.value)} />
        </label>
      </div>
      {value && !members.length && !query.trim() && <Empty icon="members" title="No members yet"><p>Agents in your own terminals appear here after <code>tieline install</code>. Sessions appear when you start one.</p></Empty>}
      {value && !members.length && query.trim() && <p class="faint center">No member matches.</p>}
      <ul class="letters">
        {members.map((member) => (
          <li key={member.id}>
            <a class="letter" href={memberUrl(member)} data-internal="1">
              <div class="row"><strong class="grow ellipsis">{memberName(member)}</strong><Presence of={member} /></div>
              {memberSummary(member) && <div class="ellipsis">{memberSummary(member)}</div>}
              <div class="letter-head"><span class="faint">{[memberPlace(member), member.seen_at ? ago(member.seen_at, now.value) : ''].filter(Boolean).join(' · ')}</span>{member.unread ? <span class="tag">{member.unread} unread</span> : null}</div>
            </a>
          </li>
        ))}
      </ul>
    </MessagesLayout>
  )
}

export const memberName = (member: P.MemberView): string => visibleLine((member.kind === 'session' && member.description) || member.name)

export const memberSummary = (member: P.MemberView): string =>
  visibleLine([member.role, member.specialisation, member.kind === 'session' ? '' : member.description].filter(Boolean).join(' · '))

export const memberPlace = (member: P.MemberView): string =>
  visibleLine([member.harness ? agentName(member.harness) : member.kind === 'person' ? 'Person' : '', member.project, member.branch, member.machine].filter(Boolean).join(' · '))

export function Presence({ of }: { of: P.MemberView }) {
  if (of.ended) return <span class="chip">ended</span>
  if (of.stale) return <span class="chip waiting" title="Not seen lately">not seen lately</span>
  if (of.activity === 'working') return <span class="chip working">working</span>
  return of.activity === 'idle' ? <span class="chip done">idle</span> : null
}
