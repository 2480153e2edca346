/** A unified diff as files, hunks and numbered lines. What is not understood is kept as it came. */
export interface DiffLine {
  readonly kind: 'same' | 'add' | 'del' | 'note'
  readonly text: string
  readonly before: number // 0: not there
  readonly after: number
}

export interface Hunk {
  readonly head: string
  readonly lines: readonly DiffLine[]
}

export interface FileDiff {
  readonly path: string
  readonly was: string // its name before, when it was another
  readonly state: 'changed' | 'added' | 'deleted' | 'renamed' | 'binary'
  readonly added: number
  readonly removed: number
  readonly hunks: readonly Hunk[]
}

interface Draft {
  from: string
  to: string
  binary: boolean
  added: number
  removed: number
  hunks: { head: string; lines: DiffLine[] }[]
}

export function parseDiff(text: string): FileDiff[] {
  const files: Draft[] = []
  let file: Draft | undefined
  let hunk: Draft['hunks'][number] | undefined
  let before = 0
  let after = 0
  let left = 0 // lines the hunk still has, on each side: "--- " may also be a removed line
  let right = 0
  const begin = (from = '', to = '') => {
    file = { from, to, binary: false, added: 0, removed: 0, hunks: [] }
    hunk = undefined
    files.push(file)
    return file
  }
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  for (const line of lines) {
    if (hunk && (left > 0 || right > 0) && !line.startsWith('diff --git ')) {
      const sign = line[0] ?? ' '
      const rest = line.slice(1)
      if (sign === '+') { hunk.lines.push({ kind: 'add', text: rest, before: 0, after: after++ }); right--; file!.added++; continue }
      if (sign === '-') { hunk.lines.push({ kind: 'del', text: rest, before: before++, after: 0 }); left--; file!.removed++; continue }
      if (sign === ' ' || line === '') { hunk.lines.push({ kind: 'same', text: rest, before: before++, after: after++ }); left--; right--; continue }
    }
    if (line.startsWith('\\') && hunk) { hunk.lines.push({ kind: 'note', text: line.slice(2), before: 0, after: 0 }); continue }
    const git = /^diff --git (?:"?a\/(.+?)"?) (?:"?b\/(.+?)"?)$/.exec(line)
    if (git) { begin(git[1], git[2]); continue }
    if (line.startsWith('--- ')) {
      if (!file || file.hunks.length || hunk) begin()
      file!.from = name(line.slice(4))
      continue
    }
    if (line.startsWith('+++ ')) { (file ?? begin()).to = name(line.slice(4)); continue }
    if (line.startsWith('new file')) { if (file) file.from = '/dev/null'; continue }
    if (line.startsWith('deleted file')) { if (file) file.to = '/dev/null'; continue }
    if (line.startsWith('rename from ')) { if (file) file.from = line.slice(12); continue }
    if (line.startsWith('rename to ')) { if (file) file.to = line.slice(10); continue }
    if (/^(Binary files|GIT binary patch)/.test(line)) { (file ?? begin()).binary = true; continue }
    const head = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/.exec(line)
    if (head) {
      before = Number(head[1])
      left = head[2] === undefined ? 1 : Number(head[2])
      after = Number(head[3])
      right = head[4] === undefined ? 1 : Number(head[4])
      hunk = { head: (head[5] ?? '').trim(), lines: [] }
      ;(file ?? begin()).hunks.push(hunk)
    }
  }
  return files.map(finish)
}

function name(raw: string): string {
  const path = raw.split('\t')[0]!.replace(/^"(.*)"$/, '$1')
  return path === '/dev/null' ? path : path.replace(/^[ab]\//, '')
}

function finish(file: Draft): FileDiff {
  const added = file.from === '/dev/null'
  const deleted = file.to === '/dev/null'
  const path = deleted ? file.from : file.to || file.from
  const renamed = !added && !deleted && file.from && file.to && file.from !== file.to
  const state = file.binary ? 'binary' : added ? 'added' : deleted ? 'deleted' : renamed ? 'renamed' : 'changed'
  return { path, was: renamed ? file.from : '', state, added: file.added, removed: file.removed, hunks: file.hunks }
}

/** A remark on a line, as the agent gets it. */
export function remark(path: string, line: DiffLine, comment: string): string {
  const where = line.after ? `${path}:${line.after}` : `${path}:${line.before} (removed line)`
  return `On ${where}\n\n\`\`\`\n${line.text}\n\`\`\`\n\n${comment.trim()}`
}
