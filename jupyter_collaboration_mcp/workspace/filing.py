"""What agents do with files and folders, within what configuration lets them see."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from ..backends.protocols.files import (
    FileEntry,
    FileQuery,
    Files,
    FileType,
    Listing,
    Permit,
    Source,
)
from ..backends.protocols.room_ids import Kind
from ..documents import file_types
from ..documents.foreign_text import listed
from ..errors import (
    AlreadyExists,
    CollaborationError,
    CorruptDocument,
    FileFailed,
    FolderNotEmpty,
    InUse,
    InvalidArgument,
    NotText,
    PathRefused,
    PermissionRefused,
    ReadOnly,
    RoomUnavailable,
    TooLarge,
)
from .agent import Agent
from .call_limits import Limits
from .file_rollback import create_parents, find_entry, remove_on_failure, require_empty
from .open_document import OpenDocument
from .permissions import Authorize, Level, PathRules
from .text_editing import replace_text

#: How often something is looked at that is another file by then.
_LOOKS = 10

#: Seconds for which thousands of paths are asked about before others get their turn.
_TURN = 0.001


class OpenDocuments(Protocol):
    """What filing needs to know of documents that are open, and of paths that agents may see."""

    @property
    def rules(self) -> PathRules: ...

    @property
    def limits(self) -> Limits: ...

    def visible(self, path: str) -> bool: ...

    def path_and_target(self, path: str) -> Sequence[str]: ...

    def agents_at(self, path: str) -> set[str]: ...

    async def open(
        self, agent: Agent, path: str, kind: Kind | None = "notebook", permit: Permit | None = None
    ) -> OpenDocument: ...

    async def forget(self, path: str) -> None: ...


class Filing:
    """The files of one server, as agents may see them."""

    def __init__(self, workspace: OpenDocuments, files: Files) -> None:
        self._workspace = workspace
        self._files = files
        # Whether something is there is asked before it is written: no other call comes between.
        self._changing = asyncio.Lock()

    # -- looking -----------------------------------------------------------------------------

    async def look(self, path: str, permit: Permit | None = None) -> FileEntry:
        """What is at a path.

        Raises:
            PathError: Nothing, or nothing that may be seen.
        """
        for _ in range(_LOOKS):
            real = self._files.resolved(path)
            await self._require(path, real, permit)
            entry = await self._files.look(path)
            if self._files.resolved(path) == real:
                return entry
        raise FileFailed.to("look at", path, "it keeps changing which file it leads to")

    async def read(self, agent: Agent, path: str, kind: Kind, permit: Permit | None) -> Any:
        """What a file says, with what is unsaved in its room.

        Raises:
            PathError: It is no such document.
            TooLarge: It is too large to be opened.
        """
        with contextlib.suppress(RoomUnavailable):  # as it is on disk, then
            here = await self._workspace.open(agent, path, kind, permit)
            await here.peer.link.flush()
        return await self._files.read(path, kind, lambda at: self._require(path, at, permit))

    async def _require(self, path: str, real: str, permit: Permit | None) -> None:
        """Refuse a path that leads to what may not be touched."""
        self._workspace.rules.check(path, real)
        if permit is not None:
            await permit(real)

    async def exists(self, path: str) -> bool:
        return await find_entry(self._files, path) is not None

    async def notebooks(self, prefix: str, limit: int) -> Listing:
        """Notebooks whose path begins with something."""
        start = await self._folder_of(prefix)
        return await self._files.walk(
            start,
            FileQuery(
                lambda path, kind: (
                    kind == "notebook" and path.startswith(prefix) and self._seen(path)
                ),
                (".ipynb",),
            ),
            lambda path: path.startswith(prefix) or prefix.startswith(f"{path}/"),
            limit,
        )

    async def children(self, path: str, limit: int) -> Listing:
        """What is in a folder.

        Raises:
            DocumentNotFound: There is no such folder.
            InvalidArgument: It is a file.
        """
        await self._require_folder(path)
        return await self._files.children(
            path,
            lambda at, kind: self._seen(at) or (kind == "directory" and self._entered(at)),
            limit,
        )

    async def search(
        self, path: str, path_filter: str, file_type: str | None, limit: int
    ) -> Listing:
        """Files of a type or with a path, in a folder and all folders below it."""
        await self._require_folder(path)
        fits_type, fits_path = file_types.of_type(file_type), file_types.at_path(path_filter)
        wanted = FileQuery(
            lambda at, kind: fits_path(at, kind) and fits_type(at, kind) and self._seen(at),
            file_types.endings(file_type),
            file_types.part(path_filter),
            folders=(file_type or "").lower() in ("directory", "folder"),
        )
        return await self._files.walk(path, wanted, _everywhere, limit)

    # -- changing ----------------------------------------------------------------------------

    async def create(
        self,
        agent: Agent,
        path: str,
        kind: FileType,
        content: Any,
        overwrite: bool,
        permit: Permit | None,
    ) -> tuple[FileEntry, list[str], bool]:
        """Write a new file, or make a folder.

        Returns it, folders that were made for it, and whether it is saved.

        Raises:
            AlreadyExists: Something is there, and it is not to be overwritten.
        """
        _require_name(path)
        async with self._changing:
            return await self._create(agent, path, kind, content, overwrite, permit)

    async def _create(
        self,
        agent: Agent,
        path: str,
        kind: FileType,
        content: Any,
        overwrite: bool,
        permit: Permit | None,
    ) -> tuple[FileEntry, list[str], bool]:
        place = await self._settle(path, permit, follow=True)
        there = await find_entry(self._files, place)
        if there is None:
            await self._workspace.forget(place)
            async with (
                create_parents(self._files, path, place) as made,
                remove_on_failure(self._files, place),
            ):
                entry = await self._files.create(place, kind, content)
                return replace(entry, path=path), made, True
        if not overwrite or there.type != kind or kind == "directory":
            raise AlreadyExists.at(path, there.type)
        if not there.writable:
            raise ReadOnly.at(path)
        entry, saved = await self._overwrite(agent, place, kind, content, permit)
        return replace(entry, path=path), [], saved

    async def _overwrite(
        self, agent: Agent, path: str, kind: Kind, content: Any, permit: Permit | None
    ) -> tuple[FileEntry, bool]:
        """A text is changed in its room: its people see it at once, and the agent can undo it."""
        try:
            here = await self._workspace.open(agent, path, kind, permit)
        except (NotText, TooLarge, CorruptDocument):
            return await self._files.create(path, kind, content), True
        if kind == "file":
            replaced = replace_text(here, content, "create_document", self._workspace.limits)
            await here.perform(replaced)
            await here.peer.acknowledged()
            await here.peer.link.flush()
            await here.peer.catch_up()
            return await self._files.look(path), here.peer.link.saved
        # The room then loads what is on disk. Nothing from before may be reapplied to it.
        await here.peer.link.flush()
        await here.peer.refresh()
        entry = await self._files.create(path, kind, content)
        await here.peer.refresh()
        return entry, True

    async def delete(
        self, path: str, recursive: bool, authorize: Authorize | None
    ) -> tuple[FileEntry, bool | None]:
        """Delete something; returns what it was, and whether it is in the trash.

        Args:
            authorize: Asked about all that is in a folder, as it was about the folder.

        Raises:
            FolderNotEmpty: A folder has something in it, and `recursive` is not set.
            PermissionRefused: Something in a folder may not be touched.
        """
        _require_name(path)
        async with self._changing:
            place = await self._settle(path, authorize and partial(authorize, Level.write))
            entry = replace(await self._files.look(place), path=path)
            if entry.type == "directory" and not recursive:
                await require_empty(self._files, place)
            await self._require_all_allowed(
                entry, self._files.resolved(place), [Level.write], authorize
            )
            return entry, await self._delete(place)

    async def _delete(self, path: str) -> bool | None:
        try:
            return await self._files.delete(path)
        except FileFailed as error:
            if "not empty" not in error.happened:
                raise
            raise FolderNotEmpty(
                f"The folder {path!r} is not empty, and this server has no trash. Nothing was "
                "deleted.",
                "Delete what is in it first, or ask the person to set "
                "FileContentsManager.always_delete_dir.",
                path=path,
            ) from error

    async def rename(
        self, agent: Agent, path: str, new_path: str, authorize: Authorize | None
    ) -> list[str]:
        """Rename or move something; returns folders that were made for it.

        Args:
            authorize: Asked about all that is in a folder, where it is and where it would be.

        Raises:
            InUse: It would become another kind of document under the hands of people.
            PermissionRefused: Something in a folder may not be touched, or not be there.
        """
        async with self._changing:
            source, target = await self._prepare(path, new_path, authorize)
            other_kind = source.type != "directory" and _is_notebook(path) != _is_notebook(new_path)
            if other_kind:
                await self._require_nobody_in(agent, path, new_path)
            await self._files.vacate(target)
            async with (
                create_parents(self._files, new_path, target) as made,
                remove_on_failure(self._files, target, source.place),
            ):
                await self._files.rename(source, target, same_kind=not other_kind)
            if other_kind:
                await self._workspace.forget(target)
            return made

    async def _require_nobody_in(self, agent: Agent, path: str, new_path: str) -> None:
        with contextlib.suppress(NotText, TooLarge, CorruptDocument):  # they have no room
            here = await self._workspace.open(agent, path, None)
            await here.peer.link.flush()
            await here.peer.catch_up()
            if not here.peer.link.saved:
                raise FileFailed.to("rename", path, "it has edits that could not be saved")
        agents = self._workspace.agents_at(path)
        people = [name for name in (await self._files.look(path)).people if name not in agents]
        if people:
            raise InUse(
                f"{path!r} is open by {listed(people)}, and as {new_path!r} it would be another "
                "kind of document: the open one would overwrite it. Nothing was changed.",
                "Ask them to close it, or choose a name with the same ending.",
                path=path,
            )

    async def copy(
        self, agent: Agent, path: str, new_path: str, authorize: Authorize | None
    ) -> tuple[list[str], Sequence[str]]:
        """Copy something; returns folders that were made for it, and what has to be said.

        Args:
            authorize: As for `rename`.
        """
        async with self._changing:
            source, target = await self._prepare(path, new_path, authorize)
            async with (
                create_parents(self._files, new_path, target) as made,
                remove_on_failure(self._files, target),
            ):
                if source.type != "directory":
                    await self._be_there(agent, path)
                return made, await self._files.copy(source, target)

    async def _be_there(self, agent: Agent, path: str) -> None:
        """Join the room: people may have unsaved edits, and only a member can save them."""
        with contextlib.suppress(CollaborationError):  # what is no document is copied as it is
            await self._workspace.open(agent, path, None)

    async def _prepare(
        self, path: str, new_path: str, authorize: Authorize | None
    ) -> tuple[Source, str]:
        """What is to be copied or moved, and the place for it, if it may be; a link that leads
        elsewhere later does not count."""
        _require_name(path)
        _require_name(new_path)
        if path == new_path or new_path.startswith(f"{path}/"):
            raise InvalidArgument(
                f"{new_path!r} is the same place, or inside of it.", "Choose another path."
            )
        to_write = authorize and partial(authorize, Level.write)
        place = await self._settle(path, to_write)
        target = await self._settle(new_path, to_write)
        entry = replace(await self._files.look(place), path=path)
        if (there := await find_entry(self._files, target)) is not None:
            raise AlreadyExists.at(new_path, there.type)
        real = self._files.resolved(place)
        # What was refused in the old place could be read in the new one.
        levels = [Level.read, Level.write]
        for level in levels:
            await self._require(path, real, authorize and partial(authorize, level))
        names = await self._require_all_allowed(entry, real, levels, authorize, [new_path, target])
        await self._workspace.forget(target)
        return Source(path, entry.type, place, real, names), target

    # -- parts -------------------------------------------------------------------------------

    async def _settle(self, path: str, permit: Permit | None, follow: bool = False) -> str:
        """Where something is to be changed: if it may be there, and whatever links lead to later.

        Args:
            follow: Where a link leads to, not the link itself.
        """
        place = self._files.place(path, follow)
        await self._require(path, place, permit)
        return place

    async def _require_folder(self, path: str) -> None:
        if path and (entry := await self._files.look(path)).type != "directory":
            raise InvalidArgument(
                f"{path!r} is a {entry.type}, not a folder.",
                "Read it with get_document or get_notebook, or list the folder that it is in.",
            )

    async def _folder_of(self, prefix: str) -> str:
        """Where to begin to look for paths with a prefix."""
        entry = await find_entry(self._files, prefix)
        is_folder = entry is not None and entry.type == "directory"
        return prefix if is_folder else prefix.rpartition("/")[0]

    def _seen(self, path: str) -> bool:
        return self._workspace.visible(path)

    def _entered(self, path: str) -> bool:
        """Whether a folder may be looked into; one that is not allowed may have in it what is."""
        return not any(map(self._workspace.rules.denies, self._workspace.path_and_target(path)))

    async def _require_all_allowed(
        self,
        entry: FileEntry,
        real: str,
        levels: Sequence[Level],
        authorize: Authorize | None,
        targets: Sequence[str] = (),
    ) -> frozenset[str] | None:
        """A folder with something in it that may not be touched stays as it is.

        Args:
            real: Where the folder is.
            levels: What is done to what is in it.
            targets: Names of where the folder would be; nothing may be made there that may not.

        Returns what is in it, by paths within it; None if nobody had to decide about that.
        """
        rules = self._workspace.rules
        if entry.type != "directory":
            return frozenset()
        if not rules and authorize is None:
            return None
        decided: list[str] = []
        turn_ends = time.monotonic() + _TURN
        async with aclosing(self._files.everything(real)) as everything:
            async for some in everything:
                for path, leads_to in some:
                    within = path[len(real) :]
                    names = dict.fromkeys([entry.path + within, path, leads_to])
                    new_names = [target + within for target in dict.fromkeys(targets)]
                    if not all(map(rules.visible, (*names, *new_names))):
                        raise _kept(entry, "this server's configuration keeps from agents")
                    if authorize is not None:
                        await self._authorize(entry, authorize, levels, names, new_names)
                    decided.append(within[1:])
                    if time.monotonic() > turn_ends:
                        await asyncio.sleep(0)
                        turn_ends = time.monotonic() + _TURN
        return frozenset(decided)

    async def _authorize(
        self,
        entry: FileEntry,
        authorize: Authorize,
        levels: Sequence[Level],
        names: Iterable[str],
        new_names: Iterable[str],
    ) -> None:
        try:
            for name in names:
                for level in levels:
                    await authorize(level, name)
            for name in new_names:
                await authorize(Level.write, name)
        except PermissionRefused as error:
            raise _kept(entry, "Jupyter's authorizer keeps from you") from error


def _kept(folder: FileEntry, by: str) -> PermissionRefused:
    return PermissionRefused(
        f"The folder {folder.path!r} has, or would have, files that {by}. Nothing was changed.",
        "Ask the person to do it, or work on single files in it.",
        path=folder.path,
    )


def _is_notebook(path: str) -> bool:
    return path.endswith(".ipynb")


def _everywhere(path: str) -> bool:
    return True


def _require_name(path: str) -> None:
    if not path:
        raise PathRefused(
            "This is the server's root itself.", "Name a file or a folder in it.", path=path
        )
