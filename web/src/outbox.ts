/** What a person wrote is never lost: it is kept here until the hub has it, and sent again with the same id. */
import { computed, signal } from '@preact/signals'
import { Refused, get, newId, send, words } from './api'
import { keep, kept } from './kept'
import type * as P from './protocol'
import { onReady, prompts } from './store'

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
}

const outgoing = signal<readonly Outgoing[]>(kept<Outgoing[]>('outbox', []))
const files = new Map<string, readonly File[]>() // too large to be kept in the browser's storage

function store(all: readonly Outgoing[]): void {
  outgoing.value = all
  keep('outbox', all.filter((one) => one.state === 'sending' && !one.files.length))
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
  change(id, { state: 'sending', problem: '' })
  void flush()
}

let flushing = false

/** In the order they were written, one after the other. */
async function flush(): Promise<void> {
  if (flushing) return
  flushing = true
  try {
    for (;;) {
      const one = outgoing.value.find((candidate) => candidate.state === 'sending')
      if (!one) return
      const body: P.NewPrompt = { id: one.id, text: one.text, steer: one.steer, attachments: files.get(one.id) ?? [] }
      try {
        const { status } = await send<P.PromptView>('POST', `sessions/${encodeURIComponent(one.session)}/prompts`, body, one.id)
        files.delete(one.id)
        if (status === 202) change(one.id, { state: 'sent' }) // the hub has it, the machine does not yet
        else store(outgoing.value.filter((candidate) => candidate.id !== one.id))
      } catch (error) {
        if (!(error instanceof Refused)) return // the hub is away; it goes again when it is back
        change(one.id, { state: 'failed', problem: words(error) })
      }
    }
  } finally {
    flushing = false
  }
}

/** What the hub had while its machine was away: the machine may have taken it, and be done with it, while we were. */
async function reconcile(): Promise<void> {
  for (const session of new Set(outgoing.value.filter((one) => one.state === 'sent').map((one) => one.session))) {
    const known = await get<P.PromptView[]>(`sessions/${encodeURIComponent(session)}/prompts?over=true`).catch(() => [])
    const ids = new Set(known.map((one) => one.id))
    store(outgoing.value.filter((one) => !(one.state === 'sent' && ids.has(one.id))))
  }
}

onReady(() => {
  void flush()
  void reconcile()
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

/** What the machine has taken over is its matter from there on. */
export function settle(): void {
  const left = outgoing.value.filter((one) => !(one.state === 'sent' && prompts.value.has(one.id)))
  if (left.length !== outgoing.value.length) store(left)
}

prompts.subscribe(() => queueMicrotask(settle))
