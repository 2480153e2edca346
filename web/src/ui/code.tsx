/** Code and other text as it is: highlighted, copied, and folded when it is long. */
import { useMemo, useState } from 'preact/hooks'
import { visible } from '../shared/visible-text'
import { CopyButton } from './components'
import { useHighlighter } from './use-highlighter'

export function Tokens({ of }: { of: readonly { readonly kind: string; readonly text: string }[] }) {
  return <>{of.map(({ kind, text }, index) => (kind ? <span key={index} class={`hl-${kind}`}>{text}</span> : text))}</>
}

const FOLD_LINES = 40
const HEAD_LINES = 12
const TAIL_LINES = 12
const MAX_LINE = 2000 // characters of a line that is shown folded

export function sizeOf(text: string): string {
  const lines = text.trimEnd().split('\n').length
  const bytes = new Blob([text]).size
  const size = bytes < 1000 ? `${bytes} B` : bytes < 1_000_000 ? `${(bytes / 1000).toFixed(bytes < 10_000 ? 1 : 0)} KB` : `${(bytes / 1_000_000).toFixed(1)} MB`
  return `${lines.toLocaleString('en')} ${lines === 1 ? 'line' : 'lines'}, ${size}`
}

export const isFolded = (text: string): boolean => text.split('\n', FOLD_LINES + 1).length > FOLD_LINES || text.length > FOLD_LINES * MAX_LINE

/** The beginning and the end of a long text, and all of it when asked for. */
export function CodeText({ text, label, language = '', class: own = '' }: { text: string; label: string; language?: string; class?: string }) {
  const [whole, setWhole] = useState(false)
  const folded = !whole && isFolded(text)
  const shown = useMemo(() => {
    if (!folded) return { head: visible(text), tail: '' }
    const lines = text.trimEnd().split('\n').map((line) => (line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)} …` : line))
    return { head: visible(lines.slice(0, HEAD_LINES).join('\n')), tail: visible(lines.slice(HEAD_LINES).slice(-TAIL_LINES).join('\n')) }
  }, [text, folded])
  const highlighter = useHighlighter(language !== '')
  const draw = (code: string) => (highlighter ? <Tokens of={highlighter.highlight(code, language)} /> : code)
  return (
    <div class="code-block">
      <pre class={`code ${own}`} tabIndex={0} aria-label={label}>{draw(shown.head)}{folded && <><button type="button" class="fold-gap" onClick={() => setWhole(true)}>Show all of it: {sizeOf(text)}</button>{draw(shown.tail)}</>}</pre>
      <CopyButton bare text={text} label={`Copy: ${label.toLowerCase()}`} />
    </div>
  )
}
