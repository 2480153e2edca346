/** Turns push notifications on and off for this device. */
import { useEffect, useState } from 'preact/hooks'
import { errorMessage } from '../api/client'
import { disablePush, enablePush, refreshPushState, pushState, pushView, testPush } from '../push/subscription'
import { connectionState } from '../store/store'
import { Problem } from '../ui/components'
import { Icon } from '../ui/icons'

export function NotificationSettings() {
  const [problem, setProblem] = useState('')
  const [status, setStatus] = useState('')
  const content = pushView.value?.content ?? false
  const call = (what: Promise<unknown>) => { setStatus(''); void what.then(() => setProblem(''), (error: unknown) => setProblem(errorMessage(error))) }
  useEffect(() => { if (connectionState.value.state === 'online') call(refreshPushState()) }, [connectionState.value.state])
  const state = pushState.value
  return (
    <section aria-label="Notifications">
      <h2><Icon name="bell" /> Notifications</h2>
      <p class="faint">When an agent needs you, when a turn is done, or when a machine stays offline; only while no page is visible.</p>
      <Problem text={problem} />
      {state === 'unsupported' && <p>Push is not available in this browser. On an iPhone, first add the page to the home screen. Elsewhere, open it over https or on localhost.</p>}
      {state === 'blocked' && <p>Notifications are blocked for this page. Allow them in the browser’s settings.</p>}
      {state === 'off' && <button type="button" class="primary" onClick={() => call(enablePush(false))}>Notify this device</button>}
      {state === 'on' && (
        <>
          <label class="option"><input type="checkbox" checked={content} onChange={(event) => call(enablePush(event.currentTarget.checked))} /> <span>Show the request on the lock screen</span></label>
          <div class="row wrap">
            <button
              type="button"
              onClick={() => call(testPush().then((result) => setStatus(result.sent ? 'Sent. It should arrive in a moment.' : (result.problems?.[0] ?? 'No subscription accepted it. Turn notifications off and on again.'))))}
            >Send a test push</button>
            <button type="button" onClick={() => call(disablePush())}>Stop notifying</button>
          </div>
          <p role="status">{status}</p>
        </>
      )}
    </section>
  )
}
