"""How long a server may take to answer, and how much it may say.

A body counts as it is unpacked, piece by piece, so that a small answer that unpacks to a huge one
is dropped on the way. JSON is also bounded by how many values it has: each takes memory of its own,
far more than its few bytes in the body.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

#: How many times as long as a plain answer may take: where a kernel is started or files are
#: written, moved or copied; and reading a file, as long as it keeps coming.
_PATIENCE = 3

#: Bytes of a file that buy another second to read it.
_PACE = 100_000

#: Values of a JSON text that are read: a folder of 20,000 files has 200,000.
_VALUES = 2_000_000

#: Bytes of JSON from which on it is read in a thread, and that are looked at in one go there.
_LARGE, _SLICE = 200_000, 1_000_000

#: A text of a JSON text, or some of what is between two.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^"]{1,%d}' % _SLICE, re.DOTALL)

_QUOTE = ord('"')


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What is accepted of one answer, and of one message of a WebSocket."""

    seconds: float = 60.0
    """From the question to the last byte."""
    size: int = 256_000_000
    """Bytes, unpacked."""


class BodyTooLarge(Exception):
    """There was more than is accepted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said to a request."""

    status: int
    reason: str
    headers: httpx2.Headers
    body: bytes
    request: httpx2.Request


class Deadline:
    """The time that one question has, from when it is asked."""

    def __init__(self, limits: AnswerLimits, *, works: bool, reads: bool) -> None:
        self._seconds = limits.seconds * (_PATIENCE if works else 1)
        self._most = limits.seconds * (_PATIENCE if works or reads else 1)
        self._began = asyncio.get_running_loop().time()
        self._timeout = asyncio.timeout_at(self._began + self._seconds)

    @property
    def elapsed(self) -> float:
        """Seconds since the question was asked."""
        return asyncio.get_running_loop().time() - self._began

    async def __aenter__(self) -> Deadline:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._timeout.__aexit__(*exception)

    def received(self, size: int) -> None:
        """So many bytes have come in all: over a slow line, they may take longer."""
        if self._most > self._seconds:
            seconds = min(self._seconds + size / _PACE, self._most)
            self._timeout.reschedule(self._began + seconds)


def deadline_for(
    limits: AnswerLimits, method: str, path: tuple[str, ...], query: Mapping[str, str] | None
) -> Deadline:
    """The time that a question has, by what it asks for."""
    about = path[1:2]
    works = method != "GET" and about in (("contents",), ("sessions",), ("kernels",))
    reads = about == ("contents",) and (query or {}).get("content") == "1"
    return Deadline(limits, works=works, reads=reads)


async def read_answer(response: httpx2.Response, limit: int, deadline: Deadline) -> Answer:
    """All of an answer whose head has come.

    Raises:
        BodyTooLarge: It has more than so many bytes.
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
            await asyncio.sleep(0)  # a few bytes unpack to many parts, without a wait in between
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
    """What a JSON text says.

    Raises:
        ValueError: It is none, or not one that can be read.
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
    # Most may be in a text, which is one value.
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
