// @vitest-environment jsdom
import DOMPurify from 'dompurify'
import { h, render } from 'preact'
import { describe, expect, it, vi } from 'vitest'
import { FilesOf, openedFile } from '../src/files/opened-file'
import { Markdown, splitBlocks, toHtml } from '../src/ui/markdown'
import { hub } from './fake-hub'

const HOSTILE = [
  '<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '<svg onload=alert(1)>', '[x](javascript:alert(1))', '[x](data:text/html,hi)', '![x](javascript:alert(1))',
  '<iframe src="https://example.com"></iframe>', '<a href="vbscript:x">y</a>', '<style>*{display:none}</style>', '[x](https://example.com" onclick="alert(1))',
  '<form action="https://example.com"><input name=a></form>', '<math><mtext><style><img src=x onerror=alert(1)>', '[x]( javascript:alert(1))', '[x](&#106;avascript:alert(1))',
  '![x](//example.com/a.png)', '![x](\\\\\\\\example.com\\\\a.png)', '![x](file:///etc/a.png)', '![x](data:image/png;base64,AAAA)', '![x](a.png" onerror="alert(1))',
]

function parsed(text: string): HTMLElement {
  const holder = document.createElement('div')
  holder.innerHTML = toHtml(text)
  return holder
}

describe('untrusted text', () => {
  it('has marks for invisible characters in code', () => {
    for (const text of ['`rm \u202ex`', '```\nrm \u202ex\n```', '    rm \u202ex']) expect(parsed(text).querySelector('code')!.textContent!.trim()).toBe('rm ⟨U+202E⟩x')
  })
  it('is really sanitised here', () => {
    expect(DOMPurify.isSupported).toBe(true)
    expect(DOMPurify.sanitize('<b>x</b><script>1</script><img src=x onerror=y>')).toBe('<b>x</b><img src="x">')
  })
  it.each(HOSTILE)('%s does nothing', (text) => {
    const holder = parsed(text)
    expect(holder.querySelector('script, img, svg, iframe, style, form, input, object, embed, link, meta')).toBeNull()
    for (const element of holder.querySelectorAll('*')) {
      for (const attribute of element.attributes) {
        expect(attribute.name.startsWith('on')).toBe(false)
        expect(attribute.value.trim().toLowerCase()).not.toMatch(/^(?:javascript|data|vbscript):/)
      }
    }
  })
  it('shows a remote image as a link only', () => {
    const holder = parsed('![a cat](https://example.com/cat.png)')
    expect(holder.querySelector('img')).toBeNull()
    expect(holder.querySelector('a')!.getAttribute('href')).toBe('https://example.com/cat.png')
  })
  it.each([
    ['![a plot](docs/a.png)', 'docs/a.png', '🖼 a plot'], ['![](./out/b.JPG)', './out/b.JPG', '🖼 image'], ['![x](my%20plot.png?raw=true#top)', 'my plot.png', '🖼 x'],
    ['![x](/project/a.webp)', '/project/a.webp', '🖼 x'], ['![x](../a.gif)', '../a.gif', '🖼 x'], ['![x](<a b.png>)', 'a b.png', '🖼 x'],
    ['![x](a.svg)', undefined, '🖼 x'], ['![x](//example.com/a.png)', undefined, '![x](//example.com/a.png)'], ['![x](https://example.com/a.png)', undefined, '🖼 x'], ['![x](file:///a.png)', undefined, '![x](file:///a.png)'],
    ['![x](%E0%A4%A.png)', undefined, '![x](%E0%A4%A.png)'],
  ])('%s means the file %s of the session', (text, path, words) => {
    const holder = parsed(text)
    expect(holder.querySelector<HTMLElement>('[data-image]')?.dataset.image).toBe(path)
    expect(holder.textContent!.trim()).toBe(words)
    expect(holder.querySelector('img')).toBeNull()
  })
  it.each([
    ['[the parser](src/parser.py#L12)', 'src/parser.py:12'], ['[it](/project/a.py:3)', '/project/a.py:3'], ['[it](docs/a.md)', 'docs/a.md:0'], ['[it](#top)', undefined], ['[it](?a=b)', undefined], ['[it](https://example.com/a)', undefined],
  ])('%s means the place %s of the session', (text, place) => {
    const link = parsed(text).querySelector<HTMLElement>('a')
    expect(link?.dataset.file).toBe(place)
    if (place) expect(link!.hasAttribute('href')).toBe(false)
  })
  it('opens links in a new tab', () => {
    const link = parsed('see https://example.com')!.querySelector('a')!
    expect(link.getAttribute('rel')).toContain('noopener')
    expect(link.getAttribute('target')).toBe('_blank')
  })
  it('renders what people expect', () => {
    const holder = parsed('# T\n\n- **b** `c`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx < 1\n```')
    expect(holder.querySelector('h1, li strong, td, pre code')).not.toBeNull()
    expect(holder.querySelector('pre')!.textContent).toBe('x < 1\n')
  })
})

