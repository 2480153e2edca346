/** A session's changes: a tree of files, one file or all of them, what is staged, comments, and what becomes of it all. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ApiError, errorMessage, get, request } from '../api/client'
import { isDesktop } from '../app/columns'
import { commandsOfSession, dismissCommand, PendingCommands, trackCommand } from '../commands/pending-commands'
import { Commenting, DiffView } from '../diff/diff-view'
import { formatComment, parseDiff, type FileDiff } from '../diff/parse-diff'
import type * as P from '../generated/protocol'
import { sendPrompt } from '../prompts/outbox'
import { loadLocal, saveLocal } from '../shared/local-storage'
import { visible } from '../shared/visible-text'
import { CopyButton, Empty, Problem, useFetched } from '../ui/components'
import { Icon } from '../ui/icons'
import { ConfirmPlan, PullRequestForm } from './confirm-plan'
import { fileTree, type TreeFolder } from './file-tree'
import { addComment, clearComments, commentsOf, removeComment, reviewText } from './review-comments'
import './changes.css'

type Since = 'session' | 'commit'
type Dangerous = 'revert' | 'discard' | 'push' | 'pull-request'

const VERBS: Readonly<Record<Dangerous, string>> = { revert: 'Take it back', discard: 'Discard all', push: 'Push', 'pull-request': 'Open it' }
const WIDE = 620 // pixels of the pane from which two columns have room
const TREE_FROM = 2 // files

interface FileEntry { readonly path: string; readonly diff?: FileDiff; readonly tree?: P.ChangedFile }

/** A dangerous step on its way: asked for, shown, agreed to. */
interface Step { readonly action: Dangerous; readonly body: Readonly<Record<string, unknown>>; readonly plan: P.ChangePlan; readonly changed: boolean; readonly problem: string }

