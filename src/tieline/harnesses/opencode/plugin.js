// @tieline@
// Keeps the sessions of this OpenCode in touch with other agents, through Tieline's hub on this machine: it tells the
// hub which sessions run, and hands them the messages that the hub has for them. Where you agreed to it
// (`tieline install --attach`), it also tells the hub what happens in them, and brings back what you decide and say
// elsewhere. Without a hub it does nothing.

import { execFileSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { hubLink } from "../hub_link.js"

const SOCKET = "@socket@" // of the hub; empty: the hub is on another machine
const READ_AGAIN_MS = 1000
const TELL_MS = 600000 // of many long histories each part waits for its turn; a hub that ends is noticed at once
const ARRIVE_MS = 15000
const STARTS_S = 120 // loaded later than that: the latest session may be another terminal's by now
const MAX_SESSIONS = 50
const MAX_KNOWN = 2000
const LATEST = 10 // messages
const PAGE = 100 // messages: a whole history at once would hold up the terminal
const EVENTS = new Set(["session.created", "session.status", "session.deleted"])
const TOLD = new Set([
  "message.updated", "message.part.updated", "message.part.delta", "session.status", "session.idle", "session.error",
  "session.compacted", "todo.updated", "permission.asked", "permission.replied", "question.asked", "question.replied",
  "question.rejected",
])
const AT_ONCE = new Set([
  "permission.asked", "permission.replied", "question.asked", "question.replied", "question.rejected", "session.error",
])
const TOGETHER_MS = 100 // each request takes OpenCode's time: what happens meanwhile goes in one
const MAX_BATCH = 500 // events
const MAX_BATCH_SIZE = 1024 * 1024
const MAX_EVENT_SIZE = 7 * 1024 * 1024
const DELTA_END = '"}}'
const MAX_WAITING = 5000
const MAX_WAITING_SIZE = 16 * 1024 * 1024
const REMEMBER =
  "Keep in the summary: the agent's name in the Tieline mesh, the agents it is in touch with, and the ids of messages " +
  "that still want an answer."

const running = (globalThis[Symbol.for("tieline.opencode")] ??= new Map()) // directory → the link of its plugin

// Of the whole process: plugins run in a worker, which has no arguments.
const commandLine = () =>
  existsSync("/proc/self/cmdline")
    ? readFileSync("/proc/self/cmdline", "utf8").split("\0")
    : execFileSync("ps", ["-o", "args=", "-p", String(process.pid)], { encoding: "utf8" }).trim().split(/\s+/)

export const Tieline = async ({ client, directory }) => {
  const sessions = new Map() // id → {id, cwd, activity, began_at}; the latest used last
  const known = new Map() // id of every session that was heard of → {parent, cwd, began}
  const followed = new Map() // session → what the hub is to be told of it
  const modes = new Map() // session → agent and model that its person uses
  const arriving = new Map() // text that is being handed over → to be called when its session has it
  let handled = Promise.resolve() // the events so far

  // --- sessions ---

  const remember = (map, key, value, most) => {
    map.delete(key)
    map.set(key, value)
    if (map.size > most) map.delete(map.keys().next().value)
  }

  const learn = ({ id, parentID, directory: cwd, time }) =>
    remember(known, id, { parent: parentID ?? "", cwd: cwd ?? directory, began: (time?.created ?? 0) / 1000 }, MAX_KNOWN)

  const look = async (id) => {
    if (!known.has(id)) {
      const { data } = await client.session.get({ path: { id } })
      if (data) learn(data)
    }
    return known.get(id)
  }

  const update = async (id, activity) => {
    const session = await look(id)
    if (!session || session.parent) return // the sessions of subagents are no members
    if (sessions.get(id)?.activity === activity) return
    remember(sessions, id, { id, cwd: session.cwd, activity, began_at: session.began }, MAX_SESSIONS)
    hub.report()
  }

  const root = async (id) => {
    for (let depth = 0; depth < 20; depth++) {
      const session = await look(id)
      if (!session?.parent) break
      id = session.parent
    }
    return id
  }

  const onEvent = async ({ type, properties }) => {
    if (type === "session.created") {
      learn(properties.info)
      await update(properties.info.id, "idle")
    } else if (type === "session.status") {
      await update(properties.sessionID, properties.status.type === "idle" ? "idle" : "working")
    } else if (type === "session.deleted") {
      if (sessions.delete(properties.info.id)) hub.report()
    }
  }

  // The session that this terminal was opened with: OpenCode itself tells of it only when its next turn begins.
  const resumed = async () => {
    const [, ...words] = commandLine()
    if (words[0] === "run" || words.includes("--fork")) return
    const named = words.findIndex((word) => /^(-s|--session)(=|$)/.test(word))
    if (named >= 0) await update(words[named].split("=")[1] ?? words[named + 1], "idle")
    else if ((words.includes("-c") || words.includes("--continue")) && process.uptime() < STARTS_S) {
      const { data } = await client.session.list()
      const [latest] = data.filter(({ parentID }) => !parentID).sort((a, b) => b.time.updated - a.time.updated)
      if (latest) await update(latest.id, "idle")
    }
  }

  // --- what happens in them ---

  const follow = ({ follow: id, since }) => {
    const state = { id, since, before: [], waiting: [], size: 0, reading: false, begun: false, telling: false, urgent: false, lost: false }
    followed.set(id, state)
    read(state)
  }

  // The history first, then what happened meanwhile. The state comes first of all: if it is idle then, and no turn begins
  // before all is read, the messages are final.
  const read = async (state) => {
    state.reading = true
    state.begun = false
    state.lost = false
    state.before = []
    state.waiting = []
    state.size = 0
    const before = []
    try {
      const status = (await get("/session/status"))?.[state.id]?.type ?? "idle"
      before.push({ type: "tieline.reading" })
      const messages = await history(state.id, state.since)
      messages.sort((message, other) => message.info.time.created - other.info.time.created)
      for (const properties of messages) before.push({ type: "tieline.message", properties })
      const calls = messages.flatMap(({ parts }) => parts.map(({ tool }) => tool))
      if (calls.includes("todowrite")) {
        const properties = { sessionID: state.id, todos: await get(`/session/${state.id}/todo`) }
        before.push({ type: "todo.updated", properties })
      }
      const permissions = await asked("permission", state.id)
      const questions = await asked("question", state.id)
      const ids = (all) => all.map(({ id }) => id)
      await handled
      const now = { status: state.begun ? "busy" : status, permission: ids(permissions), question: ids(questions) }
      before.push({ type: "tieline.read", properties: now })
      for (const properties of permissions) before.push({ type: "permission.asked", properties })
      for (const properties of questions) before.push({ type: "question.asked", properties })
    } catch {
      await hub.pause(READ_AGAIN_MS)
      if (isFollowed(state)) read(state)
      return
    }
    state.reading = false
    state.before = before
    tell(state)
  }

  // The last messages, as many as the hub does not have yet.
  const latest = async (id, since) => {
    const messages = []
    for await (const page of pages(id, since ? LATEST : PAGE)) {
      messages.unshift(...page)
      if (page.some(({ info }) => info.id <= since)) break
    }
    return messages
  }

  // The messages of a session, the last ones first. No page has what another has.
  const pages = async function* (id, limit) {
    const url = `/session/${id}/message`
    let [before, given] = ["", 0]
    for (; ; limit = PAGE) {
      const { data, response } = await answered("GET", `${url}?limit=${limit}${before}`)
      yield data
      given += data.length
      if (data.length < limit) return
      const cursor = response.headers.get("x-next-cursor")
      if (!cursor) break // these were all, or this is an older OpenCode, which has no pages
      before = `&before=${encodeURIComponent(cursor)}`
    }
    const all = await get(url)
    yield all.slice(0, all.length - given)
  }

  const history = async (id, since, began = 0) => {
    const all = (await latest(id, since)).filter(({ info }) => info.id > since && info.time.created >= began)
    const tasks = all.flatMap(({ parts }) => parts.filter(({ tool, state }) => tool === "task" && state.metadata?.sessionId))
    const below = await Promise.all(tasks.map(({ state }) => history(state.metadata.sessionId, "", state.time.start)))
    return [...all, ...below.flat()]
  }

  const asked = async (kind, id) => {
    const asks = []
    for (const each of (await get(`/${kind}`)) ?? []) if ((await root(each.sessionID)) === id) asks.push(each)
    return asks
  }

  const onFollowedEvent = async (event) => {
    const { sessionID, part, info } = event.properties
    const id = sessionID ?? part?.sessionID ?? info?.sessionID
    const state = id && followed.get(await root(id))
    if (!state) return
    state.begun ||= event.type === "session.status" && id === state.id && event.properties.status.type !== "idle"
    add(state, event)
    if (isUrgent(event)) tell(state)
    else tellSoon(state)
  }

  // Events that somebody waits for: an ask, and the end of a turn.
  const isUrgent = ({ type, properties }) => AT_ONCE.has(type) || (type === "session.status" && properties.status.type === "idle")

  const tellSoon = (state) => {
    state.timer ??= setTimeout(() => tell(state), TOGETHER_MS)
  }

  // The waiting events are limited. Too many: pieces of texts are dropped, because the end of a text has all of it; if that
  // is not enough, everything is read again.
  const add = (state, event) => {
    if (state.lost) return
    const { key, delta, text } = waitingEvent(event)
    if (text.length > MAX_EVENT_SIZE) return
    const last = state.waiting.at(-1)
    if (key && last?.key === key && last.text.length < MAX_BATCH_SIZE) {
      state.size -= last.text.length
      last.text = delta === undefined ? text : last.text.slice(0, -DELTA_END.length) + delta + DELTA_END
      state.size += last.text.length
    } else {
      state.waiting.push({ key, text, delta: delta !== undefined })
      state.size += text.length
    }
    if (!isFull(state)) return
    state.waiting = state.waiting.filter((each) => !each.delta)
    state.size = state.waiting.reduce((size, each) => size + each.text.length, 0)
    if (!isFull(state)) return
    state.lost = true
    state.waiting = []
    state.size = 0
  }

  // The event is turned into text at once, because OpenCode goes on to change it. It is joined with the event before it
  // if both have the same key: a piece of a text is appended; the output of a tool, which is sent whole each time,
  // replaces the earlier one.
  const waitingEvent = (event) => {
    const { part, partID, field, delta, ...rest } = event.properties
    if (event.type === "message.part.delta" && typeof delta === "string") {
      const head = JSON.stringify({ type: event.type, properties: { ...rest, partID, field, delta: "" } })
      const piece = JSON.stringify(delta).slice(1, -1)
      return { key: `${partID} ${field}`, delta: piece, text: head.slice(0, -DELTA_END.length) + piece + DELTA_END }
    }
    return { key: part?.state?.status === "running" ? part.id : "", text: JSON.stringify(event) }
  }

  // The texts of the next events to send, the history's first, of which only a part is turned into text at a time.
  const next = (state) => {
    const texts = []
    let size = 0
    const { before, waiting } = state
    const source = before.length ? before : waiting
    while (texts.length < Math.min(source.length, MAX_BATCH) && size < MAX_BATCH_SIZE) {
      const text = source === before ? JSON.stringify(before[texts.length]) : waiting[texts.length].text
      texts.push(text)
      size += text.length
    }
    source.splice(0, texts.length)
    if (source === waiting) state.size -= size
    return texts
  }

  const isFull = ({ waiting, size }) => waiting.length > MAX_WAITING || size > MAX_WAITING_SIZE

  const tell = async (state) => {
    clearTimeout(state.timer)
    state.timer = undefined
    state.urgent = true
    if (state.telling || state.reading) return
    state.telling = true
    while (state.urgent && (state.before.length || state.waiting.length) && isFollowed(state)) {
      const events = next(state).join(",")
      state.urgent = state.before.length > 0 || state.waiting.length > 0 // what comes from now on may wait again
      const body = `{"link":${JSON.stringify(hub.id)},"session":${JSON.stringify(state.id)},"events":[${events}]}`
      const status = await hub.post("events", body, TELL_MS).catch(() => 0)
      if (status === 404 && isFollowed(state)) followed.delete(state.id)
      else if (status !== 204) state.lost = true
      if (state.lost) {
        state.before = []
        state.waiting = []
      }
    }
    state.telling = false
    if (state.lost && isFollowed(state)) {
      await hub.pause(READ_AGAIN_MS)
      if (isFollowed(state)) read(state)
    }
  }

  const isFollowed = (state) => followed.get(state.id) === state

  // --- the harness ---

  const call = (method, url, body) =>
    client._client.request({
      method,
      url,
      ...(body != null && { body, headers: { "content-type": "application/json" } }),
    })

  const get = async (url) => (await answered("GET", url)).data

  const answered = async (method, url) => {
    const answer = await call(method, url)
    if (answer.error) throw new Error(JSON.stringify(answer.error))
    return answer
  }

  const answer = async ({ request_id: text, method, path, body }) => {
    const answered = { link: hub.id, text }
    try {
      const { data, error, response } = await call(method, path, body)
      answered.status = response?.status ?? 0
      if (error) answered.error = JSON.stringify(error).slice(0, 500)
      else if (data != null) answered.result = data
    } catch (problem) {
      answered.error = String(problem).slice(0, 500) || "unknown"
    }
    await hub.post("handed-over", answered).catch(() => {})
  }

  // --- the hub ---

  const handOver = async ({ text_id, session, text, sender, model, effort }) => {
    let error = ""
    const id = hub.id
    try {
      const arrives = new Promise((resolve) => arriving.set(text, () => resolve(true)))
      const body = { ...(await mode(session)), ...chosen(model, effort), parts: [{ type: "text", text }] }
      const answer = await client.session.promptAsync({ path: { id: session }, body })
      if (answer.error) error = JSON.stringify(answer.error).slice(0, 500)
      // It answers before it has the message, and much before where it has just been started.
      else if (!(await Promise.race([arrives, hub.pause(ARRIVE_MS)]))) error = "OpenCode did not add the message to its session"
    } catch (problem) {
      error = String(problem).slice(0, 500) || "unknown"
    } finally {
      arriving.delete(text)
    }
    await hub.post("handed-over", { link: id, text: text_id, error }).catch(() => {})
    if (!error && sender) client.tui.showToast({ body: { message: `Message from ${sender}`, variant: "info" } }).catch(() => {})
  }

  // Without it a message would go to the default agent, also where the person has chosen one that may do less.
  const mode = async (session) => {
    if (!modes.has(session)) {
      for await (const page of pages(session, LATEST)) {
        const last = page.findLast(({ info }) => info.role === "user")?.info
        if (last) noteMode(last)
        if (last) break
      }
    }
    return modes.get(session) ?? {}
  }

  const chosen = (name, variant) => {
    if (!name) return variant ? { variant } : {}
    const [providerID, ...model] = name.split("/")
    return { model: { providerID, modelID: model.join("/") }, variant: variant || undefined }
  }

  const noteMode = ({ sessionID, agent, model }) => {
    const { providerID, modelID, variant } = model ?? {}
    const value = { agent, ...(providerID && { model: { providerID, modelID } }), ...(variant && { variant }) }
    remember(modes, sessionID, value, MAX_KNOWN)
  }

  const onCommand = (command) => {
    if (command.follow) follow(command)
    else if (command.unfollow) followed.delete(command.unfollow)
    else if (command.request_id) answer(command)
    else handOver(command)
  }

  const hub = hubLink({
    socket: SOCKET,
    harness: "opencode",
    sessions: () => [...sessions.values()],
    onCommand,
    onLost: () => followed.clear(),
  })

  running.get(directory)?.end() // it was loaded anew, or is installed twice
  running.set(directory, hub)
  if (SOCKET) hub.start()

  const quietly = async (work) => {
    try {
      await work()
    } catch {
      // Nothing of ours may stop OpenCode.
    }
  }

  handled = quietly(resumed)

  return {
    event: async ({ event }) => {
      if (EVENTS.has(event.type)) handled = handled.then(() => quietly(() => onEvent(event)))
      if (followed.size && TOLD.has(event.type)) handled = handled.then(() => quietly(() => onFollowedEvent(event)))
      if (event.type === "server.instance.disposed") handled = handled.then(() => followed.forEach((state) => void tell(state)))
    },
    "chat.message": (_, { message, parts }) =>
      quietly(() => {
        for (const { text } of parts) arriving.get(text)?.()
        noteMode(message)
      }),
    // OpenCode starts one MCP server for all its sessions: each call says which one it is from.
    "tool.execute.before": ({ tool, sessionID }, { args }) =>
      quietly(async () => {
        if (tool.startsWith("tieline_")) args.session_id = await root(sessionID)
      }),
    "experimental.session.compacting": (_, { context }) => quietly(() => context.push(REMEMBER)),
    // OpenCode reads its configuration anew: then the next one of us takes over, or there is none any more.
    dispose: () => quietly(() => existsSync(fileURLToPath(import.meta.url)) || hub.end()),
  }
}
