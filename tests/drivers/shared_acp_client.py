"""The program that a driver starts in place of an ACP agent: it passes its streams on to one that is kept running.

`python shared_acp_client.py SOCKET PROGRAM ARGUMENT…`, by the standard library alone: it is started for every session.
"""

import json
import os
import socket
import sys
import threading

CHUNK = 1 << 16


def main() -> None:
    path, *argv = sys.argv[1:]
    if argv[1:] == ["--version"]:
        os.execv(argv[0], argv)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(path)
        agent.sendall(json.dumps({"argv": argv, "env": dict(os.environ)}).encode() + b"\n")
        threading.Thread(target=pass_on, args=(agent,), daemon=True).start()
        while chunk := agent.recv(CHUNK):
            while chunk:
                chunk = chunk[os.write(1, chunk) :]


def pass_on(agent: socket.socket) -> None:
    while chunk := os.read(0, CHUNK):
        agent.sendall(chunk)
    agent.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
