/** The policies to choose from; the hub has the same under these names. */
import type { Policy } from '../generated/protocol'

export const POLICIES: readonly { readonly name: string; readonly title: string; readonly description: string; readonly policy: Policy }[] = [
  { name: 'ask', title: 'Ask', description: 'asks before each edit, command and fetch', policy: { file_write: 'ask', shell: 'ask', network: 'ask' } },
  { name: 'edits', title: 'Edits', description: 'edits freely, asks before commands and the network', policy: { file_write: 'allow', shell: 'ask', network: 'ask' } },
  { name: 'read-only', title: 'Read only', description: 'reads, and changes nothing', policy: { file_write: 'deny', shell: 'deny', network: 'deny' } },
  { name: 'full', title: 'Full', description: 'does everything without asking', policy: { file_write: 'allow', shell: 'allow', network: 'allow' } },
]
