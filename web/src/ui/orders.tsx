/** What is on its way to a machine, and what the machine made of it. */
import { dropOrder, type Order } from '../orders'
import { nodes } from '../store'
import { Icon } from './icons'

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
