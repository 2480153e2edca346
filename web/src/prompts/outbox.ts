/** What a person wrote is never lost: it is kept here until the hub has it, and sent again with the same id. */
import { computed, signal } from '@preact/signals'
import { ApiError, get, newId, request, isNotFound, isOutcomeUnknown, errorMessage } from '../api/client'
import type * as P from '../generated/protocol'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { retrySoon, commands, refreshCommand, onReady, prompts, applyCommand } from '../store/store'

export interface Attachment {
  readonly name: string
  readonly media_type: string
  readonly data: string // base64
}

export interface OutgoingPrompt {
  readonly id: string
  readonly session: string
  readonly text: string
  readonly steer: boolean
  readonly at: number
  readonly state: 'sending' | 'sent' | 'failed'
  readonly problem: string
  readonly files: readonly string[] // their names
  readonly command?: string // which tells where it is, when the machine did not take it at once
}

const outgoing = signal<readonly OutgoingPrompt[]>(loadLocal<OutgoingPrompt[]>('outbox', []))
const files = new Map<string, readonly Attachment[]>() // too large to be kept in the browser's storage

/** After a reload: it never goes without its files unless the person says so. */
const filesLost = (one: OutgoingPrompt): boolean => one.state === 'sending' && one.files.length > 0 && !files.has(one.id)

function save(all: readonly OutgoingPrompt[]): void {
  outgoing.value = all
  saveLocal('outbox', all)
}

function update(id: string, more: Partial<OutgoingPrompt>): void {
  save(outgoing.value.map((one) => (one.id === id ? { ...one, ...more } : one)))
}

export function dismissPrompt(id: string): void {
  files.delete(id)
  save(outgoing.value.filter((one) => one.id !== id))
}

export function sendPrompt(session: string, text: string, attached: readonly Attachment[] = [], steer = false): void {
  const one: OutgoingPrompt = {
    id: newId(), session, text, steer, at: Date.now() / 1000, state: 'sending', problem: '', files: attached.map((file) => file.name),
  }
  if (attached.length) files.set(one.id, attached)
  save([...outgoing.value, one])
  void flush()
}

export function retryPrompt(id: string): void {
  const one = outgoing.value.find((candidate) => candidate.id === id)
  if (!one) return
  const attached = files.get(id) ?? []
  files.delete(id)
  // Its old id is used up: the hub would say the same again. What could not be put into a turn is the next prompt.
  const fresh = newId()
  if (attached.length) files.set(fresh, attached)
  update(id, { id: fresh, state: 'sending', steer: false, problem: '', command: '', files: attached.map((file) => file.name) })
  void flush()
}

let flushing = false

/** In the order they were written, one after the other. */
async function flush(): Promise<void> {
  if (flushing) return
  flushing = true
  try {
    for (;;) {
      const one = outgoing.value.find((candidate) => candidate.state === 'sending' && !filesLost(candidate))
      if (!one) return
      const body: P.NewPrompt = { id: one.id, text: one.text, steer: one.steer, attachments: files.get(one.id) ?? [] }
      try {
        const { status, value } = await request<P.PromptView | P.CommandView | null>('POST', `${sessionPath(one)}/prompts`, body, one.id)
        if (status === 202) markAccepted(one.id, value as P.CommandView) // the hub has it, the machine does not yet
        else dismissPrompt(one.id)
      } catch (error) {
        if (isOutcomeUnknown(error)) {
          if (error instanceof ApiError) update(one.id, { problem: errorMessage(error) })
          retrySoon()
          return
        }
        update(one.id, { state: 'failed', problem: errorMessage(error) })
      }
    }
  } finally {
    flushing = false
  }
}

const sessionPath = (one: OutgoingPrompt): string => `sessions/${encodeURIComponent(one.session)}`

function markAccepted(id: string, command: P.CommandView): void {
  update(id, { state: 'sent', problem: '', command: command.id })
  applyCommand(command)
  applyCommandStates() // its frame may have come before this answer
}

/** What became of what the machine did not take at once. `applied` is the last word, whatever was thought of it here. */
function applyCommandStates(): void {
  for (const one of outgoing.peek()) {
    const command = one.command ? commands.peek().get(one.command) : undefined
    if (command?.state === 'applied') dismissPrompt(one.id)
    else if (one.state === 'sent' && (command?.state === 'refused' || command?.state === 'expired')) {
      update(one.id, { state: 'failed', problem: command.problem || 'The machine did not take it.' })
    }
  }
}

commands.subscribe(applyCommandStates)

/** What the hub had while its machine was away: the machine may have taken it, or not in time, while we were. */
function reconcile(): void {
  for (const one of outgoing.value) {
    if (one.state === 'sent') void refreshCommand(one.command ?? '', () => update(one.id, { state: 'failed', problem: 'Nobody knows any more whether the machine got this.' }))
    else if (filesLost(one)) void checkDelivered(one)
  }
}

/** Its files are gone with the page that had them; but the machine may have taken it before. */
async function checkDelivered(one: OutgoingPrompt): Promise<void> {
  try {
    const known = await get<P.PromptView[]>(`${sessionPath(one)}/prompts?over=true`)
    if (known.some((prompt) => prompt.id === one.id)) return dismissPrompt(one.id)
  } catch (error) {
    if (isOutcomeUnknown(error)) retrySoon()
    if (!isNotFound(error)) return
  }
  update(one.id, { state: 'failed', problem: 'The page was loaded anew and has its files no more: attach them again, or send the words alone.' })
}

onReady(() => {
  void flush()
  reconcile()
})

export interface QueuedPrompt {
  readonly id: string
  readonly text: string
  readonly files: readonly string[]
  readonly tick: 'sending' | 'hub' | 'node' | 'failed'
  readonly problem: string
  readonly steer: boolean
}

/** What waits its turn in a session: first what the machine has, then what is on its way there. */
export function queuedPrompts(session: string): readonly QueuedPrompt[] {
  return queuedBySession.value.get(session) ?? []
}

const queuedBySession = computed(() => {
  const rooms = new Map<string, QueuedPrompt[]>()
  const into = (session: string, one: QueuedPrompt) => rooms.set(session, [...(rooms.get(session) ?? []), one])
  const queued = [...prompts.value.values()].filter((one) => one.status !== 'running')
  for (const one of queued.sort((a, b) => (a.place ?? 0) - (b.place ?? 0) || (a.created_at ?? 0) - (b.created_at ?? 0))) {
    into(one.session, { id: one.id, text: one.text ?? '', files: one.attachments ?? [], tick: 'node', problem: '', steer: false })
  }
  for (const one of outgoing.value) {
    if (prompts.value.has(one.id)) continue
    const tick = one.state === 'failed' ? 'failed' : one.state === 'sent' ? 'hub' : 'sending'
    into(one.session, { id: one.id, text: one.text, files: one.files, tick, problem: one.problem, steer: one.steer })
  }
  return rooms
})

/** What the machine has taken over is its matter from there on, whatever was thought of it here. */
prompts.subscribe(() => queueMicrotask(() => {
  for (const one of outgoing.value) if (one.state !== 'sending' && prompts.value.has(one.id)) dismissPrompt(one.id)
}))
