/** The sign-in page: by a one-time link, its QR code, or the secret in it. */
import { useState } from 'preact/hooks'
import { errorMessage } from '../api/client'
import { Problem } from '../ui/components'
import { signIn } from './auth'

export function Login({ problem: before }: { problem: string }) {
  const [secret, setSecret] = useState('')
  const [problem, setProblem] = useState(before)
  const [busy, setBusy] = useState(false)
  const submit = async () => {
    setBusy(true)
    try {
      await signIn(secret)
    } catch (error) {
      setProblem(errorMessage(error))
    }
    setBusy(false)
  }
  return (
    <main class="login">
      <img src="/icons/icon.svg" alt="" width="72" height="72" />
      <h1>Tieline</h1>
      <p>This device is not signed in. On the machine where the hub runs, type</p>
      <pre class="code command">tieline pair</pre>
      <p>and open the link it prints (or scan its QR code) on this device. It works once, and for ten minutes.</p>
      <form class="stack" onSubmit={(event) => { event.preventDefault(); void submit() }}>
        <label>Or paste the link here<input type="text" value={secret} autocomplete="off" autocapitalize="off" spellcheck={false} onInput={(event) => setSecret(event.currentTarget.value)} /></label>
        <Problem text={problem} />
        <button type="submit" class="primary big" disabled={busy || !secret.trim()}>Sign in</button>
      </form>
    </main>
  )
}
