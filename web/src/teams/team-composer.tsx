/** Steering a team: who speaks next, what a person says and to whom, and how it goes on after its end. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type * as P from '../generated/protocol'
import { loadLocal, saveLocal } from '../shared/local-storage'
import { visibleLine } from '../shared/visible-text'
import { Problem } from '../ui/components'
import { Icon } from '../ui/icons'
import { say } from './team-outbox'
import { speakerStyle } from './team-rows'
import { act, reorder } from './team-store'
import type { TeamThread } from './team-thread'

const hasMouse = () => matchMedia('(pointer: fine)').matches

export function TeamComposer({ thread, view }: { thread: TeamThread; view: P.TeamView }) {
  const people = view.people ?? []
  return (
    <div class="composer">
      <Problem text={thread.problem.value} />
      {view.status === 'ended' ? <GoOn thread={thread} view={view} /> : (
        <>
          <SpeakingQueue thread={thread} view={view} />
          {people.length ? <Words thread={thread} view={view} people={people} /> : <Join thread={thread} />}
        </>
      )}
    </div>
  )
}

function Words({ thread, view, people }: { thread: TeamThread; view: P.TeamView; people: readonly string[] }) {
  const draft = `draft.team.${thread.id}`
  const [text, setText] = useState(() => loadLocal(draft, ''))
  const [chosen, setChosen] = useState(() => loadLocal(`speaks-as.${thread.id}`, ''))
  const box = useRef<HTMLTextAreaElement>(null)
  const waited = (view.waiting_for ?? []).find((name) => people.includes(name))
  const speaker = people.includes(chosen) ? chosen : waited ?? people[0]!
  const others = (view.who ?? []).filter((member) => member.name !== speaker)
  const to = thread.addressed.value.filter((name) => name !== speaker)
  const write = (value: string) => {
    setText(value)
    saveLocal(draft, value)
  }
  useLayoutEffect(() => {
    const area = box.current!
    area.style.height = 'auto'
    area.style.height = `${Math.min(area.scrollHeight, innerHeight * 0.4)}px`
  }, [text])
  const send = () => {
    if (!text.trim()) return
    say(thread.id, { do: 'speak', text: text.trim(), to: to.map((name) => ({ name })), member: speaker })
    write('')
    thread.addressed.value = []
    box.current?.focus()
  }
  return (
    <form class="words" aria-label="Message to the team" onSubmit={(event) => { event.preventDefault(); send() }}>
      <div class="route" role="group" aria-label="Who should answer">
        {others.map((member) => (
          <button key={member.name} type="button" class="route-name" style={speakerStyle(thread.colourOf(member.name))} aria-pressed={to.includes(member.name)} onClick={() => thread.toggleAddressed(member.name)}>
            {to.includes(member.name) && <Icon name="check" />}<span class="ellipsis">{visibleLine(member.name)}</span>
          </button>
        ))}
      </div>
      {people.length > 1 && (
        <label class="speaks-as">As <select value={speaker} aria-label="Speak as" onChange={(event) => { setChosen(event.currentTarget.value); saveLocal(`speaks-as.${thread.id}`, event.currentTarget.value) }}>
          {people.map((name) => <option key={name} value={name}>{visibleLine(name)}</option>)}
        </select></label>
      )}
      <div class="composer-box">
        <textarea
          ref={box} rows={1} value={text} aria-label="Message" placeholder={to.length ? `To ${visibleLine(to.join(', '))}` : waited ? 'The team waits for your answer' : 'Say something to the team'}
          onInput={(event) => write(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.isComposing || event.shiftKey) return
            if (event.metaKey || event.ctrlKey || hasMouse()) { event.preventDefault(); send() }
          }}
        />
        <button type="submit" class="round primary" aria-label="Send" title="Send"><Icon name="send" /></button>
      </div>
    </form>
  )
}

/** Moves one name to another place in the queue: the names that come first from now on. */
export function moved(names: readonly string[], from: number, to: number): string[] {
  const all = [...names]
  all.splice(to, 0, ...all.splice(from, 1))
  return all.slice(0, Math.max(from, to) + 1)
}

