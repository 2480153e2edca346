/** Prompts on their way to the machine: stored until they are delivered and resent with the same id, so that none is lost. */
import { computed, signal } from '@preact/signals'
import { ApiError, get, newId, request, isNotFound, isOutcomeUnknown, errorMessage } from '../api/client'
import type * as P from '../generated/protocol'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { sendInOrder } from '../store/send-in-order'
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
  readonly command?: string // its id at the hub, when the machine did not accept the prompt at once
}

const outgoing = signal<readonly OutgoingPrompt[]>(loadLocal<OutgoingPrompt[]>('outbox', []))
const files = new Map<string, readonly Attachment[]>() // too large for the browser's storage

/** Its files were lost by a reload: the prompt is not sent without them unless the person says so. */
const filesLost = (item: OutgoingPrompt): boolean => item.state === 'sending' && item.files.length > 0 && !files.has(item.id)

function save(all: readonly OutgoingPrompt[]): void {
  outgoing.value = all
  saveLocal('outbox', all)
}

function update(id: string, changes: Partial<OutgoingPrompt>): void {
  save(outgoing.value.map((item) => (item.id === id ? { ...item, ...changes } : item)))
}

export function dismissPrompt(id: string): void {
  files.delete(id)
  save(outgoing.value.filter((item) => item.id !== id))
}

export function sendPrompt(session: string, text: string, attached: readonly Attachment[] = [], steer = false): void {
  const item: OutgoingPrompt = {
    id: newId(), session, text, steer, at: Date.now() / 1000, state: 'sending', problem: '', files: attached.map((file) => file.name),
  }
  if (attached.length) files.set(item.id, attached)
  save([...outgoing.value, item])
  void flush()
}

export function retryPrompt(id: string): void {
  const item = outgoing.value.find((candidate) => candidate.id === id)
  if (!item) return
  const attached = files.get(id) ?? []
  files.delete(id)
  // A new id: the hub would repeat its refusal to the old one. A prompt that could not steer a turn becomes the next prompt.
  const freshId = newId()
  if (attached.length) files.set(freshId, attached)
  update(id, { id: freshId, state: 'sending', steer: false, problem: '', command: '', files: attached.map((file) => file.name) })
  void flush()
}

const flush = sendInOrder<OutgoingPrompt>({
  next: () => outgoing.value.find((candidate) => candidate.state === 'sending' && !filesLost(candidate)),
  send: async (item) => {
    const body: P.NewPrompt = { id: item.id, text: item.text, steer: item.steer, attachments: files.get(item.id) ?? [] }
    const { status, value } = await request<P.PromptView | P.CommandView | null>('POST', `${sessionPath(item)}/prompts`, body, item.id)
    if (status === 202) markAccepted(item.id, value as P.CommandView) // the hub has the prompt, the machine not yet
    else dismissPrompt(item.id)
  },
  refused: ({ id }, problem) => update(id, { state: 'failed', problem }),
  unknown: ({ id }, error) => {
    if (error instanceof ApiError) update(id, { problem: errorMessage(error) })
  },
})

const sessionPath = (item: OutgoingPrompt): string => `sessions/${encodeURIComponent(item.session)}`

function markAccepted(id: string, command: P.CommandView): void {
  update(id, { state: 'sent', problem: '', command: command.id })
  applyCommand(command)
  applyCommandStates() // its frame may have arrived before this response
}

/** Applies the states of the prompts' commands. `applied` is final, whatever the page assumed before. */
function applyCommandStates(): void {
  for (const item of outgoing.peek()) {
    const command = item.command ? commands.peek().get(item.command) : undefined
    if (command?.state === 'applied') dismissPrompt(item.id)
    else if (item.state === 'sent' && (command?.state === 'refused' || command?.state === 'expired')) {
      update(item.id, { state: 'failed', problem: command.problem || 'The machine did not accept it.' })
    }
  }
}

commands.subscribe(applyCommandStates)

/** After a reconnect: the machine may have accepted or missed prompts meanwhile. */
function reconcile(): void {
  for (const item of outgoing.value) {
    if (item.state === 'sent') void refreshCommand(item.command ?? '', () => update(item.id, { state: 'failed', problem: 'The hub no longer has a record of this prompt: it is unknown whether the machine received it.' }))
    else if (filesLost(item)) void checkDelivered(item)
  }
}

/** The prompt's files were lost by a reload, but the machine may have received the prompt before. */
async function checkDelivered(item: OutgoingPrompt): Promise<void> {
  try {
    const known = await get<P.PromptView[]>(`${sessionPath(item)}/prompts?over=true`)
    if (known.some((prompt) => prompt.id === item.id)) return dismissPrompt(item.id)
  } catch (error) {
    if (isOutcomeUnknown(error)) retrySoon()
    if (!isNotFound(error)) return
  }
  update(item.id, { state: 'failed', problem: 'The files were lost when the page was reloaded: attach them again, or send the text alone.' })
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

/** The queued prompts of a session: first those at the machine, then those on their way. */
export function queuedPrompts(session: string): readonly QueuedPrompt[] {
  return queuedBySession.value.get(session) ?? []
}

const queuedBySession = computed(() => {
  const bySession = new Map<string, QueuedPrompt[]>()
  const append = (session: string, item: QueuedPrompt) => bySession.set(session, [...(bySession.get(session) ?? []), item])
  const queued = [...prompts.value.values()].filter((item) => item.status !== 'running')
  for (const item of queued.sort((a, b) => (a.place ?? 0) - (b.place ?? 0) || (a.created_at ?? 0) - (b.created_at ?? 0))) {
    append(item.session, { id: item.id, text: item.text ?? '', files: item.attachments ?? [], tick: 'node', problem: '', steer: false })
  }
  for (const item of outgoing.value) {
    if (prompts.value.has(item.id)) continue
    const tick = item.state === 'failed' ? 'failed' : item.state === 'sent' ? 'hub' : 'sending'
    append(item.session, { id: item.id, text: item.text, files: item.files, tick, problem: item.problem, steer: item.steer })
  }
  return bySession
})

/** The machine has the prompt: remove it here, whatever the page assumed before. */
prompts.subscribe(() => queueMicrotask(() => {
  for (const item of outgoing.value) if (item.state !== 'sending' && prompts.value.has(item.id)) dismissPrompt(item.id)
}))
