// @tieline@
// Keeps the sessions of this OpenCode in touch with other agents, through Tieline's hub on this machine: it tells the
// hub which sessions run, and hands them the messages that the hub has for them. Without a hub it does nothing.

import { existsSync } from "node:fs"

const SOCKET = "@socket@" // of the hub; empty: the hub is on another machine
const URL = "http://localhost/api/v1/harness-plugins"
const RETRY_MS = [500, 1000, 2000, 5000, 10000]
const POST_MS = 10000
const MAX_SESSIONS = 50
const MAX_KNOWN = 2000
const EVENTS = new Set(["session.created", "session.status", "session.deleted"])
const MAX_LINE = 16 * 1024 * 1024
const REMEMBER =
  "Keep in the summary: the agent's name in the Tieline mesh, the agents it is in touch with, and the ids of messages " +
  "that still want an answer."

const running = (globalThis[Symbol.for("tieline.opencode")] ??= new Map()) // directory → what ends its plugin

export const Tieline = async ({ client, directory }) => {
  const sessions = new Map() // id → {id, cwd, activity}; the latest used last
  const known = new Map() // id of every session that was heard of → {parent, cwd}
  const modes = new Map() // session → agent and model that its person uses
  const arriving = new Map() // text that is being handed over → whether its session has it
  const ending = new AbortController()
  let link = ""
  let changed = false
  let reporting = false
  let handled = Promise.resolve() // the events so far

  // --- sessions ---

  const remember = (map, key, value, most) => {
    map.delete(key)
    map.set(key, value)
    if (map.size > most) map.delete(map.keys().next().value)
  }

  const learn = ({ id, parentID, directory: cwd }) =>
    remember(known, id, { parent: parentID ?? "", cwd: cwd ?? directory }, MAX_KNOWN)

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
    remember(sessions, id, { id, cwd: session.cwd, activity }, MAX_SESSIONS)
    report()
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
      if (sessions.delete(properties.info.id)) report()
    }
  }

  // --- the hub ---

  const request = (path, more) => fetch(URL + path, { unix: SOCKET, ...more })

  const post = async (path, body) => {
    const signal = AbortSignal.any([ending.signal, AbortSignal.timeout(POST_MS)])
    const headers = { "content-type": "application/json" }
    const response = await request(path, { method: "POST", headers, body: JSON.stringify(body), signal })
    await response.arrayBuffer()
    return response.status
  }

  // One report at a time, and the last one says how it is: what came between is not missed.
  const report = async () => {
    changed = true
    if (reporting || !link) return
    reporting = true
    try {
      while (changed && link) {
        changed = false
        await post("/opencode/sessions", { link, sessions: [...sessions.values()] })
      }
    } catch {
      // The stream ends as well, and everything is reported on the next one.
    } finally {
      reporting = false
    }
  }

  const handOver = async ({ text_id, session, text, sender }) => {
    let error = ""
    const id = link
    try {
      arriving.set(text, false)
      const body = { ...(await mode(session)), parts: [{ type: "text", text }] }
      const answer = await client.session.promptAsync({ path: { id: session }, body })
      if (answer.error) error = JSON.stringify(answer.error).slice(0, 500)
      else if (!arriving.get(text)) error = "OpenCode did not add the message to its session"
    } catch (problem) {
      error = String(problem).slice(0, 500) || "unknown"
    } finally {
      arriving.delete(text)
    }
    await post("/opencode/handed-over", { link: id, text: text_id, error }).catch(() => {})
    if (!error) client.tui.showToast({ body: { message: `Message from ${sender}`, variant: "info" } }).catch(() => {})
  }

  // Without it a message would go to the default agent, also where the person has chosen one that may do less.
  const mode = async (session) => {
    if (!modes.has(session)) {
      const { data } = await client.session.messages({ path: { id: session } })
      const last = data?.findLast(({ info }) => info.role === "user")?.info
      if (last) noteMode(last)
    }
    return modes.get(session) ?? {}
  }

  const noteMode = ({ sessionID, agent, model }) => {
    const { providerID, modelID, variant } = model ?? {}
    const value = { agent, ...(providerID && { model: { providerID, modelID } }), ...(variant && { variant }) }
    remember(modes, sessionID, value, MAX_KNOWN)
  }

  const follow = async () => {
    const response = await request("?harness=opencode", { signal: ending.signal })
    if (!response.ok) {
      await response.arrayBuffer()
      return response.status
    }
    const decoder = new TextDecoder()
    let rest = ""
    for await (const part of response.body) {
      const lines = (rest + decoder.decode(part, { stream: true })).split("\n")
      rest = lines.pop()
      if (rest.length > MAX_LINE) break
      for (const line of lines) {
        if (!line.startsWith("data: ")) continue
        const event = JSON.parse(line.slice(6))
        if (event.link) {
          link = event.link
          report()
        } else handOver(event)
      }
    }
    return 200
  }

  const stayConnected = async () => {
    let failures = 0
    while (!ending.signal.aborted) {
      try {
        if (existsSync(SOCKET)) {
          const status = await follow()
          if (status === 403) return // an agent that Tieline itself runs: its messages come as prompts
          if (status === 200) failures = 0
        }
      } catch {
        // There is no hub, or it ended.
      }
      link = ""
      await pause(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)])
    }
  }

  const pause = (ms) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      timer.unref?.()
      ending.signal.addEventListener("abort", resolve, { once: true })
    })

  running.get(directory)?.abort() // it was loaded anew, or is installed twice
  running.set(directory, ending)
  if (SOCKET) stayConnected()

  const quietly = async (work) => {
    try {
      await work()
    } catch {
      // Nothing of ours may stop OpenCode.
    }
  }

  return {
    event: async ({ event }) => {
      if (EVENTS.has(event.type)) handled = handled.then(() => quietly(() => onEvent(event)))
    },
    "chat.message": (_, { message, parts }) =>
      quietly(() => {
        for (const { text } of parts) if (arriving.has(text)) arriving.set(text, true)
        noteMode(message)
      }),
    // OpenCode starts one MCP server for all its sessions: each call says which one it is from.
    "tool.execute.before": ({ tool, sessionID }, { args }) =>
      quietly(async () => {
        if (tool.startsWith("tieline_")) args.session_id = await root(sessionID)
      }),
    "experimental.session.compacting": (_, { context }) => quietly(() => context.push(REMEMBER)),
  }
}
