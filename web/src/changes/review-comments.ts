/** Comments on lines that are collected, kept by this device, and sent as one prompt. */
import { signal } from '@preact/signals'
import { formatComment, type DiffLine } from '../diff/parse-diff'
import { loadLocal, saveLocal } from '../shared/local-storage'

export interface ReviewComment { readonly path: string; readonly line: DiffLine; readonly text: string }

const collected = signal(loadLocal<Readonly<Record<string, readonly ReviewComment[]>>>('review', {}))

export const commentsOf = (session: string): readonly ReviewComment[] => collected.value[session] ?? []

function save(session: string, comments: readonly ReviewComment[]): void {
  const { [session]: _, ...others } = collected.peek()
  collected.value = comments.length ? { ...others, [session]: comments } : others
  saveLocal('review', collected.value)
}

export const addComment = (session: string, comment: ReviewComment): void => save(session, [...commentsOf(session), comment])
export const removeComment = (session: string, index: number): void => save(session, commentsOf(session).filter((_, at) => at !== index))
export const clearComments = (session: string): void => save(session, [])

/** All of them as one text for the agent. */
export function reviewText(comments: readonly ReviewComment[]): string {
  const parts = comments.map(({ path, line, text }) => formatComment(path, line, text))
  return parts.length === 1 ? parts[0]! : `${parts.length} comments on your changes:\n\n${parts.map((part, index) => `${index + 1}. ${part}`).join('\n\n')}`
}
