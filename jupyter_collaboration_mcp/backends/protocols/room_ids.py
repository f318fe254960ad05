"""How rooms are named: by format, type and file id; and what may have one."""

from __future__ import annotations

from ...errors import NotANotebook, NotText, PathRefused, TooLarge
from .files import FileEntry
from .rooms import Kind

#: What comes before the file id.
PREFIXES: dict[Kind, str] = {"notebook": "json:notebook:", "file": "text:file:"}

#: Bytes of a text file that is opened live. Everybody in its room has it in memory.
LARGEST = 10_000_000


def room_prefix(entry: FileEntry, kind: Kind | None) -> str:
    """The beginning of the room id of a file that is to be opened as something.

    Raises:
        PathError: It is something else.
        TooLarge: It is too large to be edited live.
    """
    if kind == "notebook" and entry.type != "notebook":
        raise NotANotebook.at(entry.path, entry.type)
    if entry.type == "directory":
        raise NotText.folder(entry.path)
    if "\\" in entry.path:
        raise PathRefused(
            f"{entry.path!r} has a backslash in its name, which jupyter-server-fileid takes for a "
            "folder: another file would be opened.",
            "Rename it with rename_document, then open it.",
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
    return PREFIXES[entry.type]


def kind_of(room_id: str) -> Kind:
    """What a room is of."""
    kind = room_id.split(":", 2)[1]
    return "notebook" if kind == "notebook" else "file"
