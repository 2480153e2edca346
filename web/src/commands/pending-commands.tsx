/** What a machine was told and has not answered yet. The hub's 202 is no yes: each is followed until the machine has done
 * it, and what the machine refuses then is shown until a person has read it. */
import { signal } from '@preact/signals'
import type { ApiResponse } from '../api/client'
import type * as P from '../generated/protocol'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { commands, loaded, refreshCommand, nodes, onReady, sessions, applyCommand } from '../store/store'
import { Icon } from '../ui/icons'

export interface PendingCommand {
  readonly id: string // the command's
  readonly node: string
  readonly session: string
  readonly what: string // as a person calls it
  readonly problem: string // empty while it is on its way
  readonly draft: string // the words that a new session begins with
}

/** Kept over a reload, as the hub keeps them. */
const pendingCommands = signal<readonly PendingCommand[]>(loadLocal<PendingCommand[]>('orders', []))

function save(orders: readonly PendingCommand[]): void {
  pendingCommands.value = orders
  saveLocal('orders', orders)
}

const setProblem = (id: string, problem: string): void => save(pendingCommands.peek().map((one) => (one.id === id ? { ...one, problem } : one)))

export function dismissCommand(id: string): void {
  save(pendingCommands.peek().filter((one) => one.id !== id))
}

export const commandsOfSession = (session: string): readonly PendingCommand[] => pendingCommands.value.filter((one) => one.session === session)

/** Those of sessions that are not there (yet). */
export const commandsOfMissingSessions = (): readonly PendingCommand[] => pendingCommands.value.filter((one) => loaded.value && one.session && !sessions.value.has(one.session))

/** The machine's own answer, or undefined when it has not answered yet. */
export async function trackCommand<T>(what: string, session: string, sending: Promise<ApiResponse<unknown>>, draft = ''): Promise<T | undefined> {
  const { status, value } = await sending
  if (status !== 202) return value as T
  const command = value as P.CommandView
  save([...pendingCommands.peek().filter((one) => one.id !== command.id), { id: command.id, node: command.node, session, what, problem: '', draft }])
  applyCommand(command)
  applyCommandStates() // its frame may have come before this answer
  return undefined
}

function applyCommandStates(): void {
  for (const one of pendingCommands.peek()) {
    const command = commands.peek().get(one.id)
    if (command?.state === 'applied') {
      if (one.draft && loadLocal('draft.new', '') === one.draft) saveLocal('draft.new', '') // only now the session has the words
      dismissCommand(one.id)
    } else if (!one.problem && (command?.state === 'refused' || command?.state === 'expired')) {
      setProblem(one.id, command.problem || 'The machine did not take it.')
    }
  }
}

commands.subscribe(applyCommandStates)

onReady(() => {
  for (const one of pendingCommands.peek()) if (!one.problem) void refreshCommand(one.id, () => setProblem(one.id, 'Nobody knows any more whether the machine got this.'))
})

/** Who has not answered yet, and why. */
export function missingAnswer(node: string): string {
  const machine = nodes.value.get(node)
  return `${machine?.name || 'The machine'} ${machine?.online ? 'has not answered yet' : 'is offline'}`
}

export function PendingCommands({ of }: { of: readonly PendingCommand[] }) {
  return (
    <>
      {of.map((one) => one.problem ? (
        <p key={one.id} class="order problem" role="alert">
          <span class="grow"><Icon name="warn" /> {one.what}: {one.problem}</span>
          <button type="button" class="plain" aria-label={`Dismiss: ${one.what}`} onClick={() => dismissCommand(one.id)}><Icon name="cross" /></button>
        </p>
      ) : <p key={one.id} class="order faint" role="status">{one.what}: the hub has it. {missingAnswer(one.node)}; it is done as soon as it is there.</p>)}
    </>
  )
}
