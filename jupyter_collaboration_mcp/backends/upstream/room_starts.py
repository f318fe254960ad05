"""Keeps a room that ends while it starts from taking others with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from logging import Logger
from typing import Any

from ...panics import contained
from .workaround import Server, Workaround, changed_signature


class RoomStarts(Workaround):
    name = "room_starts"
    trap = "B20"
    package = "pycrdt-websocket"
    fault = (
        "A room that ends while it starts, because somebody comes back to a file that is gone, "
        "ends the task group in which all rooms of the server run."
    )
    patches = ("WebsocketServer.start_room", "YRoom.start")
    without = (
        "people in any document may stop seeing each other's edits when somebody comes back to a "
        "deleted file"
    )

    def check(self, server: Server) -> list[str]:
        from jupyter_server_ydoc.websocketserver import JupyterWebsocketServer
        from pycrdt.websocket import YRoom

        found = changed_signature(JupyterWebsocketServer, "start_room", "room", is_async=True)
        for name in ("start", "started"):
            if not hasattr(YRoom, name):
                found.append(f"YRoom has no {name}")
        return found

    def apply(self, server: Server) -> None:
        if server.ydoc is None:
            return
        websocket_server = server.ydoc.ywebsocket_server
        start_room = websocket_server.start_room

        async def start_apart(room: Any) -> None:
            if hasattr(room, "_file"):
                server.prepare_loader(room._file)
            if not room.started.is_set():
                room.start = _contained_start(room.start, server.log)
            await start_room(room)

        websocket_server.start_room = start_apart


def _contained_start(
    start: Callable[..., Awaitable[None]], log: Logger
) -> Callable[..., Awaitable[None]]:
    async def start_alone(*arguments: Any, **options: Any) -> None:
        try:
            with contained():
                await start(*arguments, **options)
        except Exception:
            log.debug("A room ended while it was starting", exc_info=True)

    return start_alone
