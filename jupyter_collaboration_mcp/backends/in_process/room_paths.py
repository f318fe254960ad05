"""Which room belongs to which path, whatever links lead to its file."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ...documents.awareness import people_in
from ..protocols.room_ids import Kind, RoomId
from .server_parts import ServerParts, Stamp

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom

#: Seconds for which the paths of an open room are cached: links seldom change.
_BELIEVED = 1.0


class RoomPaths:
    """The rooms of a server by the paths of their files."""

    def __init__(self, server: ServerParts) -> None:
        self._server = server
        self._cached_paths: dict[str, tuple[str, ...]] = {}
        self._cached_at = 0.0
        self._paths: dict[str, str | None] = {}  # by file id
        self._paths_as_of: int | None = None
        self._stamp: Stamp | None = None  # of the table that they are from
        self._believed_until = 0.0
        self._in_turn = False

    def path_of(self, file_id: str) -> str | None:
        """The path of a file. Each call asks many times, and the table is slow to ask.

        All that this process moves is counted. Another one may move a file, too: a server of the
        same person has the same table. So a path is believed in this turn of the loop, and for a
        moment while nobody writes the file of the table.
        """
        changes = self._server.file_id_changes
        if changes is None or changes != self._paths_as_of:
            self._paths, self._paths_as_of = {}, changes
        if not self._in_turn:
            self._begin_turn()
        if file_id in self._paths and changes is not None:
            return self._paths[file_id]
        path = self._server.file_ids.get_path(file_id)
        self._paths[file_id] = None if path is None else str(path)
        return self._paths[file_id]

    def _begin_turn(self) -> None:
        self._in_turn = True
        asyncio.get_running_loop().call_soon(self._end_turn)
        stamp, now = self._server.file_id_stamp, time.monotonic()
        if stamp is None or stamp != self._stamp or now > self._believed_until:
            self._paths, self._stamp, self._believed_until = {}, stamp, now + _BELIEVED

    def _end_turn(self) -> None:
        self._in_turn = False

    def path_of_room(self, room_id: RoomId) -> str | None:
        """The path by which a room was opened."""
        return self.path_of(room_id.file_id)

    def label(self, room_id: RoomId) -> str:
        """How a message names a room: by its path, if known."""
        return self.path_of_room(room_id) or room_id

    def known_room(self, path: str, kind: Kind) -> RoomId | None:
        """The room of a file that has been opened before; None if it never was."""
        if "\\" in path:  # fileid treats it as a slash: that is another file, with other rules
            return None
        if (room_id := self.open_as(path, kind)) is not None:
            return room_id
        file_id = self._server.file_ids.get_id(self._server.served_target(path))
        return None if file_id is None else RoomId.of(kind, file_id)

    def new(self, path: str, kind: Kind) -> RoomId:
        """The room for a file that is not open."""
        return RoomId.of(kind, self._server.file_ids.index(self._server.served_target(path)))

    def open_as(self, path: str, kind: Kind) -> RoomId | None:
        """The room in which a file is open, through any link: two rooms would overwrite each other.

        If there are several, prefers one with people in it, then the one with exactly this path.
        """
        rooms = [room for room in self.rooms_of(path) if id_of(room).file_type == kind]
        if len(rooms) < 2:
            return id_of(rooms[0]) if rooms else None
        ranks = {
            id_of(room): (has_people(room), self.path_of_room(id_of(room)) == path)
            for room in rooms
        }
        return max(ranks, key=ranks.__getitem__, default=None)

    def people_by_path(self) -> dict[str, list[str]]:
        """The people in each open document, by the path of its room and by its link target."""
        found: dict[str, list[str]] = {}
        for room in self._rooms():
            if (path := self.path_of_room(id_of(room))) is not None:
                for name in {path, self._server.link_target(path)}:
                    there = found.setdefault(name, [])
                    there += [who for who in people_in(room.awareness.states) if who not in there]
        return found

    def open_paths(self) -> list[str]:
        """The paths of the documents that somebody has open in a tab."""
        paths = (self.path_of_room(id_of(room)) for room in self._rooms() if has_people(room))
        return [path for path in paths if path is not None]

    def rooms_below(self, path: str) -> list[DocumentRoom]:
        """The rooms of a file, or of all files in a folder, whatever links lead to them.

        For a link itself, only the rooms that were opened through it.
        """
        entry, link_target = self._server.entry_path(path), self._server.link_target

        def is_below(at: str) -> bool:
            return _within(at, path) or _within(at, entry) or _within(link_target(at), entry)

        paths = ((self.path_of_room(id_of(room)), room) for room in self._rooms())
        return [room for at, room in paths if at is not None and is_below(at)]

    def opened_at(self, room: DocumentRoom, path: str) -> bool:
        """Whether a room was opened by a path, or by one below it."""
        at = self.path_of_room(id_of(room))
        return at is not None and _within(at, path)

    def rooms_of(self, path: str) -> list[DocumentRoom]:
        """The rooms of a file, whatever links lead to it."""
        target = self._server.link_target(path)
        return [room for room in self._rooms() if target in self._paths_of(room)]

    def move(self, path: str, new_path: str) -> None:
        """Move the id of a file, and the ids of a folder's contents, to another path."""
        ids = self._server.file_ids
        if ids.get_id(new_path) is None:  # otherwise fileid was notified
            ids.index(path)  # the ids of a folder's contents follow only if the folder has one
            ids.move(path, new_path)
        self.forget_paths()

    def delete(self, path: str) -> None:
        """Forget the id of a file that is gone, because fileid never replaces an id."""
        self._server.file_ids.delete(self._server.entry_path(path))
        self.forget_paths()

    def forget_paths(self) -> None:
        """Look up all paths again, because files have been moved."""
        self._cached_paths = {}

    def _paths_of(self, room: DocumentRoom) -> tuple[str, ...]:
        """The path by which a room was opened, and its link target, as of a moment ago: every call
        needs this for all rooms."""
        now = time.monotonic()
        if now - self._cached_at > _BELIEVED:
            self._cached_paths, self._cached_at = {}, now
        paths = self._cached_paths.get(room.room_id)
        if paths is None:
            path = self.path_of_room(id_of(room))
            paths = () if path is None else (path, self._server.link_target(path))
            self._cached_paths[room.room_id] = paths
        return paths

    def _rooms(self) -> list[DocumentRoom]:
        if not self._server.has_rooms:
            return []
        rooms = self._server.ydoc.ywebsocket_server.rooms.values()
        return [room for room in rooms if hasattr(room, "_file")]


def id_of(room: DocumentRoom) -> RoomId:
    return RoomId(room.room_id)


def has_people(room: DocumentRoom) -> bool:
    """Whether somebody has a WebSocket to it, and so a tab; our own seats have none."""
    return any(hasattr(client, "close") for client in room.clients)


def _within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")
