"""The audit log: who called what, on which document, and how it ended; one line of JSON a call.

It never has contents: neither text, nor code, nor output, nor a token.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ..collaboration.activity.activity import MOST_CELLS
from ..documents.foreign_text import ID
from .call_record import CallRecord


class AuditLog:
    """Writes a line about each call.

    Args:
        append: Takes a line without waiting for it to be written.
    """

    def __init__(self, append: Callable[[str], None]) -> None:
        self._append = append

    def record(self, record: CallRecord) -> None:
        self._append(json.dumps(entry(record)))


def entry(record: CallRecord) -> dict[str, Any]:
    """What the audit log has of a call."""
    began = datetime.fromtimestamp(record.began / 1000, UTC)
    said: dict[str, Any] = {
        "time": began.isoformat(timespec="milliseconds"),
        "credential": record.agent.credential,
        "agent": record.agent.name,
        "call": record.name,
    }
    paths = record.paths
    if paths:
        said["path"] = paths[0]
    if paths[1:]:
        said["paths"] = paths[1:]
    if cells := _cells(record):
        said["cells"], said["cell_count"] = cells[:MOST_CELLS], len(cells)
    if (documents := record.documents) and documents[0][1].version:
        said["version_before"] = documents[0][1].version
    if record.version_after is not None:
        said["version_after"] = record.version_after
    if record.runs:
        said["runs"] = dict(record.runs)
    said["outcome"] = record.outcome
    said["duration_ms"] = round(record.seconds * 1000, 1)
    return said


def _cells(record: CallRecord) -> list[str]:
    """The cells that were changed, deleted, cleared or run, with their new revisions."""
    cells = [
        "@".join(filter(None, [str(cell["id"])[:ID], str(cell.get("revision") or "")[:ID]]))
        for cell in record.cells
    ]
    for name in ("deleted", "cleared"):
        if isinstance(ids := record.facts.get(name), list):
            cells += [str(cell)[:ID] for cell in ids]
    ran = [run.get("cell_id") for run in record.facts.get("runs") or ()]
    known = {cell.partition("@")[0] for cell in cells}
    return cells + [str(cell)[:ID] for cell in ran if cell is not None and cell not in known]
