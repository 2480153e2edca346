// Stands between codex-acp and the app-server of its Codex, which it starts: `CODEX_PATH` names this program.
//
// codex-acp has no mode in which Codex asks before every command, takes every repository for a trusted one, and has a
// model think up titles for conversations, in a thread that no policy holds and whose tokens nobody counts. So the
// settings of each thread and turn become ours on the way, and there are no such threads. A denial, which codex-acp
// makes the end of the turn, goes to the model. SETTINGS stands above: `adapter`, `codex` (empty: the one that came
// with the adapter), `thread`, `config` and `turn`.

const { spawn } = require("node:child_process");
const { existsSync, realpathSync } = require("node:fs");
const { createRequire } = require("node:module");
const { constants } = require("node:os");
const { delimiter, join } = require("node:path");

const THREADS = ["thread/start", "thread/resume", "thread/fork"];
const REFUSED = "tieline/no-titles"; // what the app-server does not know, it refuses

function codexCommand() {
  if (SETTINGS.codex) return [SETTINGS.codex];
  const { adapter } = SETTINGS;
  const folders = (process.env.PATH ?? "").split(delimiter);
  const program = adapter.includes("/") ? adapter : folders.map((folder) => join(folder, adapter)).find(existsSync);
  try {
    return [process.execPath, createRequire(realpathSync(program)).resolve("@openai/codex/bin/codex.js")];
  } catch {
    return ["codex"]; // the adapter was started by another program, such as npx
  }
}

function merged(theirs, ours) {
  if (typeof theirs !== "object" || typeof ours !== "object") return ours;
  const both = Object.entries(ours).map(([name, value]) => [name, merged(theirs[name], value)]);
  return { ...theirs, ...Object.fromEntries(both) };
}

function held(message) {
  const { method, params, result } = message;
  if (result?.decision === "cancel") return { ...message, result: { ...result, decision: "decline" } };
  if (method === "thread/start" && params.ephemeral) return { ...message, method: REFUSED, params: {} };
  if (THREADS.includes(method)) {
    const config = merged(params.config ?? {}, SETTINGS.config);
    for (const project of Object.values(config.projects)) project.trust_level = "untrusted";
    return { ...message, params: { ...params, ...SETTINGS.thread, config } };
  }
  if (method !== "turn/start") return message;
  const { permissions, ...turn } = params;
  return { ...message, params: { ...turn, ...SETTINGS.turn } };
}

const [program, ...args] = codexCommand();
delete process.env.CODEX_PATH;
const codex = spawn(program, [...args, ...process.argv.slice(2)], { stdio: ["pipe", "inherit", "inherit"] });
codex.on("error", (error) => {
  console.error(`${program} cannot be started: ${error.message}`);
  process.exit(1);
});
codex.on("exit", (status, signal) => process.exit(status ?? 128 + constants.signals[signal]));
codex.stdin.on("error", () => {}); // it is gone, and its exit tells
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => codex.kill(signal));

let parts = []; // of a line that has not ended. By hand: Node's own lines end at U+2028, too
process.stdin.setEncoding("utf8");
process.stdin.on("data", (text) => {
  const [first, ...more] = text.split("\n");
  parts.push(first);
  for (const next of more) {
    const line = parts.join("");
    parts = [next];
    if (line.trim() && !codex.stdin.write(`${JSON.stringify(held(JSON.parse(line)))}\n`)) {
      process.stdin.pause();
      codex.stdin.once("drain", () => process.stdin.resume());
    }
  }
});
process.stdin.on("end", () => codex.stdin.end());
