/** One ask, whole: what the agent wants to do is never cut, because it is what is being decided. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { wantedAsk } from '../app/actions'
import { sessionUrl } from '../app/router'
import type * as P from '../generated/protocol'
import { agentName, answeredBy, askHeading, timeLeft, sessionTitle } from '../shared/format'
import { visibleLine, visible } from '../shared/visible-text'
import { cardsMoving, nodes, now, sessions, pauseCardButtons } from '../store/store'
import { HoldButton, Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { lazy } from '../ui/lazy'
import { ignoreTaps } from '../ui/moved-buttons'
import { isLong, partsOf, AskParts } from './ask-parts'
import { danger } from './danger'
import { decide, decisionFor, type SentDecision } from './decisions'

const RuleSheet = lazy(() => import('../rules/rule-sheet').then((module) => module.RuleSheet))

const STEPS = ['sent', 'received', 'applied'] as const
const STEP_LABELS = { sent: 'sent', received: 'received by the machine', applied: 'applied by the agent' }

/** How far a decision has been delivered. */
export function Delivery({ of }: { of: SentDecision }) {
  if (of.state === 'refused' || of.state === 'expired') {
    return <Problem text={of.problem || (of.state === 'expired' ? 'The machine was offline for too long: the decision was not applied.' : 'The decision was not applied.')} />
  }
  const reached = STEPS.indexOf(of.state as 'sent')
  return (
    <p class="delivery" role="status" data-state={of.state}>
      <strong>{of.body.decision !== 'allow' ? 'Denied' : of.body.answers ? 'Answered' : 'Allowed'}</strong>
      {reached < 0 && <span class="step now">sending …</span>}
      {STEPS.slice(0, Math.max(0, reached + 1)).map((step) => (
        <span key={step} class="step"><Icon name="check" />{STEP_LABELS[step]}</span>
      ))}
      {of.state === 'sent' && <span class="step faint">waiting for the machine</span>}
    </p>
  )
}

export function AskCard({ record, inThread = false }: { record: P.AskRecord; inThread?: boolean }) {
  const { ask } = record
  const session = sessions.value.get(record.session)
  const node = nodes.value.get(session?.node ?? '')
  const decision = decisionFor(record.id)
  const open = record.status === 'pending' && (!decision || decision.state === 'refused' || decision.state === 'expired')
  const reason = danger(ask)
  const parts = partsOf(ask, record.parts)
  const [asked, setAsked] = useState(false)
  const asking = ask.kind === 'question' && !ask.withheld && !ask.at_terminal
  const whole = asked || asking || !!ask.at_terminal || !parts.some((part) => isLong(part.text))
  const showAll = () => {
    pauseCardButtons() // Allow appears where the finger may still be
    setAsked(true)
    card.current?.focus({ preventScroll: true })
  }
  const Heading = inThread ? 'h2' : 'h3'
  const card = useRef<HTMLElement>(null)
  const before = useRef(open)
  useEffect(() => {
    // The pressed button is gone: keyboard and screen reader stay at this card.
    if (before.current && !open && decision && document.activeElement === document.body) card.current?.focus({ preventScroll: true })
    before.current = open
  }, [open])
  const wanted = wantedAsk.value === record.id
  useEffect(() => {
    if (!wanted) return
    wantedAsk.value = ''
    card.current?.focus({ preventScroll: true })
    card.current?.scrollIntoView({ block: 'nearest' })
  }, [wanted])
  return (
    <article
      ref={card} tabIndex={-1} class={`ask ${reason ? 'danger' : ''} ${open ? '' : 'over'}`} aria-label={askHeading(ask)} data-ask={record.id} data-waits={open ? record.id : undefined}
      onClickCapture={ignoreTaps}
    >
      {!inThread && session && (
        <a class="ask-from" href={sessionUrl(session.id)} data-internal="1">
          <span class="agent-dot" data-agent={session.agent} aria-hidden="true" />
          <span class="ask-who">{agentName(session.agent)}</span>
          <span class="ask-where"><bdi>{sessionTitle(session)}</bdi>{node && <> · {visibleLine(node.name || node.id)}</>}</span>
          <Icon name="chevron" />
        </a>
      )}
      <header class="ask-head">
        <Heading>{askHeading(ask)}</Heading>
        {open && record.expires_at > 0 && <Countdown until={record.expires_at} />}
      </header>
      {reason && <p class="danger-note"><Icon name="warn" /> This {reason}.</p>}
      {asking && open ? <QuestionContext ask={ask} parts={parts} /> : <AskParts parts={parts} cwd={session?.cwd} whole={whole} />}
      {ask.withheld && <p class="problem withheld"><Icon name="warn" /> {visible(ask.withheld)}{ask.at_terminal ? '' : ' It can only be denied.'}</p>}
      {open && (ask.at_terminal
        ? <p class="problem"><Icon name="warn" /> {visible(ask.at_terminal)}</p>
        : asking
          ? <Questions record={record} />
          : <DecisionButtons record={record} hold={!!reason} showAll={whole ? undefined : showAll} />)}
      {decision ? <Delivery of={decision} /> : record.status !== 'pending' && <DecidedElsewhere record={record} />}
      {node && !node.online && open && <p class="faint small-text">{node.name || node.id} is offline: your decision is delivered when it is back.</p>}
    </article>
  )
}

