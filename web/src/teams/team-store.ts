/** The open team conversation: what is new in its log is loaded each time the hub says that its record has changed, and after
 * each break of the connection. */
import { batch, signal } from '@preact/signals'
import { errorMessage, get, isNotFound } from '../api/client'
import type * as P from '../generated/protocol'
import { onReady, retrySoon, teams } from '../store/store'
import { followTurns, unfollowTurns } from './live-turns'
import { TeamThread } from './team-thread'

export const teamThread = signal<TeamThread | undefined>(undefined)
export const teamProblem = signal('')

const FIRST_PAGE = 100
const NEXT_PAGE = 500
const MAX_THREADS = 4
const threads = new Map<string, TeamThread>()
let openId = ''

export const teamPath = (id: string): string => `teams/${encodeURIComponent(id)}`

export function openTeam(id: string): void {
  openId = id
  teamProblem.value = ''
  teamThread.value = threads.get(id)
  void refreshTeam()
}

export function closeTeam(): void {
  openId = ''
  teamThread.value = undefined
  unfollowTurns()
}

let loading: Promise<void> | undefined
let loadingNext: Promise<void> | undefined

/** Loads what is new, beginning after this call. Many calls while one loads are one more load. */
export function refreshTeam(): Promise<void> {
  if (!loading) return (loading = load(openId).finally(() => (loading = undefined)))
  return (loadingNext ??= loading.then(() => {
    loadingNext = undefined
    return refreshTeam()
  }))
}

async function load(id: string): Promise<void> {
  if (!id) return
  const known = threads.get(id)
  try {
    const [view, page] = await Promise.all([get<P.TeamView>(teamPath(id)), known ? loadAfter(known) : loadBefore(id)])
    const thread = known ?? new TeamThread(id)
    batch(() => {
      thread.setView(view)
      thread.addEntries(page.entries)
      if (!known) thread.hasOlder.value = page.more
      threads.set(id, thread)
      while (threads.size > MAX_THREADS) threads.delete(threads.keys().next().value!)
      if (openId !== id) return
      teamThread.value = thread
      teamProblem.value = ''
    })
    if (openId === id) followTurns([...thread.sessions.peek().values()], (view.speaking ?? []).flatMap((name) => thread.sessions.peek().get(name) ?? []))
  } catch (error) {
    if (openId !== id) return
    teamProblem.value = errorMessage(error)
    if (isNotFound(error)) threads.delete(id)
    else retrySoon()
  }
}

/** All that follows the known entries. */
async function loadAfter(thread: TeamThread): Promise<P.TeamEntries> {
  for (;;) {
    const page = await get<P.TeamEntries>(`${teamPath(thread.id)}/entries?prompts=false&limit=${NEXT_PAGE}&after=${thread.lastSeq}`)
    if (!page.more) return page
    thread.addEntries(page.entries)
  }
}

const loadBefore = (id: string, before = Number.MAX_SAFE_INTEGER): Promise<P.TeamEntries> =>
  get<P.TeamEntries>(`${teamPath(id)}/entries?prompts=false&limit=${FIRST_PAGE}&before=${before}`)

/** Loads the page of entries before the loaded ones. */
export async function loadOlderEntries(thread: TeamThread): Promise<void> {
  if (thread.loadingOlder || !thread.hasOlder.value) return
  thread.loadingOlder = true
  try {
    const page = await loadBefore(thread.id, thread.firstSeq)
    thread.addEntries(page.entries)
    thread.hasOlder.value = page.more
  } catch {
    // the next scroll retries
  } finally {
    thread.loadingOlder = false
  }
}

type TeamAction = P.Hold | P.Resume | P.Reorder | P.Drop | P.AddMember | P.RemoveMember | P.ChangePolicy | P.EndTeam

/** Starts the same team on another task. Returns the id of the new conversation. */
export async function startAgain(thread: TeamThread, task: string): Promise<string> {
  const { entries } = await get<P.TeamEntries>(`${teamPath(thread.id)}/entries?after=0&limit=1`)
  const first = entries[0]?.entry
  if (first?.type !== 'started') throw new Error('The beginning of the conversation is no longer stored.')
  const { value } = await thread.request.send<P.TeamView>('POST', 'teams', { team: first.team, task, id: '' } satisfies P.NewTeam)
  return value.id
}

let acting: Promise<unknown> = Promise.resolve()

/** Does something in the conversation, after what was done before. Returns whether the hub accepted it. */
export function act(thread: TeamThread, action: TeamAction): Promise<boolean> {
  const done = acting.then(async () => {
    try {
      await thread.request.send('POST', `${teamPath(thread.id)}/actions`, action)
      thread.problem.value = ''
      return true
    } catch (error) {
      thread.problem.value = errorMessage(error)
      return false
    } finally {
      if (openId === thread.id) await refreshTeam()
    }
  })
  acting = done
  return done
}

/** The queue as it will be, until the hub says how it is. */
export function reorder(thread: TeamThread, names: readonly string[]): void {
  const view = thread.view.peek()
  const queue = view?.queue ?? []
  if (view) thread.view.value = { ...view, queue: [...names.map((name) => queue.find((speaker) => speaker.name === name) ?? { name }), ...queue.filter((speaker) => !names.includes(speaker.name))] }
  void act(thread, { do: 'reorder', next: names })
}

let openRecord: P.TeamRecord | undefined
teams.subscribe((all) => {
  const record = all.get(openId)
  if (record && record !== openRecord) void refreshTeam()
  openRecord = record
})
onReady(() => { if (openId) void refreshTeam() })
