/** What a person wrote is never lost: it is kept here until the hub has it, and sent again with the same id. */
import { computed, signal } from '@preact/signals'
import { Refused, get, newId, send, words } from './api'
import { keep, kept } from './kept'
import type * as P from './protocol'
import { commands, onReady, prompts, takeCommand } from './store'

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

const outgoing = signal<readonly Outgoing[]>(kept<Outgoing[]>('outbox', []).map(woken))
const files = new Map<string, readonly File[]>() // too large to be kept in the browser's storage

/** After a reload. Never without its files unless the person says so. */
function woken(one: Outgoing): Outgoing {
  if (one.state !== 'sending' || !one.files.length) return one
  return { ...one, state: 'failed', problem: 'The page was loaded anew and has its files no more: attach them again, or send the words alone.' }
}

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
      const one = outgoing.value.find((candidate) => candidate.state === 'sending')
      if (!one) return
      const body: P.NewPrompt = { id: one.id, text: one.text, steer: one.steer, attachments: files.get(one.id) ?? [] }
      try {
        const { status, value } = await send<P.PromptView | P.CommandView | null>('POST', `sessions/${encodeURIComponent(one.session)}/prompts`, body, one.id)
        if (status === 202) change(one.id, { state: 'sent', command: value?.id ?? '' }) // the hub has it, the machine does not yet
        else dismiss(one.id)
      } catch (error) {
        if (!(error instanceof Refused)) return // the hub is away; it goes again when it is back
        change(one.id, { state: 'failed', problem: words(error) })
      }
    }
  } finally {
    flushing = false
  }
}

/** What the hub had while its machine was away: the machine may have taken it, or not in time, while we were. */
async function reconcile(): Promise<void> {
  for (const one of outgoing.value.filter((candidate) => candidate.state === 'sent')) {
    try {
      takeCommand(await get<P.CommandView>(`commands/${encodeURIComponent(one.command ?? '')}`))
    } catch (error) {
      if (error instanceof Refused) change(one.id, { state: 'failed', problem: 'Nobody knows any more whether the machine got this.' })
    }
  }
}

commands.subscribe((all) => {
  for (const one of outgoing.peek()) {
    const command = one.state === 'sent' ? all.get(one.command ?? '') : undefined
    if (command?.state === 'applied') dismiss(one.id)
    else if (command?.state === 'refused' || command?.state === 'expired') change(one.id, { state: 'failed', problem: command.problem || 'The machine did not take it.' })
  }
})

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

/** What the machine has taken over is its matter from there on, whatever was thought of it here. */
prompts.subscribe(() => queueMicrotask(() => {
  for (const one of outgoing.value) if (one.state !== 'sending' && prompts.value.has(one.id)) dismiss(one.id)
}))
