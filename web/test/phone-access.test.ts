// @vitest-environment jsdom
/** The phone card: which ways there are and what each means, one confirmation, the code, and how it is turned off. */
import { h, render } from 'preact'
import { expect, it, vi } from 'vitest'
import type * as P from '../src/generated/protocol'
import { hub, load } from './fake-hub'

const until = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 5 })
const way = (name: P.PhoneWay['name'], more: Partial<P.PhoneWay> = {}): P.PhoneWay => ({ name, title: `By ${name}`, available: true, problem: '', address: '', who_reaches: 'devices in the same network', who_reads: 'you and the phone', push: true, lasting: true, trust: false, ...more })
const OFF: P.PhoneStatus = { state: 'off', way: null, url: '', other_urls: [], problem: '', hint: '', trust_url: '', trust_until: 0, trust_qr: '', fingerprint: '', command: '', check: null }
const ON: P.PhoneStatus = { ...OFF, state: 'on', way: 'lan', url: 'https://10.0.0.2:8137', trust_url: 'http://10.0.0.2:8138', trust_qr: 'data:image/svg+xml,trust', fingerprint: 'AB:CD', check: { ok: true, found: 'the hub answers' } }
const WAYS = [way('lan', { trust: true, lasting: false, address: 'https://10.0.0.2:8137' }), way('tailscale', { available: false, problem: 'tailscale is not installed' })]

async function card(first: P.PhoneStatus) {
  let status = first
  let refuse = ''
  hub.reply = ({ method, path, body }) => {
    if (path === 'phone/ways') return [200, WAYS]
    if (path === 'pairings') return [201, { kind: 'page', secret: 's', url: `${status.url}/#login=s`, expires_at: Date.now() / 1000 + 600, qr: 'data:image/svg+xml,login', here_only: false } satisfies P.Offer]
    if (refuse) return [409, { title: refuse, status: 409 }]
    if (method === 'POST') status = { ...ON, way: body.way as 'lan' }
    if (method === 'DELETE') { status = OFF; return [204, null] }
    return [200, status]
  }
  await load()
  const { PhoneAccess, isOnHubMachine } = await import('../src/settings/phone-access')
  const box = document.body.appendChild(document.createElement('div'))
  render(h(PhoneAccess, {}), box)
  const button = (name: string) => [...box.querySelectorAll('button')].find((one) => (one.getAttribute('aria-label') ?? one.textContent!.trim()) === name)
  return { box, button, isOnHubMachine, refuse: (why: string) => (refuse = why), sent: () => hub.requests.filter((one) => one.method !== 'GET').map((one) => [one.method, one.path, one.body]) }
}

it('sets up one way after one confirmation, shows the code and turns it off', async () => {
  const { box, button, refuse, sent } = await card(OFF)
  await until(() => expect(button('Set up: By lan')).toBeDefined())
  expect(box.textContent).toContain('you and the phone')
  expect(box.textContent).toContain('tailscale is not installed')
  expect(button('Set up: By tailscale')).toBeUndefined()
  button('Set up: By lan')!.click()
  await until(() => expect(button('Set it up')).toBeDefined())
  expect(box.textContent).toContain('will be reached by devices in the same network')
  expect(sent()).toEqual([])
  refuse('the port is taken')
  button('Set it up')!.click()
  await until(() => expect(box.querySelector('[role=alert]')!.textContent).toContain('the port is taken'))
  refuse('')
  button('Set it up')!.click()
  await until(() => expect(box.textContent).toContain('Checked: the hub answers.'))
  expect(sent().at(-1)).toEqual(['POST', 'phone', { way: 'lan' }])
  expect(box.querySelector('.trust img')!.getAttribute('src')).toBe(ON.trust_qr)
  expect(box.textContent).toContain('AB:CD')
  button('2. Show the code for a phone')!.click()
  await until(() => expect(box.querySelector('.offer img')?.getAttribute('src')).toBe('data:image/svg+xml,login'))
  button('Turn off …')!.click()
  await until(() => expect(button('Turn it off')).toBeDefined())
  button('Turn it off')!.click()
  await until(() => expect(button('Set up: By lan')).toBeDefined())
  expect(sent().at(-1)).toEqual(['DELETE', 'phone', {}])
  render(null, box)
})

it('says what does not work, and what to do', async () => {
  const { box } = await card({ ...ON, state: 'failed', url: '', trust_url: '', check: null, problem: 'the tunnel ended', hint: 'Sign in again.' })
  await until(() => expect(box.textContent).toContain('the tunnel ended Sign in again.'))
  expect(box.textContent).toContain('does not work')
  expect(box.querySelector('.qr')).toBeNull()
  render(null, box)
})

it('is changed on the hub’s own machine only', async () => {
  const { box, button, isOnHubMachine } = await card(ON)
  expect(['localhost', '127.0.0.1', '127.1.2.3', '[::1]'].map((host) => isOnHubMachine(host))).toEqual([true, true, true, true])
  expect(['10.0.0.2', 'hub.test', 'localhost.example.com', '1270.0.0.1', ''].map((host) => isOnHubMachine(host))).toEqual([false, false, false, false, false])
  await until(() => expect(button('Turn off …')).toBeDefined())
  render(null, box)
  vi.stubGlobal('location', { hostname: '10.0.0.2' })
  const there = await card(ON)
  await until(() => expect(there.box.textContent).toContain('tieline phone off'))
  expect([there.button('Turn off …'), there.button('2. Show the code for a phone'), there.box.querySelector('.trust')]).toEqual([undefined, undefined, null])
  render(null, there.box)
  const off = await card(OFF)
  await until(() => expect(off.box.textContent).toContain('on the hub’s own machine to set one up'))
  expect(off.button('Set up: By lan')).toBeUndefined()
  render(null, off.box)
  vi.unstubAllGlobals()
})
