"""What our plugin inside OpenCode sends to the hub: the plugin itself in Node.js, between an OpenCode and a hub that a
program stands in for."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tieline.harnesses.base import InstallOptions
from tieline.harnesses.plugin_file import plugin_text

PROGRAM = """
import { createServer } from "node:http"
const [path, socket, scene] = process.argv.slice(2)
const requests = []
const waiting = []
const arrived = (enough) => new Promise((resolve) => { waiting.push([enough, resolve]); look() })
const look = () => waiting.forEach(([enough, resolve]) => enough(requests) && resolve())
const told = () => requests.flat()
let commands, answer, follows, over = 0
const connections = new Set()
const hub = createServer(async (request, response) => {
  if (request.method === "GET") {
    commands = response
    response.writeHead(200).write('data: {"link":"link-1"}\\n\\n')
    return
  }
  const parts = []
  for await (const part of request) parts.push(part)
  const body = JSON.parse(Buffer.concat(parts))
  connections.add(request.socket)
  if (request.url.endsWith("/sessions") && !follows) follows = commands.write('data: {"follow":"ses_1"}\\n\\n') || true
  if (request.url.endsWith("/events")) {
    request.socket.once("close", () => { over++; look() })
    requests.push(body.events.map(({ type, properties: { name, part, delta, status } = {} }) => {
      return delta ?? part?.state.output ?? name ?? (status === "busy" ? `${type} ${status}` : type)
    }))
    if (scene === "slow") await new Promise((resolve) => { answer = resolve; look() })
    look()
  }
  response.writeHead(204).end()
})
await new Promise((resolve) => hub.listen(socket, resolve))
const plugin = await import(path)
const info = { id: "ses_1", directory: "/p", time: { created: 1000 } }
const request = async ({ url }) => {
  if (scene === "begins" && url.includes("/message")) emit("session.status", "begins", { status: { type: "busy" } })
  return { data: url === "/session/status" ? {} : [], response: { status: 200 } }
}
const client = { _client: { request }, session: { get: async () => ({ data: info }) } }
const hooks = await plugin.Tieline({ client, directory: "/p" })
const emit = (type, name, more = {}) =>
  hooks.event({ event: { type, properties: { sessionID: "ses_1", name, ...more } } })
await emit("session.created", "", { info })
await arrived(() => (scene === "slow" ? answer : over || (scene === "kept" && told().length)))
await new Promise(setImmediate) // the plugin has the response to what it told of the history
const has = (name) => arrived(() => told().includes(name))
const some = (from, to, partID = "prt_1") => {
  for (let n = from; n < to; n++) emit("message.part.delta", "", { partID, field: "text", delta: `${n} ` })
}
const prints = (id, output, status = "running") =>
  emit("message.part.updated", "", { part: { id, type: "tool", state: { status, output } } })
if (scene === "together") {
  some(0, 4)
  some(4, 5, "prt_2")
  prints("prt_3", "a")
  prints("prt_3", "ab")
  prints("prt_4", "x")
  prints("prt_3", "abc")
  prints("prt_3", "abcd", "completed")
  some(5, 6)
  emit("message.part.delta", "", { partID: "prt_1", field: "text", delta: '"\\n\\ud83d' })
  emit("message.part.delta", "", { partID: "prt_1", field: "text", delta: "\\ude00" })
  emit("todo.updated", "last")
  await has("last")
} else if (scene === "kept") {
  for (let n = 0; n < 3; n++) {
    emit("permission.asked", `ask ${n}`)
    await has(`ask ${n}`)
    await new Promise(setImmediate)
  }
  hub.closeIdleConnections() // it has waited long enough
  emit("permission.asked", "late")
  await has("late")
  requests.push([`${connections.size} connections`])
} else if (scene === "at once") {
  some(0, 5)
  emit("permission.asked", "ask")
  await has("ask")
  emit("permission.replied", "reply")
  await has("reply")
  some(5, 9)
  emit("session.status", "busy", { status: { type: "busy" } })
  emit("session.status", "end", { status: { type: "idle" } })
  await has("end")
} else if (scene === "slow") {
  emit("permission.asked", "ask")
  some(0, 3)
  emit("question.asked", "question")
  const first = answer
  answer = undefined
  first()
  await arrived(() => answer)
  answer()
} else if (scene === "begins") {
  emit("session.status", "end", { status: { type: "idle" } })
  await has("end")
} else if (scene === "exit") {
  some(0, 5)
  emit("server.instance.disposed", "")
  await has("0 1 2 3 4 ")
}
console.log(JSON.stringify(requests))
process.exit()
"""
NEVER = 1_000_000
"""Milliseconds: longer than the test."""
READ = ["tieline.reading", "tieline.read"]


def words(first: int, last: int) -> str:
    return "".join(f"{number} " for number in range(first, last))


@pytest.mark.parametrize(
    ("scene", "together_ms", "kept_ms", "requests"),
    [
        (
            "together",
            100,
            0,
            [READ, [words(0, 4), words(4, 5), "ab", "x", "abc", "abcd", words(5, 6) + '"\n\U0001f600', "last"]],
        ),
        # Nothing would be sent before the test is over, but for what somebody waits for.
        ("at once", NEVER, 0, [READ, [words(0, 5), "ask"], ["reply"], [words(5, 9), "busy", "end"]]),
        ("slow", NEVER, 0, [READ, ["ask", words(0, 3), "question"]]),
        # A turn begins while the history is read: that says nothing of its end.
        ("begins", NEVER, 0, [["tieline.reading", "tieline.read busy"], ["begins"], ["end"]]),
        ("exit", NEVER, 0, [READ, [words(0, 5)]]),
        ("kept", NEVER, NEVER, [READ, ["ask 0"], ["ask 1"], ["ask 2"], ["late"], ["2 connections"]]),
    ],
)
def test_what_happens_at_the_same_time_goes_in_one_request_and_asks_and_ends_at_once(
    tmp_path: Path, scene: str, together_ms: int, kept_ms: int, requests: list[Any]
) -> None:
    program, plugin = tmp_path / "program.mjs", tmp_path / "plugin.mjs"
    program.write_text(PROGRAM)
    socket = "hub.sock"  # in its directory: a socket's path has little room
    text = plugin_text("opencode/plugin.js", InstallOptions(env={"HOME": str(tmp_path)}, program="", python=""))
    lines = [
        f'const SOCKET = "{socket}"'
        if line.startswith("const SOCKET = ")
        else f"const TOGETHER_MS = {together_ms}"
        if line.startswith("const TOGETHER_MS = ")
        else f"const KEPT_MS = {kept_ms}"
        if line.startswith("const KEPT_MS = ")
        else line
        for line in text.splitlines()
    ]
    plugin.write_text("\n".join(lines))
    node = shutil.which("node")
    assert node is not None, "Node.js is needed"
    done = subprocess.run(
        [node, str(program), str(plugin), socket, scene], cwd=tmp_path, env={}, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    assert msgspec.json.decode(done.stdout) == requests
