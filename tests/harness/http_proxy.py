"""What stands between a client and a Jupyter server and reads HTTP: one that is asked to forward,
and one that answers in the server's place."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Self
from urllib.parse import urlsplit

#: Instead of the status of an answer.
HANG_UP, SILENCE = 0, -1

_CHUNK = 1 << 16

#: Says something to a request, of which it gets the head.
Speech = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]

#: What makes the next request come in a connection of its own, so that it is read too.
_KEPT_OPEN = re.compile(rb"^Connection: keep-alive\r\n", re.IGNORECASE | re.MULTILINE)


class _HttpProxy:
    """Reads the head of each request, and forwards it to where `_answer` says."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """Method and target of each request so far."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cut(self) -> None:
        """Break all connections; new ones are answered."""
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            self.asked.append(f"{method} {target}")
            await self._answer(method, target, head, reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever asked has gone
        finally:
            writer.transport.abort()

    async def _answer(
        self,
        method: str,
        target: str,
        head: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        raise NotImplementedError


class ForwardProxy(_HttpProxy):
    """A proxy as HTTP_PROXY names one; it alone knows where some hosts are: on this machine.

    Args:
        hosts: The names of the hosts that it knows.
    """

    def __init__(self, *hosts: str) -> None:
        super().__init__()
        self._hosts = hosts

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _answer(
        self,
        method: str,
        target: str,
        head: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        if parts.hostname not in self._hosts:
            await _say(reader, writer, 502)
            return
        there, back = await asyncio.open_connection("127.0.0.1", parts.port)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            back.write(_closing(head.replace(target.encode(), _path(target).encode(), 1)))
        await _pump_both(reader, writer, there, back)


class Front(_HttpProxy):
    """What many servers have in front of them; it answers some requests itself.

    Args:
        url: The server behind it.
        answers: Statuses by method and beginning of a path below the base URL: `PUT api/contents`;
            `HANG_UP` and `SILENCE` are none. A `Speech` says anything else.
    """

    def __init__(self, url: str, answers: Mapping[str, int | Speech]) -> None:
        super().__init__()
        self.answers = answers
        self._behind = urlsplit(url)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self._behind.path}"

    async def _answer(
        self,
        method: str,
        target: str,
        head: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        asked = f"{method} {target.removeprefix(self._behind.path)}"
        for beginning, status in self.answers.items():
            if asked.startswith(beginning):
                if callable(status):
                    await status(head, writer)
                    await _finish(reader, writer)
                elif status == SILENCE:
                    await reader.read()
                elif status != HANG_UP:
                    await _say(reader, writer, status)
                return
        there, back = await asyncio.open_connection("127.0.0.1", self._behind.port)
        back.write(_closing(head))
        await _pump_both(reader, writer, there, back)


def _path(target: str) -> str:
    parts = urlsplit(target)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _closing(head: bytes) -> bytes:
    return _KEPT_OPEN.sub(b"Connection: close\r\n", head)


async def _say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int) -> None:
    head = f"HTTP/1.1 {status} Because\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    await _finish(reader, writer)


async def _finish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say that this was all, and wait for the client to go.

    A connection that is closed before its client has sent all that it wants is reset, and the
    answer may be lost with it.
    """
    writer.write_eof()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            while await reader.read(_CHUNK):
                pass


async def _pump_both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    there: asyncio.StreamReader,
    back: asyncio.StreamWriter,
) -> None:
    ways = [asyncio.ensure_future(_pump(reader, back)), asyncio.ensure_future(_pump(there, writer))]
    try:
        # The server closes when it has answered; the client may keep its half open.
        await ways[1]
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        back.transport.abort()
    await _finish(reader, writer)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK):
        sink.write(data)
        await sink.drain()
