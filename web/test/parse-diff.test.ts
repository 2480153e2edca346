import { describe, expect, it } from 'vitest'
import { parseDiff, formatComment } from '../src/diff/parse-diff'

const TWO = `diff --git a/greeting.py b/greeting.py
index 1..2 100644
--- a/greeting.py
+++ b/greeting.py
@@ -1,4 +1,4 @@ def greet
 one
-two
+TWO
 three
--- a gone line that looks like a head
\\ No newline at end of file
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+hello
`

describe('unified diffs', () => {
  it('shows the raw header of a hunk with wrong counts', () => {
    const heads = (head: string) => parseDiff(`--- a/x\n+++ b/x\n${head}\n-a\n+b\n`)[0]!.hunks.map((hunk) => hunk.head)
    expect(heads('@@ -1 +1 @@')).toEqual([''])
    expect(heads('@@ -1,9 +1 @@')).toEqual(['@@ -1,9 +1 @@'])
  })
  it('finds files, counts and numbers lines', () => {
    const [first, second] = parseDiff(TWO)
    expect(first).toMatchObject({ path: 'greeting.py', state: 'changed', added: 1, removed: 2 })
    expect(first!.hunks[0]!.lines.map((line) => [line.kind, line.before, line.after])).toEqual([
      ['same', 1, 1], ['del', 2, 0], ['add', 0, 2], ['same', 3, 3], ['del', 4, 0], ['note', 0, 0],
    ])
    expect(second).toMatchObject({ path: 'new.txt', state: 'added', added: 1 })
  })
  it('reads plain diffs without git headers', () => {
    expect(parseDiff('--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-x\n+y\n--- b.txt\n+++ b.txt\n@@ -1 +1 @@\n-x\n+y\n').map((file) => file.path)).toEqual(['a.txt', 'b.txt'])
  })
  it('knows renames, deletions and binaries', () => {
    expect(parseDiff('diff --git a/o b/n\nrename from o\nrename to n\n')[0]).toMatchObject({ path: 'n', oldPath: 'o', state: 'renamed' })
    expect(parseDiff('diff --git a/o b/o\ndeleted file mode 100644\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n')[0]).toMatchObject({ path: 'o', state: 'deleted' })
    expect(parseDiff('diff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\n')[0]).toMatchObject({ path: 'p.png', state: 'binary' })
  })
  it('is empty for nothing', () => expect(parseDiff('')).toEqual([]))
  it('formats a comment with path, number and line', () => {
    const line = parseDiff(TWO)[0]!.hunks[0]!.lines[2]!
    expect(formatComment('greeting.py', line, ' why? ')).toBe('On greeting.py:2\n\n```\nTWO\n```\n\nwhy?')
  })
})