export function ChangesPanel({ session }: { session: P.SessionRecord }) {
  const base = `sessions/${encodeURIComponent(session.id)}`
  const [since, setSince] = useState<Since>('session')
  const [chosen, setChosen] = useState('')
  const [sided, setSided] = useState(loadLocal('side-by-side', true))
  const [problem, setProblem] = useState('')
  const [outcome, setOutcome] = useState<P.ChangeOutcome>()
  const [step, setStep] = useState<Step>()
  const [proposing, setProposing] = useState(false)
  const [round, setRound] = useState(0)
  const [box, width] = useWidth()
  const moments = [session.id, session.turns, session.status, round]
  const [comments, setComments] = useState(0) // that are being written
  const fetched = { diff: useFetched(() => get<P.DiffText>(`${base}/diff${since === 'commit' ? '?since=commit' : ''}`), [...moments, since]), tree: useFetched(() => get<P.WorkingTree>(`${base}/changes`), moments) }
  const held = useRef(fetched)
  if (!comments) held.current = fetched // else the line that is commented on would become another
  const { diff, tree } = held.current
  const newer = comments > 0 && fetched.diff.value?.diff !== diff.value?.diff
  const ready = !!diff.value && (!!tree.value || !!tree.problem) // together: what came later would push the lines away under a finger
  const repository = tree.value?.top ? tree.value : undefined
  const files = useMemo(() => parseDiff(diff.value?.diff ?? ''), [diff.value])
  const rows = useMemo(() => rowsOf(files, since === 'commit' ? repository?.files ?? [] : [], repository), [files, repository, since])
  const shown = chosen && files.some((file) => file.path === chosen) ? chosen : ''
  const wide = width >= WIDE

  const change = async (what: string, action: string, body: Readonly<Record<string, unknown>>): Promise<P.ChangeOutcome | undefined> => {
    try {
      const result = await trackCommand<P.ChangeOutcome>(what, session.id, request('POST', `${base}/changes/${action}`, body), '', { action, body })
      setProblem('')
      if (result && !result.plan) { setOutcome(result); setRound((before) => before + 1) }
      return result
    } catch (error) {
      setProblem(errorMessage(error))
      setRound((before) => before + 1)
      return undefined
    }
  }
  const ask = async (action: Dangerous, body: Readonly<Record<string, unknown>>, changed = false) => {
    const result = await change(VERBS[action], action, body)
    setStep(result?.plan ? { action, body, plan: result.plan, changed, problem: '' } : undefined)
    if (result?.plan) setProposing(false)
  }
  const confirm = async ({ action, body, plan }: Step) => {
    try {
      const result = await trackCommand<P.ChangeOutcome>(VERBS[action], session.id, request('POST', `${base}/changes/${action}`, { ...body, digest: plan.digest }), '', { action, body })
      setStep(undefined)
      setProblem('')
      if (result) setOutcome(result)
      setRound((before) => before + 1)
    } catch (error) {
      if (error instanceof ApiError && error.problem.code === 'PlanChanged') await ask(action, body, true)
      else setStep((before) => before && { ...before, problem: errorMessage(error) })
    }
  }
  const late = commandsOfSession(session.id).find((command) => command.outcome) // the machine took longer than the hub waits
  useEffect(() => {
    if (!late?.outcome || !late.change) return
    const { plan } = late.outcome
    if (plan) setStep({ action: late.change.action as Dangerous, body: late.change.body, plan, changed: false, problem: '' })
    else setOutcome(late.outcome)
    setRound((before) => before + 1)
    dismissCommand(late.id)
  }, [late?.id])
  const onComment = (path: string, line: Parameters<typeof formatComment>[1], text: string, send: boolean) => {
    if (send) sendPrompt(session.id, formatComment(path, line, text))
    else addComment(session.id, { path, line, text })
  }
  const [onCommenting] = useState(() => (by: 1 | -1) => setComments((before) => before + by))
  const patch = shown ? filePatch(diff.value!.diff, shown) : diff.value?.diff ?? ''
  const [added, removed] = [sum(files, 'added'), sum(files, 'removed')]
  return (
    <div class="changes" ref={box}>
      <Problem text={diff.problem || tree.problem || problem} />
      {!isDesktop.value && <PendingCommands of={commandsOfSession(session.id)} />}
      {outcome?.done && <Outcome outcome={outcome} onClose={() => setOutcome(undefined)} />}
      {repository && (
        <div class="changes-bar" role="group" aria-label="Compare with">
          <button type="button" class="small" aria-pressed={since === 'session'} onClick={() => setSince('session')}>This session</button>
          <button type="button" class="small" aria-pressed={since === 'commit'} onClick={() => setSince('commit')}>Uncommitted</button>
          {wide && files.length > 0 && <button type="button" class="small" aria-pressed={sided} onClick={() => { setSided(!sided); saveLocal('side-by-side', !sided) }}>Side by side</button>}
        </div>
      )}
      {repository && <Branch tree={repository} onDiscard={() => void ask('discard', {})} onPush={() => void ask('push', {})} onPullRequest={() => setProposing(true)} />}
      {!ready && !diff.problem && <p class="loading" role="status">Loading …</p>}
      {ready && !rows.length && !diff.value!.diff.trim() && <Empty icon="diff" title="No changes"><p>{since === 'commit' ? 'Since the last commit.' : 'Since this session began.'}</p></Empty>}
      {ready && rows.length > 0 && (repository || rows.length >= TREE_FROM) && (
        <nav class="file-tree" aria-label="Changed files">
          <p class="small-text faint">
            {rows.length} {rows.length === 1 ? 'file' : 'files'} <Counts added={added} removed={removed} />
            {shown && <button type="button" class="small" onClick={() => setChosen('')}>Show all files</button>}
          </p>
          <Folder
            folder={fileTree(rows)} chosen={shown} onChoose={setChosen}
            onStage={repository && ((path, staged) => void change(staged ? 'Stage' : 'Unstage', staged ? 'stage' : 'unstage', { paths: [path] }))}
            onRevert={repository && ((path) => void ask('revert', { paths: [path] }))}
          />
        </nav>
      )}
      {repository && <CommitBox tree={repository} onCommit={async (message) => !!(await change('Commit', 'commit', { message }))} onStageAll={() => void change('Stage', 'stage', { paths: repository.files.filter((file) => file.unstaged && !file.nested).map((file) => file.path) })} />}
      {ready && <Commenting.Provider value={onCommenting}><DiffView key={`${since} ${shown}`} diff={patch} sideBySide={wide && sided} onComment={onComment} /></Commenting.Provider>}
      {ready && files.length > 0 && <p class="faint small-text" role="status">{newer ? 'There are newer changes: they are shown when your comment is done.' : 'Choose a line to comment on it.'}</p>}
      <Review session={session.id} />
      {step && <ConfirmPlan plan={step.plan} verb={VERBS[step.action]} changed={step.changed} problem={step.problem} onConfirm={() => confirm(step)} onClose={() => setStep(undefined)} />}
      {proposing && <PullRequestForm suggested={session.title} problem={problem} onSubmit={(title, body) => void ask('pull-request', { title, body })} onClose={() => setProposing(false)} />}
    </div>
  )
}

const sum = (files: readonly FileDiff[], side: 'added' | 'removed') => files.reduce((total, file) => total + file[side], 0)

