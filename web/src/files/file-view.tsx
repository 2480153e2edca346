/** A file of a session's directory, as its machine reads it: a text with its lines, or an image. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { errorMessage, get } from '../api/client'
import type * as P from '../generated/protocol'
import { visible } from '../shared/visible-text'
import { Tokens } from '../ui/code'
import { CopyButton, Problem, useFetched } from '../ui/components'
import { useHighlighter } from '../ui/highlighting'

const filePath = (session: string, path: string): string => `sessions/${encodeURIComponent(session)}/file?path=${encodeURIComponent(path)}`

const SHOWN_LINES = 5000

export function FileView({ session, path, line }: { session: string; path: string; line: number }) {
  const { value, problem } = useFetched(() => get<P.WorkFile>(filePath(session, path)), [session, path])
  return (
    <div class="file-view">
      <p class="row"><code class="file-path">{visible(value?.path ?? path)}</code>{value?.text && <CopyButton text={value.text} />}</p>
      <Problem text={problem} />
      {!value && !problem && <p class="loading" role="status">Loading …</p>}
      {value?.data && <Picture file={value} />}
      {value && !value.data && value.media_type === 'application/octet-stream' && <p class="faint">A binary file.</p>}
      {value && !value.data && value.media_type !== 'application/octet-stream' && <Lines text={value.text ?? ''} path={path} line={line} />}
      {value?.whole === false && <p class="faint small-text">The file is longer; this is its beginning.</p>}
    </div>
  )
}

function Lines({ text, path, line }: { text: string; path: string; line: number }) {
  const highlighter = useHighlighter(true)
  const lines = useMemo(() => visible(text.replace(/\n$/, '')).split('\n').slice(0, SHOWN_LINES), [text])
  const language = highlighter?.languageOf(path)
  const tokens = useMemo(() => (highlighter && language ? highlighter.highlightLines(lines, language) : undefined), [lines, highlighter, language])
  const wanted = useRef<HTMLDivElement>(null)
  useEffect(() => wanted.current?.scrollIntoView?.({ block: 'center' }), [line, text])
  return (
    <div class="file-lines" role="group" tabIndex={0} aria-label={`Text of ${visible(path)}`}>
      {lines.map((content, index) => (
        <div key={index} class={index + 1 === line ? 'diff-line wanted' : 'diff-line'} ref={index + 1 === line ? wanted : undefined} aria-current={index + 1 === line ? 'location' : undefined}>
          <span class="diff-number" aria-hidden="true">{index + 1}</span>
          <span class="diff-text">{tokens?.[index]?.length ? <Tokens of={tokens[index]!} /> : content || ' '}</span>
        </div>
      ))}
    </div>
  )
}

function Picture({ file }: { file: P.WorkFile }) {
  return <img class="work-image" src={`data:${file.media_type};base64,${file.data}`} alt={visible(file.path)} />
}

const known = new Map<string, P.WorkFile>()
const MAX_KNOWN = 20 // images that are kept, so that scrolling back does not load them again

/** An image that an agent made or looked at, in the conversation. What is no image is not shown. */
export function WorkImage({ session, path, version }: { session: string; path: string; version: string }) {
  const key = `${session} ${path} ${version}`
  const [file, setFile] = useState(known.get(key))
  const [problem, setProblem] = useState('')
  useEffect(() => {
    if (known.has(key)) return setFile(known.get(key))
    let live = true
    get<P.WorkFile>(filePath(session, path)).then((found) => {
      known.set(key, found)
      if (known.size > MAX_KNOWN) known.delete(known.keys().next().value!)
      if (live) setFile(found)
    }, (error: unknown) => { if (live) setProblem(errorMessage(error)) })
    return () => { live = false }
  }, [key])
  if (problem) return <p class="faint small-text">{visible(path)}: {problem}</p>
  return file?.data ? <Picture file={file} /> : null
}
