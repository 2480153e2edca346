/** Cost, tokens and time by day, agent, project and session. Loaded when it is opened. */
import { useState } from 'preact/hooks'
import { get } from '../api/client'
import { back, sessionUrl } from '../app/router'
import type * as P from '../generated/protocol'
import { agentName, compactNumber, cost, duration } from '../shared/format'
import { loadLocal, saveLocal } from '../shared/local-storage'
import { visibleLine } from '../shared/visible-text'
import { sessions } from '../store/store'
import { Empty, Pane, Problem, useFetched } from '../ui/components'
import { Icon } from '../ui/icons'
import { byValue, daysAgo, everyDay, incompleteNotes, isComplete, MEASURES, RANGES, valueOf, valueText, type Measure } from './usage'
import './usage.css'

type By = P.UsageReport['by']
const GROUPS: readonly (readonly [By, string])[] = [['agent', 'By agent'], ['project', 'By project'], ['session', 'By session']]
const MAX_BARS = 12 // the table has the others, too

export function UsagePage() {
  const [days, setDays] = useState(() => loadLocal('usage.days', 30))
  const [chosen, setMeasure] = useState<Measure | ''>('')
  const { value, problem, reload } = useFetched(() => fetchReports(days), [days])
  const total = value?.day.total
  // What nobody told is not the first thing to show.
  const measure: Measure = chosen || (total && valueOf(total, 'cost') === undefined ? 'tokens' : 'cost')
  const choose = (range: number) => {
    setDays(range)
    saveLocal('usage.days', range)
  }
  return (
    <Pane label="Usage">
      <header class="pane-head">
        <button type="button" class="plain usage-back" aria-label="Back" onClick={() => back('/settings')}><Icon name="back" /></button>
        <div class="pane-title"><h1>Usage</h1></div>
      </header>
      <div class="pane-scroll page usage-page">
        <div class="row wrap usage-tools">
          <div class="filters" role="group" aria-label="Days">{RANGES.map((range) => <button key={range} type="button" class={range === days ? 'on' : ''} aria-pressed={range === days} onClick={() => choose(range)}>{range} days</button>)}</div>
          <div class="filters" role="group" aria-label="Measure">{MEASURES.map(([name, label]) => <button key={name} type="button" class={name === measure ? 'on' : ''} aria-pressed={name === measure} onClick={() => setMeasure(name)}>{label}</button>)}</div>
        </div>
        <Problem text={problem} />
        {problem && !value && <button type="button" onClick={reload}>Try again</button>}
        {!value && !problem && <p class="loading" role="status">Loading …</p>}
        {value && !value.day.up_to_date && <p class="faint small-text" role="status"><Icon name="clock" /> Turns that ended are still being counted. <button type="button" class="small" onClick={reload}>Refresh</button></p>}
        {value && total && !total.turns && <Empty icon="clock" title={`No turn ended in the last ${value.days} days`}><p>What agents use is counted when a turn ends.</p></Empty>}
        {value && total && total.turns > 0 && (
          <>
            <Totals total={total} />
            <DayChart rows={everyDay(value.day.rows, value.days, new Date())} measure={measure} />
            {GROUPS.map(([by, title]) => <BarChart key={by} by={by} title={title} rows={byValue(value[by].rows, measure)} measure={measure} />)}
          </>
        )}
      </div>
    </Pane>
  )
}

type Reports = Readonly<Record<By, P.UsageReport>> & { readonly days: number }

async function fetchReports(days: number): Promise<Reports> {
  const since = daysAgo(days - 1, new Date()).getTime() / 1000
  const zone = encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)
  const [day, agent, project, session] = await Promise.all((['day', 'agent', 'project', 'session'] as const).map((by) => get<P.UsageReport>(`usage?by=${by}&since=${since}&time_zone=${zone}`)))
  return { days, day: day!, agent: agent!, project: project!, session: session! }
}

function Totals({ total }: { total: P.UsageTotals }) {
  return (
    <section aria-label="Total">
      <dl class="totals">
        {MEASURES.map(([name, label]) => <div key={name}><dt>{label}</dt><dd>{valueText(total, name)}</dd></div>)}
        <div><dt>Turns</dt><dd>{compactNumber(total.turns)}</dd></div>
      </dl>
      {incompleteNotes(total).map((note) => <p key={note} class="small-text incomplete"><Icon name="warn" /> {note}</p>)}
    </section>
  )
}

const measureName = (measure: Measure): string => MEASURES.find(([name]) => name === measure)![1]

