// How a plugin inside a harness stays in touch with the hub, by the hub's socket on this machine: it keeps one stream
// open, on which commands come, and reports its sessions by the whole list. `tieline install` makes this a part of each
// plugin's own file.

import { request } from "node:http"
import { request as requestTls } from "node:https"

const PLUGINS = "/api/v1/harness-plugins"
const RETRY_MS = [500, 1000, 2000]
const POST_MS = 10000
const MAX_LINE = 16 * 1024 * 1024

// A request to the hub, at a socket or an address; its response can be read in parts.
export const ask = (hub, path, { body, headers, ...more } = {}) =>
  new Promise((resolve, reject) => {
    const url = hub.includes("://") ? new URL(hub) : undefined
    const where = url ? { hostname: url.hostname, port: url.port, path: url.pathname.replace(/\/$/, "") + path } : { socketPath: hub, path }
    const content = body != null && { "content-type": "application/json", "content-length": Buffer.byteLength(body) }
    const options = { ...where, ...more, agent: false, headers: { ...(!url && { host: "localhost" }), ...content, ...headers } }
    const begin = url?.protocol === "https:" ? requestTls : request
    begin(options, resolve).on("error", reject).end(body)
  })

export const readText = async (response) => {
  const parts = []
  for await (const part of response) parts.push(part)
  return Buffer.concat(parts).toString()
}

// `sessions` gives all of the plugin's sessions, `onCommand` is called with each command, `onLost` when the connection
// ended. Each new connection begins with a report, or with `onLink`, which reports when it is ready to.
export const hubLink = ({ socket, harness, sessions, onCommand, onLost = () => {}, onLink }) => {
  const ending = new AbortController()
  let link = ""
  let changed = false
  let reporting = false

  const post = async (what, body, within = POST_MS) => {
    const signal = AbortSignal.any([ending.signal, AbortSignal.timeout(within)])
    const json = typeof body === "string" ? body : JSON.stringify(body)
    const response = await ask(socket, `${PLUGINS}/${harness}/${what}`, { method: "POST", body: json, signal })
    await readText(response)
    return response.statusCode
  }

  // One report at a time, and the last one says how it is: what came between is not missed.
  const report = async () => {
    changed = true
    if (reporting || !link) return
    reporting = true
    try {
      while (changed && link) {
        changed = false
        await post("sessions", { link, sessions: sessions() })
      }
    } catch {
      // The stream ends as well, and everything is reported on the next one.
    } finally {
      reporting = false
    }
  }

  const listen = async () => {
    const response = await ask(socket, `${PLUGINS}?harness=${harness}`, { signal: ending.signal })
    if (response.statusCode !== 200) {
      await readText(response)
      return response.statusCode
    }
    const decoder = new TextDecoder()
    let rest = ""
    for await (const part of response) {
      const lines = (rest + decoder.decode(part, { stream: true })).split("\n")
      rest = lines.pop()
      if (rest.length > MAX_LINE) break
      for (const line of lines) {
        if (!line.startsWith("data: ")) continue
        const command = JSON.parse(line.slice(6))
        if (command.link) {
          link = command.link
          ;(onLink ?? report)()
        } else onCommand(command)
      }
    }
    return 200
  }

  const stayConnected = async () => {
    let failures = 0
    while (!ending.signal.aborted) {
      try {
        const status = await listen()
        if (status === 403) return // an agent that Tieline itself runs: its messages come as prompts
        if (status === 200) failures = 0
      } catch {
        // There is no hub, or it ended.
      }
      link = ""
      onLost()
      await pause(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)])
    }
  }

  const pause = (ms) =>
    new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer)
        ending.signal.removeEventListener("abort", end)
        resolve(false)
      }
      const timer = setTimeout(end, ms)
      timer.unref?.()
      ending.signal.addEventListener("abort", end)
    })

  return {
    get id() {
      return link
    },
    start: () => void stayConnected(),
    end: () => ending.abort(),
    post,
    report,
    pause,
  }
}
