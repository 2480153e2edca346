/** Decisions on their way: sent by the page → received by the hub → received by the node → applied by the agent. */
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

/** Stored over a reload: an offline machine may receive a decision only a day later. */
const decisions = signal<ReadonlyMap<string, SentDecision>>(new Map(loadLocal<[string, SentDecision][]>('decided', [])))

function save(all: ReadonlyMap<string, SentDecision>): void {
  decisions.value = all
  saveLocal('decided', [...all].filter(([, decision]) => decision.state === 'sending' || decision.state === 'sent' || decision.state === 'received'))
}

/** The state of the decision on an ask; undefined when this page made none. */
export function decisionFor(ask: string): SentDecision | undefined {
  const decision = decisions.value.get(ask)
  const command = decision?.command ? commands.value.get(decision.command) : undefined
  if (!decision || !command) return decision
  if (decision.state === 'refused' && command.state !== 'applied') return decision // the hub had lost it; only `applied` overrules that
  return { ...decision, state: command.state ?? 'sent', problem: command.problem ?? '' }
}

export async function decide(record: P.AskRecord, body: P.Decision): Promise<void> {
  const before = decisions.value.get(record.id)
  if (before && before.state === 'sending') return
  await submit(record.id, { body: { ...body, digest: record.digest }, key: newId(), state: 'sending', problem: '', command: '' })
}

async function submit(ask: string, decision: SentDecision): Promise<void> {
  update(ask, decision)
  try {
    const command = await post<P.CommandView>(`asks/${encodeURIComponent(ask)}/answer`, decision.body, decision.key)
    applyCommand(command)
    update(ask, { ...decision, state: command.state ?? 'sent', problem: command.problem ?? '', command: command.id })
  } catch (error) {
    if (isOutcomeUnknown(error)) retrySoon() // it stays "sending" and is resent with the same key
    else update(ask, { ...decision, state: 'refused', problem: errorMessage(error) })
  }
}

function update(ask: string, decision: SentDecision): void {
  save(new Map(decisions.value).set(ask, decision))
}

onReady(() => {
  save(new Map([...decisions.value].filter(([ask]) => asks.value.has(ask)))) // the others are closed
  for (const [ask, decision] of decisions.value) {
    if (decision.state === 'sending') void submit(ask, decision)
    else if (decision.state === 'sent' || decision.state === 'received') {
      void refreshCommand(decision.command, () => update(ask, { ...decision, state: 'refused', problem: 'The hub no longer has a record of this decision: decide again.' }))
    }
  }
})
