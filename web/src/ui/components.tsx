/** Components that several pages share: sheet, pane, buttons, problem, empty state. */
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Icon } from './icons'

/** A modal sheet, as a native dialog for its focus and Escape handling. `plain`: without a head; `foot`: always in sight. */
export function Sheet(props: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean; plain?: boolean; actions?: ComponentChildren; foot?: ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const dialog = box.current!
    dialog.showModal()
    return () => dialog.close()
  }, [])
  return (
    <dialog
      ref={box} class={`sheet ${props.wide ? 'wide' : ''} ${props.plain ? 'plain-sheet' : ''}`} aria-label={props.title}
      onCancel={(event) => { event.preventDefault(); props.onClose() }}
      onClick={(event) => { if (event.target === box.current) props.onClose() }}
    >
      <div class="sheet-in">
        {!props.plain && (
          <header class="sheet-head">
            <h2>{props.title}</h2>
            {props.actions}
            <button type="button" class="plain" aria-label="Close" onClick={props.onClose}><Icon name="cross" /></button>
          </header>
        )}
        <div class="sheet-body">{props.children}</div>
        {props.foot && <div class="sheet-foot">{props.foot}</div>}
      </div>
    </dialog>
  )
}

/** The main content of a page; gets the focus when the page changes. */
export function Pane(props: { class?: string; label?: string; children: ComponentChildren }) {
  return <main id="content" class={`pane ${props.class ?? ''}`} tabIndex={-1} aria-label={props.label}>{props.children}</main>
}

/** A path that is broken where its parts end, before it is broken inside a name. */
export const PathText = ({ text }: { text: string }) => <>{text.split('/').map((part, index) => (index ? <>/<wbr />{part}</> : part))}</>

const HOLD_MS = 900

/** Confirms when it is held; the keyboard and screen readers press it twice instead. */
export function HoldButton(props: { label: string; onConfirm: () => void; class?: string }) {
  const [holding, setHolding] = useState(false)
  const [armed, setArmed] = useState(false)
  const timer = useRef(0)
  const held = useRef(false)
  const end = () => {
    clearTimeout(timer.current)
    setHolding(false)
  }
  useEffect(() => end, [])
  return (
    <button
      type="button" class={`hold ${holding ? 'holding' : ''} ${props.class ?? ''}`}
      aria-description="Hold for a second to confirm"
      onPointerDown={(event) => {
        if (event.button) return
        held.current = false
        setHolding(true)
        timer.current = window.setTimeout(() => {
          held.current = true
          setHolding(false)
          navigator.vibrate?.(20)
          props.onConfirm()
        }, HOLD_MS)
      }}
      onPointerUp={end} onPointerLeave={end} onPointerCancel={end} onContextMenu={(event) => event.preventDefault()}
      onClick={(event) => {
        if (held.current) return
        if (event.detail === 0 && armed) props.onConfirm() // no pointer: the keyboard, or a screen reader
        else setArmed(true)
      }}
      onBlur={() => setArmed(false)}
    >
      <span class="hold-fill" aria-hidden="true" />
      <span class="hold-label" aria-live="polite">{armed ? 'Hold, or press again' : props.label}</span>
    </button>
  )
}

/** `bare`: only its icon, in the corner of what it copies. */
export function CopyButton({ text, label = 'Copy', bare = false }: { text: string; label?: string; bare?: boolean }) {
  const [done, setDone] = useState(false)
  if (!navigator.clipboard) return null // only https and localhost have one
  const name = done ? 'Copied' : label
  return (
    <button
      type="button" class={bare ? 'plain copy' : 'small'} aria-label={bare ? name : undefined} title={bare ? name : undefined}
      onClick={() => void navigator.clipboard.writeText(text).then(() => { setDone(true); setTimeout(() => setDone(false), 1500) })}
    >
      <Icon name={done ? 'check' : 'copy'} />{!bare && <span aria-live="polite">{name}</span>}
    </button>
  )
}

export function Problem({ text }: { text: string }) {
  return text ? <p class="problem" role="alert"><Icon name="warn" /> {text}</p> : null
}

export function Empty(props: { icon: string; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={props.icon} />
      <h2>{props.title}</h2>
      {props.children}
    </div>
  )
}

/** Fetches when the component mounts, and again when a dependency changes. */
export function useFetched<T>(fetch: () => Promise<T>, dependencies: readonly unknown[]): { value?: T; problem: string; reload: () => void } {
  const [result, setResult] = useState<{ value?: T; problem: string }>({ problem: '' })
  const [round, setRound] = useState(0)
  useEffect(() => {
    let live = true
    fetch().then(
      (value) => live && setResult({ value, problem: '' }),
      (error: unknown) => live && setResult((before) => ({ ...before, problem: error instanceof Error ? error.message : String(error) })),
    )
    return () => { live = false }
  }, [...dependencies, round])
  return { ...result, reload: () => setRound(round + 1) }
}
