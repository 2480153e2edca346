/** Markdown that may still be growing: only its last piece is rendered anew. */
import { memo } from './memo'
import { useMemo } from 'preact/hooks'
import { pieces, toHtml } from '../markdown'

const Piece = memo(({ text }: { text: string }) => {
  const html = useMemo(() => toHtml(text), [text])
  return <div class="md" dangerouslySetInnerHTML={{ __html: html }} />
})

export function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  const parts = useMemo(() => pieces(text), [text])
  return <div class={live ? 'prose live' : 'prose'}>{parts.map((part, index) => <Piece key={index} text={part} />)}</div>
}
