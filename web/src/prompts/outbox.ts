/** What a person wrote is never lost: it is kept here until the hub has it, and sent again with the same id. */
import { computed, signal } from '@preact/signals'
import { Refused, get, newId, send, unknown, unsure, words } from '../api/client'
import type * as P from '../generated/protocol'
import { keep, kept } from '../shared/local-storage'
import { askAgain, commands, lookAt, onReady, prompts, takeCommand } from '../store/store'

export interface File {
  readonly name: string
  readonly media_type: string
  readonly data: string // base64
}

export interface Outgoing {
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

const outgoing = signal<readonly Outgoing[]>(kept<Outgoing[]>('outbox', []))
const files = new Map<string, readonly File[]>() // too large to be kept in the browser's storage

/** After a reload: it never goes without its files unless the person says so. */
const bereft = (one: Outgoing): boolean => one.state === 'sending' && one.files.length > 0 && !files.has(one.id)

function store(all: readonly Outgoing[]): void {
  outgoing.value = all
  keep('outbox', all)
}

function change(id: string, more: Partial<Outgoing>): void {
  store(outgoing.value.map((one) => (one.id === id ? { ...one, ...more } : one)))
}

export function dismiss(id: string): void {
  files.delete(id)
  store(outgoing.value.filter((one) => one.id !== id))
}

export function sendPrompt(session: string, text: string, attached: readonly File[] = [], steer = false): void {
  const one: Outgoing = {
    id: newId(), session, text, steer, at: Date.now() / 1000, state: 'sending', problem: '', files: attached.map((file) => file.name),
  }
  if (attached.length) files.set(one.id, attached)
  store([...outgoing.value, one])
  void flush()
}

export function again(id: string): void {
  const one = outgoing.value.find((candidate) => candidate.id === id)
  if (!one) return
  const attached = files.get(id) ?? []
  files.delete(id)
  // Its old id is used up: the hub would say the same again. What could not be put into a turn is the next prompt.
  const fresh = newId()
  if (attached.length) files.set(fresh, attached)
  change(id, { id: fresh, state: 'sending', steer: false, problem: '', command: '', files: attached.map((file) => file.name) })
  void flush()
}

let flushing = false

/** In the order they were written, one after the other. */
async function flush(): Promise<void> {
  if (flushing) return
  flushing = true
  try {
    for (;;) {
      const one = outgoing.value.find((candidate) => candidate.state === 'sending' && !bereft(candidate))
      if (!one) return
      const body: P.NewPrompt = { id: one.id, text: one.text, steer: one.steer, attachments: files.get(one.id) ?? [] }
      try {
        const { status, value } = await send<P.PromptView | P.CommandView | null>('POST', `${room(one)}/prompts`, body, one.id)
        if (status === 202) ordered(one.id, value as P.CommandView) // the hub has it, the machine does not yet
        else dismiss(one.id)
      } catch (error) {
        if (unsure(error)) {
          if (error instanceof Refused) change(one.id, { problem: words(error) })
          askAgain()
          return
        }
        change(one.id, { state: 'failed', problem: words(error) })
      }
    }
  } finally {
    flushing = false
  }
}

const room = (one: Outgoing): string => `sessions/${encodeURIComponent(one.session)}`

function ordered(id: string, command: P.CommandView): void {
  change(id, { state: 'sent', problem: '', command: command.id })
  takeCommand(command)
  settle() // its frame may have come before this answer
}

/** What became of what the machine did not take at once. `applied` is the last word, whatever was thought of it here. */
function settle(): void {
  for (const one of outgoing.peek()) {
    const command = one.command ? commands.peek().get(one.command) : undefined
    if (command?.state === 'applied') dismiss(one.id)
    else if (one.state === 'sent' && (command?.state === 'refused' || command?.state === 'expired')) {
      change(one.id, { state: 'failed', problem: command.problem || 'The machine did not take it.' })
    }
  }
}

commands.subscribe(settle)

/** What the hub had while its machine was away: the machine may have taken it, or not in time, while we were. */
function reconcile(): void {
  for (const one of outgoing.value) {
    if (one.state === 'sent') void lookAt(one.command ?? '', () => change(one.id, { state: 'failed', problem: 'Nobody knows any more whether the machine got this.' }))
    else if (bereft(one)) void search(one)
  }
}

/** Its files are gone with the page that had them; but the machine may have taken it before. */
async function search(one: Outgoing): Promise<void> {
  try {
    const known = await get<P.PromptView[]>(`${room(one)}/prompts?over=true`)
    if (known.some((prompt) => prompt.id === one.id)) return dismiss(one.id)
  } catch (error) {
    if (unsure(error)) askAgain()
    if (!unknown(error)) return
  }
  change(one.id, { state: 'failed', problem: 'The page was loaded anew and has its files no more: attach them again, or send the words alone.' })
}

onReady(() => {
  void flush()
  reconcile()
})

export interface Waiting {
  readonly id: string
  readonly text: string
  readonly files: readonly string[]
  readonly tick: 'sending' | 'hub' | 'node' | 'failed'
  readonly problem: string
  readonly steer: boolean
}

/** What waits its turn in a session: first what the machine has, then what is on its way there. */
export function waiting(session: string): readonly Waiting[] {
  return byRoom.value.get(session) ?? []
}

const byRoom = computed(() => {
  const rooms = new Map<string, Waiting[]>()
  const into = (session: string, one: Waiting) => rooms.set(session, [...(rooms.get(session) ?? []), one])
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
  for (const one of outgoing.value) if (one.state !== 'sending' && prompts.value.has(one.id)) dismiss(one.id)
}))
