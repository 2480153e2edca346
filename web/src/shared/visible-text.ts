/** Text in which everything can be seen: the page's copy of the hub's one rule, over the same code points.
 *
 * Bidi controls turn the order of what is read; zero-width characters and look-alike spaces make two different commands
 * look the same. Each becomes a mark such as ⟨U+202E⟩; line breaks and tabs stay.
 */
import { HIDDEN } from '../generated/hidden-characters'

/** Where a range begins, and where what comes after it does, in turn. */
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

export function visible(text: string): string {
  return text.replace(/[^\x20-\x7e\n\t]/gu, (one) => {
    const code = one.codePointAt(0)!
    return isHidden(code) ? `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩` : one
  })
}

/** The same in one line: a line break must not hide what comes after it. */
export function visibleLine(text: string): string {
  return visible(text.replace(/\n/g, ' ⏎ '))
}
