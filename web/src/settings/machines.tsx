/** The machines, their agents, and how to join another machine. */
import { useState } from 'preact/hooks'
import { post, remove, request, errorMessage } from '../api/client'
import { commandsOfSession, trackCommand, PendingCommands } from '../commands/pending-commands'
import type * as P from '../generated/protocol'
import { agentName, ago } from '../shared/format'
import { nodes, now } from '../store/store'
import { Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { PairingOffer } from './pairing-offer'

function offlineLabel(node: P.NodeView): string {
  const time = node.seen_at ? ago(node.seen_at, now.value) : ''
  return !time || time === 'now' ? 'offline' : `offline for ${time}`
}

export function Machines() {
  const [offer, setOffer] = useState<P.Offer | undefined>(undefined)
  const [problem, setProblem] = useState('')
  const all = [...nodes.value.values()].sort((node, other) => (node.name || node.id).localeCompare(other.name || other.id))
  const call = (what: Promise<unknown>) => void what.then(() => setProblem(''), (error: unknown) => setProblem(errorMessage(error)))
  return (
    <section aria-label="Machines">
      <h2><Icon name="machine" /> Machines</h2>
      <Problem text={problem} />
      <PendingCommands of={commandsOfSession('')} />
      <ul class="cards">
        {all.map((node) => (
          <li key={node.id} class="card">
            <div class="row">
              <strong class="grow">{node.name || node.id}</strong>
              <span class={node.online ? 'chip done' : 'chip offline'}>{node.online ? 'online' : offlineLabel(node)}</span>
            </div>
            <p class="faint small-text">{[node.platform, node.version && `Tieline ${node.version}`, node.local && 'runs the hub'].filter(Boolean).join(' · ')}</p>
            {(node.limits ?? []).length > 0 && <p class="faint small-text">Not available: {node.limits!.join(', ')}</p>}
            <ul class="agents">
              {(node.agents ?? []).filter((agent) => agent.found).map((agent) => (
                <li key={agent.name} title={[agent.problem, agent.hint].filter(Boolean).join(' ')}>
                  <span class={`dot ${!node.online ? '' : agent.ready ? 'good' : 'bad'}`} aria-hidden="true" />{agentName(agent.name)} <small class="faint">{agent.version}</small>
                  {!agent.ready && <small class="faint"> · {agent.hint || agent.problem || 'not ready'}</small>}
                </li>
              ))}
            </ul>
            <div class="row end">
              {node.online && <button type="button" class="small" onClick={() => call(trackCommand(`Refresh ${node.name || node.id}`, '', request('POST', `nodes/${encodeURIComponent(node.id)}/refresh`, {})))}>Refresh</button>}
              {!node.local && <button type="button" class="small deny" onClick={() => { if (confirm(`Remove ${node.name || node.id}? Its key is revoked and its sessions are no longer shown.`)) call(remove(`nodes/${encodeURIComponent(node.id)}`)) }}>Remove</button>}
            </div>
          </li>
        ))}
      </ul>
      {offer ? <PairingOffer offer={offer} /> : <button type="button" onClick={() => call(post<P.Offer>('pairings', { kind: 'node' }).then(setOffer))}><Icon name="plus" /> Join a machine</button>}
    </section>
  )
}
