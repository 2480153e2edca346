"""What an agent starts: `forward.py [--away] HERE THERE` takes connections on the socket HERE and makes one to THERE
for each, so that whoever speaks HTTP to HERE is, to the hub, this process. `--away`: first it does what a process can
to be nobody's: a session of its own, two forks, an empty environment. Standard library only.
"""

import asyncio
import os
import sys


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def main(here: str, there: str) -> None:
    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(there)
        await asyncio.gather(passed_on(reader, far_writer), passed_on(far_reader, writer), return_exceptions=True)

    server = await asyncio.start_unix_server(take, f"{here}.new")
    os.rename(f"{here}.new", here)  # noqa: PTH104 (who sees it can connect)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "--away":
        if os.fork() or os.setsid() or os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        os.execve(sys.executable, [sys.executable, "-I", "-S", __file__, *sys.argv[2:]], {})
    asyncio.run(main(*sys.argv[1:]))
