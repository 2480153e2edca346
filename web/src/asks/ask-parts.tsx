/** The labelled texts of an ask and how the card shows them. A long text is cut at first: the card says by how much and has no
 * Allow button until all of it is shown. */
import { useMemo } from 'preact/hooks'
import { DiffView } from '../diff/diff-view'
import { parseDiff } from '../diff/parse-diff'
import type * as P from '../generated/protocol'
import { visible } from '../shared/visible-text'

/** The node's own list of parts; without one (in the log, or from an older node) everything in the ask, raw. */
export function partsOf(ask: P.Ask, parts: readonly P.Part[] = []): readonly P.Part[] {
  if (parts.length) return parts
  const { kind, ...action } = { kind: '', ...ask.action } as Readonly<Record<string, unknown>>
  const collected: P.Part[] = []
  const add = (label: string, value: unknown, form: P.Part['form'] = 'text') => {
    const text = toText(value)
    if (text) collected.push({ label, text, form })
  }
  add('Reason', ask.reason)
  add('Title', ask.title)
  for (const [name, value] of Object.entries(action)) add(name, value, name === 'diff' ? 'diff' : 'code')
  for (const [name, value] of Object.entries(ask.input ?? {})) if (toText(value) !== toText(action[name])) add(name, value, 'code') // else it is in the action already
  add('Plan', ask.plan)
  if (ask.kind !== 'question' || ask.at_terminal) add('Questions', ask.questions, 'code') // a question's form shows them
  if (!collected.length && kind) add('Action', ask.action, 'code')
  return collected
}

function toText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null || (typeof value === 'object' && !Object.keys(value).length)) return ''
  return Array.isArray(value) && value.every((entry) => typeof entry === 'string') ? value.join('\n') : JSON.stringify(value, null, 2)
}

export const MANY_LINES = 60
export const MANY_CHARACTERS = 4000

/** Whether a text is too long for the card at first: it is shown whole on request and can be allowed only then. */
export function isLong(text: string): boolean {
  return text.length > MANY_CHARACTERS || lineCount(text) > MANY_LINES
}

/** The beginning of a text, and exactly how much follows. */
export function excerpt(text: string): { readonly shown: string; readonly rest: string } {
  const some = text.split('\n', MANY_LINES / 2).join('\n')
  const characters = [...some].slice(0, MANY_CHARACTERS / 2).join('')
  return { shown: characters, rest: textSize(text.slice(characters.length)) }
}

export function textSize(text: string): string {
  const characters = [...text].length
  const many = lineCount(text.replace(/^\n/, ''))
  const count = (number: number, word: string) => `${number.toLocaleString('en')} ${word}${number === 1 ? '' : 's'}`
  return `${count(characters, 'character')} in ${count(many, 'line')}`
}

function lineCount(text: string): number {
  return text.split('\n').length
}

export function AskParts({ parts, cwd, whole = true }: { parts: readonly P.Part[]; cwd?: string; whole?: boolean }) {
  return (
    <div class="ask-content">
      {parts.map((part, index) => <Part key={index} part={part} cwd={cwd} whole={whole || !isLong(part.text)} />)}
    </div>
  )
}

function Part({ part, cwd, whole }: { part: P.Part; cwd?: string; whole: boolean }) {
  const label = visible(part.label)
  if (part.form === 'diff') {
    return <section class="ask-part" aria-label={label}>{whole ? <DiffView diff={part.text} cwd={cwd} /> : <DiffFiles diff={part.text} />}</section>
  }
  const { shown, rest } = whole ? { shown: part.text, rest: '' } : excerpt(part.text)
  return (
    <div class={part.form === 'code' ? 'ask-part' : 'ask-part in-line'}>
      <p class="part-label" aria-hidden="true">{label}</p>
      <pre class={part.form === 'code' ? 'code' : 'part-text'} tabIndex={0} aria-label={label}>{visible(shown)}</pre>
      {rest && <HiddenAmount text={rest} />}
    </div>
  )
}

/** The files of a long diff. */
function DiffFiles({ diff }: { diff: string }) {
  const files = useMemo(() => parseDiff(diff), [diff])
  return (
    <>
      {files.map((file, index) => <p key={index} class="diff-note"><bdi>{visible(file.path)}</bdi> <span class="plus">+{file.added}</span> <span class="minus">−{file.removed}</span></p>)}
      <HiddenAmount text={textSize(diff)} />
    </>
  )
}

const HiddenAmount = ({ text }: { text: string }) => <p class="rest">… {text} are not shown yet.</p>
