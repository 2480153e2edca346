/** "Always allow": the rules that an ask could become, and what each would have decided before. Loaded when it is opened. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import { errorMessage, get, IdempotentRequest, post } from '../api/client'
import { decide } from '../asks/decisions'
import type * as P from '../generated/protocol'
import { abbreviateHome } from '../shared/format'
import { visibleLine } from '../shared/visible-text'
import { nodes, sessions } from '../store/store'
import { Problem, Sheet, useFetched } from '../ui/components'
import { Preview } from './rule-preview'
import { RuleText } from './rule-text'

export function RuleSheet({ record, onClose }: { record: P.AskRecord; onClose: () => void }) {
  const { value: choices, problem } = useFetched(() => get<P.RuleChoice[]>(`asks/${encodeURIComponent(record.id)}/rule-choices`), [record.id])
  const [chosen, setChosen] = useState(0)
  const [everywhere, setEverywhere] = useState(false)
  const [preview, setPreview] = useState<P.RulePreview | undefined>(undefined)
  const [failed, setFailed] = useState('')
  const [saving, setSaving] = useState(false)
  const request = useMemo(() => new IdempotentRequest(), [])
  const choice = choices?.[chosen]
  const rule: P.NewRule | undefined = choice && (everywhere ? { ...choice.rule, directory: '', node: '' } : choice.rule)
  const session = sessions.value.get(record.session)
  const machine = nodes.value.get(session?.node ?? '')
  useEffect(() => {
    if (!rule) return
    let live = true
    setPreview(undefined)
    post<P.RulePreview>('rules/preview', rule).then((fetched) => { if (live) { setPreview(fetched); setFailed('') } }, (error: unknown) => { if (live) setFailed(errorMessage(error)) })
    return () => { live = false }
  }, [choices, chosen, everywhere])
  const save = () => {
    setSaving(true)
    request.send<P.RuleView>('POST', 'rules', rule).then(
      () => { void decide(record, { decision: 'allow' }); onClose() },
      (error: unknown) => { setSaving(false); setFailed(errorMessage(error)) },
    )
  }
  return (
    <Sheet
      title="Always allow" onClose={onClose}
      foot={rule && (
        <div class="row">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="button" class="primary grow" disabled={!preview || saving} onClick={save}>Save and allow this</button>
        </div>
      )}
    >
      <Problem text={problem || failed} />
      {!choices && !problem && <p class="faint">Loading …</p>}
      {choices?.length === 0 && <p>Only a person can decide such a request: it cannot become a rule.</p>}
      {!!choices?.length && (
        <>
          <fieldset class="rule-choices">
            <legend>From now on allow</legend>
            {choices.map((option, index) => (
              <label key={option.label} class="option"><input type="radio" name="rule" checked={index === chosen} onChange={() => setChosen(index)} /> <span><RuleText text={option.label} pattern={option.rule.pattern} /></span></label>
            ))}
          </fieldset>
          <fieldset class="rule-choices">
            <legend>Where</legend>
            <label class="option"><input type="radio" name="where" checked={!everywhere} onChange={() => setEverywhere(false)} /> <span>In {visibleLine(abbreviateHome(choice!.rule.directory ?? '', machine?.home))}{machine && <> on {visibleLine(machine.name || machine.id)}</>}</span></label>
            <label class="option"><input type="radio" name="where" checked={everywhere} onChange={() => setEverywhere(true)} /> <span>In every directory, on every machine</span></label>
          </fieldset>
          {preview ? <Preview of={preview} /> : !failed && <p class="faint">Testing with past requests …</p>}
          <p class="faint small-text">It never allows what a session’s policy denies. <a href="/settings" data-internal="1">Settings</a> lists the rules; each can be revoked there.</p>
        </>
      )}
    </Sheet>
  )
}
