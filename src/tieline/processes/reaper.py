"""Starts one agent and keeps all that it starts below itself, for as long as it lives. Standard library only.

A fork of the guard. Orphans below it come to it, not to init: whatever leaves the agent's group and session, empties
its environment and outlives its parent is still seen to descend from that agent, and ends with it. It is told what to
start on its control socket, answers with the agent's number, and says there how the agent ended. When that socket is
closed, or the Tieline process behind it dies, it ends everything below itself and leaves.
"""

import _socket
import errno
import marshal
import os
import select
import signal
import sys
import time
from contextlib import suppress

from . import process_table

GRACE_S = 1.0
"""Between SIGTERM and SIGKILL: enough for an agent to write its session file."""
ROUNDS = 50
"""Of SIGKILL: what forks while it is being killed needs another look."""

User = tuple[bytes, int, int]
"""Name, user's number, group's number."""
SpawnRequest = tuple[list[bytes], dict[bytes, bytes], bytes, User | None]
"""Arguments, environment, directory, and the user if it is not ours."""
HEAD = 8
"""Bytes that say how long the request is."""
PIPES = 3


def serve(control: "_socket.socket", watched: list[int]) -> None:
    """`watched` are descriptors that become readable when Tieline is gone."""
    holds = process_table.adopt(process_table.REAPER)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    request, pipes = _receive_request(control)
    if not request or len(pipes) != PIPES:  # whoever sent it is gone
        return
    try:
        agent = _start(pipes, *request)
    except OSError as error:
        with suppress(OSError):
            control.send(f"!{error.errno} {error.filename}\n".encode())
        return
    for pipe in pipes:
        os.close(pipe)
    os.chdir("/")  # a directory that somebody stands in cannot be unmounted
    me = process_table.process_info(os.getpid())
    with suppress(OSError):
        control.send(f"{agent} {os.getpid()} {me.start if me else 0} {int(holds)}\n".encode())
    _watch(agent, control, reading, watched)
    _end(agent)


def _receive_request(control: "_socket.socket") -> "tuple[SpawnRequest | None, list[int]]":
    """With the agent's three streams."""
    data, ancillary, _, _ = control.recvmsg(65536, _socket.CMSG_SPACE(PIPES * 4))
    pipes = descriptors(ancillary)
    while data and (len(data) < HEAD or len(data) < HEAD + int.from_bytes(data[:HEAD], "big")):
        chunk = control.recv(1 << 20)
        if not chunk:
            return None, pipes
        data += chunk
    return marshal.loads(data[HEAD:]) if data else None, pipes


def descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came with a message. They are for us, not for the agent, so they are made not
    inheritable."""
    received: list[int] = []
    for level, kind, data in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            received += [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data) // 4 * 4, 4)]
    for descriptor in received:
        os.set_inheritable(descriptor, False)
    return received


def _start(pipes: list[int], argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, user: "User | None") -> int:
    """Start the program as Popen does. Raises OSError with the name of the argument at fault."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        _become(pipes, write_end, argv, env, cwd, user)
    os.close(write_end)
    try:
        problem = os.read(read_end, 64)
    finally:
        os.close(read_end)
    if problem:
        os.waitpid(pid, 0)
        number, what = problem.split()
        raise OSError(int(number), os.strerror(int(number)), what.decode())
    return pid


def _become(
    pipes: list[int], write_end: int, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, user: "User | None"
) -> None:
    what, number = b"user", None
    try:
        os.setsid()
        if user:
            _drop(pipes, *user)
        what = b"cwd"  # entered as the user that will run in it
        os.chdir(cwd)
        for target, pipe in enumerate(pipes):
            os.dup2(pipe, target)
        signal.set_wakeup_fd(-1)
        process_table.unignore()
        what = b"program"
        path = os.fsdecode(env.get(b"PATH", os.fsencode(os.defpath)))
        for folder in (
            (b"",) if b"/" in argv[0] else (os.fsencode(folder) + b"/" for folder in os.get_exec_path({"PATH": path}))
        ):
            try:
                os.execve(folder + argv[0], argv, env)
            except (FileNotFoundError, NotADirectoryError) as error:
                number = number or error.errno
            except OSError as error:  # the error of a file that exists is the one to report
                number = error.errno
    except OSError as error:
        number = error.errno
    finally:
        with suppress(OSError):
            os.write(write_end, b"%d %s" % (number or errno.ENOENT, what))
        os._exit(127)


def _drop(pipes: list[int], name: bytes, uid: int, gid: int) -> None:
    """Become that user for good. The reaper stays root: its agent can neither end nor steer it."""
    for pipe in pipes:  # else it could not open /dev/stderr, which is one
        os.fchown(pipe, uid, gid)
    os.initgroups(os.fsdecode(name), gid)
    os.setgid(gid)
    os.setuid(uid)  # the last one: it takes away the right to do the others


def _watch(agent: int, control: "_socket.socket", wake: int, watched: list[int]) -> None:
    """Wait until the sender of the request is gone, or does not need the agent any more."""
    poller = select.poll()
    for descriptor in (control.fileno(), wake, *watched):
        poller.register(descriptor, select.POLLIN)
    reported = False
    while True:
        ready = {descriptor for descriptor, _ in poller.poll()}
        with suppress(BlockingIOError):
            os.read(wake, 4096)
        if not reported and (ended := os.waitid(os.P_PID, agent, os.WEXITED | os.WNOWAIT | os.WNOHANG)) is not None:
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            reported = True
            with suppress(OSError):
                control.send(f"{status}\n".encode())
                # The sender sees the end of the stream, and so never misses the status.
                control.shutdown(_socket.SHUT_WR)
        process_table.reap(but=agent)  # the agent stays a zombie: its group's number must not become somebody else's
        if ready & set(watched) or (control.fileno() in ready and not control.recv(64)):
            return


def _end(agent: int) -> None:
    """Everything below us."""
    me = os.getpid()
    if os.waitid(os.P_PID, agent, os.WEXITED | os.WNOWAIT | os.WNOHANG) and process_table.only_child(me, agent):
        return
    if not process_table.end_below(me, signal.SIGTERM):
        return
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        process_table.reap(but=agent)
        if not process_table.descendants(me):
            return
        time.sleep(0.02)
    for _ in range(ROUNDS):
        if not process_table.end_below(me, signal.SIGKILL):
            return
        time.sleep(0.02)
        process_table.reap(but=agent)
