"""What a backend must offer about files: to look, to list, to make, to move and to remove.

What is open stays right: a rename takes the room along with its people and its unsaved edits, a
copy has the unsaved edits, and nothing brings a deleted file back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

FileType = Literal["notebook", "file", "directory"]

PathCheck = Callable[[str], Awaitable[None]]
"""Refuses a path that somebody may not touch in the way that they want to."""

EntryFilter = Callable[[str, FileType], bool]
"""Whether an entry may be shown, by its path and type."""

PathPair = tuple[str, str]
"""A path, and the path of what it leads to; the same twice if it is no link."""

#: Copies that Jupyter keeps beside the files; it shows them where hidden files are shown.
CHECKPOINTS = ".ipynb_checkpoints"


#: Characters of a path that is shown.
_LONGEST = 4096


def nameable(name: str) -> bool:
    """Whether a name can be said at all: on disk, a name may be bytes that are no text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return len(name) <= _LONGEST


@dataclass(frozen=True, slots=True)
class FileQuery:
    """What a search is for."""

    fits: Callable[[str, FileType], bool]
    """Whether an entry is meant, by its path and type."""
    endings: tuple[str, ...] = ()
    """How the names of files end, in lower case; most can be passed over by that."""
    part: str = ""
    """What a path has in it, in lower case."""
    folders: bool = False
    """Whether folders are meant, too."""

    def part_below(self, folder: str) -> str:
        """What the name of a file must have in it, in a folder whose path is given."""
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
        """The same, open by some people; None if it is not open."""
        return self if people is None else replace(self, open=True, people=tuple(people))


@dataclass(frozen=True, slots=True)
class Source:
    """What is copied or moved: just what was decided on, whatever is there by then."""

    path: str
    type: FileType
    canonical: str
    """Its path through no links to folders."""
    link_target: str
    """The path of what it leads to, where it is opened."""
    names: frozenset[str] | None = None
    """Of a folder, what may be copied of it, by paths within it; None if all of it."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Some of the files below a path; `complete` says whether these are all."""

    entries: tuple[FileEntry, ...]
    complete: bool


class Files(Protocol):
    """The files of one server. Paths are in their normal form and within its root."""

    async def look(self, path: str) -> FileEntry:
        """What is at a path.

        Raises:
            DocumentNotFound: Nothing.
            PathRefused: A link that leads out of the root.
        """

    def link_target(self, path: str) -> str:
        """The path of what a link leads to, as far as that is known; else the path itself."""

    def canonical_path(self, path: str, follow: bool = False) -> str:
        """The path of a file or a link itself, through no links, where the server serves that.

        What is decided about this path holds for what is done to it.

        Args:
            follow: Of a link, where it leads to.

        Raises:
            PathRefused: It leads out of the root.
        """

    def is_gone(self, path: str) -> bool:
        """Whether nothing is at a path any more, as far as that is cheap to know."""

    async def children(self, path: str, shown: EntryFilter, limit: int) -> Listing:
        """What may be shown of what is in a folder, by name.

        Raises:
            DocumentNotFound: There is no such folder.
        """

    async def walk(
        self, start: str, query: FileQuery, enter: Callable[[str], bool], limit: int
    ) -> Listing:
        """What a query matches below a folder, breadth first and by name, without hidden folders.

        Args:
            enter: Which folders are worth a look.
        """

    def everything(self, path: str) -> AsyncGenerator[Sequence[PathPair]]:
        """All that is below a folder, some at a time; also what no listing shows.

        Raises:
            FileFailed: A part of it cannot be looked into.
        """

    async def read(
        self, path: str, kind: Literal["notebook", "file"], check: PathCheck | None = None
    ) -> Any:
        """What a file says: a notebook as nbformat has it, or a text.

        Args:
            check: Called with the path of the file that was really read, before it is handed out.

        Raises:
            DocumentNotFound: There is none.
            NotText: It is no text.
            CorruptDocument: It is no notebook.
        """

    async def create(self, path: str, kind: FileType, content: Any) -> FileEntry:
        """Write a file, or make a folder, at a `place`. What was there is overwritten.

        Raises:
            FileFailed: The server cannot write it.
        """

    async def delete(self, path: str) -> bool | None:
        """Remove a file, or a folder with what is in it, from a `place`; its rooms end.

        Returns whether it is in the trash, if that is known.
        """

    def forget(self, path: str) -> None:
        """What was at a path, or below it, is gone; something else will come there."""

    async def vacate(self, path: str) -> None:
        """End the rooms at a path, or below it, as far as that is in our power."""

    async def rename(self, source: Source, destination: str, same_kind: bool = True) -> None:
        """Give a file or a folder another `place`; rooms and kernels go with it.

        Args:
            same_kind: Else a notebook becomes a text or the reverse: its room stays behind.
        """

    async def copy(self, source: Source, destination: str) -> Sequence[str]:
        """Copy a file or a folder to a `place`, with the unsaved edits of what is open.

        Returns what has to be said about it.
        """
