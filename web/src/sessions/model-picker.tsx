/** The model of a session: any name, with those that the agent lists; and the efforts that the chosen one takes. */
import { useEffect, useId } from 'preact/hooks'
import { request } from '../api/client'
import type * as P from '../generated/protocol'
import { agentName, ago } from '../shared/format'

/** The levels to choose from: those of the model where the agent told them, else all that the agent has names for. */
export const effortsOf = (agent: P.AgentView | undefined, model: string): readonly string[] => agent?.model_efforts?.[model] ?? agent?.efforts ?? []

export function ModelPicker({ label = 'Model', node, agent, value, placeholder = 'The agent’s own choice', onChange }: { label?: string; node: P.NodeView | undefined; agent: P.AgentView; value: string; placeholder?: string; onChange: (model: string) => void }) {
  const models = agent.models ?? []
  const list = `models-${useId()}` // several forms may be open
  const ask = agent.lists_models && agent.ready && node?.online && (!models.length || agent.models_stale)
  useEffect(() => {
    // Nobody waits for it: the agent's view comes with its list over the stream. Without it, any name can still be typed.
    if (ask) request('POST', `nodes/${encodeURIComponent(node.id)}/agents/${encodeURIComponent(agent.name)}/models`, {}).catch(() => {})
  }, [node?.id, agent.name, ask])
  return (
    <div class="stack">
      <label>{label}<input type="text" value={value} list={list} placeholder={placeholder} autocapitalize="off" spellcheck={false} onInput={(event) => onChange(event.currentTarget.value)} /></label>
      <datalist id={list}>{models.map((name) => <option key={name} value={name} />)}</datalist>
      {value && models.length > 0 && !models.includes(value) && <small class="faint" role="status">Not among the models that {agentName(agent.name)} lists; it may still know it.</small>}
      {agent.models_stale && <small class="faint">The list is from {ago(agent.models_seen_at ?? 0, Date.now() / 1000)} ago; {agentName(agent.name)} may offer others by now.</small>}
    </div>
  )
}
