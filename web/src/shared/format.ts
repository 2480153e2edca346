/** Numbers, times, paths and states as text. */
import type * as P from '../generated/protocol'
import { visibleLine } from './visible-text'

export function ago(seconds: number, now: number): string {
  const past = Math.max(0, now - seconds)
  if (past < 45) return 'now'
  if (past < 3600) return `${Math.max(1, Math.round(past / 60))} min`
  if (past < 86400) return `${Math.round(past / 3600)} h`
  return `${Math.round(past / 86400)} d`
}

/** The time left, as coarse as is still useful. */
export function timeLeft(seconds: number): string {
  if (seconds <= 0) return 'expired'
  if (seconds < 60) return `${Math.ceil(seconds)} s left`
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')} left`
  const minutes = Math.floor((seconds % 3600) / 60)
  return `${Math.floor(seconds / 3600)} h${minutes ? ` ${minutes} min` : ''} left`
}

export function duration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 60 ? `${minutes} min ${Math.round(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

export function compactNumber(number: number): string {
  if (number < 1000) return String(number)
  if (number < 1_000_000) return `${(number / 1000).toFixed(number < 10_000 ? 1 : 0)}k`
  return `${(number / 1_000_000).toFixed(1)}M`
}

/** The cost in dollars where the agent reports it, else tokens, else nothing. A measured zero is shown. */
export function cost(tokens: P.Tokens | null | undefined): string {
  if (!tokens) return ''
  if (tokens.cost_usd != null) return tokens.cost_usd && tokens.cost_usd < 0.01 ? '<$0.01' : `$${tokens.cost_usd.toFixed(2)}`
  const counts = [tokens.input, tokens.output].filter((count): count is number => count != null)
  return counts.length ? `${compactNumber(counts.reduce((sum, tokenCount) => sum + tokenCount, 0))} tokens` : ''
}

/** An amount in dollars; nothing where none was reported. */
export const dollars = (amount: number | undefined): string => (amount ? cost({ cost_usd: amount }) : '')

export function baseName(path: string): string {
  return path.replace(/\/+$/, '').split('/').pop() || path || '/'
}

export function abbreviateHome(path: string, home: string | undefined): string {
  return home && (path === home || path.startsWith(`${home}/`)) ? `~${path.slice(home.length)}` : path
}

/** A path relative to a directory; a path outside stays whole. Paths in a diff have no leading slash. */
export function relativeTo(path: string, cwd: string | undefined): string {
  const root = `${(cwd ?? '').replace(/^\/|\/$/g, '')}/`
  const bare = path.replace(/^\//, '')
  return root !== '/' && bare.startsWith(root) ? bare.slice(root.length) : path
}

export type SessionState = 'working' | 'waiting' | 'ready' | 'done' | 'stopped' | 'stuck' | 'failed' | 'closed' | 'offline'

/** The state of a session as far as the page knows it. */
export function sessionState(session: P.SessionRecord, node: P.NodeView | undefined): SessionState {
  if (session.status === 'closed') return 'closed'
  if (node && !node.online) return 'offline'
  if (session.status === 'idle') return session.turns ? turnOutcome(session) : 'ready'
  return session.status
}

/** How the last turn ended; `done` when the node does not report it. */
function turnOutcome({ outcome }: P.SessionRecord): SessionState {
  if (!outcome || outcome === 'success') return 'done'
  return outcome === 'error' ? 'failed' : 'stopped'
}

export const STATE_LABELS: Record<SessionState, string> = {
  working: 'Working', waiting: 'Needs you', ready: 'Ready', done: 'Done', stopped: 'Stopped', stuck: 'Not responding', failed: 'Failed', closed: 'Closed', offline: 'Machine offline',
}

/** How a turn ended. */
export const TURN_STATUS_LABELS: Record<P.Done['status'], string> = {
  success: 'Done', error: 'Failed', interrupted: 'Stopped', max_turns: 'Stopped: turn limit reached', max_budget: 'Stopped: budget reached', timeout: 'Stopped: timed out',
}

/** A line of Markdown without its marks, for a list. */
export function plainLine(text: string): string {
  return visibleLine(text
    .replace(/^\s*(?:#{1,6}\s+|>\s?|[-*+]\s+(?:\[[ xX]\]\s+)?|\d+[.)]\s+|```\w*\s*)/, '')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/(\*\*|__|~~|`+)(.+?)\1/g, '$2')
    .replace(/(^|\W)[*_](\S(?:.*?\S)?)[*_](?=\W|$)/g, '$1$2')
    .trim())
}

/** What holds for a capability, and what makes it hold: nothing has to make what is allowed. */
export function enforcement({ level, means, note }: P.Enforcement): string {
  const by = level === 'allow' ? '' : means === 'none' ? ', but nothing enforces it' : `, by ${means}`
  return visibleLine(`${level}${by}${note ? ` (${note})` : ''}`)
}

export function sessionTitle(session: P.SessionRecord): string {
  return visibleLine(session.title || baseName(session.cwd))
}

const AGENT_NAMES: Record<string, string> = { 'claude-code': 'Claude Code', codex: 'Codex', opencode: 'OpenCode', gemini: 'Gemini', demo: 'Demo', scripted: 'Scripted', shell: 'Shell' }

export function agentName(agent: string): string {
  return AGENT_NAMES[agent] ?? agent
}

const MAX_LINE = 300 // characters, more than any row has room for

/** A tool call on one line. */
export function actionSummary(action: P.Ask['action'], name = ''): string {
  const text = actionText(action, name)
  return visibleLine(text.length > MAX_LINE ? `${text.slice(0, MAX_LINE)} …` : text)
}

function actionText(action: P.Ask['action'], name: string): string {
  switch (action?.kind) {
    case 'command': return action.command
    case 'edit': return action.paths.map(baseName).join(', ')
    case 'read': return action.path
    case 'search': return action.query + (action.path ? ` in ${baseName(action.path)}` : '')
    case 'fetch': return action.url || action.query || ''
    case 'mcp': return `${action.server}: ${action.tool}`
    case 'task': return action.title ?? ''
    default: return name
  }
}

export const VERBS: Record<string, string> = {
  command: 'Run', edit: 'Edit', read: 'Read', search: 'Search', fetch: 'Fetch', mcp: 'Use', task: 'Delegate', other: 'Use',
}

export function askHeading(ask: P.Ask): string {
  return visibleLine(askQuestion(ask))
}

function askQuestion(ask: P.Ask): string {
  if (ask.kind === 'question') return ask.questions?.[0]?.header || 'Question'
  if (ask.kind === 'plan') return 'Approve the plan?'
  switch (ask.action?.kind) {
    case 'command': return 'Run this command?'
    case 'edit': return ask.action.paths.length === 1 ? `Edit ${baseName(ask.action.paths[0]!)}?` : ask.action.paths.length ? `Edit ${ask.action.paths.length} files?` : 'Edit files?'
    case 'read': return `Read ${baseName(ask.action.path)}?`
    case 'fetch': return 'Fetch from the network?'
    case 'search': return 'Search?'
    case 'mcp': return `Use ${ask.action.tool} of ${ask.action.server}?`
    case 'task': return 'Start a subagent?'
    default: return ask.title || 'Allow this?'
  }
}

/** Why it was decided so, in quotes; empty where who decided says it all. */
export function answerReason(answer: P.Answer | undefined): string {
  if (!answer?.reason || answer.by === 'restart') return ''
  return `“${visibleLine(answer.by === 'rule' ? answer.reason.replace(/^a rule says: /, '') : answer.reason)}”`
}

/** Who decided and from where, or why nobody could. */
export function answeredBy(answer: P.Answer): string {
  if (answer.by === 'restart' && answer.decision === 'deny') return ': Tieline was restarted before anyone answered'
  if (answer.by === 'terminal') return ' at the terminal'
  if (answer.by === 'rule') return ' by a rule'
  return `${answer.by ? ` by ${visibleLine(answer.by)}` : ''}${answer.via && answer.via !== answer.by ? ` (${visibleLine(answer.via)})` : ''}`
}

/** Whether this can be done from here: to a session in a terminal, only what its harness allows. */
export const canDo = (session: P.SessionRecord, what: NonNullable<P.SessionRecord['remote']>[number]): boolean =>
  session.kind !== 'attached' || (session.remote ?? []).includes(what)
