/** The rows of a team's conversation: what was said, and what happened. */
import { sessionUrl } from '../app/router'
import type * as P from '../generated/protocol'
import { ago, dollars } from '../shared/format'
import { visible, visibleLine } from '../shared/visible-text'
import { now } from '../store/store'
import { Icon } from '../ui/icons'
import { Markdown } from '../ui/markdown'
import { memo } from '../ui/memo'
import type { TeamRow, TeamThread } from './team-thread'

export const TeamRowView = memo(({ item, thread }: { item: TeamRow; thread: TeamThread }) => (
  <div class="thread-row" data-row={item.key} data-kind={item.content.kind}>
    <RowContent item={item} thread={thread} />
  </div>
))

function RowContent({ item, thread }: { item: TeamRow; thread: TeamThread }) {
  const { content } = item
  switch (content.kind) {
    case 'task':
      return (
        <section class="team-task" aria-label="Task">
          <h2><Icon name="list" /> Task <span class="faint small-text">{[content.by && `by ${visibleLine(content.by)}`, ago(item.at, now.value)].filter(Boolean).join(' · ')}</span></h2>
          <Markdown text={content.text} />
        </section>
      )
    case 'notice':
      return <p class={`note notice ${content.tone}`}>{content.tone && <Icon name="warn" />}<span>{visible(content.text)} <span class="faint">· {ago(item.at, now.value)}</span></span></p>
    case 'said':
      return (
        <article class={content.person ? 'said person' : 'said'} style={speakerStyle(content.colour)} aria-label={`${visibleLine(content.speaker)} said`}>
          <header class="said-head">
            <SpeakerName name={content.speaker} thread={thread} />
            <span class="faint when">{[ago(item.at, now.value), dollars(content.cost_usd)].filter(Boolean).join(' · ')}</span>
            <SessionLink name={content.speaker} thread={thread} />
          </header>
          {content.text ? <Markdown text={content.text} /> : !steers(content.markers) && <p class="faint small-text">Said nothing.</p>}
          <Steering markers={content.markers} />
          {content.work && <Work of={content.work} />}
        </article>
      )
  }
}

export const speakerStyle = (colour: number) => ({ '--speaker': `var(--speaker-${colour})` })

/** A name to tap: what is written next is for this member. */
function SpeakerName({ name, thread }: { name: string; thread: TeamThread }) {
  const view = thread.view.value
  const there = view?.members?.includes(name) && view.status !== 'ended'
  if (!there) return <strong class="speaker">{visibleLine(name)}</strong>
  const on = thread.addressed.value.includes(name)
  return <button type="button" class="speaker" aria-pressed={on} title={`Address ${visibleLine(name)}`} onClick={() => thread.toggleAddressed(name)}>{visibleLine(name)}</button>
}

export function SessionLink({ name, thread, label }: { name: string; thread: TeamThread; label?: string }) {
  const session = thread.sessions.value.get(name)
  if (!session) return null
  return <a class="session-link" href={sessionUrl(session)} data-internal="1" aria-label={`Session of ${visibleLine(name)}`} title="Its session: tools, changes, everything it wrote">{label ?? <Icon name="command" />}</a>
}

/** What is on the branch of the member's worktree. */
function Work({ of }: { of: P.MemberWork }) {
  return (
    <>
      <p class="steering"><span><Icon name="diff" label="branch" /> <code>{visibleLine(of.branch)}</code></span></p>
      {of.stat && <pre class="code">{visible(of.stat)}</pre>}
      {!!of.conflicts?.length && <p class="note warning"><Icon name="warn" /> Does not merge by itself: {visibleLine(of.conflicts.join(', '))}</p>}
      {of.problem && <p class="note warning"><Icon name="warn" /> {visible(of.problem)}</p>}
    </>
  )
}

const steers = (markers: P.Markers) => Object.keys(markers).length > 0

/** What the message decides. */
function Steering({ markers }: { markers: P.Markers }) {
  if (!steers(markers)) return null
  const next = (markers.next ?? []).map(({ name, priority }) => `${name}${priority && priority !== 2 ? ` (P${priority})` : ''}`)
  return (
    <p class="steering">
      {next.length > 0 && <span><Icon name="send" label="to" /> {visibleLine(next.join(', '))}</span>}
      {!!markers.drop?.length && <span><Icon name="cross" label="not asked any more:" /> {visibleLine(markers.drop.join(', '))}</span>}
      {markers.task && <span><Icon name="list" label="new task:" /> {visibleLine(markers.task)}</span>}
      {markers.done && <span class="steering-done"><Icon name="check" /> says that the task is done</span>}
    </p>
  )
}
