/** The command palette and the list of keys. Loaded when one of them is opened. */
import { useMemo, useRef, useState } from 'preact/hooks'
import { agentName, sessionState, sessionTitle, STATE_LABELS } from '../shared/format'
import { visibleLine } from '../shared/visible-text'
import { nodes, sessionsByActivity } from '../store/store'
import { Sheet } from '../ui/components'
import { Icon } from '../ui/icons'
import { ACTIONS, overlay, setSingleKeys, singleKeys, type Action } from './actions'
import { navigate, sessionUrl } from './router'

interface Entry {
  readonly id: string
  readonly name: string
  readonly more: string
  readonly icon: string
  readonly keys?: string
  readonly run: () => void
}

const MAX_SHOWN = 50

const mac = /Mac|iPhone|iPad/.test(navigator.platform)
export const MOD = mac ? '⌘' : 'Ctrl'

/** How well a text fits what was typed: each word's position in the text, the earlier the better; undefined: it does not. */
export function rank(text: string, typed: string): number | undefined {
  const hay = text.toLowerCase()
  let sum = 0
  for (const word of typed.toLowerCase().split(/\s+/).filter(Boolean)) {
    const at = hay.indexOf(word)
    if (at < 0) return undefined
    sum += at && /\w/.test(hay[at - 1]!) ? at + 100 : at // the beginning of a word first
  }
  return sum
}

function matching(all: readonly Entry[], typed: string): readonly Entry[] {
  const ranked = all.flatMap((entry) => {
    const own = rank(`${entry.name} ${entry.more}`, typed)
    return own === undefined ? [] : [{ entry, own }]
  })
  return ranked.sort((match, other) => match.own - other.own).slice(0, MAX_SHOWN).map((match) => match.entry)
}

const close = () => (overlay.value = '')

export function CommandPalette() {
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState(0)
  const list = useRef<HTMLUListElement>(null)
  const all = useMemo(entries, [sessionsByActivity.value, nodes.value])
  const shown = matching(all, typed)
  const chosen = shown[Math.min(at, shown.length - 1)]
  const choose = (entry: Entry | undefined) => {
    if (!entry) return
    close()
    entry.run()
  }
  const move = (to: number) => {
    const next = (to + shown.length) % Math.max(1, shown.length)
    setAt(next)
    list.current?.children[next]?.scrollIntoView({ block: 'nearest' })
  }
  return (
    <Sheet title="Command palette" plain onClose={close}>
      <input
        type="text" class="palette-input" role="combobox" aria-label="Find a session or an action" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list"
        aria-activedescendant={chosen ? `palette-${chosen.id}` : undefined} placeholder="Find a session or an action" autocomplete="off" spellcheck={false} autofocus value={typed}
        onInput={(event) => { setTyped(event.currentTarget.value); setAt(0) }}
        onKeyDown={(event) => {
          const moves: Record<string, () => void> = { ArrowDown: () => move(at + 1), ArrowUp: () => move(at - 1), Enter: () => choose(chosen) }
          const act = moves[event.key]
          if (!act || event.isComposing) return
          event.preventDefault()
          act()
        }}
      />
      <ul class="palette-list" id="palette-list" role="listbox" aria-label="Sessions and actions" ref={list}>
        {shown.map((entry) => (
          <li key={entry.id} id={`palette-${entry.id}`} role="option" aria-selected={entry === chosen} onClick={() => choose(entry)}>
            <Icon name={entry.icon} /><span class="ellipsis">{entry.name}</span><span class="faint ellipsis grow">{entry.more}</span>{entry.keys && <Keys of={entry.keys} />}
          </li>
        ))}
      </ul>
      {!shown.length && <p class="faint center" role="status">Nothing matches.</p>}
    </Sheet>
  )
}

function entries(): readonly Entry[] {
  const actions = ACTIONS.filter((action) => action.possible?.() ?? true).map((action, index) => ({ id: `a${index}`, name: action.name, more: action.group === 'Go to' ? 'go to' : '', icon: action.icon, keys: action.keys, run: action.run }))
  const own = sessionsByActivity.value.filter((session) => !session.archived)
  return [
    ...actions,
    ...own.map((session, index) => {
      const node = nodes.value.get(session.node)
      return { id: `s${index}`, name: sessionTitle(session), more: visibleLine([STATE_LABELS[sessionState(session, node)], agentName(session.agent), node?.name || session.node, session.branch].filter(Boolean).join(' · ')), icon: 'sessions', run: () => navigate(sessionUrl(session.id)) }
    }),
  ]
}

function Keys({ of }: { of: string }) {
  return <span class="keys">{of.split(' ').map((key) => <kbd key={key}>{key}</kbd>)}</span>
}

/** Keys that belong to a control and not to the page. */
const MORE_KEYS: readonly (readonly [keys: string, name: string])[] = [
  [`${MOD}+K`, 'Command palette: sessions and actions'],
  ['y', 'In a focused decision: allow once, when all of it is shown and it need not be held'],
  ['n', 'In a focused decision: deny, with a reason'],
  ['Enter', 'In the message: send'],
  ['Shift+Enter', 'In the message: a new line'],
  ['Alt+Enter', 'In the message: steer the running turn, where the agent can be steered'],
  ['Escape', 'Leave the text box, or close the dialog'],
  ['← →', 'At the edge between two columns: change their width; Enter resets it'],
]

export function KeyList() {
  const groups: readonly Action['group'][] = ['Session', 'Go to', 'Page']
  return (
    <Sheet title="Keyboard shortcuts" onClose={close}>
      <label class="option"><input type="checkbox" checked={singleKeys.value} onChange={(event) => setSingleKeys(event.currentTarget.checked)} /> <span>Keys without {MOD} do something, too</span></label>
      <div class="key-groups">
        {groups.map((group) => (
          <section key={group} aria-label={group}>
            <h3>{group}</h3>
            <dl>{ACTIONS.filter((action) => action.group === group && action.keys).map((action) => <div key={action.name}><dt><Keys of={action.keys!} /></dt><dd>{action.name}</dd></div>)}</dl>
          </section>
        ))}
        <section aria-label="Elsewhere">
          <h3>Elsewhere</h3>
          <dl>{MORE_KEYS.map(([keys, name]) => <div key={name}><dt><Keys of={keys} /></dt><dd>{name}</dd></div>)}</dl>
        </section>
      </div>
    </Sheet>
  )
}
