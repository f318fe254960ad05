"""Walking through folders of this machine, fast; call it in a thread.

Walking only looks at names. Sizes and times are read at the end, only for what was found.
"""

from __future__ import annotations

import fnmatch
import mimetypes
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heapify, heappop
from pathlib import Path

from ..protocols.files import (
    CHECKPOINTS,
    EntryFilter,
    FileEntry,
    FileQuery,
    FileType,
    Listing,
    PathPair,
    nameable,
)

_WILD = set("*?[")

#: Entries that are yielded at a time.
_SOME = 1000


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Names that configuration excludes from listings, as globs; fast for thousands of names."""

    names: frozenset[str]
    endings: tuple[str, ...]
    pattern: re.Pattern[str] | None

    @classmethod
    def by(cls, globs: Sequence[str]) -> Exclusions:
        plain = [glob for glob in globs if not _WILD & set(glob)]
        endings = [glob for glob in globs if glob[:1] == "*" and not _WILD & set(glob[1:])]
        others = [fnmatch.translate(glob) for glob in globs if glob not in (*plain, *endings)]
        pattern = re.compile("|".join(others)) if others else None
        return cls(frozenset(plain), tuple(glob[1:] for glob in endings), pattern)

    def __contains__(self, name: str) -> bool:
        return (
            name.endswith(self.endings)
            or name in self.names
            or (self.pattern is not None and self.pattern.match(name) is not None)
        )


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders below a root, as the server's configuration shows them."""

    root: str
    hidden: bool
    """Whether hidden files are shown; hidden folders are never walked through."""
    unlisted: Exclusions
    beyond: bool = False
    """Whether to show links that lead out of the root."""

    @classmethod
    def below(cls, root: str, hidden: bool, globs: Sequence[str], beyond: bool = False) -> Folders:
        return cls(os.path.realpath(root), hidden, Exclusions.by(globs), beyond)

    def children(self, path: str, shown: EntryFilter, limit: int) -> Listing:
        """The visible entries of a folder, by name.

        Raises:
            OSError: It cannot be read.
        """
        with os.scandir(self._within(path)) as entries:
            there = {entry.name: entry for entry in entries}
        named = (
            (name, kind)
            for name in _in_order(list(there))
            if (kind := self._kind(there[name])) is not None
        )
        found: list[FileEntry] = []
        complete = self._take(found, f"{path}/" if path else "", named, shown, limit)
        return Listing(tuple(found), complete)

    def walk(
        self, start: str, query: FileQuery, enter: Callable[[str], bool], limit: int
    ) -> Listing:
        """Entries below a folder that match a query, breadth first, without following links."""
        found: list[FileEntry] = []
        waiting = deque([start])
        while waiting:
            folder = waiting.popleft()
            prefix = f"{folder}/" if folder else ""
            try:
                files, folders = self._scan(
                    self._within(folder), query.endings, query.part_below(prefix)
                )
            except OSError:
                continue  # gone or unreadable
            waiting += [
                path
                for name, link in sorted(folders)
                if not link and name[0] != "." and enter(path := prefix + name)
            ]
            if query.folders:
                files += [(name, "directory") for name, _link in folders]
            if not self._take(found, prefix, sorted(files), query.fits, limit):
                return Listing(tuple(found), complete=False)
        return Listing(tuple(found), complete=True)

    def everything(self, path: str) -> Iterator[list[PathPair]]:
        """Everything below a folder, some at a time, hidden or not, except for Jupyter's
        checkpoints.

        Raises:
            OSError: A part of it cannot be read.
        """
        found: list[PathPair] = []
        waiting = [(path, self._real(path))]
        while waiting:
            folder, real = waiting.pop()
            with os.scandir(self._within(folder)) as entries:
                for entry in entries:
                    if entry.name == CHECKPOINTS:
                        continue
                    names = (_joined(folder, entry.name), _joined(real, entry.name))
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(names)
                    elif entry.is_symlink():
                        names = (names[0], self._real(names[0]))
                    found.append(names)
                    if len(found) == _SOME:
                        yield found
                        found = []
        if found:
            yield found

    def _real(self, path: str) -> str:
        """The target of a link; the path itself if it leads out of the root."""
        full = os.path.realpath(self._within(path))
        if full == self.root:
            return ""
        return full[len(self.root) + 1 :].replace(os.sep, "/") if self._is_within(full) else path

    def _take(
        self,
        found: list[FileEntry],
        prefix: str,
        names: Iterable[tuple[str, FileType]],
        fits: EntryFilter,
        limit: int,
    ) -> bool:
        """Add matching entries to the result; returns whether all of them were within the limit.

        Sizes and times are only read for what is added.
        """
        for name, kind in names:
            if fits(prefix + name, kind):
                if len(found) == limit:
                    return False
                if (entry := self._entry(prefix + name, kind)) is not None:
                    found.append(entry)
        return True

    def _within(self, path: str) -> str:
        return f"{self.root}{os.sep}{path}" if path else self.root

    def _scan(
        self, folder: str, endings: tuple[str, ...], part: str
    ) -> tuple[list[tuple[str, FileType]], list[tuple[str, bool]]]:
        """Files with their types, and folders with whether they are links."""
        files: list[tuple[str, FileType]] = []
        folders: list[tuple[str, bool]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                # Most names are rejected here, so this comes before slower checks.
                if not is_folder and (
                    (endings and not name.lower().endswith(endings))
                    or (part and part not in name.lower())
                ):
                    continue
                if (kind := self._kind(entry)) == "directory":
                    folders.append((name, not is_folder))
                elif kind is not None:
                    files.append((name, kind))
        return files, folders

    def _kind(self, entry: os.DirEntry[str]) -> FileType | None:
        """The type that an entry is shown as; None if it is not shown."""
        name = entry.name
        if name[0] == "." and (not self.hidden or name == CHECKPOINTS):
            return None
        if name in self.unlisted or not nameable(name):
            return None
        if entry.is_file(follow_symlinks=False):
            return _type_of(name)
        return "directory" if entry.is_dir(follow_symlinks=False) else self._behind(entry)

    def _behind(self, link: os.DirEntry[str]) -> FileType | None:
        """The type of a link's target, if it may be shown."""
        try:
            if not self.beyond and not self._is_within(os.path.realpath(link.path)):
                return None
            if link.is_dir():
                return "directory"
            return _type_of(link.name) if link.is_file() else None
        except OSError:
            return None

    def _is_within(self, full: str) -> bool:
        return full.startswith(f"{self.root}{os.sep}")

    def _entry(self, path: str, kind: FileType) -> FileEntry | None:
        full = self._within(path)
        try:
            stat = Path(full).stat()
        except OSError:
            return None
        return FileEntry(
            path=path,
            type=kind,
            created=_iso(getattr(stat, "st_birthtime", stat.st_ctime)),
            last_modified=_iso(stat.st_mtime),
            size=None if kind == "directory" else stat.st_size,
            writable=os.access(full, os.W_OK),
            mimetype=mimetypes.guess_type(path)[0] if kind == "file" else None,
        )


def _in_order(names: list[str]) -> Iterator[str]:
    """Names in order, sorted lazily: of thousands, only those that are shown need an order."""
    heapify(names)
    while names:
        yield heappop(names)


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _type_of(name: str) -> FileType:
    return "notebook" if name.endswith(".ipynb") else "file"


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
