/** Rules for actions that are hard to undo; the person confirms them by holding the button.
 *
 * A second thought for the person, not a guard: policy and sandbox are up to the hub and the agent.
 */
import type { Ask } from '../generated/protocol'

interface Rule {
  readonly pattern: RegExp
  readonly reason: string
}

/** Matches where a command starts: at the line's start or after a separator, a wrapper or an assignment. */
const atCommandStart = (pattern: string) => new RegExp(String.raw`(?:^|[\n;&|({\x60]|\$\()\s*(?:(?:sudo|doas|env|nohup|time|exec|command|xargs)\s+(?:-\S+\s+)*|\w+=\S*\s+)*(?:\S*/)?${pattern}`, 'm')

const COMMAND_RULES: readonly Rule[] = [
  { pattern: atCommandStart(String.raw`rm\s+(?:-\S+\s+)*-(?:\w*[rRf]|-recursive|-force)`), reason: 'removes files for good' },
  { pattern: /\bfind\b[^\n;|]*\s-(?:delete\b|exec(?:dir)?\s+(?:\S*\/)?rm\b)/, reason: 'removes files for good' },
  { pattern: atCommandStart(String.raw`(?:shred|wipefs|srm)\b`), reason: 'destroys data for good' },
  { pattern: atCommandStart(String.raw`(?:mkfs(?:\.\w+)?|fdisk|parted|sgdisk)\b`), reason: 'changes a disk' },
  { pattern: /\bdd\b[^\n;|]*\bof=/, reason: 'overwrites a file or a disk' },
  { pattern: />\s*\/dev\/(?:sd|nvme|vd|disk|hd)/, reason: 'overwrites a disk' },
  { pattern: atCommandStart(String.raw`truncate\s`), reason: 'cuts files' },
  { pattern: /\bgit\b[^\n;&|]*\bpush\b[^\n;&|]*(?:\s--force(?!-with-lease)\b|\s-\w*f\b|\s\+\S+|\s--delete\b|\s--mirror\b|\s:\S+)/, reason: 'rewrites what others have' },
  { pattern: /\bgit\b[^\n;&|]*\breset\b[^\n;&|]*\s--hard\b/, reason: 'throws changes away' },
  { pattern: /\bgit\b[^\n;&|]*\bclean\b[^\n;&|]*\s-\w*f/, reason: 'removes files that git does not know' },
  { pattern: /\bgit\b[^\n;&|]*\b(?:checkout|restore)\b[^\n;&|]*\s(?:--\s+)?\.(?:\s|$)/, reason: 'throws changes away' },
  { pattern: /\bgit\b[^\n;&|]*\b(?:branch\s+-D|filter-branch|filter-repo|stash\s+(?:drop|clear)|update-ref\s+-d)\b/, reason: 'throws history away' },
  { pattern: /\b(?:curl|wget|fetch)\b[^\n;]*\|\s*(?:sudo\s+)?(?:\S*\/)?(?:ba|z|da|k|fi)?sh\b/, reason: 'runs a program from the network' },
  { pattern: /\b(?:curl|wget)\b[^\n;]*\|\s*(?:sudo\s+)?(?:\S*\/)?(?:python[\d.]*|node|perl|ruby)\b/, reason: 'runs a program from the network' },
  { pattern: /(?:^|[\s;&|(])(?:sudo|doas|su\s+-)(?:\s|$)/m, reason: 'acts as the administrator' },
  { pattern: atCommandStart(String.raw`(?:chmod|chown|chgrp)\s+(?:-\S+\s+)*-\w*R`), reason: 'changes the rights of many files' },
  { pattern: /\bchmod\s+(?:-\S+\s+)*(?:0?777|a\+rwx)\b/, reason: 'opens files to everybody' },
  { pattern: atCommandStart(String.raw`(?:shutdown|reboot|halt|poweroff|init\s+[06])\b`), reason: 'stops the machine' },
  { pattern: atCommandStart(String.raw`(?:kill\s+-(?:9|KILL)\s+-1\b|killall\b|pkill\b)`), reason: 'ends processes by name' },
  { pattern: atCommandStart(String.raw`systemctl\s+(?:\S+\s+)*(?:stop|disable|mask|kill)\b`), reason: 'stops a service' },
  { pattern: /:\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;/, reason: 'brings the machine down' },
  { pattern: /\b(?:drop\s+(?:table|database|schema|index|view|user|role)|truncate\s+table)\b/i, reason: 'destroys data in a database' },
  { pattern: /\bdelete\s+from\s+[\w."`]+\s*(?:;|"|'|$)/i, reason: 'empties a table' },
  { pattern: /\b(?:FLUSHALL|FLUSHDB|dropDatabase)\b/, reason: 'destroys data in a database' },
  { pattern: /\bkubectl\b[^\n;|]*\b(?:delete|drain)\b/, reason: 'removes things from a cluster' },
  { pattern: /\bhelm\b[^\n;|]*\b(?:uninstall|delete)\b/, reason: 'removes things from a cluster' },
  { pattern: /\b(?:terraform|tofu|pulumi)\b[^\n;|]*\b(?:destroy|apply|up)\b/, reason: 'changes infrastructure' },
  { pattern: /\bdocker\b[^\n;|]*\b(?:system|volume|image|container|builder)\s+(?:prune|rm)\b/, reason: 'removes containers or their data' },
  { pattern: /\bdocker(?:\s+|-)compose\b[^\n;|]*\bdown\b[^\n;|]*\s(?:-v|--volumes)\b/, reason: 'removes containers and their data' },
  { pattern: /\baws\b[^\n;|]*\b(?:s3\s+(?:rm|rb)|(?:delete|terminate)-\w+)/, reason: 'removes things in the cloud' },
  { pattern: /\b(?:gcloud|az|doctl|fly|flyctl|heroku)\b[^\n;|]*\b(?:delete|destroy|purge)\b/, reason: 'removes things in the cloud' },
  { pattern: /\bgh\s+(?:repo|release|secret|ssh-key)\s+delete\b/, reason: 'removes something on GitHub' },
  { pattern: /\b(?:npm|pnpm|yarn|bun|cargo|poetry|uv|flit|hatch)\s+(?:\w+\s+)?publish\b|\btwine\s+upload\b|\bgem\s+push\b/, reason: 'publishes to the world' },
  { pattern: /\bcrontab\s+-r\b/, reason: 'removes scheduled jobs' },
  { pattern: /\b(?:iptables|nft|ufw)\b[^\n;|]*(?:\s-F\b|\bflush\b|\bdisable\b|\breset\b)/, reason: 'opens the firewall' },
  { pattern: /\bbase64\s+(?:-d|--decode|-D)\b[^\n;]*\|\s*(?:\S*\/)?(?:ba|z|da)?sh\b/, reason: 'runs something hidden' },
  { pattern: /\beval\b[^\n]*\$\(\s*(?:curl|wget|base64)\b/, reason: 'runs something hidden' },
  { pattern: />>?\s*(?:~|\$HOME|\/root|\/home\/[^/\s]+)?\/?\.?(?:ssh\/\S+|etc\/\S+|bashrc|zshrc|profile)\b/, reason: 'changes how this machine behaves' },
]

/** Files that control what runs or who may log in. */
const PATH_RULES: readonly Rule[] = [
  { pattern: /(?:^|\/)\.ssh\//, reason: 'changes who may log in' },
  { pattern: /^\/(?:etc|boot|usr|bin|sbin|lib|System|Library)\//, reason: 'changes the system' },
  { pattern: /(?:^|\/)\.git\/(?:hooks\/|config$)/, reason: 'changes what git runs' },
  { pattern: /(?:^|\/)\.(?:bashrc|zshrc|bash_profile|profile|zprofile|zshenv|netrc|npmrc|pypirc)$/, reason: 'changes how this machine behaves' },
  { pattern: /(?:^|\/)\.(?:env(?:\.\w+)?|aws\/\w+|kube\/config|gnupg\/.*)$/, reason: 'touches secrets' },
  { pattern: /(?:^|\/)(?:\.github\/workflows|\.circleci)\//, reason: 'changes what CI runs' },
  { pattern: /(?:^|\/)(?:\.claude|\.codex|\.gemini|\.opencode)\/(?:settings|config|hooks)/, reason: 'changes what the agent may do' },
]

export function dangerOfCommand(command: string): string {
  return COMMAND_RULES.find((rule) => rule.pattern.test(command))?.reason ?? ''
}

export function dangerOfPath(path: string): string {
  return PATH_RULES.find((rule) => rule.pattern.test(path))?.reason ?? ''
}

/** Why the ask is hard to undo; empty when it is not. */
export function danger(ask: Ask): string {
  if (ask.kind !== 'permission') return ''
  const action = ask.action
  if (action?.kind === 'command') return dangerOfCommand(action.command)
  if (action?.kind === 'edit') {
    const path = action.paths.map(dangerOfPath).find(Boolean)
    if (path) return path
    return /^\+\+\+ \/dev\/null/m.test(action.diff ?? '') ? 'deletes a file' : ''
  }
  // An agent whose tool has no known kind may still carry a command.
  for (const name of ['command', 'cmd', 'script', 'sql', 'query']) {
    const value = ask.input?.[name]
    const text = Array.isArray(value) ? value.join(' ') : typeof value === 'string' ? value : ''
    const reason = text && dangerOfCommand(text)
    if (reason) return reason
  }
  return ''
}
