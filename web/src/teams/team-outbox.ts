/** What a person says to a team, stored until the hub has it and resent with the same key, so that it is said once. */
import { signal } from '@preact/signals'
import { newId, request } from '../api/client'
import type * as P from '../generated/protocol'
import { loadLocal, saveLocal } from '../shared/local-storage'
import { sendInOrder } from '../store/send-in-order'
import { onReady } from '../store/store'
import { refreshTeam, teamPath, teamThread } from './team-store'

export interface OutgoingWords {
  readonly id: string
  readonly team: string
  readonly body: P.Speak
  readonly state: 'sending' | 'failed'
  readonly problem: string
}

export const outgoingWords = signal<readonly OutgoingWords[]>(loadLocal<OutgoingWords[]>('team-outbox', []))

function save(all: readonly OutgoingWords[]): void {
  outgoingWords.value = all
  saveLocal('team-outbox', all)
}

export function say(team: string, body: P.Speak): void {
  save([...outgoingWords.value, { id: newId(), team, body, state: 'sending', problem: '' }])
  void flush()
}

export function dismissWords(id: string): void {
  save(outgoingWords.value.filter((words) => words.id !== id))
}

/** With a new key: the hub would repeat its refusal to the old one. */
export function retryWords(id: string): void {
  save(outgoingWords.value.map((words) => (words.id === id ? { ...words, id: newId(), state: 'sending', problem: '' } : words)))
  void flush()
}

const flush = sendInOrder<OutgoingWords>({
  next: () => outgoingWords.value.find((words) => words.state === 'sending'),
  send: async ({ id, team, body }) => {
    await request('POST', `${teamPath(team)}/actions`, body, id)
    if (teamThread.value?.id === team) await refreshTeam() // it is in the thread before it leaves this list
    dismissWords(id)
  },
  refused: ({ id }, problem) => save(outgoingWords.value.map((words) => (words.id === id ? { ...words, state: 'failed', problem } : words))),
})

onReady(() => void flush())
