/** The git worktree that a session works in: how it stands to its base branch, and its merge, rebase or end. */
import { useState } from 'preact/hooks'
import { get, request, errorMessage } from '../api/client'
import { trackCommand } from '../commands/pending-commands'
import type * as P from '../generated/protocol'
import { visible } from '../shared/visible-text'
import { Problem, useFetched } from '../ui/components'
import { Icon } from '../ui/icons'

type Verb = 'merge' | 'rebase' | 'discard'
const LABELS: Readonly<Record<Verb, string>> = { merge: 'Merge', rebase: 'Rebase', discard: 'Discard' }

export function WorktreePanel({ session }: { session: P.SessionRecord }) {
  const tree = session.worktree!
  const base = tree.into || tree.base.slice(0, 10)
  const path = `sessions/${encodeURIComponent(session.id)}/worktree`
  const { value, problem, reload } = useFetched(() => get<P.WorktreeStatus>(path), [session.id, session.turns, session.status, tree.ended])
  const [chosen, setChosen] = useState<Verb | ''>('')
  const [busy, setBusy] = useState(false)
  const [refusal, setRefusal] = useState('')
  const [done, setDone] = useState('')
  const atWork = session.status === 'working' || session.status === 'waiting' || session.status === 'stuck'
  const change = async (verb: Verb) => {
    setBusy(true)
    setRefusal('')
    setDone('')
    try {
      const outcome = await trackCommand<P.WorktreeOutcome>(`${LABELS[verb]} ${tree.branch}`, session.id, request('POST', `${path}/${verb}`, undefined))
      if (outcome) setDone(outcomeText(outcome))
      setChosen('')
      reload()
    } catch (error) {
      setRefusal(errorMessage(error))
      setChosen('')
    }
    setBusy(false)
  }
  return (
    <section class="worktree" aria-label="Worktree">
      <p><strong>Worktree</strong></p>
      <p><code>{visible(tree.branch)}</code> <span class="faint">from</span> <code>{visible(base)}</code></p>
      {tree.ended ? <p class="faint small-text">{tree.ended === 'merged' ? 'Merged' : 'Discarded'}. The next prompt makes it again, from {visible(base)} as it is then.</p> : value ? <p class="faint small-text">{statusText(value)}</p> : !problem && <p class="faint small-text" role="status">Comparing …</p>}
      {!tree.ended && (value?.conflicts?.length ?? 0) > 0 && <p class="small-text"><Icon name="warn" /> Conflicts with {visible(base)} in {visible(value!.conflicts!.join(', '))}</p>}
      <Problem text={refusal || problem || value?.problem || ''} />
      {done && <p role="status" class="small-text">{visible(done)}</p>}
      {!tree.ended && !chosen && (
        <div class="row wrap">
          {(Object.keys(LABELS) as Verb[]).map((verb) => <button key={verb} type="button" class={verb === 'discard' ? 'deny' : ''} disabled={atWork} onClick={() => { setRefusal(''); setChosen(verb) }}>{LABELS[verb]}</button>)}
        </div>
      )}
      {!tree.ended && atWork && <p class="faint small-text">It can be merged when the turn has ended.</p>}
      {chosen && (
        <div class="stack" role="group" aria-label={`${LABELS[chosen]}: confirm`}>
          <p>{visible(question(chosen, tree.branch, base, value))}</p>
          <div class="row wrap">
            <button type="button" class={chosen === 'discard' ? 'deny' : 'primary'} disabled={busy} autofocus onClick={() => void change(chosen)}>{busy ? 'One moment …' : LABELS[chosen]}</button>
            <button type="button" disabled={busy} onClick={() => setChosen('')}>Cancel</button>
          </div>
        </div>
      )}
    </section>
  )
}

const count = (number: number, word: string) => `${number} ${word}${number === 1 ? '' : 's'}`

export function statusText(status: P.WorktreeStatus): string {
  const { ahead = 0, behind = 0, files = 0, insertions = 0, deletions = 0, uncommitted = 0 } = status
  const parts = [
    ahead && `${count(ahead, 'commit')} ahead`, behind && `${behind} behind`,
    files && `${count(files, 'file')}, +${insertions} −${deletions}`, uncommitted && `${count(uncommitted, 'file')} not committed`,
  ]
  return parts.filter(Boolean).join(' · ') || 'No changes yet'
}

function question(verb: Verb, branch: string, base: string, status: P.WorktreeStatus | undefined): string {
  const first = status?.uncommitted ? ` ${count(status.uncommitted, 'file')} not committed yet will be committed first.` : ''
  if (verb === 'merge') return `Merge ${branch} into ${base}, and remove the worktree?${first}`
  if (verb === 'rebase') return `Rebase ${branch} onto ${base} as it is now?${first}`
  return `Discard ${branch} and its files? What is not merged is kept under a reference of the repository.`
}

export function outcomeText(outcome: P.WorktreeOutcome): string {
  const first = outcome.committed ? `${count(outcome.committed, 'file')} committed. ` : ''
  if (outcome.done === 'merged') return `${first}Merged into ${outcome.into}.${outcome.kept ? ` The worktree stays: ${outcome.kept}.` : ''}`
  if (outcome.done === 'rebased') return `${first}Rebased on ${outcome.into}.`
  return outcome.kept_as ? `Discarded. To have it back: git branch ${outcome.branch} ${outcome.kept_as}` : 'Discarded; its base had all of it.'
}
