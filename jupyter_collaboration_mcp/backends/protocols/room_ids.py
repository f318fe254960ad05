"""Ids of rooms, made of format, type and file id; and which files may have a room."""

from __future__ import annotations

from typing import Literal, Self

from ...errors import NotANotebook, NotText, PathRefused, TooLarge
from ...remedies import Intent
from .files import FileEntry

Kind = Literal["notebook", "file"]
"""What a room holds: a notebook, or a text file."""

KINDS: tuple[Kind, ...] = ("notebook", "file")

_FORMATS: dict[Kind, str] = {"notebook": "json", "file": "text"}

#: Stands in place of a format in the id of a fork's room, which has no file.
_FORK = "fork"

#: The most bytes of a text file that is opened live. Everybody in its room has it in memory.
LARGEST = 10_000_000


class RoomId(str):
    """`format:type:file id`, as jupyter-collaboration names the room of a document.

    The room of a fork is `fork:type:fork id` here.

    It is a string, so it can be used in messages, databases and dictionaries directly.

    Raises:
        ValueError: The text does not name the room of a document.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if text.count(":") < 2:
            raise ValueError(f"{text!r} does not name the room of a document")
        return super().__new__(cls, text)

    @classmethod
    def of(cls, kind: Kind, file_id: str, file_format: str | None = None) -> Self:
        """The room of a file.

        Args:
            file_format: Only if it differs from what jupyter-collaboration uses for this kind.
        """
        return cls(f"{file_format or _FORMATS[kind]}:{kind}:{file_id}")

    @classmethod
    def fork(cls, kind: Kind, fork_id: str) -> Self:
        """The room of a fork. The server knows it by the id of the fork alone."""
        return cls(f"{_FORK}:{kind}:{fork_id}")

    @property
    def is_fork(self) -> bool:
        """Whether it is the room of a fork; `file_id` is the id of the fork then."""
        return self.file_format == _FORK

    @property
    def file_format(self) -> str:
        return self.split(":", 2)[0]

    @property
    def file_type(self) -> str:
        return self.split(":", 2)[1]

    @property
    def kind(self) -> Kind:
        return "notebook" if self.file_type == "notebook" else "file"

    @property
    def file_id(self) -> str:
        return self.split(":", 2)[2]


def room_kind(entry: FileEntry, kind: Kind | None) -> Kind:
    """The kind of room for a file.

    Args:
        kind: What it must be; None if it may be either.

    Raises:
        PathError: It is something else.
        TooLarge: It is too large to edit live.
    """
    if kind == "notebook" and entry.type != "notebook":
        raise NotANotebook.at(entry.path, entry.type)
    if entry.type == "directory":
        raise NotText.folder(entry.path)
    if "\\" in entry.path:
        raise PathRefused(
            f"{entry.path!r} has a backslash in its name, which jupyter-server-fileid treats as a "
            "folder: another file would be opened.",
            Intent.RENAME_FIRST,
            path=entry.path,
        )
    if kind == "file" and entry.type == "notebook":
        raise NotText.notebook(entry.path)
    if entry.type == "file" and (entry.size or 0) > LARGEST:
        raise TooLarge(
            f"{entry.path!r} has {entry.size:,} bytes ({entry.mimetype or 'unknown type'}); "
            f"files of at most {LARGEST:,} are opened live.",
            "Read the part that you need with code in a kernel.",
            path=entry.path,
            size=entry.size,
        )
    return entry.type
