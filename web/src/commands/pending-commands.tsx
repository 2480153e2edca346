/** Commands that a machine has not answered yet. The hub's 202 is no success: each command is followed until the machine has
 * applied it; a refusal is shown until the person dismisses it. */
import { signal } from '@preact/signals'
import type { ApiResponse } from '../api/client'
import type * as P from '../generated/protocol'
import { saveLocal, loadLocal } from '../shared/local-storage'
import { visible } from '../shared/visible-text'
import { allSessionsLoaded, commands, refreshCommand, nodes, onReady, sessions, applyCommand } from '../store/store'
import { Icon } from '../ui/icons'

export interface PendingCommand {
  readonly id: string // the command's
  readonly node: string
  readonly session: string
  readonly what: string // the command's label for the person
  readonly problem: string // empty while the command is pending
  readonly draft: string // the first prompt of a new session
  readonly change?: PendingChange // of a session's files
  readonly outcome?: P.ChangeOutcome // what a change did, or would do
}

export interface PendingChange { readonly action: string; readonly body: Readonly<Record<string, unknown>> }

/** Stored over a reload, as the hub stores them. */
const pendingCommands = signal<readonly PendingCommand[]>(loadLocal<PendingCommand[]>('orders', []))

function save(commandList: readonly PendingCommand[]): void {
  pendingCommands.value = commandList
  saveLocal('orders', commandList)
}

const update = (id: string, changes: Partial<PendingCommand>): void => save(pendingCommands.peek().map((item) => (item.id === id ? { ...item, ...changes } : item)))

const setProblem = (id: string, problem: string): void => update(id, { problem })

export function dismissCommand(id: string): void {
  save(pendingCommands.peek().filter((item) => item.id !== id))
}

export const commandsOfSession = (session: string): readonly PendingCommand[] => pendingCommands.value.filter((item) => item.session === session)

/** Commands of sessions that do not exist (yet). */
export const commandsOfMissingSessions = (): readonly PendingCommand[] => pendingCommands.value.filter((item) => allSessionsLoaded.value && item.session && !sessions.value.has(item.session))

/** Returns the machine's answer, or undefined when the command is pending and followed from here. */
export async function trackCommand<T>(what: string, session: string, response: Promise<ApiResponse<unknown>>, draft = '', change?: PendingChange): Promise<T | undefined> {
  const { status, value } = await response
  if (status !== 202) return value as T
  const command = value as P.CommandView
  save([...pendingCommands.peek().filter((item) => item.id !== command.id), { id: command.id, node: command.node, session, what, problem: '', draft, change }])
  applyCommand(command)
  applyCommandStates() // its frame may have arrived before this response
  return undefined
}

function applyCommandStates(): void {
  for (const item of pendingCommands.peek()) {
    const command = commands.peek().get(item.id)
    if (command?.state === 'applied') {
      if (item.draft && loadLocal('draft.new', '') === item.draft) saveLocal('draft.new', '') // only now the session has the prompt
      if (!item.change || !command.outcome) dismissCommand(item.id)
      else if (!item.outcome) update(item.id, { outcome: command.outcome }) // shown until the person has seen it
    } else if (!item.problem && (command?.state === 'refused' || command?.state === 'expired')) {
      setProblem(item.id, command.problem || 'The machine did not accept it.')
    }
  }
}

commands.subscribe(applyCommandStates)

onReady(() => {
  for (const item of pendingCommands.peek()) if (!item.problem && !item.outcome) void refreshCommand(item.id, () => setProblem(item.id, 'The hub no longer has a record of this command: it is unknown whether the machine received it.'))
})

/** Which machine has not answered, and why. */
export function missingAnswer(node: string): string {
  const machine = nodes.value.get(node)
  return `${machine?.name || 'The machine'} ${machine?.online ? 'has not answered yet' : 'is offline'}`
}

export function PendingCommands({ of }: { of: readonly PendingCommand[] }) {
  return (
    <>
      {of.map((item) => item.problem ? (
        <p key={item.id} class="order problem" role="alert">
          <span class="grow"><Icon name="warn" /> {item.what}: {item.problem}</span>
          <button type="button" class="plain" aria-label={`Dismiss: ${item.what}`} onClick={() => dismissCommand(item.id)}><Icon name="cross" /></button>
        </p>
      ) : item.outcome ? (
        <p key={item.id} class="order" role="status">
          <span class="grow"><Icon name="check" /> {item.what}: {item.outcome.done ? visible(item.outcome.done) : 'what it will do is ready. Open the changes to agree to it.'}</span>
          <button type="button" class="plain" aria-label={`Dismiss: ${item.what}`} onClick={() => dismissCommand(item.id)}><Icon name="cross" /></button>
        </p>
      ) : <p key={item.id} class="order faint" role="status">{item.what}: received by the hub. {missingAnswer(item.node)}{nodes.value.get(item.node)?.online ? '.' : ': it receives it when it is back.'}</p>)}
    </>
  )
}
