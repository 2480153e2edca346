/** The desktop's columns: whether the screen has room for them, their widths, and the separators that change these. */
import { signal } from '@preact/signals'
import { loadLocal, saveLocal } from '../shared/local-storage'

export type Column = 'list' | 'dock'
export type Panel = 'diff' | 'info'

const query = globalThis.matchMedia?.('(min-width: 62.5em)')
/** Wide enough for the list, a conversation and what is docked beside it. The same width is in desktop.css. */
export const isDesktop = signal(query?.matches ?? false)
query?.addEventListener('change', (event) => (isDesktop.value = event.matches))

const DEFAULTS: Readonly<Record<Column, number>> = { list: 340, dock: 400 }
const MIN: Readonly<Record<Column, number>> = { list: 220, dock: 280 }
const MAX_SHARE: Readonly<Record<Column, number>> = { list: 0.34, dock: 0.5 } // of the window; desktop.css keeps to it too
const STEP = 16
const BIG_STEP = 64

const widths = signal(loadLocal<Readonly<Record<Column, number>>>('columns', DEFAULTS))

export const columnStyle = () => ({ '--list-width': `${widths.value.list}px`, '--dock-width': `${widths.value.dock}px` })

const maxWidth = (column: Column): number => Math.max(MIN[column], Math.round(innerWidth * MAX_SHARE[column]))
const clamp = (column: Column, width: number): number => Math.round(Math.min(maxWidth(column), Math.max(MIN[column], width)))

function resize(column: Column, width: number): void {
  widths.value = { ...widths.peek(), [column]: clamp(column, width) }
  saveLocal('columns', widths.value)
}

/** The edge between two columns: dragged, or moved with the arrow keys; Enter or a double click resets it. */
export function Separator({ column, label, controls }: { column: Column; label: string; controls: string }) {
  const width = clamp(column, widths.value[column])
  const grows = column === 'list' ? 1 : -1 // the dock grows to the left
  const onDown = (event: PointerEvent) => {
    if (event.button) return
    // On the window, not by capturing the pointer: a capture ends when the element is moved in the document.
    const move = (moved: PointerEvent) => resize(column, width + grows * (moved.clientX - event.clientX))
    const end = () => {
      removeEventListener('pointermove', move)
      removeEventListener('pointerup', end)
      removeEventListener('pointercancel', end)
    }
    addEventListener('pointermove', move)
    addEventListener('pointerup', end)
    addEventListener('pointercancel', end)
  }
  const onKey = (event: KeyboardEvent) => {
    const by = event.shiftKey ? BIG_STEP : STEP
    const to = { ArrowLeft: width - grows * by, ArrowRight: width + grows * by, Home: MIN[column], End: maxWidth(column), Enter: DEFAULTS[column] }[event.key]
    if (to === undefined) return
    event.preventDefault()
    resize(column, to)
  }
  return (
    <div
      class={`split split-${column}`} role="separator" aria-orientation="vertical" tabIndex={0} aria-label={label} aria-controls={controls}
      aria-valuenow={width} aria-valuemin={MIN[column]} aria-valuemax={maxWidth(column)} aria-valuetext={`${width} pixels`}
      onKeyDown={onKey} onDblClick={() => resize(column, DEFAULTS[column])}
      onPointerDown={onDown} onMouseDown={(event) => { event.preventDefault(); event.currentTarget.focus() }} // else the browser begins to drag what is below
    />
  )
}

// --- the dock ------------------------------------------------------------------------------------------------

const ROOM_FOR_DOCK = 1200 // pixels from which the dock is open until the person closes it

/** What the dock shows; empty: it is closed. */
export const dock = signal<Panel | ''>(loadLocal<Panel | ''>('dock', globalThis.innerWidth >= ROOM_FOR_DOCK ? 'diff' : ''))

export function setDock(panel: Panel | ''): void {
  dock.value = panel
  saveLocal('dock', panel || 'closed')
}
if ((dock.peek() as string) === 'closed') dock.value = ''
