"""``kubectl exec``: a command in a running container, over WebSocket in Kubernetes' protocol ``v5.channel.k8s.io``.

The first byte of a message names its channel: standard input, output or error, the final status, the terminal's size.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from typing import TYPE_CHECKING

import orjson
from aiohttp import WSMsgType, web

from hami_core.sim.calls import EXEC_PROTOCOLS
from hami_core.sim.kubelet import launch

if TYPE_CHECKING:
    from hami_core.sim.kubelet.containers import Container
    from hami_core.sim.resources import Object

_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK = 32 << 10


def _asks(request: web.Request, name: str) -> bool:
    return request.query.get(name) in {"true", "1"}


async def serve(request: web.Request, container: Container) -> web.WebSocketResponse:
    """Runs the request's command until it, the container or the connection ends."""
    socket = web.WebSocketResponse(protocols=EXEC_PROTOCOLS, compress=False, max_msg_size=0)
    await socket.prepare(request)
    tty, takes_input = _asks(request, "tty"), _asks(request, "stdin")
    terminal, command_side = pty.openpty() if tty else (-1, asyncio.subprocess.PIPE)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", launch.__file__, "--enter", str(container.folder), "tty" if tty else "",
        *request.query.getall("command", []),
        stdin=command_side if takes_input or tty else asyncio.subprocess.DEVNULL,
        stdout=command_side, stderr=command_side, start_new_session=True,
    )  # fmt: skip
    if tty:
        os.close(command_side)
        copies = [asyncio.create_task(_copy_terminal(terminal, socket))]
    else:
        streams = ((_STDOUT, process.stdout), (_STDERR, process.stderr))
        copies = [asyncio.create_task(_copy(stream, channel, socket)) for channel, stream in streams if stream]
    ends = [asyncio.create_task(e) for e in (_receive(socket, process, terminal), container.ended())]
    done = asyncio.create_task(process.wait())
    try:
        await asyncio.wait([done, *ends], return_when=asyncio.FIRST_COMPLETED)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)  # has no effect if the command has ended
        code = await done
        await asyncio.wait(copies)
        if not socket.closed:
            await socket.send_bytes(bytes([_STATUS]) + orjson.dumps(_status(code)))
            await socket.close()
    finally:
        for task in (*ends, *copies):
            task.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        if tty:
            os.close(terminal)
    return socket


def _status(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    text = f"command terminated with non-zero exit code: exit status {code}"
    failure = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": text}
    return {**failure, "details": {"causes": causes}}


async def _send(socket: web.WebSocketResponse, channel: int, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # the client has left
        await socket.send_bytes(bytes([channel]) + data)


async def _copy(stream: asyncio.StreamReader, channel: int, socket: web.WebSocketResponse) -> None:
    while data := await stream.read(_CHUNK):
        await _send(socket, channel, data)


async def _copy_terminal(terminal: int, socket: web.WebSocketResponse) -> None:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(terminal, readable.set)
    try:
        while True:
            await readable.wait()
            readable.clear()
            try:
                data = os.read(terminal, _CHUNK)
            except OSError:  # the last process has closed the terminal
                return
            await _send(socket, _STDOUT, data)
    finally:
        loop.remove_reader(terminal)


async def _receive(socket: web.WebSocketResponse, process: asyncio.subprocess.Process, terminal: int) -> None:
    """Passes input on until the client leaves."""
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == _RESIZE and terminal >= 0:
            size = orjson.loads(data)
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
        elif channel == _STDIN and terminal >= 0:
            os.write(terminal, data)
        elif process.stdin and channel == _STDIN:
            with contextlib.suppress(ConnectionError):  # the command reads no more
                process.stdin.write(data)
                await process.stdin.drain()
        elif process.stdin and channel == _CLOSE and data == bytes([_STDIN]):
            process.stdin.close()
