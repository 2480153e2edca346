/** A unified diff by file; a tap on a line opens a comment to the agent. */
import { createContext } from 'preact'
import { useContext, useEffect, useMemo, useState } from 'preact/hooks'
import { relativeTo } from '../shared/format'
import { visible } from '../shared/visible-text'
import { Tokens } from '../ui/code'
import type { Token } from '../ui/highlight'
import { useHighlighter } from '../ui/use-highlighter'
import { Icon } from '../ui/icons'
import { parseDiff, type DiffLine, type FileDiff, type Hunk } from './parse-diff'
import { pairLines } from './side-by-side'

type OnComment = (path: string, line: DiffLine, comment: string, send: boolean) => void

/** Told when a comment is begun, and when it is over: meanwhile its line should stay what and where it is. */
export const Commenting = createContext<(by: 1 | -1) => void>(() => undefined)

const SIGN = { same: ' ', add: '+', del: '−', note: ' ' }
const FOLD_ABOVE = 400 // lines of a file beyond which it is folded at first

/** Paths are shown relative to `cwd`. A comment is collected, or sent at once. */
export function DiffView({ diff, cwd, onComment, folded = false, sideBySide = false }: { diff: string; cwd?: string; onComment?: OnComment; folded?: boolean; sideBySide?: boolean }) {
  const files = useMemo(() => parseDiff(diff).map((file) => ({ ...file, path: relativeTo(file.path, cwd) })), [diff, cwd])
  if (!files.length) return diff ? <pre class="code">{visible(diff)}</pre> : null
  return <div class="diff">{files.map((file, index) => <DiffFile key={`${index} ${file.path}`} file={file} onComment={onComment} folded={folded && files.length > 1} sideBySide={sideBySide} />)}</div>
}

function DiffFile({ file, onComment, folded, sideBySide }: { file: FileDiff; onComment?: OnComment; folded: boolean; sideBySide: boolean }) {
  const size = file.added + file.removed
  const [open, setOpen] = useState(!folded && (size < FOLD_ABOVE || !onComment))
  const path = visible(file.path)
  return (
    <div class="diff-file" role="group" aria-label={path ? `Changes in ${path}` : 'Changes'}>
      <button type="button" class="diff-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span class={open ? 'turned' : ''}><Icon name="chevron" /></span>
        <span class="diff-path"><bdi>{path || 'Text that is not a diff'}</bdi></span>
        {file.state !== 'changed' && <span class="tag">{file.state}</span>}
        {file.hunks.length > 0 && (
          <>
            <span class="plus" aria-label={`${file.added} lines added`}>+{file.added}</span>
            <span class="minus" aria-label={`${file.removed} lines removed`}>−{file.removed}</span>
          </>
        )}
      </button>
      {open && (
        <div class="diff-lines" role="group">
          {file.oldPath && <div class="diff-note">was <bdi>{visible(file.oldPath)}</bdi></div>}
          {file.state === 'binary' && <div class="diff-note">A binary file</div>}
          {file.notes.map((note, index) => <div key={index} class="diff-note">{visible(note) || ' '}</div>)}
          {file.hunks.map((hunk, index) => (
            <div class="hunk" key={index}>
              {(index > 0 || hunk.head) && <div class="diff-note">⋯ {visible(hunk.head)}</div>}
              <HunkLines hunk={hunk} path={file.path} onComment={onComment} sideBySide={sideBySide} />
            </div>
          ))}
        </div>
      )}
    </div>
  )
}

function HunkLines({ hunk, path, onComment, sideBySide }: { hunk: Hunk; path: string; onComment?: OnComment; sideBySide: boolean }) {
  const highlighter = useHighlighter(true)
  const tokens = useMemo(() => highlightHunk(hunk, path, highlighter), [hunk, path, highlighter])
  if (sideBySide) {
    const cell = (number: number | undefined, side: 'left' | 'right') => {
      if (number === undefined) return <div class="gap" />
      const line = hunk.lines[number]!
      const twice = side === 'left' && line.kind !== 'del' // the other side has the same line: one of them is enough for the keyboard
      return <div><DiffLineView path={path} line={line} tokens={tokens?.[number]} onComment={twice ? undefined : onComment} side={side} /></div>
    }
    return <>{pairLines(hunk.lines).map(({ left, right }, row) => <div class="pair" key={row}>{cell(left, 'left')}{cell(right, 'right')}</div>)}</>
  }
  return <>{hunk.lines.map((line, number) => <DiffLineView key={number} path={path} line={line} tokens={tokens?.[number]} onComment={onComment} />)}</>
}

/** The tokens of each line. Both sides are read as text of their own: a comment may begin on a line that was removed. */
export function highlightHunk({ lines }: Hunk, path: string, highlighter: typeof import('../ui/highlight') | undefined): readonly (readonly Token[])[] | undefined {
  const language = highlighter?.languageOf(path)
  if (!highlighter || !language) return undefined
  const side = (other: DiffLine['kind']) => highlighter.highlightLines(lines.filter((line) => line.kind !== other && line.kind !== 'note').map((line) => visible(line.text)), language)
  const [before, after] = [side('add'), side('del')]
  let [left, right] = [0, 0]
  return lines.map(({ kind, text }) => {
    if (kind === 'note') return [{ kind: '' as const, text: visible(text) }]
    const old = kind === 'add' ? undefined : before[left++]
    const fresh = kind === 'del' ? undefined : after[right++]
    return fresh ?? old ?? []
  })
}

function DiffLineView({ path, line, tokens, onComment, side }: { path: string; line: DiffLine; tokens?: readonly Token[]; onComment?: OnComment; side?: 'left' | 'right' }) {
  const [open, setOpen] = useState(false)
  const [text, setText] = useState('')
  const commenting = useContext(Commenting)
  useEffect(() => {
    if (!open) return undefined
    commenting(1)
    return () => commenting(-1)
  }, [open])
  const inner = (
    <>
      <span class="diff-number" aria-hidden="true">{(side === 'left' ? line.before : line.after || line.before) || ''}</span>
      <span class="diff-sign" aria-hidden="true">{SIGN[line.kind]}</span>
      <span class="diff-text">{tokens?.length ? <Tokens of={tokens} /> : visible(line.text) || ' '}</span>
    </>
  )
  if (!onComment || line.kind === 'note') return <div class={`diff-line ${line.kind}`}>{inner}</div>
  const finish = (send: boolean) => {
    if (!text.trim()) return
    onComment(path, line, text, send)
    setOpen(false)
    setText('')
  }
  return (
    <>
      <button
        type="button" class={`diff-line tappable ${line.kind}`} aria-expanded={open} title="Comment" onClick={() => setOpen(!open)}
      >
        <span class="sr">{`Line ${line.after || line.before}${line.kind === 'add' ? ', added' : line.kind === 'del' ? ', removed' : ''}: `}</span>
        {inner}
      </button>
      {open && (
        <form class="remark" onSubmit={(event) => { event.preventDefault(); finish(false) }}>
          <textarea
            rows={2} value={text} placeholder="Comment to the agent" aria-label="Comment to the agent" ref={(box) => box?.focus()}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => { if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) finish(false) }}
          />
          <div class="row end">
            <button type="button" class="small" onClick={() => finish(true)}>Send</button>
            <button type="submit" class="small primary">Add comment</button>
          </div>
        </form>
      )}
    </>
  )
}
