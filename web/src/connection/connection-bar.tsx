/** The way from here to the agent, link by link, as it is: page – hub – machine – agent. */
import type * as P from '../generated/protocol'
import { agentName } from '../shared/format'
import { visible } from '../shared/visible-text'
import { connection, link, nodes, now, thread } from '../store/store'
import { Icon } from '../ui/icons'

type Health = 'good' | 'busy' | 'bad' | 'unknown'

interface Leg {
  readonly to: string
  readonly health: Health
  readonly words: string
  readonly soon?: string // what changes by the second, which nobody wants to hear read out
}

export function hubLeg(): Leg {
  const { state, retryAt, why } = link.value
  switch (state) {
    case 'online': return { to: 'hub', health: 'good', words: 'Connected to the hub' }
    case 'connecting': return { to: 'hub', health: 'busy', words: 'Connecting to the hub …' }
    case 'outdated': return { to: 'hub', health: 'bad', words: 'The hub is newer than this page: load it again' }
    case 'signed-out': return { to: 'hub', health: 'bad', words: 'This device is not signed in (any more)' }
    case 'waiting': {
      const seconds = Math.max(0, Math.ceil(retryAt / 1000 - now.value))
      return { to: 'hub', health: 'bad', words: `The hub cannot be reached${why ? `: ${why}` : ''}`, soon: `. Next try ${seconds ? `in ${seconds} s` : 'now'}` }
    }
  }
}

export function nodeLeg(node: P.NodeView | undefined, id: string): Leg {
  const known = link.value.state === 'online'
  const to = node?.name || node?.id || id
  if (!known) return { to, health: 'unknown', words: `${to}: not known while the hub is away` }
  if (!node) return { to, health: 'bad', words: 'This machine was removed' }
  return node.online ? { to, health: 'good', words: `${to} is connected` } : { to, health: 'bad', words: `${to} is offline; what you send is delivered when it is back` }
}

export function agentLeg(session: P.SessionRecord, node: P.NodeView | undefined): Leg {
  const to = agentName(session.agent)
  if (link.value.state !== 'online' || !node?.online) return { to, health: 'unknown', words: `${to}: not known from here` }
  const agent = node.agents?.find((one) => one.name === session.agent)
  if (session.status === 'stuck') return { to, health: 'bad', words: `${to} gives no sign of life. Stop it, or wait` }
  if (session.status === 'failed') return { to, health: 'bad', words: `${to} ended${why(session)}. The next prompt starts it again` }
  if (agent && agent.ready === false) return { to, health: 'bad', words: agent.problem || agent.hint || `${to} is not ready on this machine` }
  if (agent?.health === 'failing') return { to, health: 'bad', words: agent.problem || `${to} has been failing` }
  return { to, health: session.status === 'working' ? 'busy' : 'good', words: session.status === 'working' ? `${to} is working` : `${to} is ready` }
}

/** Why the agent ended, unless the conversation below says it: an error is one line. */
function why({ id, problem }: P.SessionRecord): string {
  const told = thread.value?.session === id && thread.value.items.value.some(({ content: { value } }) => (value.kind === 'error' && value.error.message === problem) || (value.kind === 'done' && value.done.error === problem))
  return told ? '' : `: ${visible(problem || 'unknown why')}`
}

/** Beside a session: all three links. Elsewhere: the hub, and the machines that are away. */
export function ConnectionBar({ session }: { session?: P.SessionRecord }) {
  const hub = hubLeg()
  const node = session && nodes.value.get(session.node)
  const legs = session ? [hub, nodeLeg(node, session.node), agentLeg(session, node)] : [hub]
  const away = session ? [] : [...nodes.value.values()].filter((one) => !one.online)
  const offline = away.length > 0 && hub.health === 'good' ? `${away.map((one) => one.name || one.id).join(', ')} offline` : ''
  const worst = legs.find((leg) => leg.health === 'bad') ?? legs.find((leg) => leg.health === 'busy' && leg.to === 'hub')
  return (
    <div class="connection" data-hub={link.value.state}>
      <span class="legs" aria-hidden="true">
        <span class="stop">you</span>
        {legs.map((leg) => <span key={leg.to} class="leg"><span class={`wire ${leg.health}`} title={leg.words} /><span class="stop">{leg.to}</span></span>)}
      </span>
      {offline && <span class="away" aria-hidden="true">{offline}</span>}
      <span class="sr" role="status">{[...legs.map((leg) => leg.words), offline].filter(Boolean).join('. ')}</span>
      {worst && (
        <span class={`why ${worst.health}`}>
          <span aria-hidden="true">{worst.health === 'bad' && <Icon name="warn" />} {worst.words}{worst.soon}</span>
          {link.value.state === 'waiting' && <button type="button" class="small" onClick={() => connection.wake()}>Try now</button>}
          {link.value.state === 'outdated' && <button type="button" class="small" onClick={() => location.reload()}>Load again</button>}
        </span>
      )}
    </div>
  )
}
