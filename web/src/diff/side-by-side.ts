/** The lines of a hunk in two columns: what was removed stands beside what was added in its place. */
import type { DiffLine } from './parse-diff'

/** Indexes of a hunk's lines; a note stands on both sides. */
export interface LinePair { readonly left?: number; readonly right?: number }

export function pairLines(lines: readonly DiffLine[]): LinePair[] {
  const pairs: LinePair[] = []
  let removed: number[] = []
  let added: number[] = []
  const flush = () => {
    for (let at = 0; at < Math.max(removed.length, added.length); at++) pairs.push({ left: removed[at], right: added[at] })
    removed = []
    added = []
  }
  lines.forEach(({ kind }, index) => {
    if (kind === 'del') {
      if (added.length) flush()
      removed.push(index)
    } else if (kind === 'add') added.push(index)
    else {
      flush()
      pairs.push({ left: index, right: index })
    }
  })
  flush()
  return pairs
}
