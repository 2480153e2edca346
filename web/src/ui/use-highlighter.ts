/** Loads the highlighter when the first code is shown. Until then, and without it, code is plain. */
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'

type Highlighter = typeof import('./highlight')

const loadedHighlighter = signal<Highlighter | undefined>(undefined)
let loading = false

/** The highlighter, as soon as it is there. `wanted`: whether there is code to highlight. */
export function useHighlighter(wanted: boolean): Highlighter | undefined {
  useEffect(() => {
    if (!wanted || loading) return
    loading = true
    import('./highlight').then((module) => (loadedHighlighter.value = module), () => (loading = false)) // without a network: the next time
  }, [wanted])
  return wanted ? loadedHighlighter.value : undefined
}
