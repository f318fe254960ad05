"""What a server may say that no good one does: too slowly, too much, or something else."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from typing import Any

from websockets.frames import Close, Frame, Opcode
from websockets.utils import accept_key

from .http_proxy import Speech

_HEAD = "HTTP/1.1 {} Because\r\nConnection: close\r\n{}\r\n"
_PIECE = bytes(1 << 16)


def _head(status: int, **headers: object) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return _HEAD.format(status, lines).encode()


def saying(content: Any, status: int = 200, **headers: object) -> Speech:
    """JSON, or bytes as they are."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()

    async def speak(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, Content_Length=len(body), **headers) + body)
        await writer.drain()

    return speak


def dripping(pause: float = 0.02) -> Speech:
    """One byte after another, for ever."""

    async def speak(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, Content_Length=1_000_000))
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(pause)

    return speak


class Flood:
    """As much as anybody takes; `said` is how many bytes that was."""

    def __init__(self) -> None:
        self.said = 0

    async def __call__(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200))
        while True:
            writer.write(_PIECE)
            await writer.drain()
            self.said += len(_PIECE)


def bomb(size: int) -> Speech:
    """A few bytes that unpack to many."""
    return saying(gzip.compress(bytes(size), 1), Content_Encoding="gzip")


def closing(code: int, reason: str) -> Speech:
    """A websocket that is opened, and closed at once for a reason of up to 123 bytes."""
    end = Frame(Opcode.CLOSE, Close(code, reason).serialize()).serialize(mask=False)

    async def speak(head: bytes, writer: asyncio.StreamWriter) -> None:
        key = re.search(rb"(?im)^sec-websocket-key: *(\S+)", head)
        assert key is not None
        accept = accept_key(key[1].decode())
        upgrade = f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}"
        writer.write(f"HTTP/1.1 101 Because\r\n{upgrade}\r\n\r\n".encode() + end)
        await writer.drain()

    return speak
