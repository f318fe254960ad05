"""Forks that are in sync with their document, and stop being so when either ends."""

from __future__ import annotations

from typing import Any

from .workaround import Server, Workaround, changed_signature, unused_names


class ForkObservers(Workaround):
    name = "fork_observers"
    trap = "B18"
    package = "jupyter-server-ydoc"
    fault = (
        "A fork that is synchronized with its document observes it for ever: after the fork is "
        "deleted, each edit of the document is still applied to it, and its memory is never "
        "freed. If the document is closed and opened again, the fork gets nothing more."
    )
    patches = ("DocForkHandler.put",)
    without = (
        "a synchronized fork that somebody creates over the server's own API stays in memory after "
        "it was deleted"
    )

    def check(self, server: Server) -> list[str]:
        from jupyter_server_ydoc.handlers import DocForkHandler

        return [
            *changed_signature(DocForkHandler, "put", "root_roomid"),
            *unused_names(
                DocForkHandler, "put", "_websocket_server", "get_room", "ydoc", "observe", "rooms"
            ),
        ]

    def apply(self, server: Server) -> None:
        from jupyter_server_ydoc.handlers import DocForkHandler

        if server.ydoc is None:
            return
        put, rooms = DocForkHandler.put, server.ydoc.ywebsocket_server

        async def put_unobserved(handler: Any, root_roomid: str) -> Any:
            # Whoever keeps the forks of this server synchronizes them: see `ForkWatch.follow`.
            if handler._websocket_server is rooms:  # another server in this process has its own
                handler._websocket_server = _Unobserved(rooms)
            return await put(handler, root_roomid)

        put_unobserved.__wrapped__ = put  # type: ignore[attr-defined]
        DocForkHandler.put = put_unobserved


class _Unobserved:
    """The rooms of a server, whose documents cannot be observed."""

    def __init__(self, rooms: Any) -> None:
        self._rooms = rooms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rooms, name)

    async def get_room(self, path: str) -> Any:
        return _UnobservedRoom(await self._rooms.get_room(path))


class _UnobservedRoom:
    def __init__(self, room: Any) -> None:
        self.ydoc = _UnobservedDoc(room.ydoc)


class _UnobservedDoc:
    def __init__(self, doc: Any) -> None:
        self.get_update = doc.get_update

    def observe(self, observer: Any) -> None:
        """Do nothing."""
