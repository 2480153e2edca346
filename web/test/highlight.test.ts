/** The highlighter: it loses nothing, knows the languages that people write, and does not get lost in bad code. */
import { describe, expect, it } from 'vitest'
import { highlightHunk } from '../src/diff/diff-view'
import { parseDiff } from '../src/diff/parse-diff'
import * as highlighter from '../src/ui/highlight'

const { highlight, highlightLines, languageOf, MAX_LENGTH, MAX_LINE } = highlighter
const kinds = (code: string, language: string) => Object.fromEntries(highlight(code, language).filter((token) => token.kind).map((token) => [token.text.trim(), token.kind]))

const SAMPLES: readonly (readonly [language: string, code: string, expected: Record<string, string>])[] = [
  ['ts', 'const x = "a\\"b" // no\nreturn call(0x1f)', { const: 'keyword', '"a\\"b"': 'string', '// no': 'comment', call: 'name', '0x1f': 'number' }],
  ['python', 'def f(a):\n    """two\nlines"""\n    return None  # c', { def: 'keyword', f: 'name', '"""two\nlines"""': 'string', None: 'keyword', '# c': 'comment' }],
  ['rust', "fn a<'b>(c: char) { c == 'x' /* y */ }", { fn: 'keyword', a: undefined as unknown as string, "'b": 'name', "'x'": 'string', '/* y */': 'comment' }],
  ['bash', 'export A="$B" # c\ngit log --oneline $C', { export: 'keyword', '"$B"': 'string', '# c': 'comment', '--oneline': 'name', $C: 'name' }],
  ['json', '{"a": "b", "c": [1, true]}', { '"a"': 'name', '"b"': 'string', '1': 'number', true: 'keyword' }],
  ['toml', '[a.b]\nc = "d" # e\nf = 12', { '[a.b]': 'name', c: 'name', '"d"': 'string', '# e': 'comment', '12': 'number' }],
  ['html', '<a href="x">y</a><!-- z -->', { '<a': 'keyword', href: 'name', '"x"': 'string', '<!-- z -->': 'comment' }],
  ['sql', "SELECT a FROM b WHERE c = 'd''e' -- f", { SELECT: 'keyword', FROM: 'keyword', "'d''e'": 'string', '-- f': 'comment' }],
  ['diff', '@@ -1 +1 @@\n-a\n+b', { '@@ -1 +1 @@': 'comment', '-a': 'removed', '+b': 'added' }],
]

describe('the highlighter', () => {
  it.each(SAMPLES)('knows %s', (language, code, expected) => {
    expect(kinds(code, language)).toMatchObject(Object.fromEntries(Object.entries(expected).filter(([, kind]) => kind)))
  })

  it('changes no text', () => {
    for (const [language, code] of SAMPLES) {
      for (let cut = 0; cut <= code.length; cut++) {
        for (const part of [code.slice(0, cut), code.slice(cut)]) {
          expect(highlight(part, language).map((token) => token.text).join('')).toBe(part)
          const lines = part.split('\n')
          expect(highlightLines(lines, language).map((line) => line.map((token) => token.text).join(''))).toEqual(lines)
        }
      }
    }
    expect(highlight('what <b>is</b>', 'no-such-language')).toEqual([{ kind: '', text: 'what <b>is</b>' }])
  })

  it('takes no longer for hostile code than its length says', () => {
    const languages = SAMPLES.map(([language]) => language).concat('css', 'markdown', 'ruby', 'yaml')
    const hostile = ['"\\', "'", '/*', '`', '<!--', '"""', '[[', '- - ', '((((', '# ', '${', 'a.b.', '0x', '&&', 'a', ' \n', '\n', '<a =', "='"].map((one) => {
      const line = one.includes('\n') ? one : one.repeat(Math.floor(MAX_LINE / one.length)) + '\n'
      return line.repeat(5000 / line.length)
    })
    for (const language of languages) {
      for (const code of hostile) {
        const began = performance.now()
        const tokens = highlight(code, language)
        expect(performance.now() - began, `${language}: ${code.slice(0, 9)}`).toBeLessThan(1500) // a few ms
        expect(tokens.reduce((sum, token) => sum + token.text.length, 0)).toBe(code.length)
      }
    }
    expect(highlight('x'.repeat(MAX_LINE + 1), 'ts')).toHaveLength(1)
    expect(highlight('"'.repeat(MAX_LENGTH + 1), 'ts')).toHaveLength(1)
  })

  it('knows a file by its name', () => {
    expect(['src/a.TS', 'Makefile', 'Dockerfile', 'x/y.toml', 'LICENSE', 'a.unknown', ''].map(languageOf)).toEqual(['ts', 'makefile', 'dockerfile', 'toml', '', '', ''])
  })

  it('reads both sides of a diff as text of their own', () => {
    const [file] = parseDiff('--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n-"""old\n+# new\n+x = "\u202e"\n same()\n')
    const tokens = highlightHunk(file!.hunks[0]!, 'x.py', highlighter)!
    expect(tokens.map((line) => line.map((token) => token.kind).filter(Boolean))).toEqual([['string'], ['comment'], ['string'], ['name']])
    expect(tokens[2]!.map((token) => token.text).join('')).toBe('x = "⟨U+202E⟩"')
  })
})
