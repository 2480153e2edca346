/** The signed-in devices: add one, revoke one. */
import { useState } from 'preact/hooks'
import { get, post, remove, errorMessage } from '../api/client'
import type * as P from '../generated/protocol'
import { ago } from '../shared/format'
import { visible } from '../shared/visible-text'
import { connectionState, now } from '../store/store'
import { Problem, useFetched } from '../ui/components'
import { Icon } from '../ui/icons'
import { PairingOffer } from './pairing-offer'

/** The devices that a device let in, directly or through others. */
function devicesLetInBy(id: string, all: readonly P.DeviceView[]): P.DeviceView[] {
  const reached = [id]
  for (const from of reached) for (const device of all) if (device.by === from && !reached.includes(device.id)) reached.push(device.id)
  return all.filter((device) => reached.indexOf(device.id) > 0)
}

/** A device's name as in the audit log: several devices may have the same name. */
function deviceLabel({ id, name }: P.DeviceView): string {
  return id === 'owner' ? name || id : `${visible(name)} (${id.slice(-6)})`
}

export function Devices() {
  const [offer, setOffer] = useState<P.Offer | undefined>(undefined)
  const [problem, setProblem] = useState('')
  const [revoking, setRevoking] = useState('')
  const { value, problem: loadProblem, reload } = useFetched(() => get<P.DeviceView[]>('devices'), [connectionState.value.state === 'online', offer])
  const call = (what: Promise<unknown>) => void what.then(() => { setProblem(''); setRevoking(''); reload() }, (error: unknown) => setProblem(errorMessage(error)))
  const all = value ?? []
  const known = (id: string) => {
    const device = all.find((device) => device.id === id)
    return device ? deviceLabel(device) : `a revoked device (${id.slice(-6)})`
  }
  const revoke = (id: string, more = '') => call(remove(`devices/${encodeURIComponent(id)}${more}`))
  return (
    <section aria-label="Devices">
      <h2><Icon name="phone" /> Devices</h2>
      <Problem text={problem || loadProblem} />
      <ul class="cards">
        {all.map((device) => {
          const others = devicesLetInBy(device.id, all)
          return (
            <li key={device.id} class="card">
              <div class="row">
                <span class="grow"><strong>{deviceLabel(device)}</strong>{device.current && <span class="tag">this one</span>}
                  <small class="faint block">{[device.kind ?? 'client', device.seen_at ? `seen ${ago(device.seen_at, now.value)}` : '', device.by ? `let in by ${known(device.by)}` : ''].filter(Boolean).join(' · ')}</small>
                </span>
                {!device.current && device.id !== 'owner' && revoking !== device.id && <button type="button" class="small deny" onClick={() => others.length ? setRevoking(device.id) : revoke(device.id)}>Revoke</button>}
              </div>
              {revoking === device.id && (
                <div role="group" aria-label={`Revoke ${deviceLabel(device)}`}>
                  <p>It let in {others.map(deviceLabel).join(', ')}.</p>
                  <div class="row wrap">
                    <button type="button" class="small deny" onClick={() => revoke(device.id, '?let_in=true')}>Revoke all {others.length + 1}</button>
                    <button type="button" class="small deny" onClick={() => revoke(device.id)}>Only this one</button>
                    <button type="button" class="small" onClick={() => setRevoking('')}>Cancel</button>
                  </div>
                </div>
              )}
            </li>
          )
        })}
      </ul>
      {offer ? <PairingOffer offer={offer} /> : <button type="button" onClick={() => call(post<P.Offer>('pairings', { kind: 'page' }).then(setOffer))}><Icon name="plus" /> Add a phone or browser</button>}
    </section>
  )
}
