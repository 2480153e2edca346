/** Replaces invisible characters by marks such as ⟨U+202E⟩, by the same table of code points as the hub.
 *
 * Bidi controls change the reading order; zero-width characters and look-alike spaces make two different commands look the
 * same. A letter of another alphabet is marked where it poses as one from a to z. Line breaks and tabs stay.
 */
import { HIDDEN, LOOKALIKES } from '../generated/hidden-characters'

/** The first code point of each range, then the first one after it. */
const edges = Int32Array.from(HIDDEN.split(' '), (part) => parseInt(part, 36))
for (let index = 1; index < edges.length; index++) edges[index]! += edges[index - 1]!

export function isHidden(code: number): boolean {
  let low = 0
  let high = edges.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (edges[middle]! <= code) low = middle + 1
    else high = middle
  }
  return low % 2 === 1
}

const mark = (character: string) => `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`
const lookalike = new RegExp(`[${LOOKALIKES}]`, 'gu')
const onlyLookalikes = new RegExp(`^[${LOOKALIKES}]{2,}$`, 'u')
const latin = /[A-Za-z]/

function markLookalikes(name: string): string {
  return !latin.test(name) ? name : name.replace(/[\p{L}\p{N}]+/gu, (word) => latin.test(word) || onlyLookalikes.test(word) ? word.replace(lookalike, mark) : word)
}

export function visible(text: string): string {
  if (text.search(lookalike) >= 0) text = text.replace(/\S+/gu, markLookalikes)
  return text.replace(/[^\x20-\x7e\n\t]/gu, (character) => isHidden(character.codePointAt(0)!) ? mark(character) : character)
}

/** The same on one line: a line break must not hide the text after it. */
export function visibleLine(text: string): string {
  return visible(text.replace(/\n/g, ' ⏎ '))
}
