"""The file operations of a backend: look, list, create, move, delete.

Paths come in three kinds. A path is what a caller names. Its canonical path goes through no links
to folders, so that what was decided about it still holds when it is used. Its link target is the
path of the file that it finally leads to.

Open documents stay consistent: a rename moves the room along with its people and unsaved edits, a
copy includes the unsaved edits, and nothing recreates a deleted file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

FileType = Literal["notebook", "file", "directory"]

PathCheck = Callable[[str], Awaitable[None]]
"""Refuses a path that the caller may not touch in the intended way."""

EntryFilter = Callable[[str, FileType], bool]
"""Whether an entry may be shown, by its path and type."""

PathPair = tuple[str, str]
"""A path and its link target; the same twice if it is not a link."""

#: The folder of Jupyter's checkpoints; Jupyter shows it where hidden files are shown.
CHECKPOINTS = ".ipynb_checkpoints"


#: The most characters of a path that is shown.
_LONGEST = 4096


def nameable(name: str) -> bool:
    """Whether a name can be written as text: on disk, a name may be arbitrary bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return len(name) <= _LONGEST


@dataclass(frozen=True, slots=True)
class FileQuery:
    """The entries that a search is for."""

    fits: Callable[[str, FileType], bool]
    """Whether an entry matches, by its path and type."""
    endings: tuple[str, ...] = ()
    """Endings of matching file names, in lower case; a fast way to skip most names."""
    part: str = ""
    """A part of matching paths, in lower case."""
    folders: bool = False
    """Whether folders can match, too."""

    def part_below(self, folder: str) -> str:
        """The part that a file name must contain, given the path of its folder."""
        return "" if "/" in self.part or self.part in folder.lower() else self.part

    def __call__(self, path: str, kind: FileType) -> bool:
        if kind == "directory":
            return self.folders and self.fits(path, kind)
        return (not self.endings or path.lower().endswith(self.endings)) and self.fits(path, kind)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file or a folder as Jupyter sees it, and who has it open."""

    path: str
    type: FileType
    created: str | None = None
    last_modified: str | None = None
    size: int | None = None
    writable: bool = True
    mimetype: str | None = None
    open: bool = False
    people: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def opened_by(self, people: Sequence[str] | None) -> FileEntry:
        """The same entry, open by some people; unchanged if `people` is None."""
        return self if people is None else replace(self, open=True, people=tuple(people))


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a copy or a move: exactly what was permitted, even if links change."""

    path: str
    type: FileType
    canonical: str
    """Its canonical path."""
    link_target: str
    """The path of what it leads to, where it is opened."""
    names: frozenset[str] | None = None
    """The relative paths in a folder that may be copied; None for all of them."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Some of the files below a path; `complete` is whether these are all."""

    entries: tuple[FileEntry, ...]
    complete: bool


class Files(Protocol):
    """The files of one server. Paths are normalized and within its root."""

    async def look(self, path: str) -> FileEntry:
        """The entry at a path.

        Raises:
            DocumentNotFound: There is nothing.
            PathRefused: It is a link that leads out of the root.
        """

    def link_target(self, path: str) -> str:
        """The path of what a link leads to, as far as known; otherwise the path itself."""

    def canonical_path(self, path: str, follow: bool = False) -> str:
        """The path without links to folders, if the server serves that.

        A decision about this path still holds when the path is used.

        Args:
            follow: If the path itself is a link, use its target.

        Raises:
            PathRefused: It leads out of the root.
        """

    def is_gone(self, path: str) -> bool:
        """Whether nothing is at a path any more, as far as that is cheap to know."""

    async def children(self, path: str, shown: EntryFilter, limit: int) -> Listing:
        """The visible entries of a folder, by name.

        Raises:
            DocumentNotFound: There is no such folder.
        """

    async def walk(
        self, start: str, query: FileQuery, enter: Callable[[str], bool], limit: int
    ) -> Listing:
        """Entries below a folder that match a query, breadth first, by name, no hidden folders.

        Args:
            enter: Whether to look into a folder.
        """

    def everything(self, path: str) -> AsyncGenerator[Sequence[PathPair]]:
        """Everything below a folder, some at a time; even what no listing shows.

        Raises:
            FileFailed: A part of it cannot be read.
        """

    async def read(
        self, path: str, kind: Literal["notebook", "file"], check: PathCheck | None = None
    ) -> Any:
        """The content of a file: a notebook as nbformat has it, or a text.

        Args:
            check: Called with the path of the file that was really read, before it is returned.

        Raises:
            DocumentNotFound: There is no file.
            NotText: It is not a text.
            CorruptDocument: It is not a notebook.
        """

    async def create(self, path: str, kind: FileType, content: Any) -> FileEntry:
        """Write a file, or create a folder, at a canonical path; overwrites what is there.

        Raises:
            FileFailed: The server cannot write it.
        """

    async def delete(self, path: str) -> bool | None:
        """Delete the file or folder at a canonical path; its rooms end.

        Returns whether it is in the trash, if known.
        """

    def forget(self, path: str) -> None:
        """Forget what was at or below a path: it is gone, and something else will replace it."""

    async def vacate(self, path: str) -> None:
        """End the rooms at or below a path, as far as we can."""

    async def rename(self, source: Source, destination: str, same_kind: bool = True) -> None:
        """Move a file or a folder to a canonical path; rooms and kernels move with it.

        Args:
            same_kind: False if a notebook becomes a text or vice versa: its room stays behind.
        """

    async def copy(self, source: Source, destination: str) -> Sequence[str]:
        """Copy a file or a folder to a canonical path, with the unsaved edits of open files.

        Returns notes for the answer.
        """
