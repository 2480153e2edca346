/** A person's decisions on their way: sent by the page → at the hub → at the node → applied by the agent. */
import { signal } from '@preact/signals'
import { Refused, newId, post, words } from './api'
import type * as P from './protocol'
import { commands, onReady, asks, takeCommand } from './store'

export interface Decided {
  readonly body: P.Decision
  readonly key: string
  readonly state: 'sending' | 'sent' | 'received' | 'applied' | 'refused' | 'expired'
  readonly problem: string
  readonly command: string
}

const made = signal<ReadonlyMap<string, Decided>>(new Map())

/** What became of the decision on an ask; undefined when none was made here. */
export function decided(ask: string): Decided | undefined {
  const found = made.value.get(ask)
  const command = found?.command ? commands.value.get(found.command) : undefined
  if (!found || !command) return found
  return { ...found, state: command.state ?? 'sent', problem: command.problem ?? '' }
}

export async function decide(record: P.AskRecord, body: P.Decision): Promise<void> {
  const before = made.value.get(record.id)
  if (before && before.state === 'sending') return
  await hand(record.id, { body: { ...body, digest: record.digest }, key: newId(), state: 'sending', problem: '', command: '' })
}

async function hand(ask: string, one: Decided): Promise<void> {
  put(ask, one)
  try {
    const command = await post<P.CommandView>(`asks/${encodeURIComponent(ask)}/answer`, one.body, one.key)
    takeCommand(command)
    put(ask, { ...one, state: command.state ?? 'sent', problem: command.problem ?? '', command: command.id })
  } catch (error) {
    if (error instanceof Refused) put(ask, { ...one, state: 'refused', problem: words(error) })
    // Otherwise the hub is away: it stays "sending" and goes again, with the same key, when the hub is back.
  }
}

function put(ask: string, one: Decided): void {
  made.value = new Map(made.value).set(ask, one)
}

onReady(() => {
  for (const [ask, one] of made.value) if (one.state === 'sending' && asks.value.has(ask)) void hand(ask, one)
})
