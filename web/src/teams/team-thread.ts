/** Folds the log of a team's conversation into the rows of its thread. Each entry is applied once, by its sequence number. */
import { signal } from '@preact/signals'
import { IdempotentRequest } from '../api/client'
import type * as P from '../generated/protocol'

export type TeamLogEntry = P.TeamEntry['entry']

export type TeamRowContent =
  | { readonly kind: 'task'; readonly by: string; readonly text: string }
  | { readonly kind: 'said'; readonly speaker: string; readonly colour: number; readonly person: boolean; readonly text: string; readonly markers: P.Markers; readonly cost_usd: number; readonly work?: P.MemberWork }
  | { readonly kind: 'notice'; readonly text: string; readonly tone: '' | 'warning' | 'bad' }

export interface TeamRow {
  readonly key: string
  readonly number: number // grows by one from row to row, also when older rows are inserted before
  readonly at: number
  readonly content: TeamRowContent
}

export const SPEAKER_COLOURS = 8

export class TeamThread {
  readonly rows = signal<readonly TeamRow[]>([])
  readonly view = signal<P.TeamView | undefined>(undefined)
  /** Sessions of the members, by their names. */
  readonly sessions = signal<ReadonlyMap<string, string>>(new Map())
  /** Who shall answer what is being written. */
  readonly addressed = signal<readonly string[]>([])
  readonly problem = signal('')
  readonly hasOlder = signal(false)
  readonly request = new IdempotentRequest()
  loadingOlder = false
  lastSeq = 0
  firstSeq = Number.MAX_SAFE_INTEGER
  private colours = new Map<string, number>()

  constructor(readonly id: string) {}

  setView(view: P.TeamView): void {
    const sessions = new Map((view.who ?? []).filter((member) => member.session).map((member) => [member.name, member.session!]))
    for (const member of view.who ?? []) this.colourOf(member.name)
    if (JSON.stringify([...sessions]) !== JSON.stringify([...this.sessions.peek()])) this.sessions.value = sessions
    this.view.value = view
    const names = new Set(view.members)
    if (this.addressed.peek().some((name) => !names.has(name))) this.addressed.value = this.addressed.peek().filter((name) => names.has(name))
  }

  /** Applies entries that follow the known ones, or come before them. */
  addEntries(entries: readonly P.TeamEntry[]): void {
    const newer = this.toRows(entries.filter((entry) => entry.seq > this.lastSeq))
    const older = this.lastSeq ? this.toRows(entries.filter((entry) => entry.seq < this.firstSeq)) : []
    for (const { seq } of entries) {
      this.lastSeq = Math.max(this.lastSeq, seq)
      this.firstSeq = Math.min(this.firstSeq, seq)
    }
    if (!newer.length && !older.length) return
    const known = this.rows.peek()
    const first = (known[0]?.number ?? 0) - older.length
    this.rows.value = [
      ...older.map((row, index) => ({ ...row, number: first + index })),
      ...known,
      ...newer.map((row, index) => ({ ...row, number: first + older.length + known.length + index })),
    ]
  }

  /** A speaker's colour: another one for each, as long as there are enough. */
  colourOf(name: string): number {
    const known = this.colours.get(name)
    if (known !== undefined) return known
    const colour = this.colours.size % SPEAKER_COLOURS
    this.colours.set(name, colour)
    return colour
  }

  toggleAddressed(name: string): void {
    const before = this.addressed.peek()
    this.addressed.value = before.includes(name) ? before.filter((addressee) => addressee !== name) : [...before, name]
  }

  private toRows(entries: readonly P.TeamEntry[]): Omit<TeamRow, 'number'>[] {
    return entries.flatMap(({ seq, entry }) => {
      const content = this.content(entry)
      return content ? [{ key: `#${seq}`, at: entry.at ?? 0, content }] : []
    })
  }

