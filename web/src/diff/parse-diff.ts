/** Parses a unified diff into files, hunks and numbered lines. No line is lost: a line that is not understood becomes a note. */
export interface DiffLine {
  readonly kind: 'same' | 'add' | 'del' | 'note'
  readonly text: string
  readonly before: number // 0: none, or unknown
  readonly after: number
}

export interface Hunk {
  readonly head: string
  readonly lines: readonly DiffLine[]
}

export interface FileDiff {
  readonly path: string // empty: unknown
  readonly oldPath: string // when it was renamed
  readonly state: 'changed' | 'added' | 'deleted' | 'renamed' | 'binary'
  readonly added: number
  readonly removed: number
  readonly notes: readonly string[] // header lines that say more than the name and the state
  readonly hunks: readonly Hunk[]
}

interface FileBuilder {
  from: string
  to: string
  binary: boolean
  added: number
  removed: number
  heads: string[]
  hunks: HunkBuilder[]
}

/** A hunk that is being read, with the number of lines missing on each side. */
interface HunkBuilder {
  readonly raw: string
  readonly numbered: boolean
  left: number
  right: number
  head: string
  lines: DiffLine[]
}

const NUMBERED = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)$/s
const UNNUMBERED = /^@@(?: @@)?(?: (.*))?$/s
const GIT = /^diff --git (?:a\/(.+) b\/\1|"?a\/(.+?)"? "?b\/(.+?)"?)$/s

export function parseDiff(text: string): FileDiff[] {
  const files: FileBuilder[] = []
  let file: FileBuilder | undefined
  let hunk: HunkBuilder | undefined
  let before = 0
  let after = 0
  const begin = (from = '', to = '') => {
    file = { from, to, binary: false, added: 0, removed: 0, heads: [], hunks: [] }
    hunk = undefined
    files.push(file)
    return file
  }
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  const named = (index: number) => lines[index]!.startsWith('--- ') && !!lines[index + 1]?.startsWith('+++ ')
  /** Whether the next file starts here: the hunk is complete or had no counts; else "--- " is a removed line. */
  const between = (of: HunkBuilder, index: number) => of.left <= 0 && of.right <= 0 && named(index) && (of.numbered || !!lines[index + 2]?.startsWith('@@'))
  for (const [index, line] of lines.entries()) {
    const git = GIT.exec(line)
    if (git) { begin(git[1] ?? git[2], git[1] ?? git[3]).heads.push(line); continue }
    const inside = hunk && !between(hunk, index) ? hunk : undefined
    const sign = line[0] ?? ' '
    if (inside && '+- '.includes(sign)) {
      const there = { before: sign !== '+' && inside.numbered ? before : 0, after: sign !== '-' && inside.numbered ? after : 0 }
      inside.lines.push({ kind: sign === '+' ? 'add' : sign === '-' ? 'del' : 'same', text: line.slice(1), ...there })
      if (sign !== '+') { before++; inside.left-- }
      if (sign !== '-') { after++; inside.right-- }
      if (sign === '+') file!.added++
      if (sign === '-') file!.removed++
      continue
    }
    const head = NUMBERED.exec(line)
    const bare = head ? null : UNNUMBERED.exec(line)
    if (head || bare) {
      before = Number(head?.[1] ?? 0)
      after = Number(head?.[3] ?? 0)
      const [left, right] = head ? [Number(head[2] ?? 1), Number(head[4] ?? 1)] : [0, 0]
      const { hunks } = file ?? begin()
      hunk = { raw: line, numbered: !!head, left, right, head: head?.[5] ?? bare?.[1] ?? '', lines: [] }
      hunks.push(hunk)
      continue
    }
    if (inside) { inside.lines.push({ kind: 'note', text: line, before: 0, after: 0 }); continue }
    const next = named(index)
    if (!file || (next && (hunk || file.heads.some((headLine) => headLine.startsWith('--- '))))) begin()
    file!.heads.push(line)
    if (next) file!.from = filePath(line.slice(4))
    else if (line.startsWith('+++ ') && index > 0 && named(index - 1)) file!.to = filePath(line.slice(4))
    else if (/^new file mode /.test(line)) file!.from = '/dev/null'
    else if (/^deleted file mode /.test(line)) file!.to = '/dev/null'
    else if (line.startsWith('rename from ')) file!.from = line.slice(12)
    else if (line.startsWith('rename to ')) file!.to = line.slice(10)
    else if (/^(Binary files|GIT binary patch)/.test(line)) file!.binary = true
  }
  return files.map(build)
}

function filePath(raw: string): string {
  const path = raw.split('\t')[0]!.replace(/^"(.*)"$/s, '$1')
  return path === '/dev/null' ? path : path.replace(/^[ab]\//, '')
}

function build(file: FileBuilder): FileDiff {
  const { from, to } = file
  const added = from === '/dev/null'
  const deleted = to === '/dev/null'
  const path = deleted ? from : to || from
  const was = !added && !deleted && from && to && from !== to ? from : ''
  const state = file.binary ? 'binary' : added ? 'added' : deleted ? 'deleted' : was ? 'renamed' : 'changed'
  const redundant = redundantHeaders(file, path, was, state)
  const notes = file.heads.filter((line) => !redundant.has(line) && !/^index [0-9a-f]+\.\.[0-9a-f]+(?: 100644)?$/.test(line))
  // A hunk whose line count differs from its header is shown with the raw header.
  const hunks = file.hunks.map(({ head, lines, raw, numbered, left, right }) => ({ head: numbered && (left || right) ? raw : head, lines }))
  return { path, oldPath: was, state, added: file.added, removed: file.removed, notes, hunks }
}

/** Header lines that say no more than the file's name and state. */
function redundantHeaders({ from, to }: FileBuilder, path: string, was: string, state: FileDiff['state']): Set<string> {
  const headers = new Set<string>()
  const addPath = (mark: string, side: string, file: string) => {
    for (const spelling of [file, `${side}/${file}`, `"${side}/${file}"`]) headers.add(mark + spelling).add(`${mark + spelling}\t`) // git appends a tab to a name with spaces
  }
  if (state === 'added') headers.add('new file mode 100644').add('--- /dev/null')
  if (state === 'deleted') headers.add('deleted file mode 100644').add('+++ /dev/null')
  if (from && from !== '/dev/null') addPath('--- ', 'a', from)
  if (to && to !== '/dev/null') addPath('+++ ', 'b', to)
  if (was) headers.add(`rename from ${was}`).add(`rename to ${path}`)
  return headers.add(`diff --git a/${was || path} b/${path}`)
}

/** A comment on a line, as text for the agent. */
export function formatComment(path: string, line: DiffLine, comment: string): string {
  const where = line.after ? `${path}:${line.after}` : `${path}:${line.before} (removed line)`
  return `On ${where}\n\n\`\`\`\n${line.text}\n\`\`\`\n\n${comment.trim()}`
}
