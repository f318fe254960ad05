"""A network that can be cut: a TCP forwarder in front of a real server."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self
from urllib.parse import urlsplit

_CHUNK = 1 << 16


class Proxy:
    """Forwards a port of its own to that of a server, as long as it is told to.

    Args:
        url: The server that it stands in front of; may be set to another one later.
    """

    def __init__(self, url: str) -> None:
        self.target = url
        self.connections = 0
        """How many connections were tried so far, forwarded or not."""
        self.swallowed = bytearray()
        """What the server sent to clients that are gone, without its knowing."""
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._reachable = True
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._forgotten: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        """Of the server, through the proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{urlsplit(self.target).path}"

    def pause(self) -> None:
        """Let nothing through, and tell nobody: a network that has gone silent."""
        self._flowing.clear()

    def cut(self) -> None:
        """Break all connections, and every new one."""
        self._reachable = False
        for writer in self._writers:
            writer.transport.abort()

    def forget(self) -> None:
        """Break all connections without telling the server, which goes on sending into nothing."""
        self._reachable = False
        self._forgotten |= self._writers
        for writer in self._clients:
            writer.transport.abort()

    def resume(self) -> None:
        """Let everything through again."""
        self._reachable = True
        self._flowing.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._reachable:
            writer.transport.abort()
            return
        target = urlsplit(self.target)
        self._writers.add(writer)
        self._clients.add(writer)
        try:
            there, back = await asyncio.open_connection(target.hostname, target.port)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            self._clients.discard(writer)
            return
        self._writers.add(back)
        ways = [
            asyncio.ensure_future(self._pump(reader, back)),
            asyncio.ensure_future(self._pump(there, writer)),
        ]
        try:
            await asyncio.wait(ways)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, back):
                for ends in (self._writers, self._clients, self._forgotten):
                    ends.discard(end)
                end.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(_CHUNK):
                await self._flowing.wait()
                self._swallow(sink, data)
                sink.write(data)
                await sink.drain()
            if sink.can_write_eof() and sink not in self._forgotten:
                sink.write_eof()
        except OSError:
            if sink not in self._forgotten:
                sink.transport.abort()
        if sink in self._forgotten and sink in self._clients:
            with contextlib.suppress(OSError):
                while data := await source.read(_CHUNK):
                    self._swallow(sink, data)

    def _swallow(self, sink: asyncio.StreamWriter, data: bytes) -> None:
        if sink in self._forgotten and sink in self._clients:
            self.swallowed += data