/** A bar for each day. The table below it says the same. */
function DayChart({ rows, measure }: { rows: readonly P.UsageRow[]; measure: Measure }) {
  const highest = rows.reduce((most, row) => ((valueOf(row, measure) ?? 0) > (valueOf(most, measure) ?? 0) ? row : most))
  const most = valueOf(highest, measure) || 1
  const name = `${measureName(measure)} by day`
  const label = `${name}, ${rows[0]!.key} to ${rows.at(-1)!.key}; the most on ${highest.key}: ${valueText(highest, measure)}`
  return (
    <section aria-label={name} class="chart">
      <h2>By day <span class="faint">most: {valueText(highest, measure)}, {shortDay(highest.key)}</span></h2>
      <svg class="day-bars" viewBox={`0 0 ${rows.length} 100`} preserveAspectRatio="none" role="img" aria-label={label}>
        {rows.map((row, index) => {
          const height = Math.max(row.turns ? 1.5 : 0, ((valueOf(row, measure) ?? 0) / most) * 100)
          return <rect key={row.key} x={index + 0.1} y={100 - height} width={0.8} height={height} class={isComplete(row, measure) ? 'bar' : 'bar partial'}><title>{`${row.key}: ${valueText(row, measure)}`}</title></rect>
        })}
      </svg>
      <div class="axis faint" aria-hidden="true">{[0, Math.floor((rows.length - 1) / 2), rows.length - 1].map((index) => <span key={index}>{shortDay(rows[index]!.key)}</span>)}</div>
      <UsageTable by="day" rows={rows.filter((row) => row.turns)} />
    </section>
  )
}

const shortDay = (key: string): string => {
  const [year, month, day] = key.split('-').map(Number)
  return new Date(year!, month! - 1, day).toLocaleDateString(undefined, { month: 'short', day: 'numeric' })
}

/** A bar for each agent, project or session, the longest first. */
function BarChart({ by, title, rows, measure }: { by: By; title: string; rows: readonly P.UsageRow[]; measure: Measure }) {
  const most = Math.max(...rows.map((row) => valueOf(row, measure) ?? 0)) || 1
  const shown = rows.slice(0, MAX_BARS)
  const label = `${measureName(measure)} ${title.toLowerCase()}: ${shown.map((row) => `${rowName(row, by)} ${valueText(row, measure)}`).join(', ')}`
  return (
    <section aria-label={title} class="chart">
      <h2>{title} {rows.length > shown.length && <span class="faint">the first {shown.length} of {rows.length}</span>}</h2>
      <div role="img" aria-label={label} class="row-bars">
        {shown.map((row) => (
          <div key={row.key} class="row-bar">
            <span class="ellipsis">{rowName(row, by)}</span><span class="amount">{valueText(row, measure)}</span>
            <svg viewBox="0 0 100 1" preserveAspectRatio="none"><rect x="0" y="0" height="1" width={Math.max(0.5, ((valueOf(row, measure) ?? 0) / most) * 100)} class={isComplete(row, measure) ? 'bar' : 'bar partial'} /></svg>
          </div>
        ))}
      </div>
      <UsageTable by={by} rows={rows} />
    </section>
  )
}

function rowName(row: P.UsageRow, by: By): string {
  if (by === 'session') return visibleLine(row.title || row.key)
  if (by === 'agent') return row.key ? agentName(row.key) : '(none)'
  return visibleLine(row.key) || '(none)'
}

const HEADS: Readonly<Record<By, string>> = { day: 'Day', agent: 'Agent', project: 'Project', session: 'Session' }

function UsageTable({ by, rows }: { by: By; rows: readonly P.UsageRow[] }) {
  const count = (row: P.UsageRow, tokens: number | null | undefined) => (tokens == null ? '–' : `${isComplete(row, 'tokens') ? '' : '≥ '}${compactNumber(tokens)}`)
  return (
    <details class="usage-table">
      <summary>As a table</summary>
      <div class="table-scroll" tabIndex={0} role="region" aria-label={`Usage by ${by}, as a table`}>
        <table>
          <thead><tr>{[HEADS[by], 'Turns', 'Time', 'Input', 'Cached', 'Output', 'Cost'].map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.key}>
                <th scope="row">{by === 'session' && sessions.value.has(row.key) ? <a href={sessionUrl(row.key)} data-internal="1">{rowName(row, by)}</a> : rowName(row, by)}</th>
                <td>{row.turns}</td><td>{duration(row.duration_s)}</td>
                <td>{count(row, row.tokens.input)}</td><td>{count(row, row.tokens.cache_read)}</td><td>{count(row, row.tokens.output)}</td>
                <td>{row.tokens.cost_usd == null ? '–' : `${isComplete(row, 'cost') ? '' : '≥ '}${cost({ cost_usd: row.tokens.cost_usd })}`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  )
}
