// Writes src/protocol.ts, the hub's own JSON Schema as TypeScript, and src/hidden.ts, the characters that are shown as marks,
// so that the page cannot drift from the hub.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const own = join(here, '..', '.venv', 'bin', 'python')
const python = process.env.PYTHON ?? (existsSync(own) ? own : 'python3')
const tell = (...order) => execFileSync(python, order, { encoding: 'utf8', maxBuffer: 1 << 26 })
const text = tell('-m', 'tieline.protocol.schema')

/** A name that two modules have comes with its module: tieline.envelopes.Receipt. */
const named = (name) => name.split('.').slice(-2).map((word) => word[0].toUpperCase() + word.slice(1)).join('')
const literal = (value) => JSON.stringify(value)

function type(schema) {
  if (schema.$ref) return named(schema.$ref.split('/').pop())
  if (schema.enum) return schema.enum.map(literal).join(' | ')
  if (schema.const !== undefined) return literal(schema.const)
  if (schema.anyOf) return [...new Set(schema.anyOf.map(type))].join(' | ')
  switch (schema.type) {
    case 'string': return 'string'
    case 'integer':
    case 'number': return 'number'
    case 'boolean': return 'boolean'
    case 'null': return 'null'
    case 'array': return schema.items ? `readonly (${type(schema.items)})[]` : 'readonly unknown[]'
    case 'object': return schema.properties ? fields(schema, '  ') : `Readonly<Record<string, ${
      schema.additionalProperties && schema.additionalProperties !== true ? type(schema.additionalProperties) : 'unknown'}>>`
    default: return 'unknown'
  }
}

function fields(schema, indent = '') {
  const required = new Set(schema.required ?? [])
  const lines = Object.entries(schema.properties ?? {}).map(
    ([name, value]) => `${indent}  readonly ${/^[\w$]+$/.test(name) ? name : literal(name)}${required.has(name) ? '' : '?'}: ${type(value)}`,
  )
  return `{\n${lines.join('\n')}\n${indent}}`
}

const { $defs } = JSON.parse(text)
const parts = ['// Made by types.mjs from the protocol\'s JSON Schema. Not kept in the repository.\n']
for (const [name, schema] of Object.entries($defs)) {
  if (schema.description) parts.push(`/** ${schema.description.replaceAll('\n', ' ').replaceAll('*/', '')} */`)
  parts.push(schema.properties || schema.type === 'object'
    ? `export interface ${named(name)} ${schema.properties ? fields(schema) : '{}'}\n`
    : `export type ${named(name)} = ${type(schema)}\n`)
}

/** A file with the same content is left alone: what is made from it need not be made anew. */
function write(name, made) {
  const target = join(here, 'src', name)
  if (!existsSync(target) || readFileSync(target, 'utf8') !== made) writeFileSync(target, made)
}

write('protocol.ts', parts.join('\n'))

// Where each range of them begins, and where what comes after it does, each counted from the one before.
const ranges = JSON.parse(tell('-c', 'import json; from tieline.visible_text import ranges; print(json.dumps(ranges()))'))
const edges = ranges.flatMap(([first, last]) => [first, last + 1])
const steps = edges.map((edge, index) => (edge - (edges[index - 1] ?? 0)).toString(36))
write('hidden.ts', `// Made by types.mjs from tieline.visible_text. Not kept in the repository.\nexport const HIDDEN = '${steps.join(' ')}'\n`)
