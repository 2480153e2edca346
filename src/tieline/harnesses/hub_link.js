// How a plugin inside a harness stays in touch with the hub, by the hub's socket on this machine: it keeps one stream
// open, on which commands come, and reports its sessions by the whole list. `tieline install` makes this a part of each
// plugin's own file.

import { connect } from "node:net"
import { request } from "node:http"
import { request as requestTls } from "node:https"

const PLUGINS = "/api/v1/harness-plugins"
const RETRY_MS = [500, 1000, 2000]
const POST_MS = 10000
const KEPT_MS = 20000 // a connection that is not used; the hub ends it after a longer time
const MAX_KEPT = 2
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

// Gives a function that posts a JSON text to the hub's socket and gives the status of the answer. Connections are kept
// for the next one: in the harnesses' runtimes a request by `node:http` takes some eight times the processor time, and
// it is the terminal's.
const hubPoster = (socket, ending) => {
  const lines = new Set() // all connections
  const kept = [] // those that are not in use
  ending.addEventListener("abort", () => lines.forEach((line) => line.destroy()))

  const open = () => {
    const line = connect(socket)
    const connection = { line, used: false, heard: "", settle: undefined, timer: undefined }
    lines.add(line)
    line.on("error", () => {}) // it is closed then, too
    line.on("close", () => {
      lines.delete(line)
      leave(connection)
      connection.settle?.(0)
    })
    line.on("data", (data) => onAnswer(connection, data.toString("latin1")))
    return connection
  }

  const leave = (connection) => {
    clearTimeout(connection.timer)
    const index = kept.indexOf(connection)
    if (index >= 0) kept.splice(index, 1)
  }

  const onAnswer = (connection, text) => {
    const { line, settle } = connection
    connection.heard += text
    if (!settle) return line.destroy() // nothing was asked
    if (!connection.heard.includes("\r\n\r\n")) return
    const status = Number(connection.heard.slice(9, 12))
    const closes = status !== 204 || /^connection: close\r$/im.test(connection.heard) // others have more to read
    clearTimeout(connection.timer)
    Object.assign(connection, { used: true, heard: "", settle: undefined })
    if (closes || kept.length >= MAX_KEPT) line.destroy()
    else {
      kept.push(connection)
      line.unref()
      connection.timer = setTimeout(() => line.destroy(), KEPT_MS)
      connection.timer.unref?.()
    }
    settle(status)
  }

  return async (path, json, within) => {
    const head = `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n`
    const request = `${head}content-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`
    let again = true
    while (again && !ending.aborted) {
      const connection = kept.at(-1) ?? open()
      leave(connection)
      again = connection.used // the hub may have ended it just now: then once more, by a new one
      const status = await new Promise((settle) => {
        connection.settle = settle
        connection.timer = setTimeout(() => {
          again = false
          connection.line.destroy()
        }, within)
        connection.line.ref()
        connection.line.write(request)
      })
      if (status) return status
    }
    throw new Error("no answer from the hub")
  }
}

// `sessions` gives all of the plugin's sessions, `onCommand` is called with each command, `onLost` when the connection
// ended. Each new connection begins with a report, or with `onLink`, which reports when it is ready to.
export const hubLink = ({ socket, harness, sessions, onCommand, onLost = () => {}, onLink }) => {
  const ending = new AbortController()
  let link = ""
  let changed = false
  let reporting = false

  const send = hubPoster(socket, ending.signal)
  const post = (what, body, within = POST_MS) =>
    send(`${PLUGINS}/${harness}/${what}`, typeof body === "string" ? body : JSON.stringify(body), within)

  // One report at a time, and the last one says how it is: what came between is not missed.
  const report = async () => {
    changed = true
    if (reporting || !link) return
    reporting = true
    while (changed && link) {
      changed = false
      const status = await post("sessions", { link, sessions: sessions() }).catch(() => 0)
      if (status && status < 500) continue
      changed = true // the hub did not hear of it, and may not hear of it otherwise
      await pause(RETRY_MS[0])
    }
    reporting = false
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
