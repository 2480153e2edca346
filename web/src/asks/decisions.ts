/** A person's decisions on their way: sent by the page → at the hub → at the node → applied by the agent. */
import { signal } from '@preact/signals'
import { newId, post, isOutcomeUnknown, errorMessage } from '../api/client'
import type * as P from '../generated/protocol'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { retrySoon, asks, commands, refreshCommand, onReady, applyCommand } from '../store/store'

export interface SentDecision {
  readonly body: P.Decision
  readonly key: string
  readonly state: 'sending' | 'sent' | 'received' | 'applied' | 'refused' | 'expired'
  readonly problem: string
  readonly command: string
}

/** Kept over a reload: a machine that is away may take a day to hear of one. */
const decisions = signal<ReadonlyMap<string, SentDecision>>(new Map(loadLocal<[string, SentDecision][]>('decided', [])))

function save(all: ReadonlyMap<string, SentDecision>): void {
  decisions.value = all
  saveLocal('decided', [...all].filter(([, one]) => one.state === 'sending' || one.state === 'sent' || one.state === 'received'))
}

/** What became of the decision on an ask; undefined when none was made here. */
export function decisionFor(ask: string): SentDecision | undefined {
  const found = decisions.value.get(ask)
  const command = found?.command ? commands.value.get(found.command) : undefined
  if (!found || !command) return found
  if (found.state === 'refused' && command.state !== 'applied') return found // nobody knew of it; only its end says more
  return { ...found, state: command.state ?? 'sent', problem: command.problem ?? '' }
}

export async function decide(record: P.AskRecord, body: P.Decision): Promise<void> {
  const before = decisions.value.get(record.id)
  if (before && before.state === 'sending') return
  await submit(record.id, { body: { ...body, digest: record.digest }, key: newId(), state: 'sending', problem: '', command: '' })
}

async function submit(ask: string, one: SentDecision): Promise<void> {
  update(ask, one)
  try {
    const command = await post<P.CommandView>(`asks/${encodeURIComponent(ask)}/answer`, one.body, one.key)
    applyCommand(command)
    update(ask, { ...one, state: command.state ?? 'sent', problem: command.problem ?? '', command: command.id })
  } catch (error) {
    if (isOutcomeUnknown(error)) retrySoon() // it stays "sending" and goes again, with the same key
    else update(ask, { ...one, state: 'refused', problem: errorMessage(error) })
  }
}

function update(ask: string, one: SentDecision): void {
  save(new Map(decisions.value).set(ask, one))
}

onReady(() => {
  save(new Map([...decisions.value].filter(([ask]) => asks.value.has(ask)))) // the others are over
  for (const [ask, one] of decisions.value) {
    if (one.state === 'sending') void submit(ask, one)
    else if (one.state === 'sent' || one.state === 'received') {
      void refreshCommand(one.command, () => update(ask, { ...one, state: 'refused', problem: 'Nobody knows any more whether the machine got this: decide again.' }))
    }
  }
})
