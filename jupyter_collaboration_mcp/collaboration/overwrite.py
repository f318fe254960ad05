"""Reapply what a room has lost because its file changed on disk (B9).

The room and its history continue: unlike after a restart, there is no other state to compare with.
Only the texts that the cells had just before are known, so what others had deleted of an agent's
work by then is not restored.
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
    """Reapply steps, as far as they are missing. The caller holds the transaction.

    Args:
        texts_before: The texts that the changed cells had, for those that existed.
        find_stray_text: Finds text that arrived after the file, as edits that remove it.
        late: The cells of steps that the room was not known to have by then.
        merge: Adds to a text what it lacks.

    Returns a report, and the changes that are in the document now and perhaps in no file.
    """
    report = ReapplyReport()
    left: list[Change] = []
    find_stray_text = cache(find_stray_text)  # rarely needed
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
    """Reapply changes in a cell that existed when the file came."""
    latest = existence(changes)
    if not cell.document.has(cell.cell_id):
        yield from latest.insert_again(cell)
        if not cell.is_inserted:
            return
    elif latest.exists_after:
        yield latest
    for kind, of_kind in by_kind(changes).items():
        yield from kind.reapply(of_kind, cell)
