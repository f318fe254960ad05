"""Find edits that reached the room after it reloaded a changed file (B9).

The server replaces a text as a whole: it removes everything that it knows and writes the content of
the file. An edit that arrives later finds nothing left of the text around it, and ends up before or
after everything. Its characters are found by their client and clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pycrdt import Doc

from ..documents.differ import Edit
from ..documents.notebook import Notebook
from ..documents.text_document import Document, TextDocument
from ..documents.updates import deletion
from .changes import by_cell
from .replica import Clocks
from .unsaved_steps import Entry


def find_stray_text(
    document: Document, client: int, unsaved: Sequence[Entry]
) -> Mapping[str, list[Edit]]:
    """Find text that arrived after the file, as edits that remove it, by cell.

    Args:
        client: The client that made the edits.
        unsaved: The entries that were unsaved when the file overwrote the room.
    """
    # In a notebook, the server removes everything that it knows of each cell that it changes.
    late = [
        entry
        for entry in unsaved
        if isinstance(document, Notebook) or _is_late(document, client, entry)
    ]
    found: dict[str, list[Edit]] = {}
    if not late:
        return found
    copy = _copy(document)
    cells = filter(copy.has, by_cell([entry.step for entry in late]))
    texts = {cell: copy.shared_source(copy.find(cell)) for cell in cells}
    observed = [
        (shared, shared.observe(partial(_keep_removals, found, cell, str(shared))))
        for cell, shared in texts.items()
    ]
    _remove(copy, client, [entry.written for entry in late])
    for shared, subscription in observed:  # B28: otherwise it would stay in memory
        shared.unobserve(subscription)
    copy.close()
    return found


def _is_late(document: TextDocument, client: int, entry: Entry) -> bool:
    """Whether a text has all that a step wrote, and the room may have received it after the file.

    The server may keep letters that it knows where the file seems to have the same ones.
    """
    start, end = entry.written
    if entry.acknowledged or start == end:
        return False
    without = _copy(document)
    _remove(without, client, [entry.written])
    kept = _length(str(without))
    without.close()
    return _length(str(document)) - kept == end - start


def _copy(document: Document) -> Document:
    doc: Doc[Any] = Doc()
    doc.apply_update(document.doc.get_update())
    return type(document)(doc, follows=False)


def _remove(document: Document, client: int, written: Sequence[Clocks]) -> None:
    with document.doc.transaction():
        for start, end in written:
            if start < end:
                document.doc.apply_update(deletion(client, start, end - start))


def _keep_removals(found: dict[str, list[Edit]], cell: str, old: str, event: Any) -> None:
    content = old.encode()  # pycrdt counts in bytes
    at = 0
    for operation in event.delta:
        size = int(operation.get("retain") or operation["delete"])
        if "delete" in operation:
            start = len(content[:at].decode())
            end = start + len(content[at : at + size].decode())
            found.setdefault(cell, []).append(Edit(start, end, ""))
        at += size


def _length(text: str) -> int:
    """The length of a text, in the units of a clock."""
    return len(text.encode("utf-16-le")) // 2
