/** An agent's mark in a list: a drawing of our own for those that we know, two letters of its name for the others. */
import { agentName } from '../shared/format'

const DRAWINGS: Readonly<Record<string, string>> = {
  'claude-code': 'M12 4v16M4 12h16M6.3 6.3l11.4 11.4M17.7 6.3L6.3 17.7', // a burst
  codex: 'M12 3l7.8 4.5v9L12 21l-7.8-4.5v-9zM9 9.5l3 2.5-3 2.5M13 15h3', // a prompt in a hexagon
  opencode: 'M5 5h14v14H5zM9 9h6v6H9z', // a box in a box
  gemini: 'M12 3c.8 5 4 8.2 9 9-5 .8-8.2 4-9 9-.8-5-4-8.2-9-9 5-.8 8.2-4 9-9z', // a star of four points
  copilot: 'M5 13a7 7 0 0 1 14 0v3H5zM9.5 13v1.5M14.5 13v1.5', // a visor
  goose: 'M8 20c6 0 9-3 9-7V7a3 3 0 0 0-6 0l-4 1 4 2v3', // a long neck
  qwen: 'M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM14 14l5 6',
  shell: 'M4 6h16v12H4zM7 10l2.5 2-2.5 2M12 14h4',
  demo: 'M8 5l11 7-11 7z',
  scripted: 'M6 4h12v16H6zM9 9h6M9 13h6M9 17h3',
}

export function AgentMark({ agent }: { agent: string }) {
  const drawing = DRAWINGS[agent]
  return (
    <span class="agent-mark" data-agent={agent} aria-hidden="true">
      {drawing ? <svg class="icon" viewBox="0 0 24 24"><path d={drawing} /></svg> : initials(agentName(agent))}
    </span>
  )
}

/** Two letters, of two words where there are two: "Mistral Vibe" is MV, "auggie" is Au. */
export function initials(name: string): string {
  const [first = '?', second] = name.split(/[\s_-]+/).filter(Boolean)
  return second ? (first[0]! + second[0]!).toUpperCase() : first[0]!.toUpperCase() + (first[1] ?? '')
}
