/** The form that starts a team: its file as text, the directory that it works in, and its task. The hub reads the file. */
import { useRef, useState } from 'preact/hooks'
import { errorMessage, IdempotentRequest, request } from '../api/client'
import { back, navigate, teamUrl } from '../app/router'
import type * as P from '../generated/protocol'
import { recentDirectories } from '../sessions/new-session'
import { loadLocal, saveLocal } from '../shared/local-storage'
import { visibleLine } from '../shared/visible-text'
import { nodes } from '../store/store'
import { Problem, Sheet } from '../ui/components'

const MAX_FILE = 64_000
const EXAMPLE = `name = "shop"

[[members]]
name = "developer"
agent = "codex"

[[members]]
name = "me"
human = true`

export function NewTeam() {
  const here = [...nodes.value.values()].find((node) => node.local)
  const recent = recentDirectories(here?.id ?? '')
  const [text, setText] = useState(() => loadLocal('draft.team', ''))
  const [typed, setCwd] = useState<string | undefined>(undefined)
  const cwd = typed ?? recent[0] ?? here?.home ?? ''
  const [task, setTask] = useState('')
  const [checked, setChecked] = useState<P.CheckedTeamFile | undefined>(undefined)
  const [problem, setProblem] = useState('')
  const [busy, setBusy] = useState(false)
  const [startRequest] = useState(() => new IdempotentRequest())
  const file = useRef<HTMLTextAreaElement>(null)

  const change = (next: string) => {
    setText(next)
    setChecked(undefined)
    setProblem('')
    saveLocal('draft.team', next)
  }
  const pick = async (picked: File | undefined) => {
    if (!picked) return
    if (picked.size > MAX_FILE) setProblem(`${visibleLine(picked.name)} is not a team file: it has more than ${MAX_FILE.toLocaleString('en')} bytes.`)
    else change(await picked.text())
  }
  const submit = async (start: boolean) => {
    setBusy(true)
    setProblem('')
    try {
      const { value } = await request<P.CheckedTeamFile>('POST', 'team-file', { text, cwd: cwd.trim() } satisfies P.TeamFileText)
      setChecked(value)
      if (!start || !value.team) return
      const { value: started } = await startRequest.send<P.TeamView>('POST', 'teams', { team: value.team, task: task.trim(), id: '' } satisfies P.NewTeam)
      saveLocal('draft.team', '')
      navigate(teamUrl(started.id), true)
    } catch (error) {
      setProblem(errorMessage(error))
    } finally {
      setBusy(false)
    }
  }
  const select = (line: number) => {
    const box = file.current!
    const before = text.split('\n').slice(0, line - 1).join('\n')
    const from = before.length + (line > 1 ? 1 : 0)
    const end = text.indexOf('\n', from)
    box.focus()
    box.setSelectionRange(from, end < 0 ? text.length : end)
  }
  const mistakes = checked?.mistakes ?? []
  return (
    <Sheet title="New team" onClose={() => back('/teams')}>
      <form class="stack new-team" onSubmit={(event) => { event.preventDefault(); void submit(true) }}>
        <label>Team file
          <textarea ref={file} class="mono" rows={10} value={text} placeholder={EXAMPLE} spellcheck={false} autocapitalize="off" autocomplete="off" aria-invalid={mistakes.length > 0} aria-describedby="team-file-checked" onInput={(event) => change(event.currentTarget.value)} />
        </label>
        <label>Or open a file<input type="file" accept=".toml,text/plain" onChange={(event) => void pick(event.currentTarget.files?.[0])} /></label>
        <div id="team-file-checked" role="status">
          {mistakes.length > 0 && (
            <ul class="mistakes problem">
              {mistakes.map((mistake) => (
                <li key={`${mistake.line} ${mistake.key} ${mistake.problem}`}>
                  <button type="button" class="plain" onClick={() => select(mistake.line)}>Line {mistake.line}</button> {mistake.key && <code>{visibleLine(mistake.key)}</code>} {visibleLine([mistake.problem, mistake.hint].filter(Boolean).join('. '))}
                </li>
              ))}
            </ul>
          )}
          {checked?.team && <p>{summary(checked.team)}</p>}
        </div>
        <label>Directory
          <input type="text" class="mono" value={cwd} list="team-directories" spellcheck={false} autocapitalize="off" autocomplete="off" onInput={(event) => { setCwd(event.currentTarget.value); setChecked(undefined) }} />
        </label>
        <datalist id="team-directories">{recent.map((directory) => <option key={directory} value={directory} />)}</datalist>
        <label>Task<textarea rows={3} value={task} placeholder="What should the team do? Leave empty to use the task in its file." onInput={(event) => setTask(event.currentTarget.value)} /></label>
        <Problem text={problem} />
        <div class="row end">
          <button type="button" disabled={busy || !text.trim()} onClick={() => void submit(false)}>Check</button>
          <button type="submit" class="primary" disabled={busy || !text.trim()}>{busy ? 'One moment …' : 'Start'}</button>
        </div>
      </form>
    </Sheet>
  )
}

function summary({ name, members = [] }: P.Team): string {
  const people = members.filter((member) => member.human).length
  const agents = members.length - people
  return `The file is valid: ${visibleLine(name)}, ${agents} ${agents === 1 ? 'agent' : 'agents'} and ${people} ${people === 1 ? 'person' : 'people'}.`
}
