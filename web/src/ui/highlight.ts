/** A small highlighter: comments, strings, numbers, keywords and names. It never changes the text; what it does not know is plain.
 *
 * Each language is one regular expression. What it may try in vain ends with the line, and long lines stay plain: so the time grows
 * with the length of the code, whatever a model or a tool wrote. */
export type TokenKind = 'comment' | 'string' | 'number' | 'keyword' | 'name' | 'added' | 'removed'

export interface Token {
  readonly kind: TokenKind | ''
  readonly text: string
}

export const MAX_LENGTH = 30_000 // characters, beyond which code stays plain
export const MAX_LINE = 500 // of a line
const LONG_LINE = new RegExp(`[^\\n]{${MAX_LINE + 1}}`)

const END = '(?![\\s\\S])'
const SLASHES = `\\/\\/[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|${END})`
const HASH = '(?<!\\S)#[^\\n]*'
const DOUBLE = '"(?:[^"\\\\\\n]|\\\\[\\s\\S])*"?'
const SINGLE = "'(?:[^'\\\\\\n]|\\\\[\\s\\S])*'?"
const TEMPLATE = '`(?:[^`\\\\]|\\\\[\\s\\S])*`?'
const TRIPLE = `"""[\\s\\S]*?(?:"""|${END})|'''[\\s\\S]*?(?:'''|${END})`
const NUMBER = '\\b(?:0[xXbBoO][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)'
const NAME = '\\b[A-Za-z_]\\w*(?=\\()|\\b[A-Z]\\w*'

type Parts = Partial<Record<TokenKind, string>>

interface Grammar {
  readonly pattern: RegExp // with one group for each kind
  readonly kinds: readonly TokenKind[]
}

function grammar({ words, ...parts }: Parts & { readonly words?: string }, flags = 'gm'): Grammar {
  const all: Parts = { ...parts, ...(words ? { keyword: `${parts.keyword ? `${parts.keyword}|` : ''}\\b(?:${words.trim().split(/\s+/).join('|')})\\b` } : {}) }
  const order: readonly TokenKind[] = ['comment', 'string', 'number', 'keyword', 'name', 'added', 'removed']
  const kinds = order.filter((kind) => all[kind])
  return { pattern: new RegExp(kinds.map((kind) => `(${all[kind]})`).join('|'), flags), kinds }
}

const C_WORDS = `abstract as async await auto bool boolean break byte case catch char class const constexpr continue data default defer delete do double else enum
  export extends extern false final finally float fn for foreach friend fun func function go goto if impl implements import in inline instanceof int interface
  internal is let long loop match mod module move mut mutable namespace native new nil null nullptr of open operator out override package private protected pub
  public range ref return sealed select self short signed sizeof static struct super switch template this throw throws trait true try type typedef typename typeof
  undefined union unsafe unsigned use using val var virtual void volatile when where while with yield readonly satisfies keyof declare chan map string`
const PYTHON_WORDS = `and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None
  nonlocal not or pass raise return self True try while with yield type`
const RUBY_WORDS = 'alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require attr_reader attr_accessor'
const SHELL_WORDS = 'if then else elif fi for while until do done case esac in function return local export readonly set unset source exit cd echo sudo FROM RUN COPY ADD CMD ENTRYPOINT ENV ARG WORKDIR EXPOSE USER'
const SQL_WORDS = `select from where and or not null is in as on join left right inner outer full cross group by order having limit offset insert into values update set delete
  create table index view drop alter add column primary key foreign references unique default constraint begin commit rollback with recursive union all distinct case when
  then else end exists between like returning if cascade integer text real blob varchar boolean timestamp`

