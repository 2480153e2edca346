// @tieline@
// Keeps this Copilot CLI in touch with other agents, through Tieline's hub: it tells the hub of its session, and hands
// over the messages and prompts that the hub has for it. Copilot loads it with `--experimental` only, in a process of
// its own. Without a hub it does nothing.

import { joinSession } from "@github/copilot-sdk/extension"
import { hubLink } from "../hub_link.js"

const SOCKET = "@socket@" // of the hub
const ARRIVE_MS = 12000
const MAX_ARRIVED = 100

const session = await joinSession({})
let working = false
const arrived = new Set() // ids of messages that the session has, the latest
const expected = new Map() // of those that it is to begin a turn with → who waits

const quietly = (work) => {
  try {
    return Promise.resolve(work()).catch(() => {})
  } catch {
    // Nothing of ours may disturb Copilot.
  }
}

const become = (works) => {
  if (works === working) return
  working = works
  hub.report()
}

const onMessage = (id) => {
  arrived.add(id)
  if (arrived.size > MAX_ARRIVED) arrived.delete(arrived.values().next().value)
  expected.get(id)?.()
}

const bring = async (text) => {
  if (working) {
    await session.send({ prompt: text, mode: "immediate" }) // it has it after the tool that runs
    return ""
  }
  const id = await session.send({ prompt: text })
  const arrives = new Promise((resolve) => expected.set(id, () => resolve(true)))
  const came = arrived.has(id) || (await Promise.race([arrives, hub.pause(ARRIVE_MS)]))
  expected.delete(id)
  return came ? "" : "Copilot CLI did not begin a turn"
}

const answer = async (id, work) => {
  const said = { link: hub.id, text: id, error: "", status: 200 }
  try {
    said.error = await work()
  } catch (problem) {
    said.error = String(problem).slice(0, 500) || "unknown"
    said.status = 0
  }
  await hub.post("handed-over", said)
}

const abort = async () => {
  await session.abort()
  return ""
}

const elsewhere = async () => "this terminal has another session now"

const hub = hubLink({
  socket: SOCKET,
  harness: "copilot",
  sessions: () => [{ id: session.sessionId, cwd: process.cwd(), activity: working ? "working" : "idle" }],
  onCommand: (command) =>
    quietly(() => {
      if (command.text_id) return answer(command.text_id, command.session === session.sessionId ? () => bring(command.text) : elsewhere)
      if (command.request_id && command.path === "abort") return answer(command.request_id, abort)
    }),
})

session.on((event) =>
  quietly(() => {
    if (event.type === "user.message") onMessage(event.data.messageId)
    if (event.type === "user.message" || event.type === "assistant.turn_start") become(true)
    else if (event.type === "session.idle") become(false)
  }),
)
hub.start()
