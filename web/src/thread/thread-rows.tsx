/** The rows of a conversation, one component per kind of item. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import { errorMessage, request } from '../api/client'
import { showPanel } from '../app/actions'
import { AskCard } from '../asks/ask-card'
import { partsOf, AskParts } from '../asks/ask-parts'
import { trackCommand } from '../commands/pending-commands'
import { DiffView } from '../diff/diff-view'
import { parseDiff } from '../diff/parse-diff'
import { fileAddress, isImagePath, openFile } from '../files/opened-file'
import type * as P from '../generated/protocol'
import { VERBS, ago, answeredBy, answerReason, cost, compactNumber, actionSummary, duration, askHeading, TURN_STATUS_LABELS } from '../shared/format'
import { visibleLine, visible } from '../shared/visible-text'
import { asks, nodes, now, sessions, recentlyAnswered, thread } from '../store/store'
import { CodeText, isFolded, sizeOf } from '../ui/code'
import { CopyButton, Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { lazy } from '../ui/lazy'
import { Markdown } from '../ui/markdown'
import { memo } from '../ui/memo'
import { adviceFor } from './error-advice'
import type { Content, ThreadItem } from './thread'

/** `marked`: a link leads here. It is open, and stands out. */
export const ThreadRow = memo(({ item, session, marked = false }: { item: ThreadItem; session: string; marked?: boolean }) => (
  <div class={`thread-row${item.parent ? ' child' : ''}${marked ? ' marked' : ''}`} data-row={item.key} data-kind={item.content.value.kind} tabIndex={marked ? -1 : undefined}>
    <RowContent item={item} session={session} marked={marked} />
  </div>
))

/** Whether a row is folded open: as the person says; a marked one at first. */
function useOpen(marked: boolean) {
  const [open, setOpen] = useState(marked)
  useEffect(() => { if (marked) setOpen(true) }, [marked])
  return [open, setOpen] as const
}

function RowContent({ item, session, marked }: { item: ThreadItem; session: string; marked: boolean }) {
  const content = item.content.value
  switch (content.kind) {
    case 'user':
      return <UserRow {...content} session={session} at={item.at} marked={marked} />
    case 'text':
      return <div class="copyable"><Markdown text={content.text} live={content.live} />{!content.live && <CopyButton bare text={content.text} label="Copy the text" />}</div>
    case 'thinking':
      return <ThinkingRow text={content.text} live={content.live} marked={marked} />
    case 'tool':
      return <ToolRow {...content} session={session} marked={marked} />
    case 'ask':
      return <AskRow ask={content.ask} answer={content.answer} marked={marked} />
    case 'plan':
      return <PlanRow steps={content.steps} />
    case 'diff':
      return <DiffRow diff={content.diff} session={session} />
    case 'notes':
      return <NotesRow notes={content.notes} />
    case 'error':
      return <ErrorRow error={content.error} retry={content.retry} session={session} />
    case 'done':
      return <DoneRow done={content.done} retry={content.retry} session={session} />
  }
}

const GivenFiles = lazy(() => import('../files/file-view').then((module) => module.GivenFiles))
const LONG_PROMPT = 1200 // characters, beyond which a prompt is folded

function UserRow({ text, prompt, attachments, session, at, marked }: Extract<Content, { kind: 'user' }> & { session: string; at: number; marked: boolean }) {
  const [open, setOpen] = useOpen(marked)
  const long = text.length > LONG_PROMPT
  return (
    <div class="bubble copyable">
      {attachments.length > 0 && <GivenFiles session={session} prompt={prompt} files={attachments} />}
      {(text || !attachments.length) && <div class="bubble-text">{long && !open ? `${text.slice(0, LONG_PROMPT / 2)} …` : text || '(attachments)'}</div>}
      {long && <button type="button" class="small" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? 'Show less' : `Show all of it: ${sizeOf(text)}`}</button>}
      <Ticks tick="node" at={at} />
      {text && <CopyButton bare text={text} label="Copy the prompt" />}
    </div>
  )
}

const LONG_NOTE = 160 // characters of a note that has a row of its own

const noteText = (note: P.Warning | P.Status): string => (note.type === 'warning' ? note.message : [note.state, note.detail].filter(Boolean).join(' · '))

