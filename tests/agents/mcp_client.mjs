// An MCP client that is not ours and not the Python SDK's: two agents talk, one over HTTP, one over `tieline mcp`.
// `node mcp_client.mjs URL KEY PROGRAM [ARGUMENT…]`; prints what each step gave, as JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, key, command, ...args] = process.argv.slice(2);
const http = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: {
    headers: { Authorization: `Bearer ${key}`, "X-Tieline-Harness": "npm", "X-Tieline-Session": "over-http" },
  },
});
const stdio = new StdioClientTransport({ command, args, env: process.env });

async function connect(transport) {
  const client = new Client({ name: "independent", version: "1.0.0" });
  await client.connect(transport);
  return client;
}

async function call(client, name, given = {}) {
  const result = await client.callTool({ name, arguments: given });
  return { error: result.isError ?? false, text: result.content[0].text, value: result.structuredContent };
}

const anna = await connect(http);
const bob = await connect(stdio);
const seen = { tools: [], server: anna.getServerVersion().name };
for (const client of [anna, bob]) seen.tools.push((await client.listTools()).tools.map((tool) => tool.name));
await call(anna, "register_agent", { name: "anna-of-npm" });
await call(bob, "register_agent", { name: "bob-of-npm" });
const waiting = call(bob, "wait_for_messages", { timeout_s: 30 });
seen.sent = await call(anna, "send_message", { to: "bob-of-npm", text: "over HTTP" });
seen.received = await waiting;
seen.replied = await call(bob, "reply", { message_id: seen.sent.value.id, text: "over stdio" });
seen.answer = await call(anna, "fetch_messages");
seen.status = await call(anna, "message_status", { message_id: seen.sent.value.id });
seen.refused = [];
for (const client of [anna, bob]) seen.refused.push(await call(client, "send_message", { to: "nobody-here", text: "x" }));
await anna.close();
await bob.close();
console.log(JSON.stringify(seen));