/** Who speaks next. Buttons and dragging change the order. */
function SpeakingQueue({ thread, view }: { thread: TeamThread; view: P.TeamView }) {
  const [dragged, setDragged] = useState(-1)
  const [announced, setAnnounced] = useState('')
  const focus = useRef('')
  const list = useRef<HTMLOListElement>(null)
  const names = (view.queue ?? []).map((speaker) => speaker.name)
  useLayoutEffect(() => {
    // The row has moved: the focus stays on the button that moved it.
    if (focus.current) list.current?.querySelector<HTMLElement>(`[data-move="${CSS.escape(focus.current)}"]`)?.focus()
    focus.current = ''
  }, [names.join('\n')])
  if (!names.length) return null
  const move = (from: number, to: number, button = '') => {
    if (to < 0 || to >= names.length || from === to || from < 0) return
    focus.current = button
    setAnnounced(`${names[from]} is now number ${to + 1} of ${names.length}`)
    reorder(thread, moved(names, from, to))
  }
  return (
    <section class="queue" aria-label="Who speaks next">
      <h2 class="small-text faint">Next</h2>
      <ol ref={list}>
        {names.map((name, index) => (
          <li
            key={name} draggable={names.length > 1} class={dragged === index ? 'dragged' : ''} style={speakerStyle(thread.colourOf(name))}
            onDragStart={(event) => { setDragged(index); event.dataTransfer?.setData('text/plain', name) }} onDragEnd={() => setDragged(-1)}
            onDragOver={(event) => event.preventDefault()} onDrop={(event) => { event.preventDefault(); move(dragged, index); setDragged(-1) }}
          >
            <span class="speaker grow ellipsis">{visibleLine(name)}</span>
            {names.length > 1 && (
              <>
                <button type="button" class="plain" data-move={`${name} up`} aria-label={`Move ${visibleLine(name)} up`} aria-disabled={index === 0} onClick={() => move(index, index - 1, `${name} up`)}><Icon name="up" /></button>
                <button type="button" class="plain turned-down" data-move={`${name} down`} aria-label={`Move ${visibleLine(name)} down`} aria-disabled={index === names.length - 1} onClick={() => move(index, index + 1, `${name} down`)}><Icon name="up" /></button>
              </>
            )}
            <button type="button" class="plain" aria-label={`Remove ${visibleLine(name)} from the queue`} onClick={() => void act(thread, { do: 'drop', members: [name] })}><Icon name="cross" /></button>
          </li>
        ))}
      </ol>
      <p class="sr" role="status">{announced}</p>
    </section>
  )
}

/** A team without a person: whoever looks at it may become one. */
function Join({ thread }: { thread: TeamThread }) {
  const [name, setName] = useState('')
  const join = () => { if (name.trim()) void act(thread, { do: 'add_member', member: { name: name.trim(), human: true } }) }
  return (
    <form class="words" onSubmit={(event) => { event.preventDefault(); join() }}>
      <p class="faint small-text">No person is in this team. Join it to take part.</p>
      <div class="row"><input type="text" class="grow" value={name} placeholder="Your name" aria-label="Your name" onInput={(event) => setName(event.currentTarget.value)} /><button type="submit" disabled={!name.trim()}>Join</button></div>
    </form>
  )
}

/** After the end: go on, with more of what has run out. */
function GoOn({ thread, view }: { thread: TeamThread; view: P.TeamView }) {
  const limits = view.limits ?? {}
  const [rounds, setRounds] = useState('10')
  const [cost, setCost] = useState(String(limits.max_cost_usd || 0))
  const [minutes, setMinutes] = useState(String(limits.max_minutes || 0))
  const amount = (value: string) => Math.max(0, Number(value) || 0)
  const resume = () => void act(thread, { do: 'resume', more_rounds: Math.round(amount(rounds)), more_cost_usd: limits.max_cost_usd ? amount(cost) : 0, more_minutes: limits.max_minutes ? amount(minutes) : 0 })
  return (
    <form class="go-on" onSubmit={(event) => { event.preventDefault(); resume() }}>
      <p class="faint small-text">The conversation has ended: {visibleLine(view.reason ?? '')}</p>
      <div class="row wrap end">
        <label>More rounds<input type="number" min="0" max="10000" inputMode="numeric" value={rounds} onInput={(event) => setRounds(event.currentTarget.value)} /></label>
        {!!limits.max_cost_usd && <label>More USD<input type="number" min="0" step="any" inputMode="decimal" value={cost} onInput={(event) => setCost(event.currentTarget.value)} /></label>}
        {!!limits.max_minutes && <label>More minutes<input type="number" min="0" step="any" inputMode="decimal" value={minutes} onInput={(event) => setMinutes(event.currentTarget.value)} /></label>}
        <button type="submit" class="primary"><Icon name="play" /> Resume</button>
      </div>
    </form>
  )
}
