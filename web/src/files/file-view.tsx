/** A file of a session's directory, as its machine reads it, or one that came with a prompt: a text with its lines, or an image. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { errorMessage, get, isNotFound } from '../api/client'
import type * as P from '../generated/protocol'
import { visible } from '../shared/visible-text'
import { Tokens } from '../ui/code'
import { CopyButton, Problem, Sheet, useFetched } from '../ui/components'
import { Icon } from '../ui/icons'
import { useHighlighter } from '../ui/use-highlighter'
import { attachmentAddress, fileAddress, openFile, type FilePlace } from './opened-file'

const SHOWN_LINES = 5000

export function FileView({ session, path, line, from = fileAddress(session, path) }: FilePlace & { session: string }) {
  const { value, problem } = useFetched(() => get<P.WorkFile>(from), [from])
  return (
    <div class="file-view">
      <p class="row"><code class="file-path">{visible(value?.path ?? path)}</code>{value?.text && <CopyButton text={value.text} />}</p>
      <Problem text={problem} />
      {!value && !problem && <p class="loading" role="status">Loading …</p>}
      {value?.data && <Picture file={value} />}
      {value && !value.data && value.media_type === 'application/octet-stream' && <p class="faint">A binary file.</p>}
      {value && !value.data && value.media_type !== 'application/octet-stream' && <Lines text={value.text ?? ''} path={path} line={line} />}
      {value?.whole === false && <p class="faint small-text">The file is longer; only its beginning is shown.</p>}
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

const dataUrl = (file: P.WorkFile): string => `data:${file.media_type};base64,${file.data}`

function Picture({ file }: { file: P.WorkFile }) {
  return <img class="work-image" src={dataUrl(file)} alt={visible(file.path)} />
}

/** A picture in a conversation that opens large. */
function OpenablePicture({ file, label = file.path, thumb = false }: { file: P.WorkFile; label?: string; thumb?: boolean }) {
  const [large, setLarge] = useState(false)
  const name = visible(label)
  return (
    <>
      <button type="button" class={thumb ? 'picture thumb' : 'picture'} title="Open it large" onClick={() => setLarge(true)}><img src={dataUrl(file)} alt={name} /></button>
      {large && <Sheet title={name} wide onClose={() => setLarge(false)}><img class="large-picture" src={dataUrl(file)} alt={`${name}, full size`} /></Sheet>}
    </>
  )
}

const known = new Map<string, P.WorkFile>()
const MAX_KNOWN = 20 // images that are kept, so that scrolling back does not load them again

function useImage(from: string, version: string): { readonly file?: P.WorkFile; readonly error?: unknown } {
  const key = `${from} ${version}`
  const [loaded, setLoaded] = useState<{ readonly key: string; readonly file?: P.WorkFile; readonly error?: unknown }>({ key, file: known.get(key) })
  useEffect(() => {
    if (known.has(key)) return setLoaded({ key, file: known.get(key) })
    let live = true
    get<P.WorkFile>(from).then((file) => {
      known.set(key, file)
      if (known.size > MAX_KNOWN) known.delete(known.keys().next().value!)
      if (live) setLoaded({ key, file })
    }, (error: unknown) => { if (live) setLoaded({ key, error }) })
    return () => { live = false }
  }, [key])
  return loaded.key === key ? loaded : {}
}

/** An image that an agent made, looked at or shows, in the conversation. Of what is no image only the words are shown. */
export function WorkImage({ from, name, label, version }: { from: string; name: string; label?: string; version: string }) {
  const { file, error } = useImage(from, version)
  if (error) return <span class="faint small-text">{visible(label || name)}: {errorMessage(error)}</span>
  if (file && !file.data) return label ? <span>🖼 {visible(label)}</span> : null
  return file ? <OpenablePicture file={file} label={label} /> : null
}

/** The files of a prompt: images as thumbnails, others by their names. */
export function GivenFiles({ session, prompt, files }: { session: string; prompt: string; files: readonly P.AttachedFile[] }) {
  return (
    <ul class="given-files" aria-label="Attached files">
      {files.map((file, number) => {
        const from = prompt && attachmentAddress(session, prompt, number)
        return (
          <li key={number}>
            {!from ? <span class="given-name"><Icon name="clip" /> {visible(file.name)}</span>
              : /^image\/(?:png|jpeg|gif|webp)$/.test(file.media_type ?? '') ? <Thumbnail from={from} name={file.name} />
                : <button type="button" class="given-name" title="Open the file" onClick={() => openFile(session, { path: file.name, line: 0, from })}><Icon name="clip" /> {visible(file.name)}</button>}
          </li>
        )
      })}
    </ul>
  )
}

function Thumbnail({ from, name }: { from: string; name: string }) {
  const { file, error } = useImage(from, '')
  if (file?.data) return <OpenablePicture file={file} thumb />
  if (!file && !error) return <span class="picture thumb" role="img" aria-label={`${visible(name)}, loading`} />
  const why = isNotFound(error) ? 'no longer stored' : error ? errorMessage(error) : 'no image'
  return <span class="given-name"><Icon name="clip" /> {visible(name)} <span class="faint">({why})</span></span>
}
