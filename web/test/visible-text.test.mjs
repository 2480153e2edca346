import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { isHidden, visibleLine, visible } from '../src/shared/visible-text'

const venvPython = join(import.meta.dirname, '..', '..', '.venv', 'bin', 'python')
const python = process.env.PYTHON ?? (existsSync(venvPython) ? venvPython : 'python3')

describe('invisible characters', () => {
  it('are those of the hub, over all code points', () => {
    // Nine of ten code points are not printable, and Python sorts those out without a call of ours for each.
    const shown = execFileSync(python, ['-c', 'from tieline.visible_text import hidden; print(*(ord(one) for one in filter(str.isprintable, map(chr, range(0x110000))) if not hidden(one)))'], { encoding: 'utf8', maxBuffer: 1 << 26 })
    const seen = new Uint8Array(0x110000)
    for (const code of [9, 10, ...shown.split(' ').map(Number)]) seen[code] = 1
    const wrong = []
    for (let code = 0; code < 0x110000; code++) if (isHidden(code) === (seen[code] === 1)) wrong.push(code.toString(16))
    expect(wrong).toEqual([])
  })
  it('become marks, and the rest stays', () => {
    expect(visible('rm \u202e-rf\u200b /\u00a0x\r\n\ty\ud800 😀 é שלום')).toBe('rm ⟨U+202E⟩-rf⟨U+200B⟩ /⟨U+00A0⟩x⟨U+000D⟩\n\ty⟨U+D800⟩ 😀 é שלום')
    for (const one of ['\u061c', '\u00ad', '\u2061', '\u2066', '\u3164', '\u{e0041}', '\u2800', '\u001b']) expect(visible(`a${one}b`)).toMatch(/^a⟨U\+[0-9A-F]{4,6}⟩b$/)
  })
  it('and line breaks are visible on one line', () => expect(visibleLine('ls\nrm x')).toBe('ls ⏎ rm x'))
})
