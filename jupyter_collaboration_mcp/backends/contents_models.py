"""Jupyter's contents models, as its contents managers and its REST API have them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from .files import CHECKPOINTS, FileEntry, FileType, nameable

_FORMATS = {"notebook": "json", "file": "text"}


def entry_of(model: Mapping[str, Any]) -> FileEntry:
    """What a model says about a file or a folder."""
    return FileEntry(
        path=str(model["path"]),
        type=cast("FileType", model["type"]),
        created=_iso(model.get("created")),
        last_modified=_iso(model.get("last_modified")),
        size=model.get("size"),
        writable=bool(model.get("writable", True)),
        mimetype=model.get("mimetype"),
    )


def entries_of(model: Mapping[str, Any]) -> list[FileEntry]:
    """What is in a folder, by name."""
    entries = [entry_of(child) for child in model["content"] if nameable(child["name"])]
    shown = [entry for entry in entries if entry.name != CHECKPOINTS]
    return sorted(shown, key=lambda entry: entry.name)


def new_model(kind: FileType, content: Any) -> dict[str, Any]:
    """What is given to Jupyter to make a file or a folder."""
    if kind == "directory":
        return {"type": kind}
    return {"type": kind, "format": _FORMATS[kind], "content": content}


def _iso(time: datetime | str | None) -> str | None:
    return time.isoformat() if isinstance(time, datetime) else time
