/** Asks the hub for what a person is typing: a moment after the last change, and only for the last of them. */
import { useEffect, useState } from 'preact/hooks'
import { errorMessage, get } from '../api/client'

export interface Fetched<T> {
  readonly value?: T
  readonly of: string // the path that the value is of
  readonly problem: string
  readonly busy: boolean
}

/** An empty path asks for nothing. What was found before stays until there is something new, or a problem. */
export function useDebouncedGet<T>(path: string, ms: number): Fetched<T> {
  const [fetched, setFetched] = useState<Fetched<T>>({ of: '', problem: '', busy: false })
  useEffect(() => {
    if (!path) {
      setFetched({ of: '', problem: '', busy: false })
      return
    }
    const cancelled = new AbortController()
    const fetch = async () => {
      setFetched((before) => ({ ...before, busy: true, problem: '' }))
      try {
        const value = await get<T>(path, cancelled.signal)
        if (!cancelled.signal.aborted) setFetched({ value, of: path, problem: '', busy: false })
      } catch (error) {
        if (!cancelled.signal.aborted) setFetched({ of: path, problem: errorMessage(error), busy: false })
      }
    }
    const timer = setTimeout(() => void fetch(), fetched.of || fetched.busy ? ms : 0) // the first at once
    return () => {
      clearTimeout(timer)
      cancelled.abort()
    }
  }, [path])
  return fetched
}
