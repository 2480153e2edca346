/** A tap lands on the row that the person aimed at. The list is in the order of activity, which changes at any moment: while a
 * pointer is on the list, or its rows are reached by keys, its order is held, and what happens only marks the rows. */
import { signal } from '@preact/signals'
import type * as P from '../generated/protocol'
import { MOVING_MS } from '../ui/moved-buttons'

export const orderHeld = signal(false)
const TOUCHED_MS = 2000 // a finger that has left may come back
const LOOKING_MS = 10_000 // a pointer or a focus that only rests there holds nothing back for longer
let timer: ReturnType<typeof setTimeout> | undefined
let until = 0

function hold(ms: number): void {
  clearTimeout(timer)
  timer = setTimeout(release, ms)
  until = performance.now() + ms
  orderHeld.value = true
}

function release(): void {
  clearTimeout(timer)
  orderHeld.value = false
}

const look = () => hold(LOOKING_MS)
const leave = (event: PointerEvent) => (event.pointerType === 'mouse' ? release() : hold(TOUCHED_MS))

/** For the list whose order is held. */
export const holdsOrder = {
  onPointerDown: look, onPointerMove: look, onKeyDown: look, onFocusIn: look,
  onPointerLeave: leave, onPointerCancel: leave,
  onFocusOut: (event: FocusEvent) => { if (!(event.currentTarget as Element).contains(event.relatedTarget as Node | null)) release() },
}

// A list that a finger has set going is scrolled on after it has left.
globalThis.document?.addEventListener('scroll', () => {
  if (orderHeld.peek()) hold(Math.max(TOUCHED_MS, until - performance.now()))
}, { capture: true, passive: true })

/** The rows in the order in which they were shown, as they are now; when more are wanted, those that follow. */
export function inShownOrder(shown: readonly P.SessionRecord[], all: ReadonlyMap<string, P.SessionRecord>, next: readonly P.SessionRecord[], more: number): readonly P.SessionRecord[] {
  const known = new Set(shown.map((session) => session.id))
  return [...shown.map((session) => all.get(session.id) ?? session), ...(more > 0 ? next.filter((session) => !known.has(session.id)).slice(0, more) : [])]
}

// --- rows that moved nevertheless ---

let movedAt = -Infinity

export function rowsMoved(): void {
  movedAt = performance.now()
}

/** Nothing was there before. */
export function rowsCame(): void {
  movedAt = -Infinity
}

/** Captures the clicks on rows that have just moved: a tap on its way was meant for another one. A key is meant for the row that
 * has the focus. */
export function ignoreLateTaps(event: MouseEvent): void {
  if (!event.detail || performance.now() - movedAt > MOVING_MS) return
  event.preventDefault()
  event.stopPropagation()
}
