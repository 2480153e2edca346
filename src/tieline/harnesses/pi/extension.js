// @tieline@
// Keeps this Pi in touch with other agents, through Tieline's hub: it tells the hub of its session, hands over the
// messages that the hub has for it, and gives its model the hub's tools. Without a hub it does nothing.

import { ask, hubLink, readText } from "../hub_link.js"

const SOCKET = "@socket@" // of the hub; empty: the hub is on another machine
const HUB = SOCKET || "@url@"
const ARRIVE_MS = 12000
const TOOL_MS = 330000 // longer than the longest wait of a tool
const TOOLS_AGAIN_MS = 1000
const VERSION = "2026-07-28" // of MCP: each request stands for itself
const MARK = "tieline"
const TELL_MS = 40000 // longer than the hub takes to write things down
const TELL_AGAIN_MS = 2000
const TELL_AT_ONCE = 100 // entries
const TELL_CHARS = 512 * 1024

const running = (globalThis[Symbol.for("tieline.pi")] ??= new Map()) // session → the link of its extension

const encoded = (text) =>
  /^[!-~]([ -~]*[!-~])?$/.test(text) ? text : `=?base64?${Buffer.from(text).toString("base64")}?=`

export default function (pi) {
  let ctx // of the session; it ends with it
  let id = ""
  let cwd = ""
  let hub
  let working = false
  let refused = false // Pi did not begin a turn when it was to
  let arrived = () => {} // a message came into the session
  let listed = ""
  const steered = new Set() // texts for the running turn that it does not have yet
  let lastSent // the id of the last entry of the session that the hub has; undefined: the hub does not follow it
  let telling = false
  let more = false

  // --- messages ---

  const bring = async (text) => {
    if (!ctx.isIdle()) {
      if (!working || ctx.signal?.aborted) return "Pi is busy just now"
      steered.add(text)
      pi.sendMessage({ customType: MARK, content: text, display: true }, { deliverAs: "steer" })
      return ""
    }
    if (refused) return "Pi does not begin a turn; its person sees why in the terminal"
    const arrives = new Promise((resolve) => (arrived = () => resolve(true)))
    pi.sendUserMessage(text, { deliverAs: "steer" })
    if (await Promise.race([arrives, hub.pause(ARRIVE_MS)])) return ""
    refused = true
    return "Pi did not begin a turn"
  }

  const handOver = async ({ text_id: text, session, text: words, sender }) => {
    const answer = { link: hub.id, text, error: "" }
    try {
      answer.error = session === id ? await bring(words) : "this terminal has another session now"
    } catch (problem) {
      answer.error = String(problem).slice(0, 500) || "unknown"
    }
    await hub.post("handed-over", answer).catch(() => {})
    if (!answer.error && sender) quietly(() => ctx.ui.notify(`Message from ${sender}`, "info"))
  }

  // --- for a hub that follows the session, because its person agreed ---

  // Pictures are not sent.
  const shown = ({ id, type, timestamp, message, customType, content }) => {
    const parts = message?.content
    const bare = Array.isArray(parts) ? parts.map((part) => (part.type === "image" ? { type: "image" } : part)) : parts
    return { id, type, timestamp, customType, content, message: message && { ...message, content: bare } }
  }

  const next = () => {
    const branch = ctx.sessionManager.getBranch()
    const start = branch.findIndex((entry) => entry.id === lastSent) + 1
    const entries = []
    let chars = 0
    for (const entry of branch.slice(start, start + TELL_AT_ONCE)) {
      const text = JSON.stringify({ type: "entry", entry: entry.message?.role === "system" ? { id: entry.id } : shown(entry) })
      if (entries.length && chars + text.length > TELL_CHARS) break
      chars += text.length
      entries.push(text)
    }
    const last = branch[start + entries.length - 1]?.id ?? lastSent
    return { entries, last, whole: start + entries.length >= branch.length }
  }

  const tell = async () => {
    more = true
    if (telling) return
    telling = true
    while (more && lastSent !== undefined) {
      more = false
      const link = hub.id
      const { entries, last, whole } = next()
      const events = whole ? [...entries, JSON.stringify({ type: "state", working })] : entries
      const body = `{"link":${JSON.stringify(link)},"session":${JSON.stringify(id)},"events":[${events.join(",")}]}`
      const status = await hub.post("events", body, TELL_MS).catch(() => 0)
      if (lastSent === undefined || link !== hub.id) break
      if (status === 404) lastSent = undefined
      else if (status === 204) {
        lastSent = last
        more ||= !whole
      } else {
        more = true
        await hub.pause(TELL_AGAIN_MS)
      }
    }
    telling = false
  }

  // Pi notifies its extensions of an entry before it writes the entry down.
  const tellSoon = () => lastSent !== undefined && setTimeout(() => quietly(tell), 20).unref()

  const abort = async (request) => {
    ctx.abort()
    await hub.post("handed-over", { link: hub.id, text: request, error: "", status: 200 }).catch(() => {})
  }

  const onCommand = (command) => {
    if (command.text_id) handOver(command)
    else if (command.follow === id) {
      lastSent = command.since
      tell()
    } else if (command.unfollow === id) lastSent = undefined
    else if (command.request_id && command.path === "abort") abort(command.request_id)
  }

  // --- tools ---

  const call = async (method, params, signal) => {
    const key = process.env.TIELINE_MESH_KEY
    const headers = {
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": VERSION,
      "mcp-method": method,
      ...(params.name && { "mcp-name": params.name }),
      "x-tieline-harness": "pi",
      "x-tieline-session": encoded(id),
      "x-tieline-cwd": encoded(cwd),
      ...(!SOCKET && key && { authorization: `Bearer ${key}` }),
    }
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": VERSION,
      "io.modelcontextprotocol/clientCapabilities": {},
      "io.modelcontextprotocol/clientInfo": { name: "pi", version: "" },
    }
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } })
    const response = await ask(HUB, "/mcp", { method: "POST", headers, body, signal })
    const text = await readText(response)
    const streamed = response.headers["content-type"]?.startsWith("text/event-stream")
    const last = streamed ? text.split("\n").findLast((line) => line.startsWith("data: ")).slice(6) : text
    const { result, error, detail } = JSON.parse(last)
    if (!result) throw new Error(error?.message ?? detail ?? `the hub refused it: status ${response.statusCode}`)
    return result
  }

  const use = (name) => async (_, args, signal) => {
    const bound = AbortSignal.timeout(TOOL_MS)
    let result
    try {
      result = await call("tools/call", { name, arguments: args }, signal ? AbortSignal.any([signal, bound]) : bound)
    } catch (problem) {
      const gone = ["ENOENT", "ECONNREFUSED"].includes(problem.code)
      throw gone ? new Error("Tieline's hub does not run: `tieline up` starts it.") : problem
    }
    const text = result.content.map((part) => part.text ?? "").join("\n")
    if (result.isError) throw new Error(text)
    return { content: [{ type: "text", text }], details: undefined }
  }

  const giveTools = async () => {
    const { tools } = await call("tools/list", {}, AbortSignal.timeout(TOOL_MS))
    if (JSON.stringify(tools) === listed) return
    for (const { name, description, inputSchema } of tools) {
      const label = `Tieline: ${name.replaceAll("_", " ")}`
      pi.registerTool({ name: `${MARK}_${name}`, label, description, parameters: inputSchema, execute: use(name) })
    }
    listed = JSON.stringify(tools)
  }

  // Before the session is reported, so that who is woken by a message can answer it.
  const giveToolsAndReport = async (isWanted) => {
    while (isWanted()) {
      const problem = await giveTools().catch((problem) => problem)
      hub.report()
      if (!problem) return
      await hub.pause(TOOLS_AGAIN_MS)
    }
  }

  // --- the session ---

  const quietly = (work) => {
    try {
      work()
    } catch {
      // Nothing of ours may stop Pi.
    }
  }

  const on = (event, handle) => pi.on(event, (...given) => quietly(() => handle(...given)))

  const beganAt = () => Date.parse(ctx.sessionManager.getHeader?.()?.timestamp) / 1000 || 0

  on("session_start", (_, context) => {
    if (context.mode !== "tui") return // nobody's terminal
    ctx = context
    id = ctx.sessionManager.getSessionId()
    cwd = ctx.cwd
    working = !ctx.isIdle()
    hub = hubLink({
      socket: SOCKET,
      harness: "pi",
      sessions: () => [{ id, cwd, activity: working ? "working" : "idle", began_at: beganAt() }],
      onLost: () => (lastSent = undefined),
      onLink: () => {
        const link = hub.id
        giveToolsAndReport(() => hub.id === link)
      },
      onCommand: (command) => quietly(() => onCommand(command)),
    })
    running.get(id)?.end() // it is installed twice
    running.set(id, hub)
    if (SOCKET) hub.start()
    else giveToolsAndReport(() => running.get(id) === hub)
  })

  on("session_shutdown", () => {
    if (running.get(id) === hub) running.delete(id)
    hub?.end()
  })

  on("agent_start", () => {
    working = true
    refused = false
    hub?.report()
    tellSoon()
  })

  on("message_end", ({ message }) => {
    tellSoon()
    if (message.role === "user") arrived()
    else if (message.role === "custom" && message.customType === MARK) steered.delete(message.content)
  })

  on("agent_settled", () => {
    working = false
    // Its person stopped the turn, and Pi dropped what waited for it: the next turn has it.
    for (const content of steered) pi.sendMessage({ customType: MARK, content, display: true }, { triggerTurn: false })
    steered.clear()
    hub?.report()
    tellSoon()
  })
}
