"""Walking through folders that only somebody else can look into: one question for each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ..errors import DocumentNotFound, FileFailed, ReadOnly
from .files import FileEntry, Listing, Shown, Wanted

_Make = Callable[[str], Awaitable[object]]
_Copy = Callable[[str, str], Awaitable[object]]

#: Folders that are asked for in all.
_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class AskedFolders:
    """Folders, by how to ask what is in one of them."""

    ask: Callable[[str], Awaitable[Sequence[FileEntry]]]
    """What is in a folder, by name."""
    at_once: int = 1
    """How many are asked for at the same time."""

    async def children(self, path: str, shown: Shown, limit: int) -> Listing:
        """What may be shown of a folder. It is asked for as a whole: no contents API does less."""
        found = [child for child in await self.ask(path) if shown(child.path, child.type)]
        return Listing(tuple(found[:limit]), complete=len(found) <= limit)

    async def walk(
        self, start: str, wanted: Wanted, enter: Callable[[str], bool], limit: int
    ) -> Listing:
        """What is wanted below a folder, breadth first; hidden folders are left out."""
        found: list[FileEntry] = []
        waiting = deque([start])
        asked = 0
        while waiting:
            if asked >= _LIMIT:
                return Listing(tuple(found), complete=False)
            some = [waiting.popleft() for _ in range(min(self.at_once, len(waiting)))]
            asked += len(some)
            for children in await asyncio.gather(*map(self._still_there, some)):
                for child in children:
                    hidden = child.name.startswith(".")
                    if child.type == "directory" and not hidden and enter(child.path):
                        waiting.append(child.path)
                    if wanted(child.path, child.type):
                        if len(found) == limit:
                            return Listing(tuple(found), complete=False)
                        found.append(child)
        return Listing(tuple(found), complete=True)

    async def has_below(self, path: str, fits: Callable[[str], bool]) -> bool:
        """Whether anything fits; with too many folders to ask for, it does."""
        waiting = deque([path])
        for _ in range(_LIMIT):
            if not waiting:
                return False
            for child in await self.ask(waiting.popleft()):
                if fits(child.path):
                    return True
                if child.type == "directory":
                    waiting.append(child.path)
        return True

    async def copy(self, path: str, new_path: str, make: _Make, copy_file: _Copy) -> None:
        """Copy a folder with what is in it, by how to make a folder and to copy a file.

        Raises:
            FileFailed: It has too many folders.
        """
        # All of it is listed first: through a link, the copy may be in what is copied.
        everything = await self._everything(path)
        await make(new_path)
        for entry in everything:
            target = f"{new_path}{entry.path[len(path) :]}"
            if entry.type == "directory":
                await make(target)
            else:
                await copy_file(entry.path, target)

    async def _everything(self, path: str) -> list[FileEntry]:
        """What is in a folder and all folders below it, each before what is in it."""
        found: list[FileEntry] = []
        waiting = deque([path])
        for _ in range(_LIMIT):
            if not waiting:
                return found
            for child in await self.ask(waiting.popleft()):
                found.append(child)
                if child.type == "directory":
                    waiting.append(child.path)
        raise FileFailed.to("copy", path, f"it has more than {_LIMIT:,} folders")

    async def _still_there(self, path: str) -> Sequence[FileEntry]:
        try:
            return await self.ask(path)
        except (DocumentNotFound, FileFailed, ReadOnly):
            return ()  # gone or unreadable since it was listed