/** Warnings and notices: a short one as it is, several or a long one folded. */
function NotesRow({ notes }: { notes: readonly (P.Warning | P.Status)[] }) {
  const [open, setOpen] = useState(false)
  const warnings = notes.filter((note) => note.type === 'warning').length
  const noteLine = (note: P.Warning | P.Status, index: number) => <p key={index} class={note.type === 'warning' ? 'note warning' : 'note'}>{note.type === 'warning' && <Icon name="warn" />} {visible(noteText(note))}</p>
  if (notes.length === 1 && noteText(notes[0]!).length <= LONG_NOTE) return noteLine(notes[0]!, 0)
  const count = (number: number, word: string) => (number ? `${number} ${word}${number === 1 ? '' : 's'}` : '')
  return (
    <div class="fold">
      <button type="button" class="fold-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={warnings ? 'warn' : 'list'} />
        <span class="verb">{[count(warnings, 'warning'), count(notes.length - warnings, 'notice')].filter(Boolean).join(', ')}</span>
        {!open && <span class="fold-line">{visibleLine(noteText(notes[0]!))}</span>}
        <span class={open ? 'turned' : ''}><Icon name="chevron" /></span>
      </button>
      {open && <div class="fold-body">{notes.map(noteLine)}</div>}
    </div>
  )
}

const TICK_LABELS = { sending: 'Sending to the hub', hub: 'Received by the hub', node: 'Received by the machine', failed: 'Not sent' }

export function Ticks({ tick, at }: { tick: keyof typeof TICK_LABELS; at?: number }) {
  return (
    <span class={`ticks ${tick}`}>
      {at ? <span class="at">{ago(at, now.value)}</span> : null}
      <span role="img" aria-label={TICK_LABELS[tick]} title={TICK_LABELS[tick]}>
        {tick === 'sending' ? <Icon name="clock" /> : tick === 'failed' ? <Icon name="warn" /> : <><Icon name="check" />{tick === 'node' && <Icon name="check" />}</>}
      </span>
    </span>
  )
}

function ThinkingRow({ text, live, marked }: { text: string; live: boolean; marked: boolean }) {
  const [open, setOpen] = useOpen(marked)
  return (
    <div class="fold">
      <button type="button" class="fold-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="thinking" /><span class={live ? 'pulse' : ''}>{live ? 'Thinking …' : 'Thought'}</span>
        {!open && <span class="fold-line">{visibleLine(text.trim().split('\n')[0]!)}</span>}
        <span class={open ? 'turned' : ''}><Icon name="chevron" /></span>
      </button>
      {open && <div class="fold-body thinking"><Markdown text={text} live={live} /></div>}
    </div>
  )
}

const MAX_IMAGES = 4 // of one call
const WorkImage = lazy(() => import('../files/file-view').then((module) => module.WorkImage))

const TOOL_STATUS_LABELS = { ok: 'Done', error: 'Failed', denied: 'Denied', over: 'Not finished' }
const TOOL_STATUS_ICONS = { ok: 'check', error: 'warn', denied: 'cross', over: 'minus' }

/** What a tool call does, in a line. */
export const toolLine = ({ action, name }: P.ToolUse): string => `${VERBS[action.kind] ?? 'Use'} ${actionSummary(action, name) || visibleLine(name)}`

/** What was decided about a tool call, and by whom: "allowed by Phone". */
export function decisionText(answer: P.Answer): string {
  const span = answer.decision === 'allow' ? { session: ', for this session', always: ', always', once: '' }[answer.remember ?? 'once'] : ''
  return `${answer.decision === 'allow' ? 'allowed' : 'denied'}${answeredBy(answer)}${span}`
}

