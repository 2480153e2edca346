/** A one-time pairing link for another machine or device, with its QR code. */
import type * as P from '../generated/protocol'
import { now } from '../store/store'
import { CopyButton } from '../ui/components'
import { Icon } from '../ui/icons'

const INSTRUCTIONS = {
  node: { there: 'On the machine that should join, type:', here: 'Works on this machine, for another user:' },
  page: { there: 'Point the other device’s camera at this, or open the link there:', here: 'Works on this machine, in another browser:' },
}

/** The link, shown while it is valid. */
export function PairingOffer({ offer }: { offer: P.Offer }) {
  const seconds = Math.max(0, Math.round(offer.expires_at - now.value))
  const command = offer.kind === 'node' ? `tieline node join '${offer.url}'` : offer.url
  return (
    <div class="offer" role="status">
      {offer.here_only && (
        <div class="card">
          <p><Icon name="warn" /> <strong>Only the hub’s own machine reaches this address.</strong></p>
          {offer.kind === 'node'
            ? <p>For another machine: <code>tieline down</code>, then <code>tieline up --host 0.0.0.0</code> with TLS (<code>hub.tls_certificate</code>, <code>hub.tls_key</code>), or with <code>--insecure</code> on a network you trust. Behind a proxy or a tunnel, set its address in <code>hub.public_url</code>. Then come back here.</p>
            : <p>For a phone, set up a way above, under <em>Phone</em>, or run <code>tieline phone</code> on the hub’s machine. Then there is a code to scan.</p>}
        </div>
      )}
      <p>{INSTRUCTIONS[offer.kind === 'node' ? 'node' : 'page'][offer.here_only ? 'here' : 'there']}</p>
      {offer.qr && seconds > 0 && <img class="qr" src={offer.qr} alt="The link as a QR code" />}
      <pre class="code command">{command}</pre>
      <div class="row wrap">
        <CopyButton text={command} />
        {offer.kind === 'page' && 'share' in navigator && <button type="button" class="small" onClick={() => void navigator.share({ url: offer.url }).catch(() => undefined)}>Share</button>}
        <span class="faint">{seconds ? `Works once, for ${Math.ceil(seconds / 60)} min` : 'Expired'}</span>
      </div>
    </div>
  )
}
