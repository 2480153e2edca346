/** Turns push notifications on and off for this device. */
import { useEffect, useState } from 'preact/hooks'
import { errorMessage } from '../api/client'
import { disablePush, enablePush, refreshPushState, pushState, pushView, testPush } from '../push/subscription'
import { connectionState } from '../store/store'
import { Problem } from '../ui/components'
import { Icon } from '../ui/icons'

export function NotificationSettings() {
  const [problem, setProblem] = useState('')
  const [said, setSaid] = useState('')
  const content = pushView.value?.content ?? false
  const call = (what: Promise<unknown>) => { setSaid(''); void what.then(() => setProblem(''), (error: unknown) => setProblem(errorMessage(error))) }
  useEffect(() => { if (connectionState.value.state === 'online') call(refreshPushState()) }, [connectionState.value.state])
  const state = pushState.value
  return (
    <section aria-label="Notifications">
      <h2><Icon name="bell" /> Notifications</h2>
      <p class="faint">When an agent needs you, is done, or a machine stays away; and only when no page is open in front of you.</p>
      <Problem text={problem} />
      {state === 'unsupported' && <p>This browser has no pushes here. On an iPhone, first add the page to the home screen. Elsewhere, open it by https or on localhost.</p>}
      {state === 'blocked' && <p>Notifications are blocked for this page. Allow them in the browser’s settings.</p>}
      {state === 'off' && <button type="button" class="primary" onClick={() => call(enablePush(false))}>Notify this device</button>}
      {state === 'on' && (
        <>
          <label class="option"><input type="checkbox" checked={content} onChange={(event) => call(enablePush(event.currentTarget.checked))} /> <span>Show what is asked on the lock screen</span></label>
          <div class="row wrap">
            <button
              type="button"
              onClick={() => call(testPush().then((told) => setSaid(told.sent ? 'Sent. It should arrive in a moment.' : (told.problems?.[0] ?? 'No subscription took it. Switch it off and on again.'))))}
            >Send a test push</button>
            <button type="button" onClick={() => call(disablePush())}>Stop notifying</button>
          </div>
          <p role="status">{said}</p>
        </>
      )}
    </section>
  )
}
