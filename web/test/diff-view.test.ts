// @vitest-environment jsdom
/** The diff reader against anything that an agent may send: each line of it is on the screen. */
import { h, render } from 'preact'
import { describe, expect, it } from 'vitest'
import { parseDiff } from '../src/diff/parse-diff'
import { visible } from '../src/shared/visible-text'

Object.assign(globalThis, { localStorage: globalThis.localStorage ?? {} })
const { DiffView } = await import('../src/diff/diff-view')

/** Numbers that are the same at each run: what fails once fails again. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

const HEADS = [
  'diff --git a/x.py b/x.py', 'diff --git a/x b/y', 'diff --git "a/ä" "b/ä"', 'diff --git a/p b/q b/p b/q', 'diff --git', 'index 12ab..34cd 100644', 'index 12ab..34cd 100755', 'index evil',
  'new file mode 100644', 'new file mode 100755', 'deleted file mode 100644', 'old mode 100644', 'rename from x', 'rename to y', 'similarity index 90%', 'Binary files a/x and b/x differ', 'GIT binary patch',
  '--- a/x.py', '--- /dev/null', '--- x\t2024-01-01', '--- "a/x y"', '--- a/with space\t', '--- ', '---', '+++ b/x.py', '+++ /dev/null', '+++ z', '+++ ', '+++',
  '@@ -1,3 +1,4 @@ def f():', '@@ -1 +1 @@', '@@ -0,0 +1,2 @@', '@@ -5,0 +6,1 @@', '@@ -1,99 +1,99 @@', '@@ -99999999999999999999 +1 @@', '@@ @@', '@@', '@@ @@ class A', '@@ here', '@@@ -1 -1 +1 @@@', '@@x',
  '*** Begin Patch', '*** Update File: x', '*** End Patch', '\\ No newline at end of file', '\\', '',
]
const WORDS = ['one', 'two', 'rm -rf /', '  ', '\t', '\r', 'a\u202eb', '\u200b', 'é', '😀', '\ud800', '<b>', '-- a/x', '++ b/x', '- x', '+ x', '@@ @@', 'diff --git a/x b/x', '']

function patch(next: () => number): string {
  const pick = <T>(all: readonly T[]): T => all[Math.floor(next() * all.length)]!
  const size = Math.floor(next() * 24)
  const lines = Array.from({ length: size }, () => next() < 0.4 ? pick(HEADS) : pick(['+', '-', ' ', '', '\\', '+', '-', 'x']) + pick(WORDS) + pick(WORDS))
  return lines.join('\n') + pick(['', '\n'])
}

interface Seen { readonly rows: readonly string[]; readonly names: string; readonly added: number; readonly removed: number }

const SIGNS = { add: '+', del: '-', same: ' ', note: '' }

/** What the reader made of it. */
function read(diff: string): Seen {
  const files = parseDiff(diff)
  const lines = files.flatMap((file) => file.hunks.flatMap((hunk) => hunk.lines))
  const heads = files.flatMap((file) => file.hunks.map((hunk, index) => index || hunk.head ? [`⋯ ${visible(hunk.head)}`] : []).flat())
  const rows = [
    ...lines.map((line) => SIGNS[line.kind] + visible(line.text)), ...heads,
    ...files.flatMap((file) => [...file.notes.map(visible), ...(file.oldPath ? [`was ${visible(file.oldPath)}`] : [])]),
  ]
  const names = files.map((file) => `${visible(file.path)} ${file.state}`).join('\n')
  return { rows, names, added: lines.filter((line) => line.kind === 'add').length, removed: lines.filter((line) => line.kind === 'del').length }
}

/** What stands on the screen, row by row. */
function look(diff: string): Seen {
  const box = document.createElement('div')
  render(h(DiffView, { diff }), box)
  const text = (of: Element, at: string) => of.querySelector(at)?.textContent ?? ''
  const rows = [...box.querySelectorAll('.diff-line')].map((row) => {
    const sign = text(row, '.diff-sign').replace('−', '-')
    return (row.classList.contains('note') ? '' : sign) + text(row, '.diff-text')
  })
  rows.push(...[...box.querySelectorAll('.diff-note, pre')].map((note) => note.textContent!))
  const sum = (at: string) => [...box.querySelectorAll(at)].reduce((all, one) => all + Number(one.textContent!.slice(1)), 0)
  const seen = { rows, names: [...box.querySelectorAll('.diff-head')].map((one) => one.textContent).join('\n'), added: sum('.plus'), removed: sum('.minus') }
  render(null, box)
  return seen
}

