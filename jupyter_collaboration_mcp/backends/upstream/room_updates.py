"""Rooms that pass on a change at once, and store what comes together in one task."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Any

from pycrdt import TransactionEvent, create_update_message

from .workaround import Server, Workaround, changed_signature, unused_names

#: Seconds by which the store may lag behind the journal.
_STORE_DELAY = 0.02


class RoomUpdates(Workaround):
    name = "room_updates"
    package = "pycrdt-websocket"
    fault = (
        "A room passes on each change through a queue, and begins a task for each of its members "
        "and one for its store. An agent's answer waits for all of them, although nobody may be "
        "there, and the store takes six hops to threads for each change."
    )
    patches = ("WebsocketServer.start_room", "YRoom._watch_ready")
    without = "each edit takes longer"

    def check(self, server: Server) -> list[str]:
        from jupyter_server_ydoc.websocketserver import JupyterWebsocketServer
        from pycrdt.websocket import YRoom

        return [
            *changed_signature(JupyterWebsocketServer, "start_room", "room", is_async=True),
            *changed_signature(YRoom, "_watch_ready", is_async=True),
            *unused_names(YRoom, "_start", "_watch_ready", "_task_group", "start_soon"),
            *unused_names(
                YRoom, "_watch_ready", "ready_event", "ydoc", "_subscription", "ydoc_observed"
            ),
            *unused_names(YRoom, "_broadcast_updates", "clients", "send", "ystore", "write"),
        ]

    def apply(self, server: Server) -> None:
        if server.ydoc is None:
            return
        websocket_server = server.ydoc.ywebsocket_server
        start_room = websocket_server.start_room

        async def start_with_updates(room: Any) -> None:
            if hasattr(room, "_file") and not room.started.is_set():
                room._watch_ready = partial(_watch_ready, room)
            await start_room(room)

        websocket_server.start_room = start_with_updates


async def _watch_ready(room: Any) -> None:
    await room.ready_event.wait()
    if room._subscription is not None:  # it has failed, and starts again
        room.ydoc.unobserve(room._subscription)
    room._subscription = room.ydoc.observe(_Updates(room).pass_on)
    room.ydoc_observed.set()


class _Updates:
    """Passes on the updates of a room, from its start to its end."""

    def __init__(self, room: Any) -> None:
        self._room = room
        self._tasks = room._task_group
        self._unstored: deque[bytes] = deque()
        self._is_storing = False

    def pass_on(self, event: TransactionEvent) -> None:
        """Called in the room's own transaction: must not raise."""
        try:
            if not self._has_ended:
                self._pass_on(event.update)
        except Exception:
            self._room.log.exception("Could not pass on a change of %s", self._room.room_id)

    def _pass_on(self, update: bytes) -> None:
        if members := [each for each in self._room.clients if not _ignores_updates(each)]:
            message = create_update_message(update)
            for member in members:
                self._tasks.start_soon(member.send, message)
        if self._room.ystore is not None:
            self._unstored.append(update)
            if not self._is_storing:
                # The journal has it; the answer to the very edit that is stored goes first.
                self._is_storing = True
                asyncio.get_running_loop().call_later(_STORE_DELAY, self._begin_storing)

    @property
    def _has_ended(self) -> bool:
        ended: bool = self._room._task_group is not self._tasks
        return ended or self._tasks.cancel_scope.cancel_called

    def _begin_storing(self) -> None:
        if not self._has_ended:
            self._tasks.start_soon(self._store)

    async def _store(self) -> None:
        while self._unstored:
            await self._room.ystore.write(self._unstored.popleft())
        self._is_storing = False


def _ignores_updates(member: Any) -> bool:
    """Whether a member of a room has its updates from elsewhere, as ours have."""
    return getattr(member, "ignores_updates", False)
