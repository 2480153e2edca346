/** Markdown from models and tools as sanitised HTML.
 *
 * Two safeguards: markdown-it escapes raw HTML, and DOMPurify allows a short list of tags. Images elsewhere become links: loading one
 * would reveal to its server that and when the text was read. A path means a file of the session: the hub reads it, never the browser.
 */
import DOMPurify from 'dompurify'
import MarkdownIt from 'markdown-it'
import { render } from 'preact'
import { useContext, useEffect, useMemo, useRef } from 'preact/hooks'
import { FilesOf, fileAddress, isImagePath, linkPaths, type FilePlace } from '../files/opened-file'
import { visible } from '../shared/visible-text'
import { Tokens } from './code'
import { CopyButton } from './components'
import { useHighlighter } from './use-highlighter'
import { lazy } from './lazy'
import { memo } from './memo'

/** A link opens in a new tab and learns nothing about this page. */
const EXTERNAL_LINK = 'target="_blank" rel="noopener noreferrer nofollow"'

const md = new MarkdownIt({ html: false, linkify: true, breaks: false, typographer: false })
md.validateLink = (url) => /^(?:https?:|mailto:)/i.test(url.trim()) || localPath(url) !== undefined
md.renderer.rules.image = (tokens, index) => {
  const token = tokens[index]!
  const address = String(token.attrGet('src') ?? '')
  const words = `🖼 ${md.utils.escapeHtml(token.content || 'image')}`
  if (/^https?:/i.test(address)) return `<a href="${md.utils.escapeHtml(address)}" ${EXTERNAL_LINK}>${words}</a>`
  const path = localPath(address)?.path ?? ''
  return isImagePath(path) ? `<span data-image="${md.utils.escapeHtml(path)}">${words}</span>` : words
}
md.renderer.rules.link_open = (tokens, index) => {
  const address = String(tokens[index]!.attrGet('href') ?? '')
  const place = localPath(address)
  if (!place) return `<a href="${md.utils.escapeHtml(address)}" ${EXTERNAL_LINK}>`
  return `<a data-file="${md.utils.escapeHtml(`${place.path}:${place.line}`)}">` // a button, where a session's files are at hand
}

/** The file that a link or an image without a server means, such as `docs/a.png` or `src/a.py#L12`. */
function localPath(address: string): FilePlace | undefined {
  const match = /^(?![a-z][a-z0-9+.-]*:|[/\\]{2}|[#?])([^#?\\]{1,500}?)(?::(\d{1,7}))?(?:\?[^#]*)?(?:#L?(\d{1,7})?.*)?$/i.exec(address.trim())
  if (!match) return undefined
  try {
    return { path: decodeURIComponent(match[1]!), line: Number(match[2] ?? match[3] ?? 0) }
  } catch {
    return undefined
  }
}

/** People copy and run code: invisible characters in it are marked. Prose may need them. */
for (const kind of ['code_inline', 'code_block', 'fence'] as const) {
  const plain = md.renderer.rules[kind]!
  md.renderer.rules[kind] = (tokens, index, ...rest) => {
    const token = tokens[index]!
    token.content = visible(token.content)
    return plain(tokens, index, ...rest)
  }
}

const plainFence = md.renderer.rules.fence!
md.renderer.rules.fence = (tokens, index, ...rest) => {
  const language = /^[\w+#-]{1,20}/.exec(tokens[index]!.info.trim())?.[0] ?? ''
  return plainFence(tokens, index, ...rest).replace('<pre>', `<pre data-language="${language}">`)
}

/** "- [ ] text" and "- [x] text": an item with a box. */
md.core.ruler.push('tasks', ({ tokens }) => {
  tokens.forEach((token, index) => {
    const [item, text] = [tokens[index - 2], token.children?.[0]]
    const mark = token.type === 'inline' && item?.type === 'list_item_open' && text?.type === 'text' && /^\[([ xX])\]\s+/.exec(text.content)
    if (!mark) return
    text.content = text.content.slice(mark[0].length)
    item.attrSet('data-task', mark[1] === ' ' ? 'open' : 'done')
  })
})

const TAGS = ['a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'li', 'ol', 'p', 'pre', 's', 'span', 'strong', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul']

const OWN_ATTRIBUTES = ['data-language', 'data-task', 'data-image', 'data-file']

export function toHtml(text: string): string {
  return DOMPurify.sanitize(md.render(text), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ['href', 'start', 'target', 'rel', ...OWN_ATTRIBUTES],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    ADD_URI_SAFE_ATTR: ['rel', 'target', 'start', ...OWN_ATTRIBUTES],
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

/** `final`: the text does not change any more, so that its code is highlighted and can be copied. */
const Block = memo(({ text, final }: { text: string; final: boolean }) => {
  const html = useMemo(() => toHtml(text), [text])
  const box = useRef<HTMLDivElement>(null)
  const code = final && html.includes('<pre')
  const highlighter = useHighlighter(code)
  useEffect(() => {
    if (!code) return
    const drawn = [...box.current!.querySelectorAll('pre')].map((pre) => decorate(pre, highlighter))
    return () => drawn.forEach((undo) => undo())
  }, [html, code, highlighter])
  const files = useContext(FilesOf)
  useEffect(() => {
    if (!final || !files) return
    linkPaths(box.current!, files)
    const drawn = [...box.current!.querySelectorAll<HTMLElement>('[data-image]')].slice(0, MAX_IMAGES).map((placeholder) => drawImage(placeholder, files, text))
    return () => drawn.forEach((undo) => undo())
  }, [html, final, files])
  return <div class="md" ref={box} dangerouslySetInnerHTML={{ __html: html }} />
})

const MAX_IMAGES = 8 // of a block
const WorkImage = lazy(() => import('../files/file-view').then((module) => module.WorkImage))

/** An image of the session's files in its place. Returns what takes it away. */
function drawImage(placeholder: HTMLElement, session: string, version: string): () => void {
  const [path, words] = [placeholder.dataset.image ?? '', placeholder.textContent ?? '']
  placeholder.textContent = ''
  render(<WorkImage from={fileAddress(session, path)} name={path} label={words.replace('🖼 ', '')} version={version} />, placeholder)
  return () => {
    render(null, placeholder)
    placeholder.textContent = words
  }
}

/** A block of code with its copy button and its colours. Returns what takes the button away. */
function decorate(pre: HTMLPreElement, highlighter: typeof import('./highlight') | undefined): () => void {
  const text = pre.textContent ?? ''
  const language = pre.dataset.language ?? ''
  const code = pre.querySelector('code') ?? pre
  pre.tabIndex = 0 // it scrolls
  if (highlighter && language) {
    code.textContent = ''
    render(<Tokens of={highlighter.highlight(text, language)} />, code)
  }
  const frame = document.createElement('div')
  frame.className = 'code-block'
  pre.replaceWith(frame)
  const corner = document.createElement('div')
  frame.append(pre, corner)
  render(<CopyButton bare text={text} label="Copy the code" />, corner)
  return () => {
    render(null, corner)
    frame.replaceWith(pre)
  }
}

export function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  const parts = useMemo(() => splitBlocks(text), [text])
  return <div class={live ? 'prose live' : 'prose'}>{parts.map((part, index) => <Block key={index} text={part} final={!live || index < parts.length - 1} />)}</div>
}