/** The parts of a question that its form does not show. */
function QuestionContext({ ask, parts }: { ask: P.Ask; parts: readonly P.Part[] }) {
  const asked = new Set((ask.questions ?? []).flatMap(({ text, choices }) => [text, ...(choices ?? []).flatMap(({ label, description }) => [label, `${label}: ${description}`])]))
  const more = parts.filter((part) => !asked.has(part.text))
  const [texts, code] = [more.filter((part) => part.form !== 'code'), more.filter((part) => part.form === 'code')]
  return (
    <>
      {texts.length > 0 && <AskParts parts={texts} />}
      {code.length > 0 && <details><summary>As the agent sent it</summary><AskParts parts={code} /></details>}
    </>
  )
}

function DecidedElsewhere({ record }: { record: P.AskRecord }) {
  const { answer, status } = record
  const text = !answer ? (status === 'expired' ? 'Not answered in time: denied.' : 'The agent withdrew the request.')
    : `${answer.decision === 'allow' ? 'Allowed' : 'Denied'}${answeredBy(answer)}.`
  return <p class="delivery" role="status">{text}</p>
}

export function Countdown({ until }: { until: number }) {
  const seconds = until - now.value
  return <span class={seconds < 60 ? 'countdown soon' : 'countdown'} role="timer"><Icon name="clock" /> {timeLeft(seconds)}</span>
}

/** What a remembered allowance permits: the driver's text, else what is known. */
function rememberLabel(ask: P.Ask, span: P.Decision['remember']): string {
  if (!span || span === 'once') return 'Only this once'
  const scope = (ask.scopes as Readonly<Record<string, string>> | undefined)?.[span]
  if (scope) return visibleLine(scope)
  if (span === 'always') return 'Whatever the agent counts as the same, from now on'
  return ask.remember?.includes(span) ? 'Whatever the agent counts as the same, in this session' : 'Exactly this again, in this session'
}

