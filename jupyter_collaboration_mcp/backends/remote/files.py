"""The files of a Jupyter server elsewhere, over its contents API."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import (
    AlreadyExists,
    CollaborationError,
    CorruptDocument,
    DocumentNotFound,
    FileFailed,
    NoCollaboration,
    NotJupyter,
    NotText,
    ReadOnly,
)
from ..contents.folders import ContentsFolders
from ..contents.models import entries_of, entry_of, new_model
from ..contents.notebook_text import read_notebook
from ..protocols.files import (
    EntryFilter,
    FileEntry,
    FileQuery,
    FileType,
    Listing,
    PathCheck,
    PathPair,
    Source,
)
from ..protocols.room_ids import Kind
from .jupyter_api import JupyterApi
from .local_folders import LocalFolders
from .room_seats import RoomSeats
from .room_session import open_session
from .room_socket import RoomSocket
from .server_errors import Refused

#: Folders that are listed at the same time.
_PARALLEL = 8

_FOLDER_COPIED = (
    "What people have not saved yet in these files, and hidden files, may be missing in the copy."
)


class RemoteFiles:
    """The files of one server."""

    def __init__(
        self, api: JupyterApi, seats: RoomSeats, root: Callable[[], Path | None] | None
    ) -> None:
        self._api = api
        self._seats = seats
        self._remote = ContentsFolders(self._inside, at_once=_PARALLEL)
        self._folders: ContentsFolders | LocalFolders = self._remote
        if root is not None:
            self._folders = LocalFolders(root, api.check, self.look, self._remote)

    # -- looking -----------------------------------------------------------------------------

    async def look(self, path: str) -> FileEntry:
        try:
            model = await self._ask("look at", "GET", path, {"content": "0"})
        except FileFailed as error:
            # Jupyter fails on a path that continues after a file.
            folder = path.rpartition("/")[0]
            if folder and (await self.look(folder)).type != "directory":
                raise DocumentNotFound.at(path) from error
            raise
        return entry_of(model).opened_by(self._seats.open_paths().get(path))

    def link_target(self, path: str) -> str:
        return path  # from outside, a link looks like a file

    def canonical_path(self, path: str, follow: bool = False) -> str:
        return path

    def is_gone(self, path: str) -> bool:
        return False  # finding out would take a request

    async def children(self, path: str, shown: EntryFilter, limit: int) -> Listing:
        return await self._folders.children(path, shown, limit)

    async def _inside(self, path: str) -> Sequence[FileEntry]:
        query = {"type": "directory", "content": "1"}
        model = await self._ask("list", "GET", path, query)
        people = self._seats.open_paths()
        with self._api.expecting("a folder"):
            return [child.opened_by(people.get(child.path)) for child in entries_of(model)]

    async def walk(
        self, start: str, query: FileQuery, enter: Callable[[str], bool], limit: int
    ) -> Listing:
        return await self._folders.walk(start, query, enter, limit)

    async def everything(self, path: str) -> AsyncGenerator[Sequence[PathPair]]:
        async for some in self._remote.everything(path):
            yield [(entry.path, entry.path) for entry in some]

    async def read(self, path: str, kind: Kind, check: PathCheck | None = None) -> Any:
        def ask() -> Awaitable[Any]:
            query = {"type": "file", "content": "1", "format": "text"}
            return self._ask("read", "GET", path, query)

        try:
            return (
                await read_notebook(path, ask) if kind == "notebook" else (await ask())["content"]
            )
        except FileFailed as error:
            if error.detail.get("status") != 400:
                raise
            if kind == "notebook":
                raise CorruptDocument.notebook(path) from error
            entry = await self.look(path)
            raise NotText.binary(path, entry.size, entry.mimetype) from error

    # -- changing ----------------------------------------------------------------------------

    async def create(self, path: str, kind: FileType, content: Any) -> FileEntry:
        model = await self._ask("write", "PUT", path, {}, new_model(kind, content))
        with self._api.expecting("a file that it wrote"):
            return entry_of(model)

    async def delete(self, path: str) -> bool | None:
        seats = self._seats.below(path)
        await self._settle(seats)
        await self._ask("delete", "DELETE", path, {})
        for seat in seats:
            seat.end_with_file()
        return None

    async def _settle(self, seats: Sequence[RoomSocket]) -> None:
        """Wait for saves under way: they would recreate the old file."""
        for seat in seats:
            with contextlib.suppress(CollaborationError):
                await seat.save(always=True)

    def forget(self, path: str) -> None:
        self._seats.end_below(path)

    async def vacate(self, path: str) -> None:
        self.forget(path)

    async def rename(self, source: Source, destination: str, same_kind: bool = True) -> None:
        path = source.path
        if not same_kind:
            # A server keeps a room for a while, and two rooms of one file id are not notified of
            # each other's saves. A copy has its own id.
            await self._copy_file(path, destination)
            await self.delete(path)
            return
        # The ids of a folder's contents follow only if the folder has one.
        with contextlib.suppress(Refused, NoCollaboration):
            await open_session(self._api, path, "file")
        seats = self._seats.below(path)
        for seat in seats:
            await seat.flush()
        await self._settle(seats)
        try:
            await self._ask("rename", "PATCH", path, {}, {"path": destination}, destination)
        except FileFailed:
            # Jupyter moves the checkpoints last; the file may have moved without them.
            if await self._is_there(path) or not await self._is_there(destination):
                raise
        for seat in seats:
            try:
                await seat.look()
            except DocumentNotFound:  # its id did not follow: the next user opens it again
                seat.end_with_file()
        with contextlib.suppress(Refused, NotJupyter):  # the file is renamed anyway
            await self._take_kernels_along(path, destination)

    async def _take_kernels_along(self, path: str, new_path: str) -> None:
        """Make sessions follow their file: JupyterLab only does so where the file is open."""
        sessions = await self._api.get("api", "sessions")
        with self._api.expecting("its sessions"):
            found = [(str(session["id"]), str(session["path"])) for session in sessions]
        for session_id, old in found:
            if f"{old}/".startswith(f"{path}/"):
                new = f"{new_path}{old[len(path) :]}"
                wanted = {"path": new, "name": new.rpartition("/")[2]}
                await self._api.request("PATCH", "api", "sessions", session_id, body=wanted)

    async def _is_there(self, path: str) -> bool:
        try:
            await self.look(path)
        except DocumentNotFound:
            return False
        return True

    async def copy(self, source: Source, destination: str) -> Sequence[str]:
        path = source.path
        for seat in self._seats.below(path):
            await seat.save(always=True)
        if source.type == "directory":
            # A server that copies a file does not check with its authorizer whether we may read it.
            await self._remote.copy(
                path, destination, self._make_folder, self._copy_file, self.look
            )
            return (_FOLDER_COPIED,)
        await self._copy_file(path, destination)
        return ()

    async def _make_folder(self, path: str) -> None:
        await self.create(path, "directory", None)

    async def _copy_file(self, path: str, new_path: str) -> None:
        """Let the server copy, so that no content is transferred; it chooses the name first."""
        folder = new_path.rpartition("/")[0]
        model = await self._ask("copy", "POST", folder, {}, {"copy_from": path}, about=path)
        with self._api.expecting("a copy that it made"):
            made = entry_of(model).path
        if made == new_path:
            return
        try:
            wanted = {"path": new_path}
            await self._ask("copy", "PATCH", made, {}, wanted, new_path, about=path)
        except CollaborationError:
            with contextlib.suppress(CollaborationError):
                await self._ask("delete", "DELETE", made, {})
            raise

    async def _ask(
        self,
        do: str,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        new_path: str = "",
        about: str = "",
    ) -> Any:
        segments = path.split("/") if path else []
        try:
            if method == "GET":
                return await self._api.contents(path, **query)
            return await self._api.request(
                method, "api", "contents", *segments, query=query, body=body
            )
        except Refused as refused:
            if refused.status == 404:
                await self._api.check()  # otherwise there is no Jupyter at that URL at all
                raise DocumentNotFound.at(about or path) from refused
            if refused.status == 403 and method != "GET":
                raise ReadOnly.at(about or path) from refused
            if refused.status == 409:
                raise AlreadyExists.at(new_path or path, "file") from refused
            failed = FileFailed.to(do, about or path, str(refused))
            failed.detail["status"] = refused.status
            raise failed from refused
