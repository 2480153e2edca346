/** Files for a prompt: chosen, pasted or dropped; what the agent does not take is said before anything is sent. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { Icon } from '../ui/icons'
import { acceptsType, attachmentSize, MAX_TOTAL_BYTES, readAttachment } from './attachments'
import type { Attachment } from './outbox'

/** Who gets the prompt, and the media types it takes; undefined: nobody knows yet. */
export interface Recipient { readonly name: string; readonly types: readonly string[] | undefined }

export interface AttachedFiles {
  readonly files: readonly Attachment[]
  readonly problem: string
  readonly dropping: boolean
  readonly add: (list: Iterable<File>) => Promise<void>
  readonly remove: (index: number) => void
  readonly clear: () => void
}

/** Why a recipient does not get these files; empty: it does. */
export function refusalOf({ name, types }: Recipient, files: readonly Attachment[]): string {
  const file = types && files.find(({ media_type }) => !acceptsType(media_type, types))
  if (!file) return ''
  if (!types.length) return `${name} takes text only: ${file.name} cannot be sent.`
  if (file.media_type.startsWith('image/') && !types.some((type) => /^(?:image|\*)\//.test(type))) return `${name} takes no images: ${file.name} cannot be sent.`
  return `${name} does not accept ${file.name} (${file.media_type}).`
}

export function useAttachments(recipient: Recipient): AttachedFiles {
  const [files, setFiles] = useState<readonly Attachment[]>([])
  const [problem, setProblem] = useState('')
  const current = useRef(files)
  const keep = (all: readonly Attachment[]) => {
    current.current = all
    setFiles(all)
    setProblem('')
  }
  const add = async (list: Iterable<File>) => {
    try {
      const more = await Promise.all([...list].map(readAttachment))
      const all = [...current.current, ...more]
      const refusal = refusalOf(recipient, more)
      if (refusal) setProblem(refusal)
      else if (all.reduce((sum, file) => sum + attachmentSize(file), 0) > MAX_TOTAL_BYTES) setProblem('The files are too large: a prompt takes at most 700 KB in all.')
      else keep(all)
    } catch {
      setProblem('The file cannot be read.')
    }
  }
  const dropping = useFileDrop((list) => void add(list))
  return { files, problem, dropping, add, remove: (index) => keep(files.filter((_, other) => other !== index)), clear: () => keep([]) }
}

type TakeFiles = (list: FileList) => void
const targets: { take: TakeFiles }[] = [] // the last one gets what is dropped: a form may lie over a conversation

/** Takes files that are dropped anywhere on the page: elsewhere a browser would leave the page for them. Whether some hover now. */
function useFileDrop(take: TakeFiles): boolean {
  const [hovering, setHovering] = useState(false)
  const target = useRef({ take })
  target.current.take = take
  useEffect(() => {
    const own = target.current
    const mine = (event: DragEvent) => targets.at(-1) === own && !!event.dataTransfer?.types.includes('Files')
    const over = (event: DragEvent) => {
      if (!mine(event)) return
      event.preventDefault()
      setHovering(true)
    }
    const leave = (event: DragEvent) => { if (!event.relatedTarget) setHovering(false) }
    const drop = (event: DragEvent) => {
      setHovering(false)
      if (!mine(event)) return
      event.preventDefault()
      own.take(event.dataTransfer!.files)
    }
    targets.push(own)
    addEventListener('dragover', over)
    addEventListener('dragleave', leave)
    addEventListener('drop', drop)
    return () => {
      targets.splice(targets.indexOf(own), 1)
      removeEventListener('dragover', over)
      removeEventListener('dragleave', leave)
      removeEventListener('drop', drop)
    }
  }, [])
  return hovering
}

/** What is pasted, if it has files; text stays the text box's own. */
export function onPasteFiles(event: ClipboardEvent, add: AttachedFiles['add']): void {
  const list = event.clipboardData?.files
  if (!list?.length) return
  event.preventDefault()
  void add(list)
}

/** Opens the device's own choice of files: on a phone also its photos and camera. */
export function AttachButton({ types, add, label = '' }: { types: Recipient['types']; add: AttachedFiles['add']; label?: string }) {
  const picker = useRef<HTMLInputElement>(null)
  const none = types?.length === 0
  const images = !!types?.length && types.every((type) => type.startsWith('image/'))
  const name = none ? 'Attach a file: this agent takes text only' : images ? 'Attach an image' : 'Attach a file'
  return (
    <>
      <button type="button" class={label ? 'small' : 'plain'} aria-label={label ? undefined : name} title={name} disabled={none} onClick={() => picker.current!.click()}><Icon name="clip" />{label && ` ${label}`}</button>
      {/* Only images: a phone then shows its photos. Other types are not named, since browsers mistake source code for something else. */}
      <input ref={picker} type="file" multiple hidden accept={images ? 'image/*' : undefined} onChange={(event) => { void add([...event.currentTarget.files ?? []]); event.currentTarget.value = '' }} />
    </>
  )
}

export function FileList({ files, onRemove }: { files: readonly Attachment[]; onRemove: (index: number) => void }) {
  if (!files.length) return null
  return (
    <ul class="files" aria-label="Attached files">
      {files.map((file, index) => (
        <li key={index}>
          {file.media_type.startsWith('image/') ? <img class="file-thumb" src={`data:${file.media_type};base64,${file.data}`} alt="" /> : <Icon name="clip" />}
          <span class="file-name">{file.name}</span>
          <button type="button" class="plain" aria-label={`Remove ${file.name}`} onClick={() => onRemove(index)}><Icon name="cross" /></button>
        </li>
      ))}
    </ul>
  )
}
