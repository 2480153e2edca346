/** What a machine was told and has not answered yet. The hub's 202 is no yes: each is followed until the machine has done
 * it, and what the machine refuses then is shown until a person has read it. */
import { signal } from '@preact/signals'
import type { Answered } from '../api/client'
import type * as P from '../generated/protocol'
import { keep, kept } from '../shared/local-storage'
import { commands, fresh, lookAt, nodes, onReady, sessions, takeCommand } from '../store/store'
import { Icon } from '../ui/icons'

export interface Order {
  readonly id: string // the command's
  readonly node: string
  readonly session: string
  readonly what: string // as a person calls it
  readonly problem: string // empty while it is on its way
  readonly draft: string // the words that a new session begins with
}

/** Kept over a reload, as the hub keeps them. */
const all = signal<readonly Order[]>(kept<Order[]>('orders', []))

function store(orders: readonly Order[]): void {
  all.value = orders
  keep('orders', orders)
}

const failed = (id: string, problem: string): void => store(all.peek().map((one) => (one.id === id ? { ...one, problem } : one)))

export function dropOrder(id: string): void {
  store(all.peek().filter((one) => one.id !== id))
}

export const ordersOf = (session: string): readonly Order[] => all.value.filter((one) => one.session === session)

/** Those of sessions that are not there (yet). */
export const ordersElsewhere = (): readonly Order[] => all.value.filter((one) => fresh.value && one.session && !sessions.value.has(one.session))

/** The machine's own answer, or undefined when it has not answered yet. */
export async function told<T>(what: string, session: string, sending: Promise<Answered<unknown>>, draft = ''): Promise<T | undefined> {
  const { status, value } = await sending
  if (status !== 202) return value as T
  const command = value as P.CommandView
  store([...all.peek().filter((one) => one.id !== command.id), { id: command.id, node: command.node, session, what, problem: '', draft }])
  takeCommand(command)
  settle() // its frame may have come before this answer
  return undefined
}

function settle(): void {
  for (const one of all.peek()) {
    const command = commands.peek().get(one.id)
    if (command?.state === 'applied') {
      if (one.draft && kept('draft.new', '') === one.draft) keep('draft.new', '') // only now the session has the words
      dropOrder(one.id)
    } else if (!one.problem && (command?.state === 'refused' || command?.state === 'expired')) {
      failed(one.id, command.problem || 'The machine did not take it.')
    }
  }
}

commands.subscribe(settle)

onReady(() => {
  for (const one of all.peek()) if (!one.problem) void lookAt(one.id, () => failed(one.id, 'Nobody knows any more whether the machine got this.'))
})

/** Who has not answered yet, and why. */
export function silent(node: string): string {
  const machine = nodes.value.get(node)
  return `${machine?.name || 'The machine'} ${machine?.online ? 'has not answered yet' : 'is offline'}`
}

export function Orders({ of }: { of: readonly Order[] }) {
  return (
    <>
      {of.map((one) => one.problem ? (
        <p key={one.id} class="order problem" role="alert">
          <span class="grow"><Icon name="warn" /> {one.what}: {one.problem}</span>
          <button type="button" class="plain" aria-label={`Dismiss: ${one.what}`} onClick={() => dropOrder(one.id)}><Icon name="cross" /></button>
        </p>
      ) : <p key={one.id} class="order faint" role="status">{one.what}: the hub has it. {silent(one.node)}; it is done as soon as it is there.</p>)}
    </>
  )
}
