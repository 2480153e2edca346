/** An ask as the list of labelled texts that is shown of it, and how much of one is shown at first. Pure. */
import type * as P from './protocol'

/** What the node tells that there is to see; of an ask without that list (in the log, or of an older node) all that is in it, raw. */
export function partsOf(ask: P.Ask, parts: readonly P.Part[] = []): readonly P.Part[] {
  if (parts.length) return parts
  const { kind, ...action } = { kind: '', ...ask.action } as Readonly<Record<string, unknown>>
  const found: P.Part[] = []
  const add = (label: string, value: unknown, form: P.Part['form'] = 'text') => {
    const text = words(value)
    if (text) found.push({ label, text, form })
  }
  add('Reason', ask.reason)
  add('Title', ask.title)
  for (const [name, value] of Object.entries(action)) add(name, value, name === 'diff' ? 'diff' : 'code')
  for (const [name, value] of Object.entries(ask.input ?? {})) if (words(value) !== words(action[name])) add(name, value, 'code') // else it is there already
  add('Plan', ask.plan)
  if (ask.kind !== 'question') add('Questions', ask.questions, 'code') // the form of a question shows them
  if (!found.length && kind) add('Action', ask.action, 'code')
  return found
}

function words(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null || (typeof value === 'object' && !Object.keys(value).length)) return ''
  return Array.isArray(value) && value.every((one) => typeof one === 'string') ? value.join('\n') : JSON.stringify(value, null, 2)
}

export const MANY_LINES = 60
export const MANY_CHARACTERS = 4000

/** Whether a text is longer than what is read at a glance: it is shown whole on request, and allowed only then. */
export function long(text: string): boolean {
  return text.length > MANY_CHARACTERS || lines(text) > MANY_LINES
}

/** Its beginning, and exactly how much comes after that. */
export function beginning(text: string): { readonly shown: string; readonly rest: string } {
  const some = text.split('\n', MANY_LINES / 2).join('\n')
  const characters = [...some].slice(0, MANY_CHARACTERS / 2).join('')
  return { shown: characters, rest: amount(text.slice(characters.length)) }
}

export function amount(text: string): string {
  const characters = [...text].length
  const many = lines(text.replace(/^\n/, ''))
  const count = (number: number, word: string) => `${number.toLocaleString('en')} ${word}${number === 1 ? '' : 's'}`
  return `${count(characters, 'character')} in ${count(many, 'line')}`
}

function lines(text: string): number {
  return text.split('\n').length
}
