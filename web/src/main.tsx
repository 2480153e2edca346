import { render } from 'preact'
import { App, signedOut } from './app/app'
import { go } from './app/router'
import { arrive, recognise } from './auth/auth'
import { connection, link, me } from './store/store'

async function begin(): Promise<void> {
  const problem = await arrive()
  if (problem) signedOut.value = problem.trim()
  const root = document.getElementById('page')!
  root.replaceChildren() // what said that it is loading
  render(<App />, root)
}

document.addEventListener('visibilitychange', () => connection.visible(document.visibilityState === 'visible'))
addEventListener('online', () => connection.wake())
addEventListener('pageshow', (event) => { if (event.persisted) connection.wake() })

link.subscribe((now) => {
  if (now.state === 'signed-out') void recognise().then((still) => { if (!still) signedOut.value = 'This device was signed out.' })
  else if (now.state === 'online' && !me.peek()) void recognise()
})

if ('serviceWorker' in navigator && !import.meta.env.DEV) {
  navigator.serviceWorker.addEventListener('message', (event: MessageEvent<{ go?: string }>) => { if (event.data.go) go(event.data.go) })
  addEventListener('load', () => void navigator.serviceWorker.register('/sw.js').catch(() => undefined))
}

void begin()
