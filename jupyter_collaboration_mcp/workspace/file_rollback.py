"""Changing files so that a failed change leaves nothing behind."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from ..backends.protocols.files import FileEntry, Files
from ..errors import (
    CollaborationError,
    DocumentNotFound,
    FileFailed,
    FolderNotEmpty,
    InvalidArgument,
)

#: Entries of a folder that are counted for an error message.
_COUNTED = 100


async def find_entry(files: Files, path: str) -> FileEntry | None:
    """What is at a path; None if nothing is."""
    try:
        return await files.look(path)
    except DocumentNotFound:
        return None


async def require_empty(files: Files, path: str) -> None:
    """Refuse to delete a folder with something in it.

    Raises:
        FolderNotEmpty: It has an entry, even if that is hidden.
    """
    inside = await files.children(path, lambda at, kind: True, _COUNTED)
    if inside.entries or await _has_hidden(files, path):
        count = len(inside.entries)
        many = {0: "hidden files", 1: "1 entry"}.get(count, f"{count:,} entries")
        many = many if inside.complete else f"more than {many}"
        raise FolderNotEmpty(
            f"The folder {path!r} has {many}. Nothing was deleted.",
            "Repeat with recursive=true to delete all of it.",
            path=path,
        )


async def _has_hidden(files: Files, path: str) -> bool:
    """Whether a folder that lists nothing has hidden files in it."""
    async with aclosing(files.everything(path)) as everything:
        async for some in everything:
            if some:
                return True
    return False


@asynccontextmanager
async def create_parents(files: Files, path: str, canonical: str) -> AsyncIterator[list[str]]:
    """Create the folders that a new file needs, and remove them again if what follows fails.

    Args:
        path: The file, as the caller names it.
        canonical: Its canonical path, which differs if a folder on the way is a link.

    Yields the new folders, named as the caller would name them.
    """
    made: list[str] = []
    try:
        for folder in await missing_parents(files, canonical):
            await files.create(folder, "directory", None)
            made.append(folder)
        yield [path.rsplit("/", canonical[len(folder) :].count("/"))[0] for folder in made]
    except CollaborationError:
        with contextlib.suppress(CollaborationError):
            for folder in reversed(made):
                await require_empty(files, folder)
                await files.delete(folder)
        raise


async def missing_parents(files: Files, path: str) -> list[str]:
    """The folders that a new file needs, the outermost first."""
    missing: list[str] = []
    parent = path.rpartition("/")[0]
    while parent and (entry := await find_entry(files, parent)) is None:
        missing.append(parent)
        parent = parent.rpartition("/")[0]
    if parent and entry is not None and entry.type != "directory":
        raise InvalidArgument(
            f"{parent!r} is a {entry.type}, so nothing can be in it. Nothing was changed.",
            "Choose a path in a folder.",
        )
    return missing[::-1]


@asynccontextmanager
async def remove_on_failure(
    files: Files, path: str, source: str | None = None
) -> AsyncIterator[None]:
    """Remove what a failed write leaves at a path that was free before.

    Args:
        source: The path it is moved from. A folder that was being moved to another disk may be in
            two halves; what exists nowhere else is kept.
    """
    try:
        yield
    except FileFailed as error:
        if source is not None:
            left = await find_entry(files, source)
            if left is None or left.type == "directory":
                raise
        with contextlib.suppress(CollaborationError):
            await files.delete(path)
        if await find_entry(files, path) is not None:
            error.happened += f" A part of it was left at {path!r}."
        raise
