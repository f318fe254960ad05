"""Jupyter's contents models, used by its contents managers and its REST API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from ..protocols.files import CHECKPOINTS, FileEntry, FileType, nameable

_TYPES = ("notebook", "file", "directory")

_MIMETYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,100}", re.ASCII)

_FORMATS = {"notebook": "json", "file": "text"}


def entry_of(model: Mapping[str, Any]) -> FileEntry:
    """The file or folder that a model describes.

    Raises:
        TypeError, KeyError: It is not such a model.
    """
    path, kind, size = model["path"], model["type"], model.get("size")
    mimetype = str(model.get("mimetype"))
    if not isinstance(path, str) or kind not in _TYPES:
        raise TypeError("not a model of a file or a folder")
    return FileEntry(
        path=path,
        type=cast("FileType", kind),
        created=iso_time(model.get("created")),
        last_modified=iso_time(model.get("last_modified")),
        size=size if isinstance(size, int) else None,
        writable=bool(model.get("writable", True)),
        mimetype=mimetype if _MIMETYPE.fullmatch(mimetype) else None,
    )


def entries_of(model: Mapping[str, Any]) -> list[FileEntry]:
    """The entries of a folder, by name."""
    entries = [entry_of(child) for child in model["content"] if nameable(child["name"])]
    shown = [entry for entry in entries if entry.name != CHECKPOINTS and nameable(entry.path)]
    return sorted(shown, key=lambda entry: entry.name)


def require_model(model: Any, wants_text: bool) -> None:
    """Check that something from the network is a model of a file or a folder.

    Args:
        wants_text: Whether it was requested with its content, as text.

    Raises:
        TypeError, KeyError: It is not one.
    """
    entry_of(model)
    if wants_text and not isinstance(model["content"], str):
        raise TypeError("no text")


def new_model(kind: FileType, content: Any) -> dict[str, Any]:
    """The model with which Jupyter creates a file or a folder."""
    if kind == "directory":
        return {"type": kind}
    return {"type": kind, "format": _FORMATS[kind], "content": content}


def iso_time(time: Any) -> str | None:
    """A time as text; None for anything that is not a time."""
    if isinstance(time, datetime):
        return time.isoformat()
    try:
        datetime.fromisoformat(time)
    except (TypeError, ValueError):
        return None
    return str(time)
