"""Rooms and files of a Jupyter server elsewhere, which needs no extension of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from logging import Logger
from pathlib import Path

from ...documents import well_formed
from ...documents.awareness import people_in
from ...errors import DocumentNotFound, NoCollaboration, RoomUnavailable
from ..protocols.room_ids import Kind, RoomId, room_kind
from ..protocols.rooms import RoomLink
from .file_room import FILE_FORMAT, FileRooms
from .files import RemoteFiles
from .jupyter_api import JupyterApi
from .room_session import open_session
from .room_socket import RoomSocket
from .server_errors import Refused

_LINE_ENDS = (
    "This file has the line ends of Windows (CRLF). The Jupyter server turns them into LF when it "
    "saves; our extension, installed there, keeps them."
)


class RemoteBackend:
    """The rooms and files of one server, over its REST API and its WebSockets.

    Args:
        root: Tells where on this machine the server's files may be, if they may be at all.
    """

    def __init__(
        self, api: JupyterApi, log: Logger, root: Callable[[], Path | None] | None = None
    ) -> None:
        self._api = api
        self._log = log
        self._rooms: dict[str, RoomId] = {}  # by path
        self._paths: dict[str, str] = {}  # by file id
        self._links: dict[RoomId, RoomSocket] = {}  # seats that are taken
        self._file_rooms = FileRooms(api)  # where the server has no rooms
        self._writable: dict[str, bool] = {}  # by path
        self._modified: dict[str, str | None] = {}  # by path, before the room is joined
        self._distrusted: dict[str, str | None] = {}  # the same, of rooms that lost their file
        self._doubts: dict[str, str | None] = {}  # why a path may not be loaded
        self._unwelcome: dict[str, str] = {}  # what has to be said of a path, once
        self.files = RemoteFiles(api, self, root)

    async def close(self) -> None:
        """Leave the rooms that nobody has left yet."""
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._forget_lost_seats()

    # -- files -------------------------------------------------------------------------------

    async def identify(self, path: str, kind: Kind | None = "notebook") -> RoomId:
        entry = await self.files.look(path)
        kind = room_kind(entry, kind)
        self._writable[path] = entry.writable
        self._unwelcome.pop(path, None)
        if entry.type == "file":
            text = await self.files.read(path, "file")  # also tells whether it is text at all
            if "\r\n" in text:
                self._unwelcome[path] = _LINE_ENDS
        try:
            session = await open_session(self._api, path, kind)
        except Refused as refused:
            raise _failed(path, refused) from refused
        except NoCollaboration:
            return self._file_rooms.identify(path, kind)
        if entry.type == "notebook":
            # A server that cannot load it lets whoever joins its room wait for ever (B24).
            notebook = await self.files.read(path, "notebook")
            self._doubts[path] = await asyncio.to_thread(well_formed.oversized, notebook)
        room_id = RoomId.of(kind, session.file_id)
        self._forget_lost_seats()
        self._rooms[path] = room_id
        self._paths[session.file_id] = path
        if room_id not in self._links:
            self._modified[path] = self._distrusted.pop(path, entry.last_modified)
        return room_id

    def known(self, path: str, kind: Kind = "notebook") -> RoomId | None:
        self._forget_lost_seats()
        for link in self._links.values():
            if link.path == path and link.room_id.kind == kind:
                return link.room_id
        room_id = self._rooms.get(path)
        # A seat knows better where its document is.
        if room_id is None or room_id in self._links or room_id.kind != kind:
            return None
        return room_id

    def path_of(self, file_id: str) -> str | None:
        self._forget_lost_seats()
        links = [r for i, r in self._links.items() if i.file_id == file_id]
        known = self._paths.get(file_id) or self._file_rooms.path_of(file_id)
        return links[0].path if links else known

    async def locate(self, file_id: str) -> str | None:
        try:
            found = await self._api.get("api", "fileid", "path", id=file_id)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise _failed(file_id, refused) from refused
        with self._api.understood("the path of a document"):
            return str(found["path"])

    def open_paths(self) -> dict[str, list[str]]:
        """Who is in which document, of those that we are in: only of them it is known."""
        self._forget_lost_seats()
        return {link.path: people_in(link.states) for link in self._links.values()}

    def seats_below(self, path: str) -> list[RoomSocket]:
        """Our seats in the room of a file, or of all files in a folder."""
        links = self._links.values()
        return [r for r in links if r.path == path or r.path.startswith(f"{path}/")]

    def distrust(self, seat: RoomSocket) -> None:
        """A file is gone, but not its room: who joins that again is to know that it is outdated."""
        self._distrusted[seat.path] = seat.modified

    def _forget_lost_seats(self) -> None:
        for room_id, link in list(self._links.items()):
            if not link.alive:
                del self._links[room_id]
                self._rooms = {path: room for path, room in self._rooms.items() if room != room_id}
                file_id = room_id.file_id
                if link.gone:
                    self._paths.pop(file_id, None)
                else:
                    self._paths[file_id] = link.path
                    self._rooms[link.path] = room_id

    # -- rooms -------------------------------------------------------------------------------

    async def join(self, room_id: RoomId) -> RoomLink:
        if room_id.file_format == FILE_FORMAT:
            return await self._file_rooms.join(room_id)
        file_id = room_id.file_id
        path = self.path_of(file_id)
        if path is None:
            raise DocumentNotFound.at(room_id)
        modified = self._modified.pop(path, None)
        writable = self._writable.get(path, True)
        link = RoomSocket(self._api, room_id, path, self._log, modified, writable)
        if path in self._unwelcome:
            link.warn(self._unwelcome.pop(path))
        await link.enter(self._doubts.pop(path, None))
        self._links[room_id] = link
        self._paths[file_id] = path
        return link


def _failed(path: str, refused: Refused) -> DocumentNotFound | RoomUnavailable:
    if refused.status in (400, 404):
        return DocumentNotFound.at(path)
    return RoomUnavailable(
        f"The Jupyter server cannot look at {path!r} now: {refused}.",
        "Try again in a while; the log of the Jupyter server says more.",
        path=path,
    )
