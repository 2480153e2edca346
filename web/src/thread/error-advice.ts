/** What the person can do about an agent's error. */
import type * as P from '../generated/protocol'

const RULES: readonly (readonly [RegExp, string])[] = [
  [/\b(401|403|unauthori[sz]ed|forbidden|api key|not (?:signed|logged) in|log ?in|credential|authenticat)/i, 'Sign the agent in on that machine (its own login command), then send the prompt again.'],
  [/\b(429|rate.?limit|quota|overloaded|too many requests|capacity)/i, 'The model is busy or your quota is used up. Wait a little and send it again, or choose another model.'],
  [/context (?:window|length)|too long|maximum.*tokens|prompt is too large/i, 'The conversation is too long for the model. Ask the agent to compact it, or start a new session.'],
  [/ENOTFOUND|ECONN|network|timed? ?out|timeout|unreachable|connection (?:refused|reset|error)|fetch failed/i, 'The machine cannot reach the model. Check its network, then send it again.'],
  [/no such file|ENOENT|not found: .*cwd|directory/i, 'A file or directory is missing on that machine. Check the session’s directory.'],
  [/exited|killed|died|crash|signal|broken pipe/i, 'The agent’s process ended. The next prompt starts it again where it was.'],
  [/model.*(?:not (?:found|supported|exist)|unknown|invalid)|unknown model/i, 'Choose another model for this session.'],
  [/max.?(?:turns|budget)/i, 'A limit of this session was reached. Send “go on” to continue.'],
  [/permission|polic(?:y|ies)|denied/i, 'The policy or a decision stopped it. Change the policy, or say what it may do instead.'],
]

export function advice(message: string, code = ''): string {
  return RULES.find(([pattern]) => pattern.test(`${code} ${message}`))?.[1] ?? 'Send the prompt again; if it fails again, look at the agent on that machine.'
}

export function adviceFor(error: P.Error, agent: P.AgentView | undefined): string {
  if (error.recoverable) return 'The agent continues by itself.'
  if (agent && agent.ready === false && agent.hint) return agent.hint
  return advice(error.message, error.code)
}
