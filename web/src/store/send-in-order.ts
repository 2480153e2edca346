/** Sending what was stored until the hub has it: one after the other, in the order in which it was written. */
import { errorMessage, isOutcomeUnknown } from '../api/client'
import { retrySoon } from './store'

export interface Sending<T> {
  /** The first that is to be sent. */
  readonly next: () => T | undefined
  /** Sends it, and marks or removes it, so that it is not the next one any more. */
  readonly send: (item: T) => Promise<void>
  readonly refused: (item: T, problem: string) => void
  /** The hub may have it, or not: it is sent again later. */
  readonly unknown?: (item: T, error: unknown) => void
}

/** Returns a function that sends all there is; called meanwhile, it does nothing. */
export function sendInOrder<T>({ next, send, refused, unknown }: Sending<T>): () => Promise<void> {
  let sending = false
  return async () => {
    if (sending) return
    sending = true
    try {
      for (let item = next(); item; item = next()) {
        try {
          await send(item)
        } catch (error) {
          if (isOutcomeUnknown(error)) {
            unknown?.(item, error)
            retrySoon()
            return
          }
          refused(item, errorMessage(error))
        }
      }
    } finally {
      sending = false
    }
  }
}
