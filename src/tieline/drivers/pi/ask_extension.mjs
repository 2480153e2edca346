// Tieline's part inside Pi: it asks before a tool is used.
// Its settings are in the file that TIELINE_PI_CONFIG names; commands that Pi runs do not see the variable.
import { readFileSync } from "node:fs";

const config = JSON.parse(readFileSync(process.env.TIELINE_PI_CONFIG, "utf8"));
delete process.env.TIELINE_PI_CONFIG;

export default function (pi) {
  // A handler that fails blocks the tool, and so does a question that nobody answers.
  pi.on("tool_call", async (event, ctx) => {
    if (config.unasked.includes(event.toolName) || (config.known && !config.known.includes(event.toolName))) return;
    const call = JSON.stringify({ id: event.toolCallId, name: event.toolName, input: event.input });
    const answer = await ctx.ui.input(config.mark + call, "", { signal: ctx.signal });
    if (answer === "allow" && call === JSON.stringify({ id: event.toolCallId, name: event.toolName, input: event.input })) return;
    return { block: true, reason: answer && answer !== "allow" ? answer : "It was denied." };
  });
}