describe('blocks', () => {
  it('cuts at blank lines', () => expect(splitBlocks('a\n\nb\nc\n\nd')).toEqual(['a\n', 'b\nc\n', 'd']))
  it('keeps fences whole', () => expect(splitBlocks('```\na\n\nb\n```\n\nc')).toEqual(['```\na\n\nb\n```\n', 'c']))
  it('keeps lists whole', () => expect(splitBlocks('1. a\n\n2. b\n\n   more\n\nend')).toEqual(['1. a\n\n2. b\n\n   more\n', 'end']))
  it('join to the text', () => {
    const text = 'x\n\n```\n\n\n```\n- a\n\n- b\n\n\nz'
    expect(splitBlocks(text).join('\n')).toBe(text)
  })
  it('never change while the text grows, except the last', () => {
    const text = 'One\n\nTwo **bold**\n\n```js\nlet a\n\nlet b\n```\n\n- l1\n- l2\n\nEnd.'
    let before: string[] = []
    for (let length = 1; length <= text.length; length++) {
      const now = splitBlocks(text.slice(0, length))
      const settled = before.slice(0, -1)
      expect(now.slice(0, settled.length)).toEqual(settled)
      before = now
    }
  })
})

describe('what lists and fences add', () => {
  it('shows task lists as boxes', () => {
    const html = toHtml('- [ ] to do\n- [x] *done*\n- [y] neither\n\n[x] no item')
    expect(html).toContain('<li data-task="open">to do</li>')
    expect(html).toContain('<li data-task="done"><em>done</em></li>')
    expect(html).toContain('<li>[y] neither</li>')
    expect(html).toContain('<p>[x] no item</p>')
  })
  it('keeps the language of a fence, and nothing else of its head', () => {
    expect(toHtml('```ts\nx\n```')).toContain('<pre data-language="ts"><code>x')
    expect(toHtml('```"><img src=x onerror=alert(1)>\nx\n```')).toContain('<pre data-language=""><code>x')
    expect(toHtml('```py" onclick="x\ny\n```')).toContain('<pre data-language="py"><code>y')
  })
})

describe('files of the session', () => {
  const drawn = async (text: string, session: string) => {
    const { saveDeviceKey } = await import('../src/api/client')
    await saveDeviceKey('tl_the_page_is_ours')
    hub.reply = ({ path }) => (path.includes('none.png') ? [422, { title: 'Unprocessable', detail: 'it cannot be read', status: 422 }] : [200, { path: 'docs/a.png', data: 'QUJD', media_type: 'image/png' }])
    const box = document.body.appendChild(document.createElement('div'))
    render(h(FilesOf.Provider, { value: session, children: h(Markdown, { text }) }), box)
    return box
  }
  it('are drawn by what the hub gives, and what cannot be read says why', async () => {
    const box = await drawn('![the plot](docs/a.png) and ![gone](none.png)', 's')
    await vi.waitFor(() => expect(box.querySelector('img')?.getAttribute('src')).toBe('data:image/png;base64,QUJD'), 10_000)
    expect(box.querySelector('img')!.alt).toBe('the plot')
    await vi.waitFor(() => expect(box.textContent).toContain('gone: it cannot be read'), 10_000)
    expect(hub.requests.map(({ path }) => path).sort()).toEqual(['sessions/s/file?path=docs%2Fa.png', 'sessions/s/file?path=none.png'])
  })
  it('are opened by a link to one', async () => {
    const box = await drawn('See [the parser](src/parser.py#L12).', 's')
    await vi.waitFor(() => expect(box.querySelector('button.path-link')).not.toBeNull(), 10_000)
    box.querySelector<HTMLButtonElement>('button.path-link')!.click()
    expect(openedFile.value).toEqual({ session: 's', path: 'src/parser.py', line: 12 })
  })
  it('are not asked for where no session is meant', async () => {
    const box = await drawn('![the plot](docs/a.png)', '')
    await new Promise((done) => setTimeout(done, 20))
    expect([box.textContent!.trim(), hub.requests]).toEqual(['🖼 the plot', []])
  })
})
