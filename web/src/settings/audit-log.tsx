/** The audit log, newest entries first. */
import { useState } from 'preact/hooks'
import { get, errorMessage } from '../api/client'
import type * as P from '../generated/protocol'
import { visible } from '../shared/visible-text'
import { Problem } from '../ui/components'
import { Icon } from '../ui/icons'

const PAGE_SIZE = 50

export function AuditLog() {
  const [lines, setLines] = useState<readonly P.AuditLine[] | undefined>(undefined)
  const [problem, setProblem] = useState('')
  const [complete, setComplete] = useState(false)
  const loadMore = () => {
    const before = lines?.at(-1)?.seq ?? 0
    void get<P.AuditLine[]>(`audit?limit=${PAGE_SIZE}&before=${before}`).then((page) => {
      setProblem('')
      setComplete(page.length < PAGE_SIZE)
      setLines([...(lines ?? []), ...page])
    }, (error: unknown) => setProblem(errorMessage(error)))
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
              <p><strong>{line.what}</strong> · {visible(line.who || 'unknown')}{(line.count ?? 1) > 1 && ` · ${line.count} times`}</p>
              <small class="faint">{[new Date(line.at * 1000).toLocaleString(), line.via, ...Object.entries(line.details ?? {}).map(([name, value]) => `${name}: ${value}`)].filter(Boolean).map((part) => visible(part ?? '')).join(' · ')}</small>
            </li>
          ))}
        </ul>
      )}
      {!complete && <button type="button" onClick={loadMore}>{lines ? 'Show more' : 'Show'}</button>}
    </section>
  )
}
