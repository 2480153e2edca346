/** What was used, as the charts show it: values by a measure, whether they are all of it, and the days in between. */
import type * as P from '../generated/protocol'
import { compactNumber, cost, duration } from '../shared/format'

export type Measure = 'cost' | 'tokens' | 'time'
export const MEASURES: readonly (readonly [Measure, string])[] = [['cost', 'Cost'], ['tokens', 'Tokens'], ['time', 'Time']]
export const RANGES: readonly number[] = [7, 30, 90]

/** The value of a measure; undefined: nobody told it. A measured zero is one. */
export function valueOf(totals: P.UsageTotals, measure: Measure): number | undefined {
  if (measure === 'time') return totals.duration_s
  if (measure === 'cost') return totals.tokens.cost_usd ?? undefined
  const counts = [totals.tokens.input, totals.tokens.output].filter((count): count is number => count != null)
  return counts.length ? counts.reduce((sum, count) => sum + count, 0) : undefined
}

/** Whether the value is all of it. What an agent does not tell is not guessed: then it is a lower bound. */
export function isComplete(totals: P.UsageTotals, measure: Measure): boolean {
  if (measure === 'time') return true
  const complete = !totals.partial_turns && !totals.unknown_turns
  return measure === 'tokens' ? complete : complete && totals.turns_with_cost === totals.turns
}

export function valueText(totals: P.UsageTotals, measure: Measure): string {
  const value = valueOf(totals, measure)
  if (value === undefined) return totals.turns ? 'not reported' : '–'
  const text = measure === 'time' ? duration(value) : measure === 'cost' ? cost({ cost_usd: value }) : compactNumber(value)
  return isComplete(totals, measure) ? text : `≥ ${text}`
}

/** What the sums do not contain, in words. */
export function incompleteNotes(total: P.UsageTotals): readonly string[] {
  const turns = (count: number) => `${count} ${count === 1 ? 'turn' : 'turns'}`
  const parts = [total.partial_turns && `${total.partial_turns} reported only a part of what was used`, total.unknown_turns && `${total.unknown_turns} reported nothing`].filter(Boolean)
  const without = total.turns - total.turns_with_cost
  return [
    ...(parts.length ? [`≥: at least. Of ${turns(total.turns)}, ${parts.join(' and ')}.`] : []),
    ...(without ? [`No cost is known for ${turns(without)}: not every agent reports it.`] : []),
  ]
}

/** The midnight, here, that began the day so many days ago. */
export function daysAgo(days: number, now: Date): Date {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() - days)
}

/** The name of a local day, as the hub names it. */
export const dayKey = (day: Date): string => `${day.getFullYear()}-${String(day.getMonth() + 1).padStart(2, '0')}-${String(day.getDate()).padStart(2, '0')}`

const EMPTY: P.UsageTotals = { turns: 0, partial_turns: 0, unknown_turns: 0, turns_with_cost: 0, model_calls: 0, duration_s: 0, tokens: {} }

/** One row for each of the last days, also for those on which no turn ended. */
export function everyDay(rows: readonly P.UsageRow[], days: number, now: Date): readonly P.UsageRow[] {
  const known = new Map(rows.map((row) => [row.key, row]))
  return Array.from({ length: days }, (_, index) => {
    const key = dayKey(daysAgo(days - 1 - index, now))
    return known.get(key) ?? { ...EMPTY, key, agent: '', project: '', title: '' }
  })
}

export const byValue = (rows: readonly P.UsageRow[], measure: Measure): readonly P.UsageRow[] =>
  [...rows].sort((row, other) => (valueOf(other, measure) ?? -1) - (valueOf(row, measure) ?? -1))
