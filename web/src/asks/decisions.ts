/** A person's decisions on their way: sent by the page → at the hub → at the node → applied by the agent. */
import { signal } from '@preact/signals'
import { newId, post, unsure, words } from '../api/client'
import type * as P from '../generated/protocol'
import { keep, kept } from '../shared/local-storage'
import { askAgain, asks, commands, lookAt, onReady, takeCommand } from '../store/store'

export interface Decided {
  readonly body: P.Decision
  readonly key: string
  readonly state: 'sending' | 'sent' | 'received' | 'applied' | 'refused' | 'expired'
  readonly problem: string
  readonly command: string
}

/** Kept over a reload: a machine that is away may take a day to hear of one. */
const made = signal<ReadonlyMap<string, Decided>>(new Map(kept<[string, Decided][]>('decided', [])))

function store(all: ReadonlyMap<string, Decided>): void {
  made.value = all
  keep('decided', [...all].filter(([, one]) => one.state === 'sending' || one.state === 'sent' || one.state === 'received'))
}

/** What became of the decision on an ask; undefined when none was made here. */
export function decided(ask: string): Decided | undefined {
  const found = made.value.get(ask)
  const command = found?.command ? commands.value.get(found.command) : undefined
  if (!found || !command) return found
  if (found.state === 'refused' && command.state !== 'applied') return found // nobody knew of it; only its end says more
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
    if (unsure(error)) askAgain() // it stays "sending" and goes again, with the same key
    else put(ask, { ...one, state: 'refused', problem: words(error) })
  }
}

function put(ask: string, one: Decided): void {
  store(new Map(made.value).set(ask, one))
}

onReady(() => {
  store(new Map([...made.value].filter(([ask]) => asks.value.has(ask)))) // the others are over
  for (const [ask, one] of made.value) {
    if (one.state === 'sending') void hand(ask, one)
    else if (one.state === 'sent' || one.state === 'received') {
      void lookAt(one.command, () => put(ask, { ...one, state: 'refused', problem: 'Nobody knows any more whether the machine got this: decide again.' }))
    }
  }
})
