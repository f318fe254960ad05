"""What is known about documents, cells and runs beside their content, under the names that clients
find in `_meta`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ..backends.protocols.files import FileEntry
from ..collaboration.peer import RoomPeer
from ..documents.addresses import CellOutput
from ..documents.cell_view import CellView
from ..documents.languages import Language
from ..documents.outputs import error_name, kinds
from ..documents.template import METADATA

#: When a kernel reported that it was done with a cell, in the cell's metadata.
_ENDED = "shell.execute_reply"


def document_meta(peer: RoomPeer, entry: FileEntry) -> dict[str, Any]:
    """What is known about a document without reading it."""
    link = peer.link
    changed = datetime.fromtimestamp(peer.version / 1000, UTC)
    known: dict[str, Any] = {
        "sessionId": link.session_id,
        "notebookId": link.room_id.file_id,
        "path": entry.path,
        "createdAt": entry.created,
        "lastModified": entry.last_modified if link.saved else _iso(changed),
    }
    if link.room_id.kind == "notebook":
        ours = peer.notebook.notebook_metadata.get(METADATA)
        known["cellCount"] = len(peer.notebook)
        known["pattern"] = ours.get("pattern") if isinstance(ours, Mapping) else None
    return {name: value for name, value in known.items() if value is not None}


def executions_meta(cells: Iterable[CellView]) -> dict[str, Any]:
    """What is known about the runs of a notebook, from its cells with their outputs."""
    ended: list[str] = []
    counts, failed = [0], False
    for cell in cells:
        timings = cell.metadata.get("execution")
        if isinstance(timings, Mapping) and isinstance(timings.get(_ENDED), str):
            ended.append(timings[_ENDED])
        counts.append(cell.execution_count or 0)
        failed = failed or error_name(cell.outputs) is not None
    known: dict[str, Any] = {"totalExecutions": max(counts), "hasErrors": failed}
    if ended:
        known["lastExecuted"] = max(ended)
    return known


def cell_meta(peer: RoomPeer, cell: CellView, language: Language) -> dict[str, Any]:
    """What is known about a cell."""
    known: dict[str, Any] = {
        "cellId": cell.id,
        "cellType": cell.cell_type,
        "index": cell.index,
        "revision": cell.revision,
    }
    if cell.cell_type == "code":
        link = peer.link
        known |= {
            "language": language.name,
            "status": cell.execution_state or "idle",
            "executionCount": cell.execution_count,
            "hasOutputs": bool(cell.outputs),
            "outputs": [
                {
                    "uri": CellOutput(
                        link.session_id, link.room_id.file_id, cell.id, number
                    ).format(),
                    "kind": " ".join(kinds([output])),
                }
                for number, output in enumerate(cell.outputs)
            ],
        }
    return known


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
