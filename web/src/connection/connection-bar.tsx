/** The state of each hop from the page to the agent: page – hub – machine – agent. */
import type * as P from '../generated/protocol'
import { agentName } from '../shared/format'
import { visible } from '../shared/visible-text'
import { connection, connectionState, nodes, now, thread } from '../store/store'
import { Icon } from '../ui/icons'

type Health = 'good' | 'busy' | 'bad' | 'unknown'

interface Hop {
  readonly name: string
  readonly health: Health
  readonly description: string
  readonly countdown?: string // changes every second; not read out by screen readers
}

export function hubHop(): Hop {
  const { state, retryAt, reason } = connectionState.value
  switch (state) {
    case 'online': return { name: 'hub', health: 'good', description: 'Connected to the hub' }
    case 'connecting': return { name: 'hub', health: 'busy', description: 'Connecting to the hub …' }
    case 'outdated': return { name: 'hub', health: 'bad', description: 'The hub is newer than this page: reload the page' }
    case 'signed-out': return { name: 'hub', health: 'bad', description: 'This device is signed out' }
    case 'waiting': {
      const seconds = Math.max(0, Math.ceil(retryAt / 1000 - now.value))
      return { name: 'hub', health: 'bad', description: `The hub cannot be reached${reason ? `: ${reason}` : ''}`, countdown: `. Next attempt ${seconds ? `in ${seconds} s` : 'now'}` }
    }
  }
}

export function nodeHop(node: P.NodeView | undefined, id: string): Hop {
  const known = connectionState.value.state === 'online'
  const to = node?.name || node?.id || id
  if (!known) return { name: to, health: 'unknown', description: `${to}: unknown while the hub is offline` }
  if (!node) return { name: to, health: 'bad', description: 'This machine was removed' }
  return node.online ? { name: to, health: 'good', description: `${to} is connected` } : { name: to, health: 'bad', description: `${to} is offline; what you send is delivered when it is back` }
}

export function agentHop(session: P.SessionRecord, node: P.NodeView | undefined): Hop {
  const to = agentName(session.agent)
  if (connectionState.value.state !== 'online' || !node?.online) return { name: to, health: 'unknown', description: `${to}: unknown` }
  const agent = node.agents?.find((agent) => agent.name === session.agent)
  if (session.status === 'stuck') return { name: to, health: 'bad', description: `${to} is not responding. Stop it, or wait` }
  if (session.status === 'failed') return { name: to, health: 'bad', description: `${to} ended${failureReason(session)}. The next prompt starts it again` }
  if (agent && agent.ready === false) return { name: to, health: 'bad', description: agent.problem || agent.hint || `${to} is not ready on this machine` }
  if (agent?.health === 'failing') return { name: to, health: 'bad', description: agent.problem || `${to} has been failing` }
  return { name: to, health: session.status === 'working' ? 'busy' : 'good', description: session.status === 'working' ? `${to} is working` : `${to} is ready` }
}

/** Why the agent ended, unless the conversation already shows the error. */
function failureReason({ id, problem }: P.SessionRecord): string {
  const shown = thread.value?.session === id && thread.value.items.value.some(({ content: { value } }) => (value.kind === 'error' && value.error.message === problem) || (value.kind === 'done' && value.done.error === problem))
  return shown ? '' : `: ${visible(problem || 'unknown reason')}`
}

/** In a session: all three hops. Elsewhere: the hub, and the machines that are offline. */
export function ConnectionBar({ session }: { session?: P.SessionRecord }) {
  const hub = hubHop()
  const node = session && nodes.value.get(session.node)
  const legs = session ? [hub, nodeHop(node, session.node), agentHop(session, node)] : [hub]
  const offlineNodes = session ? [] : [...nodes.value.values()].filter((machine) => !machine.online)
  const offline = offlineNodes.length > 0 && hub.health === 'good' ? `${offlineNodes.map((node) => node.name || node.id).join(', ')} offline` : ''
  const worst = legs.find((leg) => leg.health === 'bad') ?? legs.find((leg) => leg.health === 'busy' && leg.name === 'hub')
  return (
    <div class="connection" data-hub={connectionState.value.state} data-of={session ? 'session' : 'hub'}>
      <span class="legs" aria-hidden="true">
        <span class="stop">you</span>
        {legs.map((leg) => <span key={leg.name} class="leg"><span class={`wire ${leg.health}`} title={leg.description} /><span class="stop">{leg.name}</span></span>)}
      </span>
      {offline && <span class="away" aria-hidden="true">{offline}</span>}
      <span class="sr" role="status">{[...legs.map((leg) => leg.description), offline].filter(Boolean).join('. ')}</span>
      {worst && (
        <span class={`why ${worst.health}`}>
          <span aria-hidden="true">{worst.health === 'bad' && <Icon name="warn" />} {worst.description}{worst.countdown}</span>
          {connectionState.value.state === 'waiting' && <button type="button" class="small" onClick={() => connection.wake()}>Retry now</button>}
          {connectionState.value.state === 'outdated' && <button type="button" class="small" onClick={() => location.reload()}>Reload</button>}
        </span>
      )}
    </div>
  )
}