/** Those of the diff, and `more` that it does not show. */
function rowsOf(files: readonly FileDiff[], more: readonly P.ChangedFile[], tree: P.WorkingTree | undefined): readonly FileEntry[] {
  const known = new Map((tree?.files ?? []).map((file) => [file.path, file]))
  const named = new Set(files.map((file) => file.path))
  return [...files.filter((file) => file.path).map((diff) => ({ path: diff.path, diff, tree: known.get(diff.path) })), ...more.filter((file) => !named.has(file.path)).map((file) => ({ path: file.path, tree: file }))]
}

/** The part of a diff that is about one file. */
function filePatch(diff: string, path: string): string {
  const parts = diff.split(/^(?=diff --git )/m)
  return parts.find((part) => parseDiff(part).some((file) => file.path === path)) ?? diff
}

function useWidth(): [ref: (element: HTMLElement | null) => void, width: number] {
  const [width, setWidth] = useState(0)
  const observer = useRef<ResizeObserver | undefined>(undefined)
  useEffect(() => () => observer.current?.disconnect(), [])
  const [ref] = useState(() => (element: HTMLElement | null) => {
    observer.current?.disconnect()
    if (!element) return
    observer.current = new ResizeObserver(([entry]) => { if (entry) setWidth(entry.contentRect.width) })
    observer.current.observe(element)
  })
  return [ref, width]
}

function Counts({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="counts">
      <span class="plus" role="img" aria-label={`${added} ${added === 1 ? 'line' : 'lines'} added`}>+{added}</span>{' '}
      <span class="minus" role="img" aria-label={`${removed} ${removed === 1 ? 'line' : 'lines'} removed`}>−{removed}</span>
    </span>
  )
}

interface FolderProps {
  readonly folder: TreeFolder<FileEntry>
  readonly chosen: string
  readonly onChoose: (path: string) => void
  readonly onStage?: (path: string, staged: boolean) => void
  readonly onRevert?: (path: string) => void
}

function Folder({ folder, chosen, onChoose, onStage, onRevert }: FolderProps) {
  return (
    <ul>
      {folder.folders.map((inner) => (
        <li key={inner.path}>
          <details open>
            <summary><Icon name="folder" /> <bdi>{visible(inner.name)}</bdi></summary>
            <Folder folder={inner} chosen={chosen} onChoose={onChoose} onStage={onStage} onRevert={onRevert} />
          </details>
        </li>
      ))}
      {folder.files.map(({ name, path, file }) => <FileRow key={path} name={name} row={file} chosen={chosen === path} onChoose={onChoose} onStage={onStage} onRevert={onRevert} />)}
    </ul>
  )
}

function FileRow({ name, row, chosen, onChoose, onStage, onRevert }: Omit<FolderProps, 'folder' | 'chosen'> & { name: string; row: FileEntry; chosen: boolean }) {
  const { path, diff, tree } = row
  const label = visible(path)
  const changeable = tree && !tree.nested && tree.staged !== 'conflict' && tree.unstaged !== 'conflict'
  const state = tree?.unstaged === 'conflict' ? 'conflict' : diff && diff.state !== 'changed' ? diff.state : tree?.unstaged === 'untracked' ? 'new' : ''
  return (
    <li class="file-row">
      {onStage && (changeable ? (
        <input
          type="checkbox" aria-label={`Stage ${label}`} checked={!!tree.staged && !tree.unstaged}
          ref={(element) => { if (element) element.indeterminate = !!tree.staged && !!tree.unstaged }}
          onChange={(event) => onStage(path, event.currentTarget.checked)}
        />
      ) : <span class="no-box" title={tree ? 'It is left to a terminal' : 'It is committed'} />)}
      <button type="button" class="file-name" aria-pressed={chosen} disabled={!diff} title={label} onClick={() => onChoose(chosen ? '' : path)}><bdi>{visible(name)}</bdi></button>
      {state && <span class="tag">{state}</span>}
      {diff && diff.hunks.length > 0 && <Counts added={diff.added} removed={diff.removed} />}
      {onRevert && changeable && <button type="button" class="plain" aria-label={`Take ${label} back to the last commit`} title="Take it back to the last commit …" onClick={() => onRevert(path)}><Icon name="undo" /></button>}
    </li>
  )
}

