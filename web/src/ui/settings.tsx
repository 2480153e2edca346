/** This device's notifications, the machines, the devices, and how to add one. */
import { useEffect, useState } from 'preact/hooks'
import { get, post, remove, send, words } from '../api'
import { agentName, ago } from '../format'
import { ordersOf, told } from '../orders'
import type * as P from '../protocol'
import { disablePush, enablePush, lookAtPush, pushState, pushView, testPush } from '../push'
import { signOut } from '../sign'
import { link, me, nodes, now } from '../store'
import { visible } from '../visible'
import { Icon } from './icons'
import { Orders } from './orders'
import { Copy, Pane, Problem, useFetched } from './parts'

export function Settings() {
  return (
    <Pane>
      <header class="pane-head"><div class="pane-title"><h1>Settings</h1></div></header>
      <div class="pane-scroll page">
        <Notifications />
        <Machines />
        <Devices />
        <Audit />
        <section>
          <h2>About</h2>
          <p class="faint">Tieline {me.value?.version ?? ''} · <a href="/api/v1/docs" target="_blank" rel="noopener">API</a></p>
          <button type="button" onClick={() => void signOut()}>Sign out</button>
        </section>
      </div>
    </Pane>
  )
}

function Notifications() {
  const [problem, setProblem] = useState('')
  const [said, setSaid] = useState('')
  const content = pushView.value?.content ?? false
  const call = (what: Promise<unknown>) => { setSaid(''); void what.then(() => setProblem(''), (error: unknown) => setProblem(words(error))) }
  useEffect(() => { if (link.value.state === 'online') call(lookAtPush()) }, [link.value.state])
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

const DOINGS = {
  node: { there: 'On the machine that shall join, type:', here: 'On this machine it works, for another user:' },
  page: { there: 'Point the other device’s camera at this, or open the link there:', here: 'On this machine it works, in another browser:' },
}

/** A secret made for one machine or device, shown while it is good. */
function Offered({ offer }: { offer: P.Offer }) {
  const seconds = Math.max(0, Math.round(offer.expires_at - now.value))
  const command = offer.kind === 'node' ? `tieline node join '${offer.url}'` : offer.url
  return (
    <div class="offer" role="status">
      {offer.here_only && (
        <div class="card">
          <p><Icon name="warn" /> <strong>Only the hub’s own machine reaches this address.</strong></p>
          <p>For {offer.kind === 'node' ? 'another machine' : 'a phone'}: <code>tieline down</code>, then <code>tieline up --host 0.0.0.0</code> with TLS (<code>hub.tls_certificate</code>, <code>hub.tls_key</code>), or with <code>--insecure</code> on a network you trust. Behind a proxy or a tunnel, say its address in <code>hub.public_url</code>. Then come back here.</p>
        </div>
      )}
      <p>{DOINGS[offer.kind === 'node' ? 'node' : 'page'][offer.here_only ? 'here' : 'there']}</p>
      {offer.qr && seconds > 0 && <img class="qr" src={offer.qr} alt="The link as a QR code" />}
      <pre class="code command">{command}</pre>
      <div class="row wrap">
        <Copy text={command} />
        {offer.kind === 'page' && 'share' in navigator && <button type="button" class="small" onClick={() => void navigator.share({ url: offer.url }).catch(() => undefined)}>Share</button>}
        <span class="faint">{seconds ? `Works once, for ${Math.ceil(seconds / 60)} min` : 'Expired'}</span>
      </div>
    </div>
  )
}

function away(node: P.NodeView): string {
  const time = node.seen_at ? ago(node.seen_at, now.value) : ''
  return !time || time === 'now' ? 'offline' : `offline for ${time}`
}

function Machines() {
  const [offer, setOffer] = useState<P.Offer | undefined>(undefined)
  const [problem, setProblem] = useState('')
  const all = [...nodes.value.values()].sort((one, other) => (one.name || one.id).localeCompare(other.name || other.id))
  const call = (what: Promise<unknown>) => void what.then(() => setProblem(''), (error: unknown) => setProblem(words(error)))
  return (
    <section aria-label="Machines">
      <h2><Icon name="machine" /> Machines</h2>
      <Problem text={problem} />
      <Orders of={ordersOf('')} />
      <ul class="cards">
        {all.map((node) => (
          <li key={node.id} class="card">
            <div class="row">
              <strong class="grow">{node.name || node.id}</strong>
              <span class={node.online ? 'chip done' : 'chip offline'}>{node.online ? 'online' : away(node)}</span>
            </div>
            <p class="faint small-text">{[node.platform, node.version && `Tieline ${node.version}`, node.local && 'runs the hub'].filter(Boolean).join(' · ')}</p>
            {(node.limits ?? []).length > 0 && <p class="faint small-text">Goes without: {node.limits!.join(', ')}</p>}
            <ul class="agents">
              {(node.agents ?? []).filter((agent) => agent.found).map((agent) => (
                <li key={agent.name} title={[agent.problem, agent.hint].filter(Boolean).join(' ')}>
                  <span class={`dot ${!node.online ? '' : agent.ready ? 'good' : 'bad'}`} aria-hidden="true" />{agentName(agent.name)} <small class="faint">{agent.version}</small>
                  {!agent.ready && <small class="faint"> · {agent.hint || agent.problem || 'not ready'}</small>}
                </li>
              ))}
            </ul>
            <div class="row end">
              {node.online && <button type="button" class="small" onClick={() => call(told(`Look again at ${node.name || node.id}`, '', send('POST', `nodes/${encodeURIComponent(node.id)}/refresh`, {})))}>Look again</button>}
              {!node.local && <button type="button" class="small deny" onClick={() => { if (confirm(`Remove ${node.name || node.id}? Its key is revoked and its sessions are no longer shown.`)) call(remove(`nodes/${encodeURIComponent(node.id)}`)) }}>Remove</button>}
            </div>
          </li>
        ))}
      </ul>
      {offer ? <Offered offer={offer} /> : <button type="button" onClick={() => call(post<P.Offer>('pairings', { kind: 'node' }).then(setOffer))}><Icon name="plus" /> Join a machine</button>}
    </section>
  )
}

/** The devices that a device let in, and those that these let in. */
function letIn(id: string, all: readonly P.DeviceView[]): P.DeviceView[] {
  const reached = [id]
  for (const from of reached) for (const device of all) if (device.by === from && !reached.includes(device.id)) reached.push(device.id)
  return all.filter((device) => reached.indexOf(device.id) > 0)
}

/** A device as the audit log names it: several may have the same name. */
function signature({ id, name }: P.DeviceView): string {
  return id === 'owner' ? name || id : `${visible(name)} (${id.slice(-6)})`
}

function Devices() {
  const [offer, setOffer] = useState<P.Offer | undefined>(undefined)
  const [problem, setProblem] = useState('')
  const [leaving, setLeaving] = useState('')
  const { value, problem: unread, reload } = useFetched(() => get<P.DeviceView[]>('devices'), [link.value.state === 'online', offer])
  const call = (what: Promise<unknown>) => void what.then(() => { setProblem(''); setLeaving(''); reload() }, (error: unknown) => setProblem(words(error)))
  const all = value ?? []
  const known = (id: string) => {
    const device = all.find((device) => device.id === id)
    return device ? signature(device) : `a device that was revoked (${id.slice(-6)})`
  }
  const revoke = (id: string, more = '') => call(remove(`devices/${encodeURIComponent(id)}${more}`))
  return (
    <section aria-label="Devices">
      <h2><Icon name="phone" /> Devices</h2>
      <Problem text={problem || unread} />
      <ul class="cards">
        {all.map((device) => {
          const others = letIn(device.id, all)
          return (
            <li key={device.id} class="card">
              <div class="row">
                <span class="grow"><strong>{signature(device)}</strong>{device.current && <span class="tag">this one</span>}
                  <small class="faint block">{[device.kind ?? 'client', device.seen_at ? `seen ${ago(device.seen_at, now.value)}` : '', device.by ? `let in by ${known(device.by)}` : ''].filter(Boolean).join(' · ')}</small>
                </span>
                {!device.current && device.id !== 'owner' && leaving !== device.id && <button type="button" class="small deny" onClick={() => others.length ? setLeaving(device.id) : revoke(device.id)}>Revoke</button>}
              </div>
              {leaving === device.id && (
                <div role="group" aria-label={`Revoke ${signature(device)}`}>
                  <p>It let in {others.map(signature).join(', ')}.</p>
                  <div class="row wrap">
                    <button type="button" class="small deny" onClick={() => revoke(device.id, '?let_in=true')}>Revoke all {others.length + 1}</button>
                    <button type="button" class="small deny" onClick={() => revoke(device.id)}>Only this one</button>
                    <button type="button" class="small" onClick={() => setLeaving('')}>Cancel</button>
                  </div>
                </div>
              )}
            </li>
          )
        })}
      </ul>
      {offer ? <Offered offer={offer} /> : <button type="button" onClick={() => call(post<P.Offer>('pairings', { kind: 'page' }).then(setOffer))}><Icon name="plus" /> Add a phone or browser</button>}
    </section>
  )
}

const AUDIT_PAGE = 50

/** Who came in, decided and was refused: the newest first, more of it when it is asked for. */
function Audit() {
  const [lines, setLines] = useState<readonly P.AuditLine[] | undefined>(undefined)
  const [problem, setProblem] = useState('')
  const [over, setOver] = useState(false)
  const more = () => {
    const before = lines?.at(-1)?.seq ?? 0
    void get<P.AuditLine[]>(`audit?limit=${AUDIT_PAGE}&before=${before}`).then((found) => {
      setProblem('')
      setOver(found.length < AUDIT_PAGE)
      setLines([...(lines ?? []), ...found])
    }, (error: unknown) => setProblem(words(error)))
  }
  return (
    <section aria-label="Audit log">
      <h2><Icon name="list" /> Audit log</h2>
      <p class="faint">Who signed in, paired, decided, changed a policy or was refused. Kept for 90 days.</p>
      <Problem text={problem} />
      {lines && (
        <ul class="cards">
          {lines.map((line) => (
            <li key={line.seq} class="card">
              <p><strong>{line.what}</strong> · {visible(line.who || 'a stranger')}{(line.count ?? 1) > 1 && ` · ${line.count} times`}</p>
              <small class="faint">{[new Date(line.at * 1000).toLocaleString(), line.via, ...Object.entries(line.details ?? {}).map(([name, value]) => `${name}: ${value}`)].filter(Boolean).map((part) => visible(part ?? '')).join(' · ')}</small>
            </li>
          ))}
        </ul>
      )}
      {!over && <button type="button" onClick={more}>{lines ? 'Show more' : 'Show'}</button>}
    </section>
  )
}