/** What of a line must be seen: of one that names a file the name, of a numbered head what is not a number. */
function missing(line: string, { rows, names }: Seen): string {
  const shown = (text: string) => rows.includes(text)
  const named = (name: string) => names.includes(name) || rows.some((row) => row.includes(name))
  const seen = visible(line)
  if (!seen.trim() || shown(seen)) return ''
  const head = /^@@(?: -\d{1,9}(?:,\d{1,9})? \+\d{1,9}(?:,\d{1,9})? @@| @@)?(.*)$/s.exec(seen)
  if (head) return rows.some((row) => row === `⋯ ${seen}` || row.startsWith('⋯') && row.includes(head[1]!.trim())) || !head[1]!.trim() ? '' : line
  const file = /^(?:--- |\+\+\+ )"?(?:[ab]\/)?(.*?)"?\t?$/s.exec(seen)
  if (file) return file[1] === '/dev/null' ? (/added|deleted/.test(names) ? '' : line) : named(file[1]!) ? '' : line
  const renamed = /^rename (?:from|to) (.*)$/s.exec(seen)
  if (renamed) return named(renamed[1]!) ? '' : line
  const git = /^diff --git "?a\/(.*?)"?$/s.exec(seen)
  const halves = git?.[1]!.split(/(?="? "?b\/)/).map((_, at, all) => [all.slice(0, at).join(''), all.slice(at).join('').replace(/^"? "?b\//, '')]) ?? []
  if (git) return halves.some((both) => both.every((half) => half && named(half))) ? '' : line
  if (seen === 'new file mode 100644') return names.includes('added') ? '' : line
  if (seen === 'deleted file mode 100644') return names.includes('deleted') ? '' : line
  return /^index [0-9a-f]+\.\.[0-9a-f]+( 100644)?$/.test(seen) ? '' : line
}

describe('any text as a diff', () => {
  it('keeps each line', () => {
    for (let seed = 1; seed <= 3000; seed++) {
      const diff = patch(random(seed))
      const seen = read(diff)
      const lost = diff.split('\n').map((line) => missing(line, seen)).filter(Boolean)
      if (lost.length) expect(lost, `seed ${seed}: ${JSON.stringify(diff)}`).toEqual([])
    }
  })
  it('is shown as parsed, with matching counts', () => {
    const sorted = (rows: readonly string[]) => rows.map((row) => row.trimEnd()).sort()
    for (let seed = 1; seed <= 60; seed++) {
      const diff = patch(random(seed))
      const [seen, meant] = [look(diff), read(diff)]
      expect(sorted(seen.rows).filter((row) => row !== 'A binary file'), `seed ${seed}: ${JSON.stringify(diff)}`).toEqual(sorted(meant.rows))
      expect([seen.added, seen.removed]).toEqual([meant.added, meant.removed])
    }
  })
  it('keeps every added and removed line of a real diff, whatever its headers say', () => {
    for (let seed = 1; seed <= 100; seed++) {
      const next = random(seed)
      const body = Array.from({ length: 1 + Math.floor(next() * 12) }, () => '+- '[Math.floor(next() * 3)]! + WORDS[Math.floor(next() * 8)]!)
      for (const head of ['@@ @@', '@@', '@@ -1,2 +1,2 @@', '@@ -1,50 +1,50 @@ f', `@@ -1,${body.filter((one) => one[0] !== '+').length} +1,${body.filter((one) => one[0] !== '-').length} @@`]) {
        const [file, ...more] = parseDiff(`--- a/x\n+++ b/x\n${head}\n${body.join('\n')}\n`)
        expect(more).toEqual([])
        expect(file).toMatchObject({ path: 'x', added: body.filter((one) => one[0] === '+').length, removed: body.filter((one) => one[0] === '-').length })
        expect(file!.hunks[0]!.lines.map((line) => ({ add: '+', del: '-', same: ' ', note: '?' })[line.kind] + line.text)).toEqual(body)
      }
    }
  })
})
