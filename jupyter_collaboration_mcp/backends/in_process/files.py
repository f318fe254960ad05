"""The files of the Jupyter server that this extension runs in, through its contents manager.

Jupyter's own manager of local files is bypassed where it would read whole files to copy them, or
examine each of thousands to list them. Other managers are used for everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from ...documents.foreign_text import words
from ...errors import (
    AlreadyExists,
    CollaborationError,
    CorruptDocument,
    DocumentNotFound,
    FileFailed,
    InvalidArgument,
    NotText,
    PathRefused,
    ReadOnly,
)
from ..contents.folders import ContentsFolders
from ..contents.models import entries_of, entry_of, new_model
from ..disk.failed_saves import reason, restored_on_failure
from ..disk.folders import Folders
from ..disk.local_disk import LocalDisk
from ..disk.open_files import opened_files
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
from ..upstream.renames import saves_held
from .room_paths import RoomPaths
from .rooms import Rooms
from .server_parts import ServerParts

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom


class InProcessFiles:
    """The files of this server."""

    def __init__(self, server: ServerParts, paths: RoomPaths, rooms: Rooms) -> None:
        self._server = server
        self._paths = paths
        self._rooms = rooms

    # -- looking -----------------------------------------------------------------------------

    async def look(self, path: str) -> FileEntry:
        self.check(path)
        with self._translate_errors("look at", path):
            model = await ensure_async(
                self._contents.get(self._server.served_target(path), content=False)
            )
        people = self._paths.people_by_path().get(self.link_target(path))
        return replace(entry_of(model), path=path).opened_by(people)

    def link_target(self, path: str) -> str:
        return self._server.link_target(path)

    def is_gone(self, path: str) -> bool:
        return self._disk is not None and not self._disk.real_path(path).exists()

    def canonical_path(self, path: str, follow: bool = False) -> str:
        at = path if self._disk is None else self._disk.canonical_path(path, follow)
        if at is None:
            raise _outside_root(path)
        return at

    def _require_canonical(self, path: str, follow: bool = False) -> None:
        """Refuse a path that has a link to a folder in it by now."""
        if self.canonical_path(path, follow) != path:
            raise FileFailed.to("change", path, "a folder in its path became a link meanwhile")

    async def children(self, path: str, shown: EntryFilter, limit: int) -> Listing:
        self.check(path)
        if (folders := self._folders()) is None:
            listing = await self._managed_folders.children(path, shown, limit)
        else:
            with self._translate_errors("list", path):
                listing = await asyncio.to_thread(folders.children, path, shown, limit)
        return Listing(self._with_people(listing.entries), listing.complete)

    async def walk(
        self, start: str, query: FileQuery, enter: Callable[[str], bool], limit: int
    ) -> Listing:
        self.check(start)
        if (folders := self._folders()) is None:
            listing = await self._managed_folders.walk(start, query, enter, limit)
        else:
            listing = await asyncio.to_thread(folders.walk, start, query, enter, limit)
        return Listing(self._with_people(listing.entries), listing.complete)

    async def everything(self, path: str) -> AsyncGenerator[Sequence[PathPair]]:
        self.check(path)
        if (folders := self._folders()) is None:
            async for some in self._managed_folders.everything(path):
                yield [(entry.path, self.link_target(entry.path)) for entry in some]
            return
        found = folders.everything(path)
        while True:
            with self._translate_errors("look through", path):
                names: list[PathPair] | None = await asyncio.to_thread(lambda: next(found, None))
            if names is None:
                return
            yield names

    async def read(self, path: str, kind: Kind, check: PathCheck | None = None) -> Any:
        self.check(path)
        file_format = "json" if kind == "notebook" else "text"
        with self._translate_errors("read", path), opened_files() as opened:
            try:
                model = await ensure_async(self._contents.get(path, type=kind, format=file_format))
            except HTTPError as error:
                if error.status_code == 400:
                    raise await self.unreadable(path, kind, error) from error
                raise
        if check is not None:
            if not opened and self._disk is not None:  # not reported: use where it is now
                opened.append(str(self._disk.real_path(path)))
            for file in opened:
                await check(self.within(file, path))
        return model["content"]

    def within(self, file: str, path: str) -> str:
        """The Jupyter path of a file that was opened by some path.

        Raises:
            PathRefused: It is outside of the root.
        """
        at = None if self._disk is None else self._disk.path_of(file)
        if at is None:
            raise _outside_root(path)
        return at

    def whereabouts(self, path: str) -> str:
        """The path that a path leads to.

        Raises:
            DocumentNotFound: It leads nowhere.
            PathRefused: It leads out of the root.
        """
        if self._disk is None:
            return path
        real = self._disk.find(path)
        if real is None:
            raise DocumentNotFound.at(path)
        return self.within(real, path)

    async def unreadable(self, path: str, kind: str, error: HTTPError) -> CollaborationError:
        """Why a file cannot be loaded as a given kind."""
        if error.status_code == 404:
            return DocumentNotFound.at(path)
        if kind == "notebook":
            return CorruptDocument.notebook(path, self._why(path, error))
        entry = await self.look(path)
        return NotText.binary(path, entry.size, entry.mimetype)

    def check(self, path: str) -> None:
        """Refuse a symbolic link that leads out of the root; Jupyter itself follows it.

        Raises:
            PathRefused: It leads out of the root.
        """
        root = getattr(self._contents, "root_dir", None)
        if not root or not hasattr(self._contents, "_get_os_path"):
            return
        real, root = os.path.realpath(Path(root, path)), os.path.realpath(root)
        if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
            raise _outside_root(path)

    async def _check_new(self, path: str) -> None:
        """Refuse a path where this server shows nothing: there may be a file that is not ours."""
        self.check(path)
        manager = self._contents
        with self._translate_errors("write", path):
            hidden = not manager.allow_hidden and await ensure_async(manager.is_hidden(path))
        if hidden:
            raise PathRefused(
                f"{path!r} is hidden, and this server serves no hidden files.",
                "Choose a name that does not begin with a dot.",
                path=path,
            )

    def _check_outside(self, path: str, new_path: str) -> None:
        """Refuse to move a folder into itself through a link: Jupyter would copy and delete it."""
        if self._disk is not None and self._disk.is_within(new_path, path):
            raise InvalidArgument(
                f"{new_path!r} is the same place, or inside of it.", "Choose another path."
            )

    def writable(self, path: str) -> bool:
        """Whether a file is writable, as far as that is cheap to know."""
        return self._disk is None or self._disk.writable(path)

    # -- changing ----------------------------------------------------------------------------

    async def create(self, path: str, kind: FileType, content: Any) -> FileEntry:
        await self._check_new(path)
        async with self.hold_saves(path):
            with self._translate_errors("write", path), restored_on_failure(self._disk, path):
                self._require_canonical(path, follow=True)
                saved = await ensure_async(self._contents.save(new_model(kind, content), path))
        return entry_of(saved)

    async def delete(self, path: str) -> bool | None:
        self.check(path)
        if self.link_target(path) != path:
            # Only the link is deleted: what people wrote through it belongs to its target.
            await self._save_all(self._paths.rooms_below(path))
        async with self.hold_saves(path) as rooms:
            with self._translate_errors("delete", path):
                self._require_canonical(path)
                await ensure_async(self._contents.delete(path))
        for room in rooms:
            await self._rooms.end(room, f"{path} was deleted.")
        return bool(getattr(self._contents, "delete_to_trash", False))

    def forget(self, path: str) -> None:
        """Do nothing: a room whose file comes back reloads it."""

    async def vacate(self, path: str) -> None:
        await self._rooms.vacate(path)

    async def rename(self, source: Source, destination: str, same_kind: bool = True) -> None:
        self.check(source.canonical)
        await self._check_new(destination)
        self._check_outside(source.canonical, destination)
        opened_as = self._opened_as(source)
        rooms = self._paths.rooms_below(source.canonical)
        left = [room for room in rooms if not self._paths.opened_at(room, opened_as)]
        await self._save_all(left)  # the paths they were opened by lead nowhere afterwards
        async with self.hold_saves(source.canonical):
            with self._translate_errors("rename", source.path, destination):
                self._require_canonical(destination)
                if self.canonical_path(opened_as) != source.canonical:
                    raise FileFailed.to("rename", source.path, "it is another file by now")
                await self._move(source.canonical, destination, opened_as)
            # Now, not when fileid is notified: a save that waits for us must find the new path.
            await self._rooms.on_move(opened_as, destination)
        for room in left:
            await self._rooms.end(room, f"{source.path} was renamed.")
        if not same_kind:
            await self._rooms.vacate(destination)
            return
        for room in self._paths.rooms_below(destination):
            await self._rooms.refresh(room)  # so that people see the new path at once

    def _opened_as(self, source: Source) -> str:
        """The path by which a source is open: as given, or its canonical one."""
        rooms = self._paths.rooms_below(source.canonical)
        named = any(self._paths.opened_at(room, source.path) for room in rooms)
        return source.path if named else source.canonical

    async def _move(self, path: str, new_path: str, opened_as: str) -> None:
        """Move a file by its canonical path, even if it is open by the path of a link."""
        try:
            if self._disk is None or opened_as == path:
                await ensure_async(self._contents.rename(path, new_path))
            else:
                async with self._rooms.moving(opened_as, new_path):
                    await self._disk.rename(path, new_path, opened_as)
        except (HTTPError, OSError) as error:
            if not self._has_moved(path, new_path, error):
                raise
            # Its checkpoints could not be moved, but the file has its new path.
            self._server.log.warning("%s was renamed, but: %s", path, reason(error))

    async def copy(self, source: Source, destination: str) -> Sequence[str]:
        path = source.path
        self.check(source.canonical)
        await self._check_new(destination)
        self._check_outside(source.canonical, destination)
        await self._save_all(self._paths.rooms_below(source.link_target))
        async with AsyncExitStack() as stack:
            if source.type != "directory":  # a save empties a file before it writes
                await stack.enter_async_context(self.hold_saves(source.link_target))
            if self._disk is not None:
                with self._translate_errors("copy", path, destination):
                    self._require_canonical(destination)
                    await self._disk.copy(source, destination)
            elif source.type == "directory":
                await self._managed_folders.copy(
                    path, destination, self._make_folder, self._copy_file
                )
            else:
                await self._copy_file(path, destination)
        return ()

    async def _make_folder(self, path: str) -> None:
        await self.create(path, "directory", None)

    async def _copy_file(self, path: str, new_path: str) -> None:
        with self._translate_errors("copy", path, new_path):
            await ensure_async(self._contents.copy(path, new_path))

    async def _save_all(self, rooms: Sequence[DocumentRoom]) -> None:
        for room in rooms:
            await self._rooms.save(room)

    @asynccontextmanager
    async def hold_saves(self, path: str) -> AsyncIterator[Sequence[DocumentRoom]]:
        """Keep all rooms at or below a path from saving: they would recreate what was there."""
        rooms = self._paths.rooms_below(path)
        async with saves_held(rooms):
            yield rooms

    def _has_moved(self, path: str, new_path: str, error: HTTPError | OSError) -> bool:
        """Whether a rename that failed has moved the file nevertheless."""
        if self._disk is None:
            return False
        if self._disk.has_moved(path, new_path):
            return True
        if getattr(error, "status_code", 500) == 500 and self._disk.is_file(path):
            self._disk.remove_rest(new_path)  # left of a copy to another disk
        return False

    # -- parts -------------------------------------------------------------------------------

    @property
    def _contents(self) -> Any:
        return self._server.contents

    @property
    def _disk(self) -> LocalDisk | None:
        return self._server.disk

    @property
    def _managed_folders(self) -> ContentsFolders:
        return ContentsFolders(self._inside)

    def _folders(self) -> Folders | None:
        return None if self._disk is None else self._disk.folders()

    async def _inside(self, path: str) -> Sequence[FileEntry]:
        with self._translate_errors("list", path):
            model = await ensure_async(self._contents.get(path, type="directory"))
        return entries_of(model)

    @contextlib.contextmanager
    def _translate_errors(self, do: str, path: str, new_path: str = "") -> Iterator[None]:
        """Translate errors of the server and the system into errors for agents."""
        try:
            yield
        except CollaborationError:
            raise
        except Exception as error:  # a contents manager may raise its own errors
            status = error.status_code if isinstance(error, HTTPError) else type(error)
            if status in (404, FileNotFoundError, NotADirectoryError):
                raise DocumentNotFound.at(path) from error
            if status == 403:
                raise ReadOnly.at(path) from error
            if status in (409, FileExistsError):
                raise AlreadyExists.at(new_path or path, "file") from error
            why = self._within_root(reason(error) or type(error).__name__)
            raise FileFailed.to(do, path, words(why)) from error

    def _why(self, path: str, error: HTTPError) -> str:
        """Why a notebook cannot be loaded, in the server's words."""
        said = self._within_root(str(error.log_message or error.reason))
        return said.removeprefix(f"Unreadable Notebook: {path} ")

    def _within_root(self, said: str) -> str:
        """A message with paths relative to the server's root."""
        root = str(getattr(self._contents, "root_dir", ""))
        for folder in {root, os.path.realpath(root)} - {""}:
            said = said.replace(f"{folder.rstrip(os.sep)}{os.sep}", "")
        return said

    def _with_people(self, entries: Sequence[FileEntry]) -> tuple[FileEntry, ...]:
        people = self._paths.people_by_path()
        return tuple(entry.opened_by(people.get(entry.path)) for entry in entries)


def _outside_root(path: str) -> PathRefused:
    return PathRefused(
        f"{path!r} is, or is in, a symbolic link that leads out of the server's root.",
        "Work on a file within the root.",
        path=path,
    )
