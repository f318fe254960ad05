"""Rooms and files of a Jupyter server elsewhere, which needs no extension of ours."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from logging import Logger
from typing import Any, cast

from ..documents.render import people
from ..errors import DocumentNotFound, NoCollaboration, NotANotebook, RoomUnavailable
from .base import Listing, NotebookEntry, RoomLink
from .file_room import PREFIX, FileRooms
from .jupyter_api import JupyterApi, Refused
from .room_socket import RoomSocket, open_session

#: Directories that are asked for at once, and in all for one listing.
_PARALLEL, _DIRECTORIES = 4, 1000


class RemoteBackend:
    """The rooms and files of one server, over its REST API and its WebSockets."""

    def __init__(self, api: JupyterApi, log: Logger) -> None:
        self._api = api
        self._log = log
        self._rooms: dict[str, str] = {}  # by path
        self._paths: dict[str, str] = {}  # by file id
        self._links: dict[str, RoomSocket] = {}  # seats that are taken
        self._files = FileRooms(api)  # where the server has no rooms

    async def close(self) -> None:
        """Leave the rooms that nobody has left yet."""
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._forget_lost_seats()

    # -- files -------------------------------------------------------------------------------

    async def identify(self, path: str) -> str:
        kind = str((await self._metadata(path))["type"])
        if kind != "notebook":
            raise NotANotebook.at(path, kind)
        try:
            session = await open_session(self._api, path)
        except Refused as refused:
            raise _failed(path, refused) from refused
        except NoCollaboration:
            return self._files.identify(path)
        room_id = f"json:notebook:{session.file_id}"
        self._forget_lost_seats()
        self._rooms[path] = room_id
        self._paths[session.file_id] = path
        return room_id

    def known(self, path: str) -> str | None:
        self._forget_lost_seats()
        for link in self._links.values():
            if link.path == path:
                return link.room_id
        room_id = self._rooms.get(path)
        # A seat knows better where its document is.
        return None if room_id in self._links else room_id

    def path_of(self, file_id: str) -> str | None:
        self._forget_lost_seats()
        link = self._links.get(f"json:notebook:{file_id}")
        known = self._paths.get(file_id) or self._files.path_of(file_id)
        return known if link is None else link.path

    def _forget_lost_seats(self) -> None:
        for room_id, link in list(self._links.items()):
            if not link.alive:
                del self._links[room_id]
                self._rooms = {path: room for path, room in self._rooms.items() if room != room_id}
                file_id = room_id.split(":", 2)[2]
                if link.gone:
                    self._paths.pop(file_id, None)
                else:
                    self._paths[file_id] = link.path
                    self._rooms[link.path] = room_id

    async def last_modified(self, path: str) -> str | None:
        modified = (await self._metadata(path)).get("last_modified")
        return None if modified is None else str(modified)

    async def list_notebooks(
        self, path_prefix: str, limit: int, visible: Callable[[str], bool]
    ) -> Listing:
        """Breadth first, a few directories at a time; hidden ones are left alone."""
        start = path_prefix if await self._is_directory(path_prefix) else _parent(path_prefix)
        found: list[NotebookEntry] = []
        directories: deque[str] = deque([start])
        asked = 0
        while directories:
            if asked >= _DIRECTORIES:
                return Listing(tuple(found), complete=False)
            some = [directories.popleft() for _ in range(min(_PARALLEL, len(directories)))]
            asked += len(some)
            for models in await asyncio.gather(*map(self._children, some)):
                for model in models:
                    path = str(model["path"])
                    if model["type"] == "directory":
                        if path.startswith(path_prefix) or path_prefix.startswith(path + "/"):
                            directories.append(path)
                    elif (
                        model["type"] == "notebook"
                        and path.startswith(path_prefix)
                        and visible(path)
                    ):
                        if len(found) == limit:
                            return Listing(tuple(found), complete=False)
                        found.append(self._entry(model))
        return Listing(tuple(found), complete=True)

    def _entry(self, model: Mapping[str, Any]) -> NotebookEntry:
        """Only of rooms that we are in is it known who else is there."""
        path = str(model["path"])
        links = [link for link in self._links.values() if link.path == path]
        return NotebookEntry(
            path=path,
            last_modified=model.get("last_modified"),
            size=model.get("size"),
            open=bool(links),
            people=tuple(people(links[0].states)) if links else (),
        )

    async def _metadata(self, path: str) -> Mapping[str, Any]:
        try:
            model = await self._api.get("api", "contents", *_segments(path), content="0")
        except Refused as refused:
            raise _failed(path, refused) from refused
        return cast("Mapping[str, Any]", model)

    async def _is_directory(self, path: str) -> bool:
        try:
            return bool((await self._metadata(path))["type"] == "directory")
        except DocumentNotFound:
            return False

    async def _children(self, path: str) -> Sequence[Mapping[str, Any]]:
        try:
            model = await self._api.get(
                "api", "contents", *_segments(path), type="directory", content="1"
            )
        except Refused:
            return ()  # gone or unreadable since it was listed
        children = [child for child in model["content"] if not child["name"].startswith(".")]
        return sorted(children, key=lambda child: str(child["name"]))

    # -- rooms -------------------------------------------------------------------------------

    async def join(self, room_id: str) -> RoomLink:
        if room_id.startswith(PREFIX):
            return await self._files.join(room_id)
        file_id = room_id.split(":", 2)[2]
        path = self.path_of(file_id)
        if path is None:
            raise DocumentNotFound.at(room_id)
        link = RoomSocket(self._api, room_id, path, self._log)
        await link.enter()
        self._links[room_id] = link
        self._paths[file_id] = path
        return link


def _segments(path: str) -> list[str]:
    return path.split("/") if path else []


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _failed(path: str, refused: Refused) -> DocumentNotFound | RoomUnavailable:
    if refused.status < 500:
        return DocumentNotFound.at(path)
    return RoomUnavailable(
        f"The Jupyter server cannot look at {path!r} now: {refused}.",
        "Try again in a while; the log of the Jupyter server says more.",
        path=path,
    )
