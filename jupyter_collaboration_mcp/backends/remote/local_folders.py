"""Searching the folders of a server that runs on this machine: on its disk, not over its API.

A search with a request for each folder takes hundreds of times as long as one on the disk. The
entries in an answer still come from the server, which confirms everything that was found on disk.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from ...errors import DocumentNotFound, FileFailed, ReadOnly
from ..contents.folders import ContentsFolders
from ..disk.folders import Folders
from ..protocols.files import EntryFilter, FileEntry, FileQuery, FileType, Listing

#: What Jupyter excludes from listings by default; we cannot query its configuration.
_UNLISTED = ("__pycache__", "*.pyc", "*.pyo", ".DS_Store", "*~")

#: Entries that are requested from the server at the same time.
_AT_ONCE = 8

#: How often a root is compared again because somebody is changing it.
_TRIES = 3


class LocalFolders:
    """Finds files on the disk; where the disk and the server differ, searches over the API.

    Args:
        root: Returns where on this machine the server's files are, if anywhere; called in a thread.
        started: Returns when the server was started: until it restarts, its root is the same.
        look: Requests the server's entry of a path.
        remote: Searches over the server's contents API.
    """

    def __init__(
        self,
        root: Callable[[], Path | None],
        started: Callable[[], Awaitable[str | None]],
        look: Callable[[str], Awaitable[FileEntry]],
        remote: ContentsFolders,
    ) -> None:
        self._root = root
        self._started = started
        self._look = look
        self._remote = remote
        self._folders: Folders | None = None
        self._since: str | None = None

    async def children(self, path: str, shown: EntryFilter, limit: int) -> Listing:
        """The visible entries of a folder, by name."""
        found = await self._find(lambda folders: folders.children(path, shown, limit))
        # A folder that is shown completely takes one request, not one for each entry.
        if found is not None and not found.complete:
            found = await self._confirm(found)
            if found is not None:
                return found
        return await self._remote.children(path, shown, limit)

    async def walk(
        self, start: str, query: FileQuery, enter: Callable[[str], bool], limit: int
    ) -> Listing:
        """Entries below a folder that match a query, breadth first, without following links."""
        found = await self._find(lambda folders: folders.walk(start, query, enter, limit))
        if found is not None and (confirmed := await self._confirm(found)) is not None:
            return confirmed
        return await self._remote.walk(start, query, enter, limit)

    async def _find(self, search: Callable[[Folders], Listing]) -> Listing | None:
        if (folders := await self._shared_folders()) is None:
            return None
        try:
            return await asyncio.to_thread(search, folders)
        except OSError:
            return None

    async def _confirm(self, found: Listing) -> Listing | None:
        """The server's entries for what was found; None unless it has all of them."""
        said: list[FileEntry] = []
        for at in range(0, len(found.entries), _AT_ONCE):
            some = found.entries[at : at + _AT_ONCE]
            for entry, answer in zip(
                some, await asyncio.gather(*map(self._ask_server, some)), strict=True
            ):
                if answer is None or answer.type != entry.type:
                    return None
                said.append(answer)
        return Listing(tuple(said), found.complete)

    async def _ask_server(self, entry: FileEntry) -> FileEntry | None:
        try:
            return await self._look(entry.path)
        except (DocumentNotFound, FileFailed, ReadOnly):
            return None

    # -- whether it is the same disk ---------------------------------------------------------

    async def _shared_folders(self) -> Folders | None:
        """The folders that the server serves, on this disk; None if they are not here."""
        started = await self._started()
        if self._folders is None or started is None or started != self._since:
            self._folders, self._since = await self._compare(), started
        return self._folders

    async def _compare(self) -> Folders | None:
        """Find the server's root: it has the time and the names that the server reports."""
        root = await asyncio.to_thread(self._root)
        if root is None or not await self._has_time_of(root):
            return None
        showing, hiding = (
            Folders.below(str(root), hidden, _UNLISTED, beyond=True) for hidden in (True, False)
        )
        said = [(entry.path, entry.type) for entry in await self._remote.ask("")]
        if said == await asyncio.to_thread(_names, showing) and await self._shows_hidden(showing):
            return showing
        return hiding if said == await asyncio.to_thread(_names, hiding) else None

    async def _has_time_of(self, root: Path) -> bool:
        for _ in range(_TRIES):
            before = await asyncio.to_thread(_times, root)
            said = (await self._look("")).last_modified
            if said is not None and datetime.fromisoformat(said) in before:
                return True
            if before == await asyncio.to_thread(_times, root):
                return False
        return False

    async def _shows_hidden(self, folders: Folders) -> bool:
        """Whether the server shows hidden files; requests one to find out, if there is any."""
        hidden = FileQuery(lambda path, kind: path.rpartition("/")[2].startswith("."), folders=True)
        found = await asyncio.to_thread(folders.walk, "", hidden, lambda path: True, 1)
        return bool(found.entries) and await self._ask_server(found.entries[0]) is not None


def _times(root: Path) -> set[datetime]:
    """When a folder was changed; Jupyter does not follow a link for that."""
    try:
        return {
            datetime.fromtimestamp(root.stat(follow_symlinks=follow).st_mtime, UTC)
            for follow in (False, True)
        }
    except OSError:
        return set()


def _names(folders: Folders) -> list[tuple[str, FileType]]:
    """The entries of the root; empty if there is no such folder."""
    try:
        listing = folders.children("", lambda path, kind: True, sys.maxsize)
    except OSError:
        return []
    return [(entry.path, entry.type) for entry in listing.entries]
