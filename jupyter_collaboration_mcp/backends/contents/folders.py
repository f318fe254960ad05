"""Walking through folders over Jupyter's contents API, with one request for each folder."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ...errors import DocumentNotFound, FileFailed, ReadOnly
from ..protocols.files import EntryFilter, FileEntry, FileQuery, Listing

_Make = Callable[[str], Awaitable[object]]
_Copy = Callable[[str, str], Awaitable[object]]

#: The most folders that one search lists.
_LIMIT = 1000

#: How often a path must repeat the same listing to count as a link back to a folder above.
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class ContentsFolders:
    """The folders of a contents manager or a server, given a function that lists one of them."""

    ask: Callable[[str], Awaitable[Sequence[FileEntry]]]
    """Lists the entries of a folder, by name."""
    at_once: int = 1
    """How many folders are listed at the same time."""

    async def children(self, path: str, shown: EntryFilter, limit: int) -> Listing:
        """The visible entries of a folder. Lists all of it: no contents API can do less."""
        found = [child for child in await self.ask(path) if shown(child.path, child.type)]
        return Listing(tuple(found[:limit]), complete=len(found) <= limit)

    async def walk(
        self, start: str, query: FileQuery, enter: Callable[[str], bool], limit: int
    ) -> Listing:
        """Entries below a folder that match a query, breadth first; skips hidden folders."""
        found: list[FileEntry] = []
        waiting = deque([start])
        said: dict[str, int] = {}
        asked = 0
        while waiting:
            if asked >= _LIMIT:
                return Listing(tuple(found), complete=False)
            some = [waiting.popleft() for _ in range(min(self.at_once, len(waiting)))]
            asked += len(some)
            ask = self._beginning if start in some else self._still_there
            answers = await asyncio.gather(*map(ask, some))
            for folder, children in zip(some, answers, strict=True):
                for child in await self._new_in(folder, children, said):
                    hidden = child.name.startswith(".")
                    if child.type == "directory" and not hidden and enter(child.path):
                        waiting.append(child.path)
                    if query(child.path, child.type):
                        if len(found) == limit:
                            return Listing(tuple(found), complete=False)
                        found.append(child)
        return Listing(tuple(found), complete=True)

    async def copy(
        self,
        path: str,
        new_path: str,
        make: _Make,
        copy_file: _Copy,
        check: _Make | None = None,
    ) -> None:
        """Copy a folder with its contents, using functions that create a folder and copy a file.

        Args:
            check: Called with each file before anything is created.

        Raises:
            FileFailed: It has too many folders.
        """
        # List everything first: through a link, the copy may be inside of what is copied.
        everything = list(chain.from_iterable([some async for some in self.everything(path)]))
        if check is not None:
            files = [entry.path for entry in everything if entry.type != "directory"]
            for at in range(0, len(files), self.at_once):
                await asyncio.gather(*map(check, files[at : at + self.at_once]))
        await make(new_path)
        for entry in everything:
            target = f"{new_path}{entry.path[len(path) :]}"
            if entry.type == "directory":
                await make(target)
            else:
                await copy_file(entry.path, target)

    async def everything(self, path: str) -> AsyncGenerator[Sequence[FileEntry]]:
        """Everything in a folder and below it, each folder before its contents.

        Raises:
            FileFailed: It has too many folders.
        """
        waiting = deque([path])
        said: dict[str, int] = {}
        for _ in range(_LIMIT):
            if not waiting:
                return
            folder = waiting.popleft()
            children = await self._new_in(folder, await self.ask(folder), said)
            waiting += [child.path for child in children if child.type == "directory"]
            yield children
        if waiting:
            why = f"it has more than {_LIMIT:,} folders"
            raise FileFailed.to("look through", path, why)

    async def _beginning(self, path: str) -> Sequence[FileEntry]:
        """The entries of the folder where a search starts; raises if it cannot be listed."""
        try:
            return await self.ask(path)
        except DocumentNotFound:
            if not path:
                raise
            return ()

    async def _still_there(self, path: str) -> Sequence[FileEntry]:
        try:
            return await self.ask(path)
        except (DocumentNotFound, FileFailed, ReadOnly):
            return ()  # gone or unreadable since it was listed

    async def _new_in(
        self, folder: str, children: Sequence[FileEntry], said: dict[str, int]
    ) -> Sequence[FileEntry]:
        """The entries of a folder; empty if a link has led back to a folder above it.

        From outside a link looks like any folder, but it lists the same entries as its target, with
        the same sizes and times. Folders that were created at the same moment may, too. But only
        through a link does the same path lead to the same listing again, however often it is
        repeated.

        Args:
            said: Fingerprints of known listings, by path.
        """
        said[folder] = now = _fingerprint(children)
        for above in _above(folder) if children else ():
            if said.get(above) == now and await self._leads_back(folder, above, now):
                return ()
        return children

    async def _leads_back(self, folder: str, above: str, now: int) -> bool:
        way = folder[len(above) :].strip("/")
        for _ in range(_ROUNDS):
            folder = f"{folder}/{way}"
            if _fingerprint(await self._still_there(folder)) != now:
                return False
        return True


def _fingerprint(children: Sequence[FileEntry]) -> int:
    """A number that is the same for equal listings."""
    return hash(tuple((c.name, c.type, c.size, c.created, c.last_modified) for c in children))


def _above(path: str) -> Iterator[str]:
    """The folders above a folder, up to the root."""
    while path:
        path = path.rpartition("/")[0]
        yield path
