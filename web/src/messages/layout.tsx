/** Shared by the message pages: the tabs, a message with its receipt, labels for addresses. */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { get } from '../api/client'
import type * as P from '../generated/protocol'
import { ago, sessionTitle } from '../shared/format'
import { connectionState, nodes, now, sessions } from '../store/store'
import { Pane, useFetched } from '../ui/components'
import { Icon } from '../ui/icons'

export const OWNER = 'relay.user.owner'
const POLL_MS = 4000
/** Names of agents in harnesses, by address. */
const memberNames = signal<ReadonlyMap<string, string>>(new Map())

const TABS = [['messages', 'Threads'], ['members', 'Members'], ['inboxes', 'Inboxes'], ['dead', 'Dead letters'], ['channels', 'Channels']] as const

export function MessagesLayout(props: { at: (typeof TABS)[number][0]; title: string; children: ComponentChildren; actions?: ComponentChildren }) {
  const tabs = useRef<HTMLElement>(null)
  useEffect(() => {
    const shown = tabs.current!.querySelector<HTMLElement>('[aria-current]')!
    tabs.current!.scrollLeft = shown.offsetLeft + shown.offsetWidth / 2 - tabs.current!.clientWidth / 2 // on a phone not all fit
  }, [props.at])
  useEffect(() => {
    get<P.MemberView[]>('members?kind=agent&ended=true').then((all) => { memberNames.value = new Map(all.map((member) => [member.address, member.name])) }, () => undefined)
  }, [])
  return (
    <Pane>
      <header class="pane-head"><div class="pane-title"><h1>{props.title}</h1></div>{props.actions}</header>
      <nav class="tabs" aria-label="Messages" ref={tabs}>
        {TABS.map(([name, label]) => <a key={name} href={`/${name}`} data-internal="1" aria-current={name === props.at ? 'page' : undefined}>{label}</a>)}
      </nav>
      <div class="pane-scroll page" tabIndex={0}>{props.children}</div>
    </Pane>
  )
}

/** Fetches again every few seconds while the page is visible. */
export function usePolled<T>(fetch: () => Promise<T>, dependencies: readonly unknown[]) {
  const fetched = useFetched(fetch, [...dependencies, connectionState.value.state === 'online'])
  const latest = useRef(fetched)
  latest.current = fetched
  useEffect(() => {
    const timer = setInterval(() => { if (document.visibilityState === 'visible') latest.current.reload() }, POLL_MS)
    return () => clearInterval(timer)
  }, []) // a render does not start the interval anew
  return fetched
}

/** A readable label for an address. */
export function addressLabel(address: string): string {
  if (address === OWNER) return 'you'
  const session = sessions.value.get(address.replace(/^relay\.agent\./, ''))
  if (session) return `${sessionTitle(session)} (${session.agent}${nodes.value.size > 1 ? `, ${nodes.value.get(session.node)?.name ?? session.node}` : ''})`
  return memberNames.value.get(address) ?? address.replace(/^relay\./, '')
}

const FAILED_STATES = new Set(['failed', 'expired', 'dead'])

export function Receipt({ of }: { of: P.MessageView }) {
  const steps = of.receipt.steps ?? []
  return (
    <ol class="receipt" aria-label="Delivery status">
      {steps.map((step, index) => (
        <li key={index} class={FAILED_STATES.has(step.state) ? 'bad' : index === steps.length - 1 ? 'end' : ''} title={[step.detail, step.channel].filter(Boolean).join(' · ')}>
          <Icon name={FAILED_STATES.has(step.state) ? 'warn' : 'check'} />{step.state}{step.reason && `: ${reasonLabel(step.reason)}`}
        </li>
      ))}
      {!of.receipt.over && <li>{of.receipt.waiting ? `waiting: ${of.receipt.waiting}` : '…'}</li>}
    </ol>
  )
}

/** A reason's code as text. */
export const reasonLabel = (reason: string) => reason.replaceAll('_', ' ')

export function payloadText(payload: P.Payload | undefined): string {
  if (!payload) return '(no longer stored)'
  return payload.text || (payload.json == null ? '' : JSON.stringify(payload.json, null, 2))
}

export function Message({ of, children, marked = false }: { of: P.MessageView; children?: ComponentChildren; marked?: boolean }) {
  const { envelope, receipt } = of
  const box = useRef<HTMLElement>(null)
  useEffect(() => {
    if (!marked) return
    box.current!.scrollIntoView({ block: 'center' })
    box.current!.focus({ preventScroll: true })
  }, [marked])
  return (
    <article class={marked ? 'letter marked' : 'letter'} data-state={of.state} ref={box} tabIndex={marked ? -1 : undefined}>
      <div class="letter-head">
        <strong>{addressLabel(receipt.sender)}</strong><span class="faint">to</span><strong>{addressLabel(receipt.subject)}</strong>
        {envelope && <span class="faint">{ago(envelope.created_at, now.value)}</span>}
      </div>
      <div class="letter-text">{payloadText(envelope?.payload)}</div>
      <Receipt of={of} />
      {children}
    </article>
  )
}
