"""A person's JupyterLab as far as the lobby is concerned: the awareness that all people share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from pycrdt import (
    Awareness,
    Doc,
    YMessageType,
    create_awareness_message,
    read_message,
)
from websockets.asyncio.client import ClientConnection, connect

from .jupyter import JupyterProcess

ROOM = "JupyterLab:globalAwareness"


class Lobby:
    """Somebody in the lobby of a server, from entering the block to leaving it."""

    def __init__(
        self,
        server: JupyterProcess,
        name: str,
        current: str | None = None,
        documents: list[str] | None = None,
        state: Any = None,
    ) -> None:
        self._server = server
        self._awareness = Awareness(Doc())
        user = {"username": name.lower(), "name": name, "display_name": name, "initials": name[:2]}
        told = {"user": user, "current": current, "documents": documents or []}
        self._state = told if state is None else state
        self._changed = asyncio.Event()
        self._awareness.observe(lambda topic, change: self._changed.set())
        self._websocket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self.received = 0
        """Bytes of awareness messages."""

    async def __aenter__(self) -> Self:
        url = f"{self._server.url.replace('http', 'ws', 1)}api/collaboration/room/{ROOM}"
        self._websocket = await connect(
            url, additional_headers=self._server.headers, compression=None
        )
        self._reader = asyncio.create_task(self._read())
        self._awareness.set_local_state(self._state)
        update = self._awareness.encode_awareness_update([self._awareness.client_id])
        await self._websocket.send(create_awareness_message(update))
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._websocket is not None
        assert self._reader is not None
        await self._websocket.close()
        await asyncio.wait([self._reader])

    async def leave(self) -> None:
        """Say goodbye, as a tab that is closed does: otherwise one is here for 30 seconds more."""
        assert self._websocket is not None
        self._awareness.set_local_state(None)
        update = self._awareness.encode_awareness_update([self._awareness.client_id])
        await self._websocket.send(create_awareness_message(update))

    def named(self, name: str) -> Any:
        """What somebody says about themselves; None if they are not here."""
        for state in self._awareness.states.values():
            user = state.get("user") if isinstance(state, dict) else None
            if isinstance(user, dict) and user.get("name") == name:
                return state
        return None

    async def sees(self, name: str, timeout: float = 10) -> dict[str, Any]:
        """Wait until somebody is here, and return what they say about themselves."""
        await self.until(lambda: self.named(name) is not None, timeout)
        return dict(self.named(name))

    async def until(self, condition: Callable[[], object], timeout: float = 10) -> None:
        """Wait for a condition, which is looked at again after every change."""
        async with asyncio.timeout(timeout):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def _read(self) -> None:
        assert self._websocket is not None
        async for message in self._websocket:
            if isinstance(message, bytes) and message[0] == YMessageType.AWARENESS:
                self.received += len(message)
                self._awareness.apply_awareness_update(read_message(message[1:]), "room")
