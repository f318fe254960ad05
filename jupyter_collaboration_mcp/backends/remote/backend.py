"""Rooms and files of a Jupyter server elsewhere, which does not need our extension."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from logging import Logger
from pathlib import Path

from ...documents import well_formed
from ...errors import DocumentNotFound, NoCollaboration, RoomUnavailable
from ..protocols.awareness import LobbyLink
from ..protocols.room_ids import Kind, RoomId, room_kind
from ..protocols.rooms import RoomLink
from .authorship_posts import AuthorshipPosts
from .file_room import FILE_FORMAT, FileRooms
from .files import RemoteFiles
from .forks import RemoteForks
from .jupyter_api import JupyterApi
from .lobby import RemoteLobby
from .room_seats import RoomSeats
from .room_session import open_session
from .room_socket import RoomSocket
from .server_errors import Refused
from .versions import RemoteVersions

_LINE_ENDS = (
    "This file has the line ends of Windows (CRLF). The Jupyter server turns them into LF when it "
    "saves; our extension, installed there, keeps them."
)


class RemoteBackend:
    """The rooms and files of one server, over its REST API and its WebSockets.

    Args:
        root: Returns where on this machine the server's files may be, if anywhere.
    """

    def __init__(
        self, api: JupyterApi, log: Logger, root: Callable[[], Path | None] | None = None
    ) -> None:
        self._api = api
        self._log = log
        self._seats = RoomSeats()
        self._file_rooms = FileRooms(api)  # where the server has no rooms
        self._writable: dict[str, bool] = {}  # by path
        self._modified: dict[str, str | None] = {}  # by path, before the room is joined
        self._doubts: dict[str, str | None] = {}  # why a path may not be loaded
        self._warnings: dict[str, str] = {}  # by path, to be shown once
        self.files = RemoteFiles(api, self._seats, root)
        self.forks = RemoteForks(api, self.locate, self._seats.rooms, log)
        self._authorships = AuthorshipPosts(api)
        self.versions = RemoteVersions(api, self._authorships.flush)

    async def close(self) -> None:
        """Leave the rooms that we are still in."""
        await self._authorships.close()
        await self._seats.close()

    # -- files -------------------------------------------------------------------------------

    async def identify(self, path: str, kind: Kind | None = "notebook") -> RoomId:
        entry = await self.files.look(path)
        kind = room_kind(entry, kind)
        self._writable[path] = entry.writable
        self._warnings.pop(path, None)
        if entry.type == "file":
            text = await self.files.read(path, "file")  # also checks that it is text at all
            if "\r\n" in text:
                self._warnings[path] = _LINE_ENDS
        try:
            session = await open_session(self._api, path, kind)
        except Refused as refused:
            raise _failed(path, refused) from refused
        except NoCollaboration:
            return self._file_rooms.identify(path, kind)
        if entry.type == "notebook":
            # A server that cannot load it makes everybody who joins its room wait forever (B24).
            notebook = await self.files.read(path, "notebook")
            self._doubts[path] = await asyncio.to_thread(well_formed.oversized, notebook)
        room_id = RoomId.of(kind, session.file_id)
        self._seats.note_room(path, room_id)
        if room_id not in self._seats:
            self._modified[path] = self._seats.modified(path, entry.last_modified)
        return room_id

    def known_room(self, path: str, kind: Kind = "notebook") -> RoomId | None:
        return self._seats.room_at(path, kind)

    def path_of(self, file_id: str) -> str | None:
        return (
            self._seats.path_of(file_id)
            or self._file_rooms.path_of(file_id)
            or self.forks.known_path(file_id)
        )

    def open_paths(self) -> None:
        return None  # a server does not tell which rooms it has

    async def locate(self, file_id: str) -> str | None:
        try:
            found = await self._api.get("api", "fileid", "path", id=file_id)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise _failed(file_id, refused) from refused
        with self._api.expecting("the path of a document"):
            return str(found["path"])

    # -- rooms -------------------------------------------------------------------------------

    async def join(self, room_id: RoomId) -> RoomLink:
        if room_id.is_fork:
            return await self.forks.join(room_id)
        if room_id.file_format == FILE_FORMAT:
            return await self._file_rooms.join(room_id)
        path = self.path_of(room_id.file_id)
        if path is None:
            raise DocumentNotFound.at(room_id)
        modified = self._modified.pop(path, None)
        writable = self._writable.get(path, True)
        link = RoomSocket(self._api, room_id, path, self._log, modified, writable)
        link.on_authorship = self._authorships.add
        if path in self._warnings:
            link.warn(self._warnings.pop(path))
        await link.enter(self._doubts.pop(path, None))
        self._seats.add(link, path)
        return link

    async def enter_lobby(self) -> LobbyLink:
        lobby = RemoteLobby(self._api, self._log)
        lobby.start()
        return lobby


def _failed(path: str, refused: Refused) -> DocumentNotFound | RoomUnavailable:
    if refused.status in (400, 404):
        return DocumentNotFound.at(path)
    return RoomUnavailable(
        f"The Jupyter server cannot look at {path!r} now: {refused}.",
        "Try again in a while; the log of the Jupyter server says more.",
        path=path,
    )
