// @vitest-environment jsdom
/** Changes: the tree, two columns, comments as one prompt, paths in texts, and that nothing dangerous happens unseen. */
import { h, render } from 'preact'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { fileTree } from '../src/changes/file-tree'
import { parseDiff } from '../src/diff/parse-diff'
import { pairLines } from '../src/diff/side-by-side'
import { linkPaths, openedFile, parsePath, pathsIn } from '../src/files/opened-file'
import { hub, load } from './fake-hub'

const DIFF = 'diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,4 +1,5 @@\n same\n-old one\n-old two\n+new one\n+new two\n+new three\n end\ndiff --git a/b.txt b/b.txt\nnew file mode 100644\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+b\n'
const PLAN = { title: 'Discard all changes in /work', parts: [{ label: 'files', text: 'b.txt (untracked)' }], digest: 'd1' }
const TREE = {
  top: '/work', branch: 'trunk', commit: 'c0ffee', author: 'Ada <a@b>', remote: 'origin', upstream: 'origin/trunk', ahead: 2, behind: 0, unfinished: '', skipped: ['hooks'], gh: true, whole: true,
  files: [{ path: 'src/a.py', unstaged: 'modified' }, { path: 'b.txt', staged: 'added', unstaged: 'modified' }],
}

const settled = () => new Promise((done) => setTimeout(done, 60))
const session = { id: 's', agent: 'demo', node: 'n', cwd: '/work', title: 'Mend it', status: 'idle', turns: 1, tokens: {} } as unknown as P.SessionRecord
type Call = readonly [method: string, path: string, body: unknown]

/** The panel on a hub that answers as `reply` says; all its requests. */
async function panel(reply: (method: string, path: string, body: Record<string, unknown>) => readonly [number, unknown] | undefined = () => undefined) {
  vi.stubGlobal('ResizeObserver', class { observe() {} unobserve() {} disconnect() {} })
  HTMLDialogElement.prototype.showModal = function () { this.open = true }
  HTMLDialogElement.prototype.close = function () { this.open = false }
  await load()
  const { ChangesPanel } = await import('../src/changes/changes-panel')
  const calls: Call[] = []
  hub.reply = ({ method, path, body }) => {
    calls.push([method, path, body])
    const own = reply(method, path, body)
    if (own) return own
    if (path.includes('/diff')) return [200, { diff: DIFF }]
    if (method === 'GET' && path.endsWith('/changes')) return [200, TREE]
    return [200, { done: 'done' }]
  }
  const box = document.body.appendChild(document.createElement('div'))
  render(h(ChangesPanel, { session }), box)
  await vi.waitFor(() => expect(box.querySelector('.diff-line.tappable')).not.toBeNull(), 10_000)
  const button = (name: string) => [...box.querySelectorAll('button')].find((one) => (one.getAttribute('aria-label') ?? one.textContent ?? '').includes(name))!
  return { box, calls, button, posted: () => calls.filter(([method]) => method === 'POST') }
}

beforeEach(() => { document.body.textContent = ''; openedFile.value = undefined })

