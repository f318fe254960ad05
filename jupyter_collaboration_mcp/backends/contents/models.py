"""Jupyter's contents models, as its contents managers and its REST API have them."""

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
    """What a model says about a file or a folder.

    Raises:
        TypeError, KeyError: It is no such model.
    """
    path, kind, size = model["path"], model["type"], model.get("size")
    mimetype = str(model.get("mimetype"))
    if not isinstance(path, str) or kind not in _TYPES:
        raise TypeError("no model of a file or a folder")
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
    """What is in a folder, by name."""
    entries = [entry_of(child) for child in model["content"] if nameable(child["name"])]
    shown = [entry for entry in entries if entry.name != CHECKPOINTS and nameable(entry.path)]
    return sorted(shown, key=lambda entry: entry.name)


def require_model(model: Any, wants_text: bool) -> None:
    """See that something is a model of a file or a folder, which came over the network.

    Args:
        wants_text: Whether it was asked for with its content, as a text.

    Raises:
        TypeError, KeyError: It is none.
    """
    entry_of(model)
    if wants_text and not isinstance(model["content"], str):
        raise TypeError("no text")


def new_model(kind: FileType, content: Any) -> dict[str, Any]:
    """What is given to Jupyter to make a file or a folder."""
    if kind == "directory":
        return {"type": kind}
    return {"type": kind, "format": _FORMATS[kind], "content": content}


def iso_time(time: Any) -> str | None:
    """A time as text; None for anything else, which is passed on to nobody."""
    if isinstance(time, datetime):
        return time.isoformat()
    try:
        datetime.fromisoformat(time)
    except (TypeError, ValueError):
        return None
    return str(time)