/** Without an Allow button while a part of the action is not shown or was withheld. */
function DecisionButtons({ record, hold, showAll }: { record: P.AskRecord; hold: boolean; showAll?: () => void }) {
  const { ask } = record
  const [denying, setDenying] = useState(false)
  const [reason, setReason] = useState('')
  const offered = new Set<P.Decision['remember']>(['once', ...(ask.action && !hold ? ['session' as const] : []), ...(hold ? [] : ask.remember ?? [])])
  const [remember, setRemember] = useState<NonNullable<P.Decision['remember']>>('once')
  const [ruling, setRuling] = useState(false)
  const always = useRef<HTMLButtonElement>(null)
  const ruledBefore = useRef(false)
  useEffect(() => {
    if (ruledBefore.current && !ruling) always.current?.focus({ preventScroll: true }) // where the keyboard was
    ruledBefore.current = ruling
  }, [ruling])
  const allow = () => void decide(record, { decision: 'allow', remember })
  if (denying) {
    return (
      <form class="deny-form" onSubmit={(event) => { event.preventDefault(); void decide(record, { decision: 'deny', reason }) }}>
        <label>Why? The agent reads this.
          <textarea rows={2} value={reason} placeholder="Optional" ref={(box) => { if (box && !reason) box.focus() }} onInput={(event) => setReason(event.currentTarget.value)} />
        </label>
        <div class="row">
          <button type="button" onClick={() => setDenying(false)}>Back</button>
          <button type="submit" class="deny grow" aria-disabled={cardsMoving.value}>Deny</button>
        </div>
      </form>
    )
  }
  const label = ask.kind === 'plan' ? 'Approve' : remember === 'once' ? 'Allow once' : `Allow: ${rememberLabel(ask, remember)}`
  const allowable = !ask.withheld && !showAll
  const canBecomeRule = allowable && !hold && ask.kind === 'permission' && !!ask.action && !ask.wider
  return (
    <>
      {allowable && ask.kind === 'permission' && offered.size > 1 && (
        <label class="remember">
          <span class="sr">How long to remember</span>
          <select value={remember} onChange={(event) => setRemember(event.currentTarget.value as typeof remember)}>
            {[...offered].map((choice) => <option key={choice} value={choice}>{rememberLabel(ask, choice)}</option>)}
          </select>
        </label>
      )}
      <div class="row ask-buttons">
        <button type="button" class="deny" onClick={() => setDenying(true)}>Deny …</button>
        {showAll && !ask.withheld && <button type="button" class="grow" aria-disabled={cardsMoving.value} onClick={showAll}>Show all of it, then decide</button>}
        {allowable && (hold
          ? <HoldButton class="allow grow" label="Hold to allow" onConfirm={allow} />
          : <button type="button" class="allow primary grow" aria-disabled={cardsMoving.value} onClick={allow}>{label}</button>)}
      </div>
      {canBecomeRule && <button ref={always} type="button" class="plain always" aria-haspopup="dialog" onClick={() => setRuling(true)}>Always …</button>}
      {ruling && <RuleSheet record={record} onClose={() => setRuling(false)} />}
    </>
  )
}

function Questions({ record }: { record: P.AskRecord }) {
  const questions = record.ask.questions ?? []
  const [chosen, setChosen] = useState<Record<string, readonly string[]>>({})
  const [free, setFree] = useState<Record<string, string>>({})
  const single = questions.length === 1 && !questions[0]!.many
  const answers = (more: Record<string, readonly string[]> = {}) => Object.fromEntries(questions.map((question) => {
    const own = free[question.id]?.trim()
    return [question.id, more[question.id] ?? [...(chosen[question.id] ?? []), ...(own ? [own] : [])]] as const
  }))
  const complete = questions.every((question) => answers()[question.id]!.length)
  const submit = (all: Record<string, readonly string[]>) => void decide(record, { decision: 'allow', answers: all })
  return (
    <form class="questions" onSubmit={(event) => { event.preventDefault(); if (complete) submit(answers()) }}>
      {questions.map((question, index) => (
        <fieldset key={question.id}>
          <legend>{index > 0 && question.header && <small class="block faint">{visibleLine(question.header)}</small>}{visible(question.text)}</legend>
          <div class="choices">
            {(question.choices ?? []).map((choice) => {
              const on = (chosen[question.id] ?? []).includes(choice.label)
              return (
                <button
                  key={choice.id} type="button" aria-disabled={cardsMoving.value} class={on ? 'choice on' : 'choice'} aria-pressed={single ? undefined : on}
                  onClick={() => {
                    if (single) { submit({ [question.id]: [choice.label] }); return }
                    const before = question.many ? (chosen[question.id] ?? []) : []
                    setChosen({ ...chosen, [question.id]: on ? before.filter((label) => label !== choice.label) : [...before, choice.label] })
                  }}
                >
                  <span>{visible(choice.label)}</span>
                  {choice.description && <small>{visible(choice.description)}</small>}
                </button>
              )
            })}
          </div>
          {(question.free ?? true) && (
            <input
              type="text" placeholder="Something else …" aria-label={`Your own answer to: ${visibleLine(question.text)}`} value={free[question.id] ?? ''}
              onInput={(event) => setFree({ ...free, [question.id]: event.currentTarget.value })}
            />
          )}
        </fieldset>
      ))}
      <div class="row">
        <button type="button" class="deny" aria-disabled={cardsMoving.value} onClick={() => void decide(record, { decision: 'deny', reason: 'the person did not want to answer' })}>Skip</button>
        <button type="submit" class="primary grow" disabled={!complete} aria-disabled={cardsMoving.value}>Answer</button>
      </div>
    </form>
  )
}
