/** Buttons that have just moved take no tap for a moment: it was on its way to what was there before. */
import { useEffect, useState } from 'preact/hooks'

export const MOVING_MS = 400

/** Whether this has changed a moment ago. */
export function useMoving(what: string): boolean {
  const [still, setStill] = useState(what)
  useEffect(() => {
    const timer = setTimeout(() => setStill(what), MOVING_MS)
    return () => clearTimeout(timer)
  }, [what])
  return still !== what
}

/** Captures the clicks of a box whose moving buttons are `aria-disabled`. A key is meant for the button that has the focus. */
export function ignoreTaps(event: MouseEvent): void {
  if (!event.detail || !(event.target as Element).closest('[aria-disabled=true]')) return
  event.preventDefault()
  event.stopPropagation()
}
