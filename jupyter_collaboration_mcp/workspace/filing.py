"""What agents do with files and folders, within the limits that configuration sets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..backends.protocols.files import (
    FileEntry,
    Files,
    FileType,
    Source,
)
from ..backends.protocols.room_ids import Kind
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
from .call_limits import Limits
from .editing import check_overwrite
from .ephemeral import Ephemeral
from .etiquette import caret_line
from .file_listings import FileListings
from .file_rollback import create_parents, find_entry, remove_on_failure, require_empty
from .open_document import OpenDocument
from .permissions import Level, PathRules
from .permits import Permit
from .text_editing import replace_text

#: How often a path is looked at again because it led to another file by then.
_LOOKS = 10

#: Seconds of checking thousands of paths before other tasks get their turn.
_TURN = 0.001


class OpenDocuments(Protocol):
    """What `Filing` needs to know about open documents, and about the paths agents may see."""

    @property
    def rules(self) -> PathRules: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def ephemeral(self) -> Ephemeral: ...

    def path_and_target(self, path: str) -> Sequence[str]: ...

    def agents_at(self, path: str) -> set[str]: ...

    async def open(self, permit: Permit, kind: Kind | None = "notebook") -> OpenDocument: ...

    async def forget(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Creation:
    """What was created or overwritten."""

    entry: FileEntry
    folders: Sequence[str] = field(default_factory=list)
    """Folders that were created for it."""
    saved: bool = True
    carets: str = ""
    """Whose carets are in what was overwritten, as a line."""


class Filing:
    """The files of one server, as agents may see them."""

    def __init__(self, workspace: OpenDocuments, files: Files) -> None:
        self._workspace = workspace
        self._files = files
        self.listings = FileListings(files)
        """What is where."""
        # Checking that a path is free and writing to it must not be interrupted by another call.
        self._changing = asyncio.Lock()

    # -- looking -----------------------------------------------------------------------------

    async def look(self, permit: Permit) -> FileEntry:
        """What is at a path.

        Raises:
            PathError: There is nothing, or nothing that the caller may see.
        """
        path = permit.path
        for _ in range(_LOOKS):
            link_target = self._files.link_target(path)
            await self._require(path, link_target, permit)
            entry = await self._files.look(path)
            if self._files.link_target(path) == link_target:
                return entry
        raise FileFailed.to("look at", path, "it keeps changing which file it leads to")

    async def read(self, permit: Permit, kind: Kind) -> Any:
        """The content of a file, including what is unsaved in its room.

        Raises:
            PathError: There is no such document.
            TooLarge: It is too large to open.
        """
        with contextlib.suppress(RoomUnavailable):  # then read it from disk
            here = await self._workspace.open(permit, kind)
            await here.peer.link.flush()
        path = permit.path
        return await self._files.read(path, kind, lambda at: self._require(path, at, permit))

    async def _require(self, path: str, link_target: str, permit: Permit) -> None:
        """Refuse a path that leads to something the caller may not touch."""
        self._workspace.rules.check(path, link_target)
        await permit.check(link_target)

    async def exists(self, permit: Permit) -> bool:
        return await find_entry(self._files, permit.path) is not None

    async def is_taken(self, path: str) -> bool:
        """Whether a path that looks like a handle is nevertheless the name of a file."""
        return await find_entry(self._files, path) is not None

    # -- changing ----------------------------------------------------------------------------

    async def create(
        self, permit: Permit, kind: FileType, content: Any, overwrite: bool
    ) -> Creation:
        """Write a new file, or create a folder.

        Raises:
            AlreadyExists: Something is there, and `overwrite` is not set.
            CellError: What is there has protected cells, or busy ones.
        """
        _require_name(permit.path)
        async with self._changing:
            return await self._create(permit, kind, content, overwrite)

    async def _create(
        self, permit: Permit, kind: FileType, content: Any, overwrite: bool
    ) -> Creation:
        path = permit.path
        canonical = await self._permitted_path(permit, follow=True)
        there = await find_entry(self._files, canonical)
        if there is None:
            self._workspace.ephemeral.require_ordinary(canonical)
            await self._workspace.forget(canonical)
            async with (
                create_parents(self._files, path, canonical) as folders,
                remove_on_failure(self._files, canonical),
            ):
                entry = await self._files.create(canonical, kind, content)
                return Creation(replace(entry, path=path), folders)
        if not overwrite or there.type != kind or kind == "directory":
            raise AlreadyExists.at(path, there.type)
        if not there.writable:
            raise ReadOnly.at(path)
        self._workspace.ephemeral.mark_again(canonical, content)
        made = await self._overwrite(permit.at(canonical), kind, content)
        return replace(made, entry=replace(made.entry, path=path))

    async def _overwrite(self, permit: Permit, kind: Kind, content: Any) -> Creation:
        """Change a text in its room: people see it at once, and the agent can undo it."""
        path = permit.path
        try:
            here = await self._workspace.open(permit, kind)
        except (NotText, TooLarge, CorruptDocument):
            return Creation(await self._files.create(path, kind, content))
        if kind == "file":
            replaced = replace_text(here, content, self._workspace.limits)
            await here.perform(replaced)
            await here.peer.wait_acknowledged()
            await here.peer.link.flush()
            await here.peer.catch_up()
            people, here.seat.people = here.seat.people, {}
            carets = caret_line(here.peer.text, people)
            entry = await self._files.look(path)
            return Creation(entry, saved=here.peer.link.saved, carets=carets)
        # The room then loads what is on disk. No earlier edit may be reapplied to that.
        await here.peer.link.flush()
        await here.peer.refresh()
        carets = check_overwrite(here)
        entry = await self._files.create(path, kind, content)
        await here.peer.refresh()
        return Creation(entry, carets=carets)

    async def delete(self, permit: Permit, recursive: bool) -> tuple[FileEntry, bool | None]:
        """Delete a file or folder; returns what it was, and whether it is in the trash.

        Asks the authorizer about everything in a folder, as well as about the folder.

        Raises:
            FolderNotEmpty: A folder has something in it, and `recursive` is not set.
            PermissionRefused: The caller may not touch something in the folder.
        """
        _require_name(permit.path)
        async with self._changing:
            canonical = await self._permitted_path(permit)
            entry = replace(await self._files.look(canonical), path=permit.path)
            if entry.type == "directory" and not recursive:
                await require_empty(self._files, canonical)
            link_target = self._files.link_target(canonical)
            await self._require_all_allowed(entry, link_target, [Level.write], permit)
            trash = await self._delete(canonical)
            await self._workspace.ephemeral.deleted(canonical)
            return entry, trash

    async def _delete(self, path: str) -> bool | None:
        try:
            return await self._files.delete(path)
        except FileFailed as error:
            if "not empty" not in str(error.detail.get("reason")):  # the server's own wording
                raise
            raise FolderNotEmpty(
                f"The folder {path!r} is not empty, and this server has no trash. Nothing was "
                "deleted.",
                "Delete what is in it first, or ask the person to set "
                "FileContentsManager.always_delete_dir.",
                path=path,
            ) from error

    async def rename(self, old: Permit, new: Permit) -> list[str]:
        """Rename or move a file or folder; returns the folders that were created for it.

        Asks the authorizer about everything in a folder, at its old and its new path.

        Raises:
            InUse: It would become another kind of document while people have it open.
            PermissionRefused: The caller may not touch something at the old or the new path.
        """
        ephemeral = self._workspace.ephemeral
        async with self._changing, ephemeral.moving(old.path) as moved:
            source, destination = await self._prepare(old, new)
            other_kind = source.type != "directory" and _is_notebook(old) != _is_notebook(new)
            if other_kind:
                await self._require_nobody_in(old, new.path)
            await self._files.vacate(destination)
            async with (
                create_parents(self._files, new.path, destination) as made,
                remove_on_failure(self._files, destination, source.canonical),
            ):
                await self._files.rename(source, destination, same_kind=not other_kind)
            if other_kind:
                await self._workspace.forget(destination)
            if moved and source.type == "notebook" and not other_kind:
                await ephemeral.unmark(destination)
            return made

    async def _require_nobody_in(self, permit: Permit, new_path: str) -> None:
        path = permit.path
        with contextlib.suppress(NotText, TooLarge, CorruptDocument):  # these have no room
            here = await self._workspace.open(permit, None)
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

    async def copy(self, old: Permit, new: Permit) -> tuple[list[str], Sequence[str]]:
        """Copy a file or folder; returns the folders created for it, and notes for the answer.

        Asks the authorizer as `rename` does.
        """
        async with self._changing:
            source, destination = await self._prepare(old, new)
            async with (
                create_parents(self._files, new.path, destination) as made,
                remove_on_failure(self._files, destination),
            ):
                if source.type != "directory":
                    await self._join_room(old)
                notes = await self._files.copy(source, destination)
            if self._workspace.ephemeral.get(source.path) and _is_notebook(new):
                await self._workspace.ephemeral.unmark(destination)
            return made, notes

    async def _join_room(self, permit: Permit) -> None:
        """Join the room: people may have unsaved edits, and only a member can save them."""
        with contextlib.suppress(CollaborationError):  # what is not a document is copied as is
            await self._workspace.open(permit, None)

    async def _prepare(self, old: Permit, new: Permit) -> tuple[Source, str]:
        """Check a copy or move, and fix its source and destination, so that it does not matter if
        a link leads elsewhere later."""
        path, new_path = old.path, new.path
        _require_name(path)
        _require_name(new_path)
        if path == new_path or new_path.startswith(f"{path}/"):
            raise InvalidArgument(
                f"{new_path!r} is the same place, or inside of it.", "Choose another path."
            )
        canonical = await self._permitted_path(old)
        destination = await self._permitted_path(new)
        entry = replace(await self._files.look(canonical), path=path)
        self._workspace.ephemeral.require_ordinary(destination)
        if (there := await find_entry(self._files, destination)) is not None:
            raise AlreadyExists.at(new_path, there.type)
        link_target = self._files.link_target(canonical)
        # What was refused at the old path could otherwise be read at the new one.
        levels = [Level.read, Level.write]
        self._workspace.rules.check(path, link_target)
        for level in levels:
            await old.authorize(level, link_target)
        names = await self._require_all_allowed(
            entry, link_target, levels, old, [new_path, destination]
        )
        await self._workspace.forget(destination)
        return Source(path, entry.type, canonical, link_target, names), destination

    # -- parts -------------------------------------------------------------------------------

    async def _permitted_path(self, permit: Permit, follow: bool = False) -> str:
        """The canonical path of what the call may change: links that change later do not matter.

        Args:
            follow: Use the target of a link, not the link itself.
        """
        canonical = self._files.canonical_path(permit.path, follow)
        await self._require(permit.path, canonical, permit)
        return canonical

    async def _require_all_allowed(
        self,
        entry: FileEntry,
        link_target: str,
        levels: Sequence[Level],
        permit: Permit,
        new_folders: Sequence[str] = (),
    ) -> frozenset[str] | None:
        """Refuse to touch a folder that contains something the caller may not touch.

        Args:
            link_target: Where the folder really is.
            levels: What the call does to the contents.
            new_folders: Names of the folder's new path, checked for everything in it.

        Returns the paths in the folder, relative to it; None if no check was necessary.
        """
        rules, call = self._workspace.rules, permit.call
        if entry.type != "directory":
            return frozenset()
        if self._workspace.ephemeral.hidden_below(call.agent.key, call.allowed, link_target):
            raise _withheld(entry, "belong to other agents")
        if not rules and not permit.by_path:
            return None
        decided: list[str] = []
        turn_ends = time.monotonic() + _TURN
        async with aclosing(self._files.everything(link_target)) as everything:
            async for some in everything:
                for path, leads_to in some:
                    within = path[len(link_target) :]
                    names = dict.fromkeys([entry.path + within, path, leads_to])
                    new_names = [folder + within for folder in dict.fromkeys(new_folders)]
                    if not all(map(rules.visible, (*names, *new_names))):
                        raise _withheld(entry, "this server's configuration keeps from agents")
                    if permit.by_path:
                        await self._authorize(entry, permit, levels, names, new_names)
                    decided.append(within[1:])
                    if time.monotonic() > turn_ends:
                        await asyncio.sleep(0)
                        turn_ends = time.monotonic() + _TURN
        return frozenset(decided)

    async def _authorize(
        self,
        entry: FileEntry,
        permit: Permit,
        levels: Sequence[Level],
        names: Iterable[str],
        new_names: Iterable[str],
    ) -> None:
        try:
            for name in names:
                for level in levels:
                    await permit.authorize(level, name)
            await permit.authorize(Level.write, *new_names)
        except PermissionRefused as error:
            raise _withheld(entry, "Jupyter's authorizer keeps from you") from error


def _withheld(folder: FileEntry, by: str) -> PermissionRefused:
    return PermissionRefused(
        f"The folder {folder.path!r} has, or would have, files that {by}. Nothing was changed.",
        "Ask the person to do it, or work on single files in it.",
        path=folder.path,
    )


def _is_notebook(permit: Permit) -> bool:
    return permit.path.endswith(".ipynb")


def _require_name(path: str) -> None:
    if not path:
        raise PathRefused(
            "This is the server's root itself.", "Name a file or a folder in it.", path=path
        )
