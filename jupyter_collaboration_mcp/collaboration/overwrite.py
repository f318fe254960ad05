"""Reapply what a change of the file on disk has taken from a room (B9).

The room goes on, and its history too: there is no other state to compare with, as there is after a
restart. What the cells said just before is all that is known; so what others had deleted of an
agent's work by then is not brought back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache

from ..documents.differ import Edit
from ..documents.text_document import Document
from .changes import Change, Step, by_cell, by_kind, existence, known_texts
from .changes.change import Merge, OverwrittenCell, ReapplyReport
from .line_merge import merge_lines


def reapply_overwritten(
    document: Document,
    steps: Sequence[Step],
    texts_before: Mapping[str, str],
    find_stray_text: Callable[[], Mapping[str, Sequence[Edit]]],
    late: Collection[str],
    merge: Merge = merge_lines,
) -> tuple[ReapplyReport, list[Change]]:
    """Reapply steps, as far as they are missing. The caller has a transaction.

    Args:
        texts_before: What the cells said that the steps have changed, of those that were there.
        find_stray_text: Finds what came to the document after the file, as edits that remove it.
        late: The cells of steps that were not known to be with the room by then.
        merge: How a text is given what it lacks.

    Returns what was done, and what of the steps is in the document now and perhaps in no file.
    """
    report = ReapplyReport()
    left: list[Change] = []
    find_stray_text = cache(find_stray_text)  # which is rarely needed
    for cell_id, changes in by_cell(steps).items():
        text = texts_before.get(cell_id)
        cell = OverwrittenCell(
            cell_id, document, text or "", report, find_stray_text, cell_id in late, merge
        )
        if text is None:
            left += existence(changes).delete_again(cell, known_texts(changes))
        else:
            left += _reapply_in(cell, changes)
        if cell.is_changed:
            report.cells.append(cell_id)
    return report, left


def _reapply_in(cell: OverwrittenCell, changes: Sequence[Change]) -> Iterator[Change]:
    """Reapply in a cell that was there when the file came."""
    latest = existence(changes)
    if not cell.document.has(cell.cell_id):
        yield from latest.insert_again(cell)
        if not cell.is_inserted:
            return
    elif latest.exists_after:
        yield latest
    for kind, of_kind in by_kind(changes).items():
        yield from kind.reapply(of_kind, cell)
