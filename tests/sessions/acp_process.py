"""A small agent that speaks ACP, one process per conversation: `python acp_process.py [MEGABYTES]`. Standard library.

It holds so many megabytes, leaves a file where its conversation is opened, says its process id to every prompt, and
ends when its input does.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

held = bytearray(int(sys.argv[1]) * 1_000_000) if len(sys.argv) > 1 else bytearray()
held[::4096] = b"\1" * len(held[::4096])  # touched, so that it is really there


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "small", "version": "1"}}
        case "session/new":
            Path(params["cwd"], f"opened.{os.getpid()}").touch()
            return {"sessionId": f"s{os.getpid()}"}
        case "session/prompt":
            text = {"type": "text", "text": str(os.getpid())}
            update = {"sessionUpdate": "agent_message_chunk", "content": text}
            send(method="session/update", params={"sessionId": params["sessionId"], "update": update})
            return {"stopReason": "end_turn"}
        case _:
            return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        send(id=request["id"], result=answer(request["method"], request.get("params") or {}))
