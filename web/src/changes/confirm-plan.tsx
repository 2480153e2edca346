/** What would happen, whole, before a person agrees to it. The machine does exactly this, or nothing. */
import { useState } from 'preact/hooks'
import { AskParts } from '../asks/ask-parts'
import type * as P from '../generated/protocol'
import { visible } from '../shared/visible-text'
import { HoldButton, Problem, Sheet } from '../ui/components'

export function ConfirmPlan(props: { plan: P.ChangePlan; verb: string; changed: boolean; problem: string; onConfirm: () => Promise<void>; onClose: () => void }) {
  const [busy, setBusy] = useState(false)
  const confirm = () => {
    if (busy) return
    setBusy(true)
    void props.onConfirm().finally(() => setBusy(false))
  }
  return (
    <Sheet
      title={visible(props.plan.title)} wide onClose={props.onClose}
      foot={<div class="row end"><button type="button" onClick={props.onClose}>Cancel</button><HoldButton key={props.plan.digest} class="deny" label={busy ? 'Working …' : props.verb} onConfirm={confirm} /></div>}
    >
      {props.changed && <p class="note warning" role="alert">It has changed meanwhile; nothing was done. This is what would happen now.</p>}
      <Problem text={props.problem} />
      <AskParts parts={props.plan.parts} />
    </Sheet>
  )
}

/** Title and text of a pull request. */
export function PullRequestForm(props: { suggested: string; problem: string; onSubmit: (title: string, body: string) => void; onClose: () => void }) {
  const [title, setTitle] = useState(props.suggested)
  const [body, setBody] = useState('')
  return (
    <Sheet title="Open a pull request" onClose={props.onClose}>
      <form class="stack" onSubmit={(event) => { event.preventDefault(); if (title.trim()) props.onSubmit(title.trim(), body) }}>
        <Problem text={props.problem} />
        <label>Title<input type="text" required value={title} onInput={(event) => setTitle(event.currentTarget.value)} /></label>
        <label>Text<textarea rows={6} value={body} onInput={(event) => setBody(event.currentTarget.value)} /></label>
        <button type="submit" class="primary" disabled={!title.trim()}>Show what would happen</button>
      </form>
    </Sheet>
  )
}