  private content(entry: TeamLogEntry): TeamRowContent | undefined {
    const by = entry.by ? ` by ${entry.by}` : ''
    const notice = (text: string, tone: '' | 'warning' | 'bad' = ''): TeamRowContent => ({ kind: 'notice', text, tone })
    switch (entry.type) {
      case 'started': return { kind: 'task', by: entry.by ?? '', text: entry.task }
      case 'turn_began': return undefined // who works is said below the rows, for as long as they do
      case 'person_spoke': return this.messageRow(entry, true, 0)
      case 'member_called': return this.messageRow(entry, false, 0)
      case 'turn_ended':
        if (entry.status === 'success') return this.messageRow(entry, false, entry.cost_usd ?? 0)
        if (entry.status === 'indeterminate') return notice(`The turn of ${entry.member} was cut off by a restart. It goes on.`, 'warning')
        return notice(`The turn of ${entry.member} ${TURN_LABELS[entry.status] ?? 'failed'}${entry.error ? `: ${entry.error}` : ''}`, entry.status === 'interrupted' || entry.status === 'cancelled' ? 'warning' : 'bad')
      case 'held': return notice(`Put on hold${by}`, 'warning')
      case 'resumed': return notice(`Resumed${by}${more(entry)}`)
      case 'reordered': return notice(`Next${by}: ${entry.next.join(', ')}`)
      case 'dropped': return notice(`Taken from the queue${by}: ${entry.members.join(', ')}`)
      case 'policy_changed': return notice(`The policy of ${entry.member} is now ${policyText(entry.policy)}${entry.by ? `, ${by.trim()}` : ''}`)
      case 'member_added': return notice(`${entry.member.name} joined the team`)
      case 'member_removed': return notice(`${entry.member} left the team`)
      case 'ended': return notice(`Ended: ${entry.reason}`)
      default: return notice(unknownEntry(entry as TeamLogEntry))
    }
  }

  private messageRow(entry: P.TurnEnded | P.MemberCalled | P.PersonSpoke, person: boolean, cost_usd: number): TeamRowContent {
    const markers = entry.markers ?? {}
    const steers = Object.keys(markers).length > 0
    const text = [steers ? withoutMarkers(entry.text ?? '') : entry.text ?? '', voteText(markers)].filter(Boolean).join('\n\n')
    return { kind: 'said', speaker: entry.member, colour: this.colourOf(entry.member), person, text, markers, cost_usd, work: ('work' in entry && entry.work) || undefined }
  }
}

function voteText({ vote, ballot }: Partial<P.Markers>): string {
  return vote ? `Vote: ${vote.question} (${vote.options.join(' | ')})` : ballot ? `Votes for ${ballot}` : ''
}

const TURN_LABELS: Partial<Record<P.TurnEnded['status'], string>> = {
  interrupted: 'was interrupted', cancelled: 'was withdrawn', timeout: 'took too long', refused: 'could not begin', max_turns: 'reached its limit of steps', max_budget: 'reached its budget',
}

function more({ more_rounds, more_cost_usd, more_minutes }: P.Resumed): string {
  const parts = [more_rounds && `${more_rounds} rounds`, more_cost_usd && `$${more_cost_usd}`, more_minutes && `${more_minutes} minutes`].filter(Boolean)
  return parts.length ? `, with ${parts.join(', ')} more` : ''
}

const policyText = (policy: P.Policy | string): string =>
  typeof policy === 'string' ? policy : Object.entries(policy).map(([what, level]) => `${what.replaceAll('_', ' ')}: ${String(level)}`).join(', ')

/** An entry that a newer hub writes. */
function unknownEntry(entry: { readonly type: string; readonly by?: string }): string {
  return `${entry.type.replaceAll('_', ' ')}${entry.by ? ` by ${entry.by}` : ''}`
}

const MARKER = /^\[(?:NEXT|DROP|TEAM_TASK|DONE|VOTE|BALLOT)(?:\s*:.*)?\s*\]$/i

/** What was said, without the lines at its end that steer the team: whole lines outside of code blocks and quotations. */
export function withoutMarkers(text: string): string {
  const lines = text.split('\n')
  let fence = ''
  const plain = lines.map((line) => {
    const match = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line)
    if (!fence && !match) return !/^(?: {4}|\t|\s*>)/.test(line)
    if (!fence) fence = match![1]!
    else if (match?.[1]!.startsWith(fence) && !match[2]!.trim()) fence = ''
    return false
  })
  while (lines.length && (!lines.at(-1)!.trim() || (plain[lines.length - 1] && MARKER.test(lines.at(-1)!.trim())))) lines.pop()
  return lines.join('\n').trim()
}