const C = grammar({ comment: SLASHES, string: `${DOUBLE}|${SINGLE}|${TEMPLATE}`, number: NUMBER, words: C_WORDS, name: `@\\w+|${NAME}` })
const RUST = grammar({ comment: SLASHES, string: `${DOUBLE}|'(?:[^'\\\\\\n]|\\\\[^\\n]{1,8}?)'`, number: NUMBER, words: C_WORDS, name: `'\\w+|#!?\\[[^\\]\\n]*\\]|${NAME}` })
const PYTHON = grammar({ comment: '#[^\\n]*', string: `${TRIPLE}|${DOUBLE}|${SINGLE}`, number: NUMBER, words: PYTHON_WORDS, name: `@[\\w.]+|${NAME}` })
const RUBY = grammar({ comment: HASH, string: `${DOUBLE}|${SINGLE}`, number: NUMBER, words: RUBY_WORDS, name: `(?<!:):\\w+|@\\w+|${NAME}` })
const SHELL = grammar({ comment: HASH, string: `${DOUBLE}|'[^']*'?`, number: '(?<=\\s)\\d+(?=\\s|$)', words: SHELL_WORDS, name: '\\$\\{[^}\\n]*\\}?|\\$\\w+|(?<=\\s)--?[a-zA-Z][\\w-]*|^[\\w.-]+(?=:)' })
const SQL = grammar({ comment: `--[^\\n]*|\\/\\*[\\s\\S]*?(?:\\*\\/|${END})`, string: "'(?:[^']|'')*'?", number: NUMBER, words: SQL_WORDS }, 'gmi')
const JSON_LIKE = grammar({ comment: SLASHES, string: '"(?:[^"\\\\\\n]|\\\\.)*"(?![ \\t]*:)', number: `-?${NUMBER}`, words: 'true false null', name: '"(?:[^"\\\\\\n]|\\\\.)*"(?=[ \\t]*:)' })
const SETTINGS = grammar({ comment: HASH, string: `${TRIPLE}|${DOUBLE}|'[^'\\n]*'?`, number: '(?<=[\\s=:\\[,-])\\d[\\d_.:TZ-]*\\b', words: 'true false null yes no on off', name: '^[ \\t]*(?:- )?[\\w."/@-]+(?=[ \\t]*[:=])|^[ \\t]*\\[[^\\]\\n]*\\]+' })
const MARKUP = grammar({ comment: `<!--[\\s\\S]*?(?:-->|${END})`, string: '(?<==\\s?)"[^"]*"?|(?<==\\s?)\'[^\']*\'?', keyword: '<\\/?[\\w:.-]+|\\/?>', name: '\\b[\\w:@.-]+(?==)|&\\w+;' })
const STYLE = grammar({ comment: `\\/\\*[\\s\\S]*?(?:\\*\\/|${END})`, string: `${DOUBLE}|${SINGLE}`, number: '#[\\da-fA-F]{3,8}\\b|-?\\b\\d+(?:\\.\\d+)?(?:%|\\w+)?', keyword: '@[\\w-]+|!important', name: '[\\w-]+(?=[ \\t]*:)|--[\\w-]+|\\.[A-Za-z][\\w-]*' })
const DIFF = grammar({ comment: '^@@[^\\n]*|^(?:diff|index|---|\\+\\+\\+) [^\\n]*', added: '^\\+[^\\n]*', removed: '^-[^\\n]*' })
const MARKDOWN = grammar({ comment: `<!--[\\s\\S]*?(?:-->|${END})`, string: '`[^`\\n]+`', keyword: '^#{1,6} [^\\n]*|^[ \\t]*(?:[-*+]|\\d+\\.) ', name: '\\[[^\\]\\n]*\\]\\([^)\\n]*\\)' })

const GRAMMARS: readonly (readonly [Grammar, string])[] = [
  [C, 'js jsx mjs cjs ts tsx mts cts javascript typescript java kt kts kotlin c h cc cpp hpp cxx c++ cs csharp go golang swift dart php scala groovy proto zig'],
  [RUST, 'rs rust'],
  [PYTHON, 'py python pyi python3 starlark bzl'],
  [RUBY, 'rb ruby ex exs elixir'],
  [SHELL, 'sh bash zsh fish shell console terminal dockerfile makefile make mk ps1 powershell'],
  [SQL, 'sql sqlite postgres mysql'],
  [JSON_LIKE, 'json jsonc json5 jsonl webmanifest'],
  [SETTINGS, 'yaml yml toml ini cfg conf env properties'],
  [MARKUP, 'html htm xml svg vue svelte astro'],
  [STYLE, 'css scss less'],
  [DIFF, 'diff patch'],
  [MARKDOWN, 'md markdown mdx'],
]
const BY_NAME = new Map(GRAMMARS.flatMap(([own, names]) => names.split(' ').map((name) => [name, own] as const)))

/** The language of a file by its name; empty: unknown. */
export function languageOf(path: string): string {
  const base = (path.split('/').pop() ?? '').toLowerCase()
  const extension = base.includes('.') ? base.split('.').pop()! : base
  return BY_NAME.has(extension) ? extension : ''
}

/** The tokens of a text, in order; joined they are the text. */
export function highlight(code: string, language: string): readonly Token[] {
  const own = BY_NAME.get(language.toLowerCase())
  if (!own || code.length > MAX_LENGTH || LONG_LINE.test(code)) return [{ kind: '', text: code }]
  const tokens: Token[] = []
  let at = 0
  for (const match of code.matchAll(own.pattern)) {
    if (!match[0]) continue
    if (match.index > at) tokens.push({ kind: '', text: code.slice(at, match.index) })
    tokens.push({ kind: own.kinds[match.findIndex((group, index) => index > 0 && group !== undefined) - 1]!, text: match[0] })
    at = match.index + match[0].length
  }
  if (at < code.length) tokens.push({ kind: '', text: code.slice(at) })
  return tokens
}

/** The tokens of each line; a comment or a string may go over several. */
export function highlightLines(lines: readonly string[], language: string): readonly (readonly Token[])[] {
  const all: Token[][] = [[]]
  for (const { kind, text } of highlight(lines.join('\n'), language)) {
    text.split('\n').forEach((part, index) => {
      if (index) all.push([])
      if (part) all.at(-1)!.push({ kind, text: part })
    })
  }
  return all
}
