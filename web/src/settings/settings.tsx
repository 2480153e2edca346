/** The settings page: notifications, rules, machines, devices, audit log. */
import { signOut } from '../auth/auth'
import { me } from '../store/store'
import { Pane } from '../ui/components'
import { Icon } from '../ui/icons'
import { lazy } from '../ui/lazy'
import { AuditLog } from './audit-log'
import { Devices } from './devices'
import { Machines } from './machines'
import { NotificationSettings } from './notification-settings'

const PhoneAccess = lazy(() => import('./phone-access').then((module) => module.PhoneAccess))
const Rules = lazy(() => import('../rules/rules').then((module) => module.Rules))

export function Settings() {
  return (
    <Pane>
      <header class="pane-head"><div class="pane-title"><h1>Settings</h1></div></header>
      <div class="pane-scroll page">
        <NotificationSettings />
        <Rules />
        <Machines />
        <PhoneAccess />
        <Devices />
        <section aria-label="Usage">
          <h2><Icon name="usage" /> Usage</h2>
          <p class="faint">Cost, tokens and time by day, agent, project and session.</p>
          <a class="button" href="/usage" data-internal="1">Show the usage</a>
        </section>
        <AuditLog />
        <section>
          <h2>About</h2>
          <p class="faint">Tieline {me.value?.version ?? ''} · <a href="/api/v1/docs" target="_blank" rel="noopener">API</a></p>
          <button type="button" onClick={() => void signOut()}>Sign out</button>
        </section>
      </div>
    </Pane>
  )
}