function ToolRow({ use, result, output, unfinished, ask, answer, session, marked }: Extract<Content, { kind: 'tool' }> & { session: string; marked: boolean }) {
  const [open, setOpen] = useOpen(marked)
  const { action } = use
  const line = actionSummary(action, use.name) || visibleLine(use.name)
  const state = result?.status ?? (unfinished ? 'over' : 'running')
  const text = result?.output ?? output
  const reason = answerReason(answer)
  const asked = state === 'running' && !open && [...asks.value.values()].some((record) => record.session === session && record.ask.tool === use.id)
  if (asked) return null // the card of the ask says all of it
  const paths = action.kind === 'read' ? [action.path] : action.kind === 'edit' ? action.paths : []
  return (
    <div class={`fold tool ${state}`}>
      <button type="button" class="fold-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name={action.kind} />
        <span class="verb">{VERBS[action.kind] ?? 'Use'}</span>
        <span class={action.kind === 'command' || action.kind === 'edit' || action.kind === 'read' ? 'fold-line mono' : 'fold-line'}>{line}</span>
        {answer && <span class={`decision ${answer.decision}`}><Icon name={answer.decision === 'allow' ? 'check' : 'cross'} /> <span>{decisionText(answer)}{reason && ` ${reason}`}</span></span>}
        {!open && text && isFolded(text) && <span class="faint size">{sizeOf(text)}</span>}
        {state === 'running' ? <span class="spinner" role="img" aria-label="Running" />
          : <span class={`state ${state}`}><Icon name={TOOL_STATUS_ICONS[state]} label={TOOL_STATUS_LABELS[state]} /></span>}
        <span class={open ? 'turned' : ''}><Icon name="chevron" /></span>
      </button>
      {!result && output && !open && <pre class="code tail" aria-hidden="true">{visible(output.trimEnd().split('\n').slice(-3).join('\n'))}</pre>}
      {result?.status === 'ok' && paths.filter(isImagePath).slice(0, MAX_IMAGES).map((path) => <WorkImage key={path} from={fileAddress(session, path)} name={path} version={use.id} />)}
      {open && (
        <div class="fold-body">
          {paths.length > 0 && <p class="row wrap">{paths.map((path) => <button key={path} type="button" class="path-link" title="Open the file" onClick={() => openFile(session, { path, line: 0 })}>{visibleLine(path)}</button>)}</p>}
          {reason && <p class="small-text">Why it was {answer!.decision === 'allow' ? 'allowed' : 'denied'}: {reason}</p>}
          {ask?.reason && <p class="faint small-text">Why it asked: {visible(ask.reason)}</p>}
          {action.kind === 'command' ? <CodeText class="command" label="Command" text={action.command} language="sh" />
            : action.kind === 'edit' && action.diff ? <DiffView diff={action.diff} />
              : Object.keys(use.input ?? {}).length > 0 && <CodeText label="Input" text={JSON.stringify(use.input, null, 2)} language="json" />}
          {text && <CodeText class="output" label="Output" text={text} />}
          {!text && state !== 'running' && !(state === 'ok' && action.kind === 'edit' && action.diff) && <p class="faint small-text">{state === 'denied' ? 'The tool did not run.' : state === 'over' ? 'The turn ended before the tool returned a result.' : 'No output.'}</p>}
        </div>
      )}
    </div>
  )
}

function AskRow({ ask, answer, marked }: { ask?: P.Ask; answer?: P.Answer; marked: boolean }) {
  const [open, setOpen] = useOpen(marked)
  const record = ask && (asks.value.get(ask.id) ?? recentlyAnswered.value.get(ask.id))
  if (record && (record.status === 'pending' || !answer)) return <AskCard record={record} inThread />
  const allowed = answer?.decision === 'allow'
  const chosen = Object.values(answer?.answers ?? {}).flat().join(', ')
  const what = !answer ? 'Not answered' : chosen ? `Answered: ${visibleLine(chosen)}` : allowed ? 'Allowed' : 'Denied'
  return (
    <div class="fold">
      <button type="button" class="fold-head" aria-expanded={open} onClick={() => setOpen(!open)} disabled={!ask}>
        <span class={`state ${!answer ? '' : allowed ? 'ok' : 'denied'}`}><Icon name={!answer ? 'clock' : allowed ? 'check' : 'cross'} /></span>
        <span class="verb">{what}</span>
        <span class="fold-line">{[answer && answeredBy(answer).replace(/^:/, '').trim(), answerReason(answer), !chosen && ask && askHeading(ask)].filter(Boolean).join(' · ')}</span>
        {ask && <span class={open ? 'turned' : ''}><Icon name="chevron" /></span>}
      </button>
      {open && ask && <div class="fold-body"><AskDetails ask={ask} /></div>}
    </div>
  )
}

