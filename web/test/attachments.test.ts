import { describe, expect, it } from 'vitest'
import { refusalOf } from '../src/prompts/attach-files'
import { readAttachment, acceptsType, attachmentSize } from '../src/prompts/attachments'

describe('files', () => {
  it.each([
    ['image/png', ['image/png'], true], ['image/png', ['image/*'], true], ['image/png', ['*/*'], true],
    ['image/png', ['text/*', 'application/pdf'], false], ['text/x-python', ['text/*'], true], ['text/plain', [], false],
  ] as const)('%s for an agent that takes %s: %s', (type, taken, expected) => expect(acceptsType(type, taken)).toBe(expected))
  it.each([
    ['main.rs', '', 'fn main() {}', 'text/plain'], ['main.ts', 'video/mp2t', 'let a', 'text/plain'], ['a.json', 'application/json', '{}', 'text/plain'],
    ['a.svg', 'image/svg+xml', '<svg/>', 'text/plain'], ['a.md', 'text/markdown', '# a', 'text/markdown'], ['a.zip', 'application/zip', 'PK\0', 'application/zip'],
    ['a', '', '\0', 'application/octet-stream'], ['a.pdf', 'application/pdf', '%PDF', 'application/pdf'], ['a.png', 'image/png', 'x', 'image/png'],
  ])('%s, which the browser takes for %s', async (name, type, content, expected) => {
    const made = await readAttachment(new File([content], name, { type }))
    expect(made).toEqual({ name, media_type: expected, data: btoa(content) })
    expect(attachmentSize(made)).toBeGreaterThanOrEqual(content.length)
  })
  it.each([
    ['image/png', undefined, ''], ['image/png', ['image/*'], ''], ['image/png', ['*/*'], ''],
    ['image/png', [], 'Codex takes text only: a.b cannot be sent.'],
    ['image/png', ['text/*'], 'Codex takes no images: a.b cannot be sent.'],
    ['image/heic', ['image/png', 'text/*'], 'Codex does not accept a.b (image/heic).'],
    ['application/zip', ['image/*'], 'Codex does not accept a.b (application/zip).'],
  ] as const)('%s for one that takes %s: "%s"', (media_type, types, expected) => expect(refusalOf({ name: 'Codex', types }, [{ name: 'a.b', media_type, data: '' }])).toBe(expected))
})
