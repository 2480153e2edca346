"""Idle sessions of OpenCode with a history: our plugin itself, once per session, in one process of Node.js; in place of
OpenCode there is an interface that answers as OpenCode does. Where many are needed, real ones take more memory than
there is."""

import shutil
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tieline.harnesses.base import InstallOptions
from tieline.harnesses.plugin_file import plugin_text

PROGRAM = """
import { renameSync, writeFileSync } from "node:fs"
const [path, count, size, counter] = process.argv.slice(2)
const plugin = await import(path)
const tokens = { input: 10, output: 5, reasoning: 0, cache: { read: 0, write: 0 } }
const turn = (number) => {
  const name = String(number).padStart(8, "0"), created = 1000000 + number * 1000
  const sessionID = "SESSION"
  const part = (messageID, kind, more) => ({ id: `prt_${name}${kind}`, messageID, sessionID, ...more })
  const asked = `msg_${name}a`, answered = `msg_${name}b`
  const model = { providerID: "scripted", modelID: "scripted" }
  return [
    {
      info: { id: asked, sessionID, role: "user", time: { created }, agent: "build", model },
      parts: [part(asked, "a", { type: "text", text: `prompt ${number}` })],
    },
    {
      info: {
        id: answered, sessionID, role: "assistant", parentID: asked, mode: "build", agent: "build", cost: 0,
        path: { cwd: "/p", root: "/p" }, time: { created: created + 1, completed: created + 2 }, finish: "stop", tokens,
        ...model,
      },
      parts: [
        part(answered, "b", { type: "step-start" }),
        part(answered, "c", { type: "text", text: `${number} ${"word ".repeat(2000)}`, time: { start: 1, end: 2 } }),
        part(answered, "d", { type: "step-finish", reason: "stop", cost: 0, tokens }),
      ],
    },
  ]
}
const history = []
let bytes = 0
for (let number = 0; bytes < Number(size); number++) {
  const messages = turn(number)
  history.push(...messages)
  bytes += JSON.stringify(messages).length
}
let read = 0
const tell = () => {
  writeFileSync(`${counter}.new`, JSON.stringify({ read, size: bytes, turns: history.length / 2 }))
  renameSync(`${counter}.new`, counter)
}
tell()
const request = async ({ url }) => {
  const asked = /^\\/session\\/(\\w+)\\/message(?:\\?limit=(\\d+)(?:&before=(\\d+))?)?$/
  const [, id, limit, before] = url.match(asked) ?? []
  if (!id) return { data: url === "/session/status" ? {} : [], response: { status: 200 } }
  const end = before ? Number(before) : history.length
  const begin = limit ? Math.max(0, end - Number(limit)) : 0
  const text = JSON.stringify(history.slice(begin, end))
  read += text.length
  tell()
  const headers = new Headers(begin ? { "x-next-cursor": String(begin) } : {})
  return { data: JSON.parse(text.replaceAll("SESSION", id)), response: { status: 200, headers } }
}
for (let number = 0; number < Number(count); number++) {
  const info = { id: `ses_${number}`, directory: `/p/${number}`, time: { created: 1000 } }
  const client = { _client: { request }, session: { get: async () => ({ data: info }) } }
  const hooks = await plugin.Tieline({ client, directory: info.directory })
  await hooks.event({ event: { type: "session.created", properties: { info } } })
}
setInterval(() => {}, 1000)
"""


@contextmanager
def opencode_plugins(folder: Path, env: Mapping[str, str], count: int, size: int) -> Generator[Path, None, None]:
    """Gives a file that tells, as JSON: the bytes that were read of all histories, the size of one, and its turns."""
    folder.mkdir(parents=True, exist_ok=True)
    program, plugin, counter = folder / "sessions.mjs", folder / "tieline.mjs", folder / "read.json"
    program.write_text(PROGRAM)
    plugin.write_text(plugin_text("opencode/plugin.js", InstallOptions(env=env, program="", python="")))
    node = shutil.which("node")
    assert node is not None, "Node.js is needed"
    process = subprocess.Popen([node, str(program), str(plugin), str(count), str(size), str(counter)], env={})
    try:
        yield counter
    finally:
        process.kill()
        process.wait()
