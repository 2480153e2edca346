/** Which file of which session is open beside the conversation, and where texts name files. */
import { signal } from '@preact/signals'
import { createContext } from 'preact'

/** `line` 0: the whole file. `from`: its address at the hub, when it is none of the session's directory. */
export interface FilePlace { readonly path: string; readonly line: number; readonly from?: string }

const sessionAddress = (session: string): string => `sessions/${encodeURIComponent(session)}`

/** Where the hub gives a file of a session's directory. */
export const fileAddress = (session: string, path: string): string => `${sessionAddress(session)}/file?path=${encodeURIComponent(path)}`

/** Where the hub gives a file that came with a prompt. */
export const attachmentAddress = (session: string, prompt: string, number: number): string => `${sessionAddress(session)}/prompts/${encodeURIComponent(prompt)}/attachments/${number}`

export const openedFile = signal<(FilePlace & { readonly session: string }) | undefined>(undefined)

export function openFile(session: string, place: FilePlace): void {
  openedFile.value = { session, ...place }
}

/** The session whose files a text means; empty: none, so that its paths are no links. */
export const FilesOf = createContext('')

const NAME = String.raw`\.?[\w+-][\w.+-]*`
const IN_FOLDER = String.raw`(?:\.{0,2}/)?(?:${NAME}/)+${NAME}\.[A-Za-z]\w{0,9}`
const KINDS = 'c|cc|cfg|cpp|cs|css|csv|gif|go|h|hpp|html|ini|java|jpe?g|jsx?|json|kt|lock|lua|[cm]js|md|php|png|proto|py|rb|rs|scala|sh|sql|svelte|svg|swift|toml|tsx?|txt|vue|webp|xml|ya?ml|zig'
const ALONE = String.raw`(?:\.{0,2}/)?(?:${NAME}\.(?:${KINDS})|Makefile|Dockerfile|LICENSE)` // without a folder it might be code: os.path
const WHOLE = new RegExp(String.raw`^(?:${IN_FOLDER}|${ALONE})(?::(\d{1,7}))?(?::\d+)?$`)
const IN_TEXT = new RegExp(String.raw`(?<![\w/.:@-])${IN_FOLDER}(?::\d{1,7})?(?![\w/@])`, 'g')

/** A text that is nothing but a path, such as `src/a.py:12`. */
export function parsePath(text: string): FilePlace | undefined {
  const match = text.length <= 300 && !text.includes('//') ? WHOLE.exec(text) : null
  return match ? { path: text.replace(/(?::\d+){1,2}$/, ''), line: Number(match[1] ?? 0) } : undefined
}

/** The paths in a sentence: those with a folder, so that `e.g.` is none. */
export const pathsIn = (text: string): readonly { readonly at: number; readonly text: string }[] => [...text.matchAll(IN_TEXT)].map((match) => ({ at: match.index, text: match[0] }))

export const isImagePath = (path: string): boolean => /\.(?:png|jpe?g|gif|webp)$/i.test(path)

/** Makes buttons of the paths in finished text, and of links to files. */
export function linkPaths(root: Element, session: string): void {
  for (const link of [...root.querySelectorAll<HTMLElement>('a[data-file]')]) {
    const [, path, line] = /^(.*):(\d+)$/s.exec(link.dataset.file ?? '') ?? []
    if (path) wrap(link, { path, line: Number(line) }, session)
  }
  for (const code of [...root.querySelectorAll('code')]) {
    const place = code.closest('pre, a, button') ? undefined : parsePath(code.textContent ?? '')
    if (place) wrap(code, place, session)
  }
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
  const texts: Text[] = []
  while (walker.nextNode()) if (!(walker.currentNode.parentElement?.closest('pre, a, button, code'))) texts.push(walker.currentNode as Text)
  for (let text of texts) {
    let gone = 0
    for (const { at, text: path } of pathsIn(text.data)) {
      const place = parsePath(path)
      if (!place) continue
      const middle = text.splitText(at - gone)
      const rest = middle.splitText(path.length)
      wrap(middle, place, session)
      gone = at + path.length
      text = rest
    }
  }
}

function wrap(node: ChildNode, place: FilePlace, session: string): void {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'path-link'
  button.title = 'Open the file'
  button.addEventListener('click', () => openFile(session, place))
  node.replaceWith(button)
  button.append(node)
}