describe('pure parts', () => {
  it('folds folders with one folder, and sorts', () => {
    const tree = fileTree([{ path: 'src/deep/er/x.ts' }, { path: 'src/deep/er/a.ts' }, { path: 'z.txt' }, { path: 'a/1' }, { path: 'a/b/2' }, { path: 'nested/' }])
    expect(tree.folders.map((one) => one.name)).toEqual(['a', 'src/deep/er'])
    expect(tree.folders[1]!.files.map((one) => one.path)).toEqual(['src/deep/er/a.ts', 'src/deep/er/x.ts'])
    expect(tree.files.map((one) => one.name)).toEqual(['nested', 'z.txt'])
  })

  it('has every line of a hunk once or, where both sides have it, twice', () => {
    const { lines } = parseDiff(DIFF)[0]!.hunks[0]!
    const pairs = pairLines(lines).map(({ left, right }) => [left === undefined ? '' : lines[left]!.text, right === undefined ? '' : lines[right]!.text])
    expect(pairs).toEqual([['same', 'same'], ['old one', 'new one'], ['old two', 'new two'], ['', 'new three'], ['end', 'end']])
  })

  it.each([
    ['src/a.py', 'src/a.py', 0], ['src/a.py:12', 'src/a.py', 12], ['a.py:3:9', 'a.py', 3], ['./x/y.ts', './x/y.ts', 0], ['../up.md', '../up.md', 0], ['/abs/x.py:1', '/abs/x.py', 1], ['Makefile', 'Makefile', 0], ['.github/workflows/ci.yml', '.github/workflows/ci.yml', 0], ['os.path', undefined, 0], ['self.value', undefined, 0],
    ['https://x.example/a.py', undefined, 0], ['a b.py', undefined, 0], ['v1.2', undefined, 0], ['e.g.', undefined, 0], ['foo()', undefined, 0], ['', undefined, 0], ['x'.repeat(400) + '.py', undefined, 0],
  ])('reads %s as a path', (text, path, line) => {
    expect(parsePath(text)).toEqual(path === undefined ? undefined : { path, line })
  })

  it('finds paths in a sentence, and no addresses', () => {
    expect(pathsIn('See src/a.py:12, and docs/x.md. Not e.g. this, https://x.example/y/z.html or a@b.com/c.d').map((one) => one.text)).toEqual(['src/a.py:12', 'docs/x.md'])
  })

  it('makes buttons of them', () => {
    const box = document.createElement('div')
    box.innerHTML = '<p>In src/a.py:12 and src/b.py, see <code>c.ts</code> <a href="https://x">d/e.ts</a></p><pre><code>f/g.ts</code></pre>'
    const before = box.textContent
    linkPaths(box, 's')
    linkPaths(box, 's')
    expect(box.textContent).toBe(before)
    const buttons = [...box.querySelectorAll('button')]
    expect(buttons.map((one) => one.textContent)).toEqual(['src/a.py:12', 'src/b.py', 'c.ts'])
    buttons[0]!.click()
    expect(openedFile.value).toEqual({ session: 's', path: 'src/a.py', line: 12 })
  })
})