function Branch({ tree, onDiscard, onPush, onPullRequest }: { tree: P.WorkingTree; onDiscard: () => void; onPush: () => void; onPullRequest: () => void }) {
  const where = tree.upstream ? `${tree.ahead ?? 0} ahead of ${visible(tree.upstream)}${tree.behind ? `, ${tree.behind} behind` : ''}` : tree.remote ? `not pushed to ${visible(tree.remote)}` : 'no remote'
  const pushable = tree.branch && tree.commit && tree.remote && tree.ahead !== 0
  return (
    <div class="branch">
      <p class="small-text"><Icon name="task" /> <code>{visible(tree.branch) || 'no branch'}</code> <span class="faint">{where}</span></p>
      {tree.unfinished && <p class="note warning">A git operation is in progress there ({tree.unfinished}): finish or abort it in a terminal.</p>}
      <div class="row wrap">
        {tree.files.some((file) => !file.nested) && !tree.unfinished && <button type="button" class="small deny" onClick={onDiscard}>Discard all …</button>}
        {pushable && <button type="button" class="small" onClick={onPush}>Push …</button>}
        {tree.gh && tree.upstream && tree.ahead === 0 && <button type="button" class="small" onClick={onPullRequest}>Pull request …</button>}
      </div>
    </div>
  )
}

function CommitBox({ tree, onCommit, onStageAll }: { tree: P.WorkingTree; onCommit: (message: string) => Promise<boolean>; onStageAll: () => void }) {
  const [message, setMessage] = useState('')
  const [busy, setBusy] = useState(false)
  const staged = tree.files.filter((file) => file.staged).length
  const rest = tree.files.some((file) => file.unstaged && !file.nested)
  if (!tree.files.length || tree.unfinished || !tree.branch) return null
  const submit = async () => {
    setBusy(true)
    if (await onCommit(message)) setMessage('')
    setBusy(false)
  }
  return (
    <form class="commit" onSubmit={(event) => { event.preventDefault(); void submit() }}>
      <label>Commit message<textarea rows={2} value={message} onInput={(event) => setMessage(event.currentTarget.value)} /></label>
      <p class="faint small-text">{tree.author ? `As ${visible(tree.author)}.` : 'Git does not know who you are: set user.name and user.email on the machine.'}{tree.skipped.length > 0 && ` Without the repository’s ${tree.skipped.join(' and ')}.`}</p>
      <div class="row wrap">
        <button type="submit" class="small primary" disabled={busy || !staged || !message.trim() || !tree.author}>{staged ? `Commit ${staged} ${staged === 1 ? 'file' : 'files'}` : 'Nothing is staged'}</button>
        {rest && <button type="button" class="small" onClick={onStageAll}>Stage all</button>}
      </div>
    </form>
  )
}

function Outcome({ outcome, onClose }: { outcome: P.ChangeOutcome; onClose: () => void }) {
  return (
    <div class="outcome" role="status">
      <p><Icon name="check" /> <WithLink text={outcome.done ?? ''} url={outcome.url ?? ''} /></p>
      {outcome.restore && <div class="row"><code>{visible(outcome.restore)}</code><CopyButton text={outcome.restore} /></div>}
      <button type="button" class="plain" aria-label="Dismiss" onClick={onClose}><Icon name="cross" /></button>
    </div>
  )
}

/** The address leads there, in its place in the text. */
function WithLink({ text, url }: { text: string; url: string }) {
  if (!/^https:/.test(url)) return <>{visible(text)}</>
  const at = text.indexOf(url)
  const link = <a href={url} target="_blank" rel="noopener noreferrer">{visible(url)}</a>
  return at < 0 ? <>{visible(text)} {link}</> : <>{visible(text.slice(0, at))}{link}{visible(text.slice(at + url.length))}</>
}

/** Comments that wait to be sent together. */
function Review({ session }: { session: string }) {
  const comments = commentsOf(session)
  if (!comments.length) return null
  return (
    <section class="review" aria-label="Comments to send">
      <h3>{comments.length} {comments.length === 1 ? 'comment' : 'comments'}</h3>
      <ul>
        {comments.map((comment, index) => (
          <li key={index}>
            <span><code>{visible(comment.path)}:{comment.line.after || comment.line.before}</code> {visible(comment.text)}</span>
            <button type="button" class="plain" aria-label={`Remove the comment on ${visible(comment.path)}`} onClick={() => removeComment(session, index)}><Icon name="cross" /></button>
          </li>
        ))}
      </ul>
      <div class="row end">
        <button type="button" class="small" onClick={() => clearComments(session)}>Remove all</button>
        <button type="button" class="small primary" onClick={() => { sendPrompt(session, reviewText(comments)); clearComments(session) }}>Send as one prompt</button>
      </div>
    </section>
  )
}
