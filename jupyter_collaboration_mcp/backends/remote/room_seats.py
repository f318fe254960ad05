"""Our seats in the rooms of one server, and the paths of their documents."""

from __future__ import annotations

import asyncio

from ...documents.awareness import people_in
from ..protocols.room_ids import Kind, RoomId
from .room_socket import RoomSocket


class RoomSeats:
    """The seats that we have taken, and what is known about other documents."""

    def __init__(self) -> None:
        self._seats: dict[RoomId, RoomSocket] = {}  # by room id
        self._rooms: dict[str, RoomId] = {}  # room ids by path
        self._paths: dict[str, str] = {}  # by file id
        self._outdated: dict[str, str | None] = {}  # `modified` of rooms that lost their file

    async def close(self) -> None:
        """Leave the rooms that we are still in."""
        await asyncio.gather(*(seat.close() for seat in self._seats.values()))
        self._forget_lost()

    def add(self, seat: RoomSocket, path: str) -> None:
        """Add our seat in the room of the document at a path."""
        self._seats[seat.room_id] = seat
        self._paths[seat.room_id.file_id] = path

    def rooms(self) -> list[RoomId]:
        """The rooms that we have seats in."""
        self._forget_lost()
        return list(self._seats)

    def __contains__(self, room_id: RoomId) -> bool:
        """Whether we have a seat in a room."""
        self._forget_lost()
        return room_id in self._seats

    def note_room(self, path: str, room_id: RoomId) -> None:
        """Remember the room of the document at a path."""
        self._forget_lost()
        self._rooms[path] = room_id
        self._paths[room_id.file_id] = path

    def room_at(self, path: str, kind: Kind) -> RoomId | None:
        """The room of the document at a path, as far as known."""
        self._forget_lost()
        for seat in self._seats.values():
            if seat.path == path and seat.room_id.kind == kind:
                return seat.room_id
        room_id = self._rooms.get(path)
        # A seat knows the path of its document better.
        if room_id is None or room_id in self._seats or room_id.kind != kind:
            return None
        return room_id

    def path_of(self, file_id: str) -> str | None:
        """The path of the document with a file id, as far as known."""
        self._forget_lost()
        seats = [seat for room_id, seat in self._seats.items() if room_id.file_id == file_id]
        return seats[0].path if seats else self._paths.get(file_id)

    def open_paths(self) -> dict[str, list[str]]:
        """The people in each document; only known for rooms that we are in."""
        self._forget_lost()
        return {seat.path: people_in(seat.states) for seat in self._seats.values()}

    def below(self, path: str) -> list[RoomSocket]:
        """Our seats in the room of a file, or of all files in a folder."""
        seats = self._seats.values()
        return [seat for seat in seats if seat.path == path or seat.path.startswith(f"{path}/")]

    def end_below(self, path: str) -> None:
        """Leave the rooms at or below a path: the files are gone, but not their rooms.

        When such a room is joined again, it has to count as outdated: see `modified`.
        """
        for seat in self.below(path):
            self._outdated[seat.path] = seat.modified
            seat.end_with_file()

    def modified(self, path: str, last_modified: str | None) -> str | None:
        """The modification time of the file that a newly joined room is expected to match.

        Args:
            last_modified: The modification time of the file at the path.
        """
        return self._outdated.pop(path, last_modified)

    def _forget_lost(self) -> None:
        for room_id, seat in list(self._seats.items()):
            if not seat.alive:
                del self._seats[room_id]
                self._rooms = {path: room for path, room in self._rooms.items() if room != room_id}
                if seat.gone:
                    self._paths.pop(room_id.file_id, None)
                else:
                    self._paths[room_id.file_id] = seat.path
                    self._rooms[seat.path] = room_id
