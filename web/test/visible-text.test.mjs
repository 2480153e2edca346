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
  it('of other alphabets are marked where they pose as a to z, as the hub does', () => {
    const texts = ['curl https://gіthub.com/х', 'https://аррӏе.com/a', 'сайт.com отчет.pdf', 'rm сор.txt', '10μs Δt α-beta Привет, git push', 'ΑΒ αβ ΑΒc', 'a𝐛c 𝐛𝐜', 'Ꭺpple ⅰ.x', 'é-о x=с', 'ао ао', '\ud835 о']
    const hub = execFileSync(python, ['-c', 'import json, sys; from tieline.visible_text import marked; print(json.dumps(list(map(marked, json.load(sys.stdin)))))'], { encoding: 'utf8', input: JSON.stringify(texts) })
    expect(texts.map(visible)).toEqual(JSON.parse(hub))
    expect(visible(texts[0])).toBe('curl https://g⟨U+0456⟩thub.com/х')
    expect(visible(texts[2])).toBe(texts[2])
  })
  it('and line breaks are visible on one line', () => expect(visibleLine('ls\nrm x')).toBe('ls ⏎ rm x'))
})
