"""The files of the Jupyter server that this extension runs in, through its contents manager.

Jupyter's own manager of local files is bypassed where it would read whole files to copy them, or
look at each of thousands to list them; any other one is asked for everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from jupyter_server.services.contents.filemanager import (
    AsyncFileContentsManager,
    FileContentsManager,
)
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from ..errors import (
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
from .failed_saves import as_before_if_it_fails, reason
from .files import FileEntry, FileType, Listing, Wanted, nameable
from .folders import Folders

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom

    from .in_process import InProcessBackend


class InProcessFiles:
    """The files of this server."""

    def __init__(self, backend: InProcessBackend) -> None:
        self._backend = backend

    # -- looking -----------------------------------------------------------------------------

    async def look(self, path: str) -> FileEntry:
        self.check(path)
        with self._told("look at", path):
            model = await ensure_async(self._contents.get(path, content=False))
        return _entry(model).opened(self._backend.open_paths().get(path))

    async def children(self, path: str) -> Sequence[FileEntry]:
        self.check(path)
        if (folders := self._folders()) is None:
            entries: Sequence[FileEntry] = await self._children(path)
        else:
            with self._told("list", path):
                entries = await asyncio.to_thread(folders.children, path)
        return self._with_people(entries)

    async def walk(
        self, start: str, wanted: Wanted, enter: Callable[[str], bool], limit: int
    ) -> Listing:
        self.check(start)
        if (folders := self._folders()) is None:
            listing = await self._walk(start, wanted, enter, limit)
        else:
            listing = await asyncio.to_thread(folders.walk, start, wanted, enter, limit)
        return Listing(self._with_people(listing.entries), listing.complete)

    async def has_below(self, path: str, fits: Callable[[str], bool]) -> bool:
        self.check(path)
        if (folders := self._folders()) is not None:
            try:
                return await asyncio.to_thread(folders.has_below, path, fits)
            except OSError:
                return True
        waiting = deque([path])
        while waiting:
            for entry in await self._children(waiting.popleft()):
                if fits(entry.path):
                    return True
                if entry.type == "directory":
                    waiting.append(entry.path)
        return False

    async def read(self, path: str, kind: Literal["notebook", "file"]) -> Any:
        self.check(path)
        file_format = "json" if kind == "notebook" else "text"
        with self._told("read", path):
            try:
                model = await ensure_async(self._contents.get(path, type=kind, format=file_format))
            except HTTPError as error:
                if error.status_code == 400:
                    raise await self.unreadable(path, kind, error) from error
                raise
        return model["content"]

    async def unreadable(self, path: str, kind: str, error: HTTPError) -> CollaborationError:
        """Why a file cannot be loaded as what it should be."""
        if error.status_code == 404:
            return DocumentNotFound.at(path)
        if kind == "notebook":
            return CorruptDocument.notebook(path, str(error.log_message or error.reason))
        entry = await self.look(path)
        return NotText.binary(path, entry.size, entry.mimetype)

    def check(self, path: str) -> None:
        """Refuse a symbolic link that leads out of the root; Jupyter itself follows it.

        Raises:
            PathRefused: It does.
        """
        root = getattr(self._contents, "root_dir", None)
        if not root or not hasattr(self._contents, "_get_os_path"):
            return
        real, root = os.path.realpath(Path(root, path)), os.path.realpath(root)
        if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
            raise PathRefused(
                f"{path!r} is, or is in, a symbolic link that leads out of the server's root.",
                "Work on a file within the root.",
                path=path,
            )

    async def _check_new(self, path: str) -> None:
        """Refuse a place in which this server shows nothing; what may be there is not ours."""
        self.check(path)
        manager = self._contents
        with self._told("write", path):
            hidden = not manager.allow_hidden and await ensure_async(manager.is_hidden(path))
        if hidden:
            raise PathRefused(
                f"{path!r} is hidden, and this server serves no hidden files.",
                "Choose a name that does not begin with a dot.",
                path=path,
            )

    def _check_outside(self, path: str, new_path: str) -> None:
        """Refuse to move a folder into itself through a link: Jupyter would copy and delete it."""
        if not self._on_disk:
            return
        place, target = (
            Path(os.path.realpath(file.parent), file.name)
            for file in (Path(self._contents._get_os_path(p)) for p in (path, new_path))
        )
        if target.is_relative_to(place):
            raise InvalidArgument(
                f"{new_path!r} is the same place, or inside of it.", "Choose another path."
            )

    def real(self, path: str) -> str | None:
        """Where a file really is, whatever links lead to it; None if that cannot be known."""
        return os.path.realpath(self._contents._get_os_path(path)) if self._on_disk else None

    def writable(self, path: str) -> bool:
        """Whether a file may be written; cheap where it is on this machine."""
        manager = self._contents
        return bool(manager.is_writable(path)) if self._on_disk else True

    # -- changing ----------------------------------------------------------------------------

    async def create(self, path: str, kind: FileType, content: Any) -> FileEntry:
        await self._check_new(path)
        model: dict[str, Any] = {"type": kind, "format": _FORMATS[kind], "content": content}
        if kind == "directory":
            model = {"type": "directory"}
        with self._told("write", path), as_before_if_it_fails(self._contents, path):
            saved = await ensure_async(self._contents.save(model, path))
        return _entry(saved)

    async def delete(self, path: str) -> bool | None:
        self.check(path)
        async with self._held(path) as rooms:
            with self._told("delete", path):
                await ensure_async(self._contents.delete(path))
        for room in rooms:
            await self._backend.end(room, f"{path} was deleted.")
        return bool(getattr(self._contents, "delete_to_trash", False))

    def forget(self, path: str) -> None:
        """A room whose file comes back takes it over."""

    async def vacate(self, path: str) -> None:
        await self._backend.vacate(path)

    async def rename(self, path: str, new_path: str, same_kind: bool = True) -> None:
        self.check(path)
        await self._check_new(new_path)
        self._check_outside(path, new_path)
        open_files = self._backend.open_files()
        async with self._held(path) as rooms:
            with self._told("rename", path, new_path):
                try:
                    await ensure_async(self._contents.rename(path, new_path))
                except (HTTPError, OSError) as error:
                    if not self._has_moved(path, new_path):
                        if getattr(error, "status_code", 500) == 500 and self._is_file(path):
                            self._remove_rest(new_path)  # of a copy to another disk
                        raise
                    # Its checkpoints could not follow: the file has its new path all the same.
                    self._backend.log.warning("%s was renamed, but: %s", path, reason(error))
            # Now, not when fileid is told: a save that waits for us must find the new path.
            self._backend.moved(path, new_path, open_files)
        if not same_kind:
            await self._backend.vacate(new_path)
            return
        for room in rooms:
            await self._backend.refresh(room)  # people see the new path now, not in a second

    async def copy(self, path: str, new_path: str) -> Sequence[str]:
        self.check(path)
        await self._check_new(new_path)
        self._check_outside(path, new_path)
        for room in self._backend.rooms_below(path):
            await self._backend.save(room)
        if self._on_disk:
            await self._copy_on_disk(path, new_path)
        elif (await self.look(path)).type == "directory":
            await self._copy_folder(path, new_path)
        else:
            await self._copy_file(path, new_path)
        return ()

    async def _copy_on_disk(self, path: str, new_path: str) -> None:
        manager = self._contents
        source, target = manager._get_os_path(path), manager._get_os_path(new_path)
        with self._told("copy", path, new_path):
            try:
                await asyncio.to_thread(_copy, source, target)
            except FileExistsError:
                raise
            except Exception:
                self._remove_rest(new_path)
                raise
        manager.emit(data={"action": "copy", "path": new_path, "source_path": path})

    async def _copy_folder(self, path: str, new_path: str) -> None:
        await self.create(new_path, "directory", None)
        for entry in await self._children(path):
            target = f"{new_path}/{entry.name}"
            if entry.type == "directory":
                await self._copy_folder(entry.path, target)
            else:
                await self._copy_file(entry.path, target)

    async def _copy_file(self, path: str, new_path: str) -> None:
        with self._told("copy", path, new_path):
            await ensure_async(self._contents.copy(path, new_path))

    @asynccontextmanager
    async def _held(self, path: str) -> AsyncIterator[Sequence[DocumentRoom]]:
        """Keep all rooms at or below a path from saving: they would bring the old file back."""
        rooms = self._backend.rooms_below(path)
        async with AsyncExitStack() as stack:
            for loader in {room._file.file_id: room._file for room in rooms}.values():
                await stack.enter_async_context(loader._lock)
            yield rooms

    def _has_moved(self, path: str, new_path: str) -> bool:
        if not self._on_disk:
            return False
        old, new = self._contents._get_os_path(path), self._contents._get_os_path(new_path)
        return os.path.lexists(new) and not os.path.lexists(old)

    def _is_file(self, path: str) -> bool:
        return self._on_disk and Path(self._contents._get_os_path(path)).is_file()

    def _remove_rest(self, path: str) -> None:
        """Take away what a failed write has left of a file that was not there before."""
        if not self._on_disk:
            return
        rest = Path(self._contents._get_os_path(path))
        with contextlib.suppress(OSError):
            if rest.is_dir():
                shutil.rmtree(rest, ignore_errors=True)
            else:
                rest.unlink()

    # -- parts -------------------------------------------------------------------------------

    @property
    def _contents(self) -> Any:
        return self._backend.contents

    @property
    def _on_disk(self) -> bool:
        return isinstance(self._contents, FileContentsManager)

    def _folders(self) -> Folders | None:
        """How to walk through the disk itself; None if a contents manager has its own ideas."""
        manager = self._contents
        if not self._on_disk:
            return None
        for name in ("get", "_dir_model", "should_list"):
            if getattr(type(manager), name) not in (
                getattr(FileContentsManager, name),
                getattr(AsyncFileContentsManager, name),
            ):
                return None
        return Folders.below(manager.root_dir, manager.allow_hidden, manager.hide_globs)

    async def _walk(
        self, start: str, wanted: Wanted, enter: Callable[[str], bool], limit: int
    ) -> Listing:
        found: list[FileEntry] = []
        folders = deque([start])
        while folders:
            with contextlib.suppress(CollaborationError):  # gone or unreadable since it was listed
                for entry in await self._children(folders.popleft()):
                    hidden = entry.name.startswith(".")
                    if entry.type == "directory" and not hidden and enter(entry.path):
                        folders.append(entry.path)
                    if wanted(entry.path, entry.type):
                        if len(found) == limit:
                            return Listing(tuple(found), complete=False)
                        found.append(entry)
        return Listing(tuple(found), complete=True)

    async def _children(self, path: str) -> list[FileEntry]:
        with self._told("list", path):
            model = await ensure_async(self._contents.get(path, type="directory"))
        entries = [_entry(child) for child in model["content"] if nameable(child["name"])]
        return sorted(entries, key=lambda entry: entry.name)

    @contextlib.contextmanager
    def _told(self, do: str, path: str, new_path: str = "") -> Iterator[None]:
        """What the server or its system refuses, as agents are told it."""
        try:
            yield
        except (HTTPError, OSError) as error:
            status = error.status_code if isinstance(error, HTTPError) else type(error)
            if status in (404, FileNotFoundError, NotADirectoryError):
                raise DocumentNotFound.at(path) from error
            if status == 403:
                raise ReadOnly.at(path) from error
            if status in (409, FileExistsError):
                raise AlreadyExists.at(new_path or path, "file") from error
            root = str(getattr(self._contents, "root_dir", ""))
            why = reason(error).replace(f"{root}{os.sep}", "")
            raise FileFailed.to(do, path, why) from error

    def _with_people(self, entries: Sequence[FileEntry]) -> tuple[FileEntry, ...]:
        people = self._backend.open_paths()
        return tuple(entry.opened(people.get(entry.path)) for entry in entries)


_FORMATS = {"notebook": "json", "file": "text", "directory": None}


def _copy(source: str, target: str) -> None:
    if os.path.lexists(target):
        raise FileExistsError(target)
    if Path(source).is_dir():
        ignore = shutil.ignore_patterns(".ipynb_checkpoints")
        shutil.copytree(source, target, symlinks=True, ignore=ignore)
    else:
        shutil.copy2(source, target)


def _entry(model: Mapping[str, Any]) -> FileEntry:
    return FileEntry(
        path=str(model["path"]),
        type=cast("FileType", model["type"]),
        created=_iso(model.get("created")),
        last_modified=_iso(model.get("last_modified")),
        size=model.get("size"),
        writable=bool(model.get("writable", True)),
        mimetype=model.get("mimetype"),
    )


def _iso(time: Any) -> str | None:
    return None if time is None else str(time.isoformat())
