"""A small MCP server over standard input and output, with one tool: its text is what a command prints.

    python -I mcp_server.py TOOL COMMAND [ARGUMENT …]

The command gets the call's arguments as JSON on its standard input. A program of its own, without a library: agents
start it, some with an almost empty environment.
"""

import json
import subprocess
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}, "more": {"type": "object"}}}
LIMIT_S = 60
"""How long the command may take."""


def command_line(tool: str, *command: str) -> tuple[str, ...]:
    """How an agent starts it."""
    return (sys.executable, "-I", __file__, tool, *command)


def main(tool: str, *command: str) -> None:
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        if "id" not in message:
            continue
        params: dict[str, Any] = message.get("params") or {}
        result: dict[str, Any] = {}
        if message["method"] == "initialize":
            server = {"name": "test", "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": tool, "description": "For tests.", "inputSchema": SCHEMA}]}
        elif message["method"] == "tools/call":
            given = json.dumps(params.get("arguments") or {})
            done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            result = {"content": [{"type": "text", "text": (done.stdout + done.stderr).strip()}]}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
