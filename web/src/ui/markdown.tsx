/** Markdown from models and tools as sanitised HTML.
 *
 * Two safeguards: markdown-it escapes raw HTML, and DOMPurify allows a short list of tags. Images become links: loading one
 * would reveal to its server that and when the text was read.
 */
import DOMPurify from 'dompurify'
import MarkdownIt from 'markdown-it'
import { useMemo } from 'preact/hooks'
import { visible } from '../shared/visible-text'
import { memo } from './memo'

/** A link opens in a new tab and learns nothing about this page. */
const EXTERNAL_LINK = 'target="_blank" rel="noopener noreferrer nofollow"'

const md = new MarkdownIt({ html: false, linkify: true, breaks: false, typographer: false })
md.validateLink = (url) => /^(?:https?:|mailto:)/i.test(url.trim())
md.renderer.rules.image = (tokens, index) => {
  const token = tokens[index]!
  const address = String(token.attrGet('src') ?? '')
  const words = md.utils.escapeHtml(token.content || 'image')
  return /^https?:/i.test(address) ? `<a href="${md.utils.escapeHtml(address)}" ${EXTERNAL_LINK}>🖼 ${words}</a>` : `🖼 ${words}`
}
md.renderer.rules.link_open = (tokens, index) =>
  `<a href="${md.utils.escapeHtml(String(tokens[index]!.attrGet('href') ?? ''))}" ${EXTERNAL_LINK}>`

/** People copy and run code: invisible characters in it are marked. Prose may need them. */
for (const kind of ['code_inline', 'code_block', 'fence'] as const) {
  const plain = md.renderer.rules[kind]!
  md.renderer.rules[kind] = (tokens, index, ...rest) => {
    const token = tokens[index]!
    token.content = visible(token.content)
    return plain(tokens, index, ...rest)
  }
}

const TAGS = ['a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'li', 'ol', 'p', 'pre', 's', 'strong', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul']

export function toHtml(text: string): string {
  return DOMPurify.sanitize(md.render(text), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ['href', 'start', 'target', 'rel'],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    ADD_URI_SAFE_ATTR: ['rel', 'target', 'start'],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
  })
}

/** Splits streaming text into blocks of which only the last can still change, so that a long text is not rendered again for each
 * word. Splits at blank lines outside fences, and never before an indented line (it belongs to a list). */
export function splitBlocks(text: string): string[] {
  const blocks: string[] = []
  let fence = ''
  let piece: string[] = []
  let blank = false
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]
    const list = /^\s*(?:[-*+]|\d+[.)])\s/.test(line)
    if (blank && !fence && piece.length && line.trim() && !/^\s/.test(line) && !(list && isList(piece))) {
      blocks.push(piece.join('\n'))
      piece = []
    }
    if (mark) fence = fence ? (mark.startsWith(fence) && line.trim() === mark ? '' : fence) : mark
    blank = line.trim() === ''
    piece.push(line)
  }
  blocks.push(piece.join('\n'))
  return blocks
}

function isList(piece: readonly string[]): boolean {
  return /^\s*(?:[-*+]|\d+[.)])\s/.test(piece.find((line) => line.trim()) ?? '')
}

const Block = memo(({ text }: { text: string }) => {
  const html = useMemo(() => toHtml(text), [text])
  return <div class="md" dangerouslySetInnerHTML={{ __html: html }} />
})

export function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  const parts = useMemo(() => splitBlocks(text), [text])
  return <div class={live ? 'prose live' : 'prose'}>{parts.map((part, index) => <Block key={index} text={part} />)}</div>
}
