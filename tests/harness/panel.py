"""A person at the panel: its REST API and its feed, as a browser uses them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Self
from urllib.parse import urlencode

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from .jupyter import JupyterProcess


class Panel:
    """What a person sees and does, over a feed and REST."""

    def __init__(self, server: JupyterProcess, headers: Mapping[str, str] | None = None) -> None:
        self._server = server
        self.headers = server.headers if headers is None else dict(headers)
        self.url = f"{server.url}api/collaboration-mcp/panel/"
        self.epoch = ""
        self.seq = 0
        self.agents: dict[str, dict[str, Any]] = {}
        self.calls: dict[str, dict[str, Any]] = {}
        self.proposals: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        """All that came over the feed, one by one."""
        self.firsts: list[str] = []
        """How each connection of the feed began: with a state or with events."""
        self._changed = asyncio.Event()
        self._lifetime = AsyncExitStack()
        self._feed: ClientConnection | None = None
        self._following: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self.http = await stack.enter_async_context(
                httpx2.AsyncClient(headers=self.headers, timeout=30)
            )
            stack.push_async_callback(self.cut)
            await self.follow()
            self._lifetime = stack.pop_all()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._lifetime.__aexit__(*exception)

    async def follow(self) -> None:
        """Follow the feed, from what was seen last."""
        query = urlencode({"since": self.seq, "epoch": self.epoch}) if self.epoch else ""
        address = f"{self.url.replace('http', 'ws', 1)}feed?{query}"
        self._feed = await connect(
            address, additional_headers=self.headers, max_size=None, proxy=None
        )
        first = json.loads(await self._feed.recv())
        self.firsts.append(first["kind"])
        if first["kind"] == "state":
            self._take_state(first)
        else:
            for event in first["events"]:
                self._take(event)
        self._following = asyncio.create_task(self._follow(self._feed))

    async def cut(self) -> None:
        """Lose the feed."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._feed is not None:
            await self._feed.close()

    async def until(self, condition: Callable[[], Any], timeout: float = 10) -> Any:
        """Wait until something is seen, and return it. What is not there (yet) is not seen."""

        def look() -> Any:
            try:
                return condition()
            except LookupError:
                return None

        try:
            async with asyncio.timeout(timeout):
                while not (found := look()):
                    await self._changed.wait()
                return found
        except TimeoutError:
            seen = [(each["tool"], each["state"], each["review"]) for each in self.calls.values()]
            raise TimeoutError(f"in vain for {timeout} s; the panel shows {seen}") from None

    def call_of(self, tool: str, **wanted: Any) -> dict[str, Any] | None:
        """The latest call of a tool with some facts, if any is seen."""
        found = [
            call
            for call in self.calls.values()
            if call["tool"] == tool and all(call[name] == fact for name, fact in wanted.items())
        ]
        return found[-1] if found else None

    def agent(self, name: str) -> dict[str, Any]:
        """The agent with a name, of several the latest."""
        found = [each for each in self.agents.values() if each["name"] == name]
        return sorted(found, key=lambda each: int(each["seen"]))[-1]

    async def open_call(self, tool: str, path: str) -> dict[str, Any]:
        """A call that is over and waits for a review."""
        found: dict[str, Any] = await self.until(
            lambda: self.call_of(tool, path=path, review="open", state="done")
        )
        return found

    async def ask(self, method: str, place: str, body: Any = None) -> httpx2.Response:
        return await self.http.request(method, f"{self.url}{place}", json=body)

    async def get(self, place: str, status: int = 200) -> Any:
        return self._checked(await self.ask("GET", place), status)

    async def post(self, place: str, status: int = 200, **body: Any) -> Any:
        return self._checked(await self.ask("POST", place, body), status)

    async def patch(self, place: str, status: int = 200, **body: Any) -> Any:
        return self._checked(await self.ask("PATCH", place, body), status)

    async def delete(self, place: str, status: int = 204) -> Any:
        return self._checked(await self.ask("DELETE", place), status)

    async def diff(self, call: Mapping[str, Any], cell_id: str) -> dict[str, Any]:
        """What a call did to a cell, as it is now."""
        diffs = (await self.get(f"calls/{call['id']}"))["diffs"]
        found: dict[str, Any] = next(each for each in diffs if each["cell_id"] == cell_id)
        return found

    @staticmethod
    def _checked(response: httpx2.Response, status: int) -> Any:
        assert response.status_code == status, (response.status_code, response.text)
        if status >= 400:
            error = response.json()
            assert all(error[name] for name in ("code", "message", "remedy"))
            return error
        return response.json() if response.content else None

    async def _follow(self, feed: ClientConnection) -> None:
        try:
            async for message in feed:
                event = json.loads(message)
                self.events.append(event)
                self._take(event)
        except ConnectionClosed:
            pass

    def _take_state(self, state: dict[str, Any]) -> None:
        self.epoch, self.seq = state["epoch"], state["seq"]
        self.agents = {each["id"]: each for each in state["agents"]}
        self.calls = {each["id"]: each for each in state["calls"]}
        self.proposals = {each["id"]: each for each in state["proposals"]}
        self._tell()

    def _take(self, event: dict[str, Any]) -> None:
        assert event["epoch"] == self.epoch
        assert event["seq"] == self.seq + 1, "an event is missing"
        self.seq = event["seq"]
        if "agent" in event:
            self.agents[event["agent"]["id"]] = event["agent"]
        if "call" in event:
            self.calls[event["call"]["id"]] = event["call"]
        if "proposal" in event:
            self.proposals[event["proposal"]["id"]] = event["proposal"]
        if "gone" in event:
            kind = event["gone"]["kind"]
            held = {"agent": self.agents, "call": self.calls, "proposal": self.proposals}[kind]
            held.pop(event["gone"]["id"], None)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