function AskDetails({ ask }: { ask: P.Ask }) {
  if (ask.kind === 'question') return <>{ask.questions?.map((question) => <p key={question.id}>{visible(question.text)}</p>)}</>
  return <AskParts parts={partsOf(ask)} />
}

function PlanRow({ steps }: { steps: readonly P.PlanStep[] }) {
  const done = steps.filter((step) => step.status === 'done').length
  return (
    <section class="plan" aria-label={`Plan, ${done} of ${steps.length} done`}>
      <h2><Icon name="list" /> Plan <span class="faint">{done}/{steps.length}</span></h2>
      <ul>
        {steps.map((step, index) => (
          <li key={index} class={step.status}>
            <span class="box" role="img" aria-label={step.status === 'done' ? 'done' : step.status === 'running' ? 'running' : 'to do'}>{step.status === 'done' && <Icon name="check" />}</span>
            {visible(step.text)}
          </li>
        ))}
      </ul>
    </section>
  )
}

function DiffRow({ diff, session }: { diff: P.Diff; session: string }) {
  const files = useMemo(() => parseDiff(diff.diff), [diff.diff])
  const [added, removed] = [files.reduce((sum, file) => sum + file.added, 0), files.reduce((sum, file) => sum + file.removed, 0)]
  const paths = diff.paths?.length ? diff.paths : files.map((file) => file.path)
  return (
    <button type="button" class="diff-row" onClick={() => showPanel(session, 'diff', true)}>
      <Icon name="diff" /><span class="verb">Changed</span>
      <span class="fold-line mono">{visibleLine(paths.join(', '))}</span><span class="plus">+{added}</span><span class="minus">−{removed}</span><Icon name="chevron" />
    </button>
  )
}

function ErrorRow({ error, retry, session }: { error: P.Error; retry: string; session: string }) {
  const record = sessions.value.get(session)
  const agent = nodes.value.get(record?.node ?? '')?.agents?.find((candidate) => candidate.name === record?.agent)
  return (
    <div class={error.recoverable ? 'note warning' : 'error-row'} role={error.recoverable ? undefined : 'alert'}>
      <Icon name="warn" />
      <div>
        <strong>{visible(error.message)}</strong>
        <p>{adviceFor(error, agent)}</p>
        <RetryButton prompt={retry} session={session} />
      </div>
    </div>
  )
}

/** Sends the prompt of the last turn again, when that failed. The hub makes one copy of it, however often it is asked. */
function RetryButton({ prompt, session }: { prompt: string; session: string }) {
  const [problem, setProblem] = useState('')
  const [busy, setBusy] = useState(false)
  const record = sessions.value.get(session)
  if (!prompt || thread.value?.session !== session || thread.value.lastPrompt.value !== prompt || record?.kind === 'attached') return null
  const retry = async () => {
    setBusy(true)
    try {
      await trackCommand('Retry', session, request('POST', `sessions/${encodeURIComponent(session)}/prompts/${encodeURIComponent(prompt)}/retry`))
      setProblem('')
    } catch (error) {
      setProblem(errorMessage(error))
      setBusy(false)
    }
  }
  return (
    <>
      <button type="button" class="small retry" disabled={busy || record?.status === 'working'} onClick={() => void retry()}><Icon name="retry" /> Retry</button>
      <Problem text={problem} />
    </>
  )
}

function DoneRow({ done, retry, session }: { done: P.Done; retry: string; session: string }) {
  const { tokens } = done
  const parts = [
    done.duration_s ? duration(done.duration_s) : '',
    tokens?.input != null || tokens?.output != null ? `${compactNumber(tokens?.input ?? 0)} tokens in, ${compactNumber(tokens?.output ?? 0)} out` : '',
    tokens?.cost_usd != null ? cost(tokens) : '',
    done.usage === 'partial' ? 'usage incomplete' : '',
  ].filter(Boolean)
  return (
    <>
      {done.error ? <ErrorRow error={{ type: 'error', message: done.error }} retry={retry} session={session} /> : <RetryButton prompt={retry} session={session} />}
      <p class={`turn-end ${done.status}`}>
        <span>{TURN_STATUS_LABELS[done.status]}</span>{parts.map((part) => <span key={part} class="faint">{part}</span>)}
      </p>
    </>
  )
}
