/** What a rule is about: the hub puts a command into backquotes, and here it is code. */
import { visibleLine } from '../shared/visible-text'

export function RuleText({ text, pattern }: { text: string; pattern: string }) {
  const quoted = `\`${pattern}\``
  const at = text.indexOf(quoted)
  if (at < 0) return <>{visibleLine(text)}</>
  return <>{visibleLine(text.slice(0, at))}<code>{visibleLine(pattern)}</code>{visibleLine(text.slice(at + quoted.length))}</>
}
