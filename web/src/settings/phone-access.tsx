/** How a phone reaches the hub: the ways that its machine has, the one that is set up, and the code that signs a phone in. */
import { useEffect, useState } from 'preact/hooks'
import { errorMessage, get, post, remove } from '../api/client'
import type * as P from '../generated/protocol'
import { usePolled } from '../messages/layout'
import { visibleLine } from '../shared/visible-text'
import { CopyButton, Problem, useFetched } from '../ui/components'
import { Icon } from '../ui/icons'
import { PairingOffer } from './pairing-offer'

/** Whether the page is open on the hub's own machine: only there the hub is opened to others, or closed. */
export const isOnHubMachine = (host = location.hostname): boolean => host === 'localhost' || host === '[::1]' || /^127\./.test(host)

export function PhoneAccess() {
  const { value: status, problem, reload } = usePolled(() => get<P.PhoneStatus>('phone'), [])
  const [changed, setChanged] = useState<P.PhoneStatus | undefined>(undefined)
  useEffect(() => setChanged(undefined), [status]) // the hub has said more since
  const shown = changed ?? status
  return (
    <section aria-label="Phone">
      <h2><Icon name="phone" /> Phone {shown?.state === 'on' && <span class="chip done">on</span>}{shown?.state === 'failed' && <span class="chip failed">does not work</span>}{shown?.state === 'starting' && <span class="chip working">starting</span>}</h2>
      <Problem text={status ? '' : problem} />
      {shown && (shown.way ? <Chosen status={shown} onOff={() => { setChanged({ ...shown, state: 'off', way: null }); reload() }} /> : isOnHubMachine()
        ? <Ways onSetUp={setChanged} />
        : <p class="faint">No way for phones is set up. Open this page on the hub’s own machine to set one up, or type <code>tieline phone</code> there.</p>)}
    </section>
  )
}

/** What a way means for safety. */
function WayFacts({ way }: { way: P.PhoneWay }) {
  const address = way.name === 'cloudflare' || way.name === 'ngrok' ? 'Another one after each start; phones are then paired again' : way.lasting ? '' : 'This machine’s; if it changes, phones are paired again'
  const facts: readonly (readonly [string, string])[] = [['Address', [way.address, address].filter(Boolean).join('. ')], ['Reached by', way.who_reaches], ['Read by', way.who_reads], ['Once', way.trust ? 'The phone must trust a certificate; a page explains how' : '']]
  return <dl class="facts">{facts.filter(([, text]) => text).map(([name, text]) => <div key={name}><dt>{name}</dt><dd>{visibleLine(text)}</dd></div>)}</dl>
}

function Ways({ onSetUp }: { onSetUp: (status: P.PhoneStatus) => void }) {
  const { value, problem } = useFetched(() => get<P.PhoneWay[]>('phone/ways'), [])
  const [chosen, setChosen] = useState('')
  const [busy, setBusy] = useState(false)
  const [refused, setRefused] = useState('')
  const here = (value ?? []).filter((way) => way.available)
  const others = (value ?? []).filter((way) => !way.available)
  const setUp = async (way: P.PhoneWay['name']) => {
    setBusy(true)
    try {
      onSetUp(await post<P.PhoneStatus>('phone', { way } satisfies P.PhoneSetup))
    } catch (error) {
      setRefused(errorMessage(error))
      setBusy(false)
    }
  }
  return (
    <>
      <p class="faint">Only this machine can reach the hub now. Choose a way for your phone; the first one is recommended.</p>
      <Problem text={problem || refused} />
      {!value && !problem && <p class="loading" role="status">Checking what this machine has …</p>}
      <ul class="cards">
        {here.map((way) => (
          <li key={way.name} class="card">
            <div class="row wrap"><strong class="grow">{way.title}</strong>{chosen !== way.name && <button type="button" class="small" aria-label={`Set up: ${way.title}`} onClick={() => { setChosen(way.name); setRefused('') }}>Set up …</button>}</div>
            <WayFacts way={way} />
            {chosen === way.name && (
              <div role="group" aria-label={`Set up ${way.title}`} class="stop-choice">
                <p>The hub will be reached by {visibleLine(way.who_reaches)}. It stays so until you turn it off, also over restarts.</p>
                <div class="row wrap">
                  <button type="button" class="small primary" disabled={busy} onClick={() => void setUp(way.name)}>{busy ? 'Setting up …' : 'Set it up'}</button>
                  <button type="button" class="small" disabled={busy} onClick={() => setChosen('')}>Cancel</button>
                </div>
              </div>
            )}
          </li>
        ))}
      </ul>
      {value && !here.length && <p class="faint">This machine has no way for a phone yet.</p>}
      {others.length > 0 && (
        <details class="more-ways">
          <summary>{others.length} more, not on this machine</summary>
          <ul class="cards">{others.map((way) => <li key={way.name} class="card"><strong>{way.title}</strong><p class="small-text">{visibleLine(way.problem)}</p><WayFacts way={way} /></li>)}</ul>
        </details>
      )}
    </>
  )
}

