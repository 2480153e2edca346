/** What an ask is about, each character of it. A long part is cut at first: its card says by how much, and has no Allow. */
import { useMemo } from 'preact/hooks'
import { amount, beginning, long } from '../askparts'
import { parseDiff } from '../diff'
import { visible } from '../visible'
import type * as P from '../protocol'
import { DiffView } from './diffview'

export function AskParts({ parts, cwd, whole = true }: { parts: readonly P.Part[]; cwd?: string; whole?: boolean }) {
  return (
    <div class="ask-content">
      {parts.map((part, index) => <Part key={index} part={part} cwd={cwd} whole={whole || !long(part.text)} />)}
    </div>
  )
}

function Part({ part, cwd, whole }: { part: P.Part; cwd?: string; whole: boolean }) {
  const label = visible(part.label)
  if (part.form === 'diff') {
    return <section class="ask-part" aria-label={label}>{whole ? <DiffView diff={part.text} cwd={cwd} /> : <DiffHeads diff={part.text} />}</section>
  }
  const { shown, rest } = whole ? { shown: part.text, rest: '' } : beginning(part.text)
  return (
    <div class={part.form === 'code' ? 'ask-part' : 'ask-part in-line'}>
      <p class="part-label" aria-hidden="true">{label}</p>
      <pre class={part.form === 'code' ? 'code' : 'part-text'} tabIndex={0} aria-label={label}>{visible(shown)}</pre>
      {rest && <Rest text={rest} />}
    </div>
  )
}

/** The files of a long diff. */
function DiffHeads({ diff }: { diff: string }) {
  const files = useMemo(() => parseDiff(diff), [diff])
  return (
    <>
      {files.map((file, index) => <p key={index} class="diff-note"><bdi>{visible(file.path)}</bdi> <span class="plus">+{file.added}</span> <span class="minus">−{file.removed}</span></p>)}
      <Rest text={amount(diff)} />
    </>
  )
}

const Rest = ({ text }: { text: string }) => <p class="rest">… {text} are not shown yet.</p>
