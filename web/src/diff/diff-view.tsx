/** A unified diff by file; a tap on a line opens a comment to the agent. */
import { useMemo, useState } from 'preact/hooks'
import { relativeTo } from '../shared/format'
import { visible } from '../shared/visible-text'
import { Icon } from '../ui/icons'
import { parseDiff, type DiffLine, type FileDiff } from './parse-diff'

type OnComment = (path: string, line: DiffLine, comment: string, send: boolean) => void

const SIGN = { same: ' ', add: '+', del: '−', note: ' ' }
const FOLD_ABOVE = 400 // lines of a file beyond which it is folded at first

/** Paths are shown relative to `cwd`. */
export function DiffView({ diff, cwd, onComment, folded = false }: { diff: string; cwd?: string; onComment?: OnComment; folded?: boolean }) {
  const files = useMemo(() => parseDiff(diff).map((file) => ({ ...file, path: relativeTo(file.path, cwd) })), [diff, cwd])
  if (!files.length) return diff ? <pre class="code">{visible(diff)}</pre> : null
  return <div class="diff">{files.map((file, index) => <DiffFile key={`${index} ${file.path}`} file={file} onComment={onComment} folded={folded && files.length > 1} />)}</div>
}

function DiffFile({ file, onComment, folded }: { file: FileDiff; onComment?: OnComment; folded: boolean }) {
  const size = file.added + file.removed
  const [open, setOpen] = useState(!folded && (size < FOLD_ABOVE || !onComment))
  const path = visible(file.path)
  return (
    <section class="diff-file" aria-label={path ? `Changes in ${path}` : 'Changes'}>
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
              {hunk.lines.map((line, number) => <DiffLineView key={number} path={file.path} line={line} onComment={onComment} />)}
            </div>
          ))}
        </div>
      )}
    </section>
  )
}

function DiffLineView({ path, line, onComment }: { path: string; line: DiffLine; onComment?: OnComment }) {
  const [open, setOpen] = useState(false)
  const [text, setText] = useState('')
  const inner = (
    <>
      <span class="diff-number" aria-hidden="true">{line.after || line.before || ''}</span>
      <span class="diff-sign" aria-hidden="true">{SIGN[line.kind]}</span>
      <span class="diff-text">{visible(line.text) || ' '}</span>
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
        <form class="remark" onSubmit={(event) => { event.preventDefault(); finish(true) }}>
          <textarea
            rows={2} value={text} placeholder="Comment to the agent" aria-label="Comment to the agent" ref={(box) => box?.focus()}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => { if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) finish(true) }}
          />
          <div class="row end">
            <button type="button" class="small" onClick={() => finish(false)}>Add to draft</button>
            <button type="submit" class="small primary">Send</button>
          </div>
        </form>
      )}
    </>
  )
}
