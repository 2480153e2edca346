/** The policies a person chooses from; the hub knows the same by name. */
import type { Policy } from '../generated/protocol'

export const POLICIES: readonly { readonly name: string; readonly title: string; readonly words: string; readonly policy: Policy }[] = [
  { name: 'ask', title: 'Ask', words: 'asks before each edit, command and fetch', policy: { file_write: 'ask', shell: 'ask', network: 'ask' } },
  { name: 'edits', title: 'Edits', words: 'edits freely, asks before commands and the network', policy: { file_write: 'allow', shell: 'ask', network: 'ask' } },
  { name: 'read-only', title: 'Read only', words: 'looks, and changes nothing', policy: { file_write: 'deny', shell: 'deny', network: 'deny' } },
  { name: 'full', title: 'Full', words: 'does everything without asking', policy: { file_write: 'allow', shell: 'allow', network: 'allow' } },
]
