import { render } from 'preact'
import { App, signedOut } from './app/app'
import { navigate } from './app/router'
import { restoreSignIn, refreshIdentity } from './auth/auth'
import { connection, connectionState, me } from './store/store'

async function begin(): Promise<void> {
  const problem = await restoreSignIn()
  if (problem) signedOut.value = problem.trim()
  const root = document.getElementById('page')!
  root.replaceChildren() // the loading text
  render(<App />, root)
}

document.addEventListener('visibilitychange', () => connection.setVisible(document.visibilityState === 'visible'))
addEventListener('online', () => connection.wake())
addEventListener('pageshow', (event) => { if (event.persisted) connection.wake() })

connectionState.subscribe((now) => {
  if (now.state === 'signed-out') void refreshIdentity().then((still) => { if (!still) signedOut.value = 'This device was signed out.' })
  else if (now.state === 'online' && !me.peek()) void refreshIdentity()
})

if ('serviceWorker' in navigator && !import.meta.env.DEV) {
  navigator.serviceWorker.addEventListener('message', (event: MessageEvent<{ go?: string }>) => { if (event.data.go) navigate(event.data.go) })
  addEventListener('load', () => void navigator.serviceWorker.register('/sw.js').catch(() => undefined))
}

void begin()
