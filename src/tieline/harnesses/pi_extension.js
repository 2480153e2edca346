// @tieline@
// Keeps this Pi in touch with other agents, through Tieline's hub: it tells the hub of its session, hands over the
// messages that the hub has for it, and gives its model the hub's tools. Without a hub it does nothing.

import { ask, hubLink, readText } from "./hub_link.js"

const SOCKET = "@socket@" // of the hub; empty: the hub is on another machine
const HUB = SOCKET || "@url@"
const ARRIVE_MS = 12000
const TOOL_MS = 330000 // longer than the longest wait of a tool
const TOOLS_AGAIN_MS = 1000
const VERSION = "2026-07-28" // of MCP: each request stands for itself
const MARK = "tieline"

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

  on("session_start", (_, context) => {
    if (context.mode !== "tui") return // nobody's terminal
    ctx = context
    id = ctx.sessionManager.getSessionId()
    cwd = ctx.cwd
    working = !ctx.isIdle()
    hub = hubLink({
      socket: SOCKET,
      harness: "pi",
      sessions: () => [{ id, cwd, activity: working ? "working" : "idle" }],
      onLink: () => {
        const link = hub.id
        giveToolsAndReport(() => hub.id === link)
      },
      onCommand: (command) => command.text_id && handOver(command),
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
  })

  on("message_end", ({ message }) => {
    if (message.role === "user") arrived()
    else if (message.role === "custom" && message.customType === MARK) steered.delete(message.content)
  })

  on("agent_settled", () => {
    working = false
    // Its person stopped the turn, and Pi dropped what waited for it: the next turn has it.
    for (const content of steered) pi.sendMessage({ customType: MARK, content, display: true }, { triggerTurn: false })
    steered.clear()
    hub?.report()
  })
}
