"""How long a server may take to answer, and how large the answer may be.

A body is measured while it is decompressed, piece by piece, so that a small answer that unpacks to
a huge one is dropped on the way. JSON is also limited by its number of values: each needs far more
memory than its few bytes in the body.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

#: How many times longer than a plain answer it may take to start a kernel, or to write, move or
#: copy files; also to read a file, as long as data keep arriving.
_PATIENCE = 3

#: Bytes of a file that extend the time to read it by a second.
_PACE = 100_000

#: The most values of a JSON text: a folder of 20,000 files has 200,000.
_VALUES = 2_000_000

#: Bytes of JSON from which on it is parsed in a thread, and bytes that are scanned at a time there.
_LARGE, _SLICE = 200_000, 1_000_000

#: A string in a JSON text, or a part of what is between two strings.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^"]{1,%d}' % _SLICE, re.DOTALL)

_QUOTE = ord('"')


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """Limits for one answer, and for one message of a WebSocket."""

    seconds: float = 60.0
    """From the request to the last byte."""
    size: int = 256_000_000
    """Bytes, decompressed."""


class BodyTooLarge(Exception):
    """There was more than the limit."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer to a request."""

    status: int
    reason: str
    headers: httpx2.Headers
    body: bytes
    request: httpx2.Request


class Deadline:
    """The time limit of one request, from when it is sent."""

    def __init__(self, limits: AnswerLimits, *, works: bool, reads: bool) -> None:
        self._seconds = limits.seconds * (_PATIENCE if works else 1)
        self._most = limits.seconds * (_PATIENCE if works or reads else 1)
        self._began = asyncio.get_running_loop().time()
        self._timeout = asyncio.timeout_at(self._began + self._seconds)

    @property
    def elapsed(self) -> float:
        """Seconds since the request was sent."""
        return asyncio.get_running_loop().time() - self._began

    async def __aenter__(self) -> Deadline:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._timeout.__aexit__(*exception)

    def received(self, size: int) -> None:
        """Extend the deadline by the bytes received so far: over a slow line, they take longer."""
        if self._most > self._seconds:
            seconds = min(self._seconds + size / _PACE, self._most)
            self._timeout.reschedule(self._began + seconds)


def deadline_for(
    limits: AnswerLimits, method: str, path: tuple[str, ...], query: Mapping[str, str] | None
) -> Deadline:
    """The deadline of a request, by what it asks for."""
    about = path[1:2]
    works = method != "GET" and about in (("contents",), ("sessions",), ("kernels",))
    reads = about == ("contents",) and (query or {}).get("content") == "1"
    return Deadline(limits, works=works, reads=reads)


async def read_answer(response: httpx2.Response, limit: int, deadline: Deadline) -> Answer:
    """Read the whole body of an answer whose headers have arrived.

    Raises:
        BodyTooLarge: It has more bytes than the limit.
    """
    body = bytearray()
    try:
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > limit:
            raise BodyTooLarge
        async for part in response.aiter_bytes():
            body += part
            if len(body) > limit:
                raise BodyTooLarge
            deadline.received(len(body))
            await asyncio.sleep(0)  # a few bytes may unpack to many parts without any wait
    finally:
        await response.aclose()
    return Answer(
        response.status_code,
        response.reason_phrase,
        response.headers,
        bytes(body),
        response.request,
    )


async def parse_json(body: bytes) -> Any:
    """Parse a JSON text.

    Raises:
        ValueError: It is not JSON, or has too many values or levels.
    """
    return await asyncio.to_thread(_parsed, body) if len(body) > _LARGE else _parsed(body)


def _parsed(body: bytes) -> Any:
    if _has_too_many_values(body):
        raise ValueError("too many values")
    try:
        return json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _has_too_many_values(body: bytes) -> bool:
    slices = range(0, len(body), _SLICE)
    if sum(_separators(body, at, at + _SLICE) for at in slices) <= _VALUES:
        return False
    # Most separators may be in a string, which is one value.
    found = 0
    for token in _TOKEN.finditer(body):
        start, end = token.span()
        if body[start] != _QUOTE:
            found += _separators(body, start, end)
            if found > _VALUES:
                return True
    return False


def _separators(body: bytes, start: int, end: int) -> int:
    count = body.count
    return count(b",", start, end) + count(b"[", start, end) + count(b"{", start, end)
