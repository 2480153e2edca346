/** When a schedule runs, as text, and how its runs went. */
import type * as P from '../generated/protocol'
import { ago, duration, type SessionState } from '../shared/format'

/** A moment by the clocks of a time zone, in hours as cron counts them; by this browser's where it does not know the zone. */
export function momentIn(zone: string, at: number): string {
  const style = { weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
  const day = new Date(at * 1000)
  const year = day.getFullYear() === new Date().getFullYear() ? {} : ({ year: 'numeric' } as const)
  try {
    return day.toLocaleString(undefined, { ...style, ...year, timeZone: zone })
  } catch {
    return day.toLocaleString(undefined, { ...style, ...year })
  }
}

/** How long it is until then. */
export function until(at: number, now: number): string {
  return at - now < 45 ? 'in a moment' : `in ${ago(now - (at - now), now)}`
}

const PRESETS: Readonly<Record<string, string>> = {
  '@hourly': 'every hour', '@daily': 'every day at 0:00', '@midnight': 'every day at 0:00', '@weekly': 'every Sunday at 0:00', '@monthly': 'on the 1st at 0:00', '@yearly': 'on January 1st at 0:00', '@annually': 'on January 1st at 0:00',
}
const DAYS: Readonly<Record<string, string>> = { '*': 'every day', '1-5': 'every weekday', 'mon-fri': 'every weekday', '0': 'every Sunday', '7': 'every Sunday', '1': 'every Monday', '2': 'every Tuesday', '3': 'every Wednesday', '4': 'every Thursday', '5': 'every Friday', '6': 'every Saturday' }

/** The usual expressions in words; any other as it is. */
export function cronText(cron: string): string {
  const text = cron.trim().toLowerCase()
  if (PRESETS[text]) return PRESETS[text]
  const [minute, hour, day, month, weekday] = text.split(/\s+/)
  if (day !== '*' || month !== '*' || !minute || !hour || !weekday) return cron
  const step = /^\*\/(\d+)$/.exec(minute)?.[1]
  if (step && hour === '*' && weekday === '*') return `every ${step} minutes`
  const days = DAYS[weekday]
  if (!/^\d+$/.test(minute) || !days) return cron
  if (hour === '*' && weekday === '*') return Number(minute) ? `every hour at :${minute.padStart(2, '0')}` : 'every hour'
  return /^\d+$/.test(hour) ? `${days} at ${hour}:${minute.padStart(2, '0')}` : cron
}

export const whenText = (schedule: P.ScheduleView): string => `${schedule.cron ? cronText(schedule.cron) : `once, ${schedule.once.replace('T', ' ')}`} (${schedule.zone})`

export interface RunResult {
  readonly label: string
  readonly chip: SessionState | ''
}

const STATES: Readonly<Record<NonNullable<P.ScheduleRun['state']>, RunResult>> = {
  starting: { label: 'Starting', chip: 'working' }, waiting: { label: 'Waits for the run before', chip: 'waiting' }, running: { label: 'Running', chip: 'working' },
  ended: { label: 'Ended', chip: 'done' }, failed: { label: 'Not started', chip: 'failed' }, skipped: { label: 'Skipped', chip: '' }, missed: { label: 'Missed', chip: 'failed' },
}
const OUTCOMES: Readonly<Record<NonNullable<P.ScheduleRun['outcome']>, RunResult>> = {
  success: { label: 'Done', chip: 'done' }, error: { label: 'Failed', chip: 'failed' }, interrupted: { label: 'Stopped', chip: '' }, max_turns: { label: 'Stopped: turn limit', chip: '' },
  max_budget: { label: 'Stopped: budget', chip: '' }, timeout: { label: 'Stopped: timed out', chip: '' }, cancelled: { label: 'Cancelled', chip: '' }, indeterminate: { label: 'Outcome unknown', chip: 'failed' },
}

export const runResult = (run: P.ScheduleRun): RunResult => (run.state === 'ended' && run.outcome ? OUTCOMES[run.outcome] : STATES[run.state ?? 'starting'])

export function runLength(run: P.ScheduleRun): string {
  return run.started_at && run.ended_at ? duration(run.ended_at - run.started_at) : ''
}
