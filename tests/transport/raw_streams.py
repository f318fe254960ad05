"""A client of the era with sessions that does nothing by itself: it shows each event as it came."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import httpx2

from tests.transport.conftest import HEADERS, INITIALIZE

VERSION = "2025-11-25"


@dataclass(frozen=True)
class Event:
    """One event, as it came."""

    id: str | None
    data: dict[str, Any] | None
    """None if it is only an id."""

    @property
    def text(self) -> str:
        """What a line of progress, or a result, says."""
        data = self.data or {}
        if "result" in data:
            return str(data["result"]["content"][0]["text"])
        return str(data["params"]["message"]) if "params" in data else ""


class Stream:
    """An open stream of events."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self._events = _events(response.aiter_lines())

    async def next(self) -> Event:
        """The next event."""
        return await anext(self._events)

    async def rest(self) -> list[Event]:
        """All events, until the server ends the stream."""
        return [event async for event in self._events]


class RawSession:
    """A session, over raw HTTP.

    Args:
        headers: The credential.
    """

    def __init__(self, url: str, headers: dict[str, str], version: str = VERSION) -> None:
        self.url, self.version = url, version
        self.http = httpx2.AsyncClient(timeout=15, headers={**HEADERS, **headers}, verify=False)
        self.id = ""
        self._numbers = itertools.count(2)

    async def __aenter__(self) -> Self:
        body = json.loads(json.dumps(INITIALIZE))
        body["params"]["protocolVersion"] = self.version
        answer = await self.http.post(self.url, json=body)
        self.id = answer.headers["mcp-session-id"]
        self.http.headers["mcp-session-id"] = self.id
        self.http.headers["mcp-protocol-version"] = self.version
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self.http.post(self.url, json=done)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.http.aclose()

    @asynccontextmanager
    async def call(self, tool: str, **arguments: Any) -> AsyncIterator[Stream]:
        """Call a tool that reports progress; at the end, the connection is cut."""
        number = next(self._numbers)
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": number}}
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        async with self.http.stream("POST", self.url, json=body) as response:
            yield Stream(response)

    async def ask(self, tool: str, **arguments: Any) -> list[Event]:
        """Call a tool and wait for its end."""
        async with self.call(tool, **arguments) as stream:
            return await stream.rest()

    @asynccontextmanager
    async def listen(
        self, after: str | None = None, url: str = "", **headers: str
    ) -> AsyncIterator[Stream]:
        """Open the stream of notifications, or go on with the stream that an event was on."""
        if after is not None:
            headers["Last-Event-ID"] = after
        async with self.http.stream("GET", url or self.url, headers=headers) as response:
            yield Stream(response)

    async def resumed(self, after: str) -> list[Event]:
        """All that follows an event, to the end of its stream."""
        async with self.listen(after) as stream:
            assert stream.status == 200
            return await stream.rest()

    async def refused(self, after: str, **headers: str) -> int:
        """The status with which the server refuses to go on after an event."""
        async with self.listen(after, **headers) as stream:
            assert stream.status >= 400
            return stream.status


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    fields: dict[str, str] = {}
    async for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            data = fields.get("data", "").strip()
            yield Event(fields.get("id"), json.loads(data) if data else None)
            fields = {}