describe('the panel', () => {
  it('shows a tree with counts that are read aloud, and one file on request', async () => {
    const { box } = await panel()
    expect([...box.querySelectorAll('.file-row .plus')].map((one) => one.getAttribute('aria-label'))).toEqual(['3 lines added', '1 line added'])
    expect([...box.querySelectorAll<HTMLInputElement>('input[type=checkbox]')].map((one) => [one.getAttribute('aria-label'), one.checked, one.indeterminate])).toEqual([['Stage src/a.py', false, false], ['Stage b.txt', false, true]])
    expect(box.querySelectorAll('.diff-file')).toHaveLength(2)
    ;[...box.querySelectorAll<HTMLButtonElement>('.file-name')].find((one) => one.textContent === 'b.txt')!.click()
    await settled()
    expect([...box.querySelectorAll('.diff-file')].map((one) => one.getAttribute('aria-label'))).toEqual(['Changes in b.txt'])
    expect(box.textContent).toContain('Without the repository’s hooks.')
  })

  it('keeps the lines while one of them is commented on', async () => {
    let text = DIFF
    const { box, posted, button } = await panel((_, path) => (path.includes('/diff') ? [200, { diff: text }] : undefined))
    ;[...box.querySelectorAll<HTMLButtonElement>('.diff-line.tappable')].find((one) => one.textContent!.includes('new two'))!.click()
    const comment = await vi.waitFor(() => box.querySelector<HTMLTextAreaElement>('.remark textarea') ?? Promise.reject(new Error('no form')), 10_000)
    comment.value = 'why two?'
    comment.dispatchEvent(new Event('input', { bubbles: true }))
    text = DIFF.replace('+new one\n', '+new one\n+in between\n').replace('+1,5', '+1,6')
    box.querySelector<HTMLInputElement>('input[type=checkbox]')!.click() // anything that fetches the changes again
    await vi.waitFor(() => expect(box.textContent).toContain('There are newer changes'), 10_000)
    expect(box.textContent).not.toContain('in between')
    button('Add comment').click()
    await vi.waitFor(() => expect(box.textContent).toContain('in between'), 10_000)
    expect(box.querySelector('.remark')).toBeNull()
    button('Send as one prompt').click()
    await vi.waitFor(() => expect(JSON.stringify(posted().at(-1))).toMatch(/src\/a.py:3.*new two.*why two/), 10_000)
  })

  it('stages a file, and commits with the message', async () => {
    const { box, posted, button } = await panel()
    box.querySelector<HTMLInputElement>('input[type=checkbox]')!.click()
    await settled()
    const message = box.querySelector('textarea')!
    message.value = 'Two'
    message.dispatchEvent(new Event('input', { bubbles: true }))
    await settled()
    button('Commit 1 file').click()
    await settled()
    expect(posted().map(([, path, body]) => [path.split('/').at(-1), body])).toEqual([['stage', { paths: ['src/a.py'] }], ['commit', { message: 'Two' }]])
    expect(message.value).toBe('')
  })

  it('does nothing dangerous before its plan was shown, and shows it anew when it has changed', async () => {
    let confirmations = 0
    const { box, posted, button } = await panel((method, path, body) => {
      if (method !== 'POST' || !path.endsWith('/discard')) return undefined
      if (!body.digest) return [200, { plan: { ...PLAN, digest: confirmations ? 'd2' : 'd1' } }]
      return ++confirmations === 1 ? [409, { status: 409, title: 'Conflict', code: 'PlanChanged', detail: 'changed' }] : [200, { done: 'discarded', restore: 'git restore x' }]
    })
    button('Discard all').click()
    await settled()
    expect(box.querySelector('dialog')!.textContent).toContain('b.txt (untracked)')
    expect(posted().map(([, , body]) => body)).toEqual([{}])
    const agree = async () => {
      const hold = box.querySelector<HTMLButtonElement>('dialog .hold')!
      hold.click() // no pointer: it is pressed twice
      await settled()
      hold.click()
      await settled()
    }
    await agree()
    expect(box.querySelector('dialog')!.textContent).toContain('It has changed meanwhile')
    await agree()
    expect(posted().map(([, , body]) => body)).toEqual([{}, { digest: 'd1' }, {}, { digest: 'd2' }])
    expect(box.querySelector('dialog')).toBeNull()
    expect(box.querySelector('.outcome')!.textContent).toContain('git restore x')
  })

  it('shows the outcome of a push that the machine answers late, with its plan too', async () => {
    const command = (id: string, more: object = {}) => ({ id, node: 'n', name: 'push_branch', session: 's', state: 'sent', ...more })
    let sent = 0
    const { box, button } = await panel((method, path) => (method === 'POST' && path.endsWith('/push') ? [202, command(`c${++sent}`)] : undefined))
    const { applyFrame } = await import('../src/store/store')
    const tell = (id: string, outcome: P.ChangeOutcome) => applyFrame({ type: 'command', command: command(id, { state: 'applied', outcome }) } as P.CommandFrame)
    button('Push').click()
    await vi.waitFor(() => expect(sent).toBe(1))
    tell('c1', { plan: { ...PLAN, title: 'Push trunk' } })
    await vi.waitFor(() => expect(box.querySelector('dialog')!.textContent).toContain('b.txt (untracked)'), 10_000)
    const hold = box.querySelector<HTMLButtonElement>('dialog .hold')!
    hold.click()
    await settled()
    hold.click()
    await vi.waitFor(() => expect(sent).toBe(2), 10_000)
    await vi.waitFor(() => expect(box.querySelector('dialog')).toBeNull(), 10_000)
    tell('c2', { done: 'pushed trunk to origin' })
    await vi.waitFor(() => expect(box.querySelector('.outcome')?.textContent).toContain('pushed trunk to origin'), 10_000)
  })

  it('collects comments and sends them as one prompt', async () => {
    const { box, posted, button } = await panel()
    for (const [index, text] of [[1, 'why?'], [3, 'and this?']] as const) {
      box.querySelectorAll<HTMLButtonElement>('.diff-line.tappable')[index]!.click()
      await settled()
      const area = box.querySelector<HTMLTextAreaElement>('.remark textarea')!
      area.value = text
      area.dispatchEvent(new Event('input', { bubbles: true }))
      await settled()
      box.querySelector<HTMLFormElement>('.remark')!.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }))
      await settled()
    }
    expect(posted()).toEqual([])
    expect(box.querySelector('.review')!.textContent).toContain('2 comments')
    button('Send as one prompt').click()
    await settled()
    const [[, path, body]] = posted() as [Call]
    expect(path).toContain('/prompts')
    expect((body as P.NewPrompt).text).toBe('2 comments on your changes:\n\n1. On src/a.py:2 (removed line)\n\n```\nold one\n```\n\nwhy?\n\n2. On src/a.py:2\n\n```\nnew one\n```\n\nand this?')
    expect(box.querySelector('.review')).toBeNull()
  })
})