function Chosen({ status, onOff }: { status: P.PhoneStatus; onOff: () => void }) {
  const { value: ways } = useFetched(() => get<P.PhoneWay[]>('phone/ways'), [status.way])
  const way = ways?.find((candidate) => candidate.name === status.way)
  const here = isOnHubMachine()
  const [offer, setOffer] = useState<P.Offer | undefined>(undefined)
  const [leaving, setLeaving] = useState(false)
  const [problem, setProblem] = useState('')
  const call = (what: Promise<unknown>) => void what.then(() => setProblem(''), (error: unknown) => setProblem(errorMessage(error)))
  return (
    <div class="stack-small phone-way">
      {way && <strong>{way.title}</strong>}
      {status.url && <p class="mono">{[status.url, ...status.other_urls].join(' · ')}</p>}
      {way && <WayFacts way={{ ...way, address: '' }} />}
      <Problem text={status.problem && visibleLine([status.problem, status.hint].filter(Boolean).join(' '))} />
      {status.check && (status.check.ok ? <p class="small-text"><Icon name="check" /> Checked: {visibleLine(status.check.found)}.{way?.trust && ' A firewall of this machine, or a guest network, can still keep phones out.'}</p> : <Problem text={visibleLine(status.check.found)} />)}
      {status.command && <div><p>On the other computer, as long as it needs the page:</p><pre class="code command">{status.command}</pre><CopyButton text={status.command} /></div>}
      {here && status.trust_url && (
        <details class="trust" open>
          <summary>1. Only for a phone that does not trust this machine yet</summary>
          <p>Point its camera at this, and follow the page that opens:</p>
          {status.trust_qr && <img class="qr" src={status.trust_qr} alt="The certificate’s page as a QR code" />}
          <pre class="code command">{status.trust_url}</pre>
          <p>The certificate that the phone shows must have this SHA-256 fingerprint: <code class="fingerprint">{status.fingerprint}</code></p>
        </details>
      )}
      <Problem text={problem} />
      {here && status.url && (offer ? <PairingOffer offer={offer} /> : (
        <button type="button" class="primary" onClick={() => call(post<P.Offer>('pairings', { kind: 'page' }).then(setOffer))}><Icon name="phone" /> {status.trust_url ? '2. ' : ''}Show the code for a phone</button>
      ))}
      {!here ? <p class="faint small-text">It is turned off on the hub’s own machine: on this page there, or by <code>tieline phone off</code>.</p>
        : !leaving ? <button type="button" class="small deny" onClick={() => setLeaving(true)}>Turn off …</button> : (
          <div role="group" aria-label="Turn off" class="stop-choice">
            <p>Connections over it end at once. Paired phones stay paired.</p>
            <div class="row wrap">
              <button type="button" class="small deny" onClick={() => call(remove('phone').then(onOff))}>Turn it off</button>
              <button type="button" class="small" onClick={() => setLeaving(false)}>Keep it</button>
            </div>
          </div>
        )}
    </div>
  )
}
