"""Edits of callers that name cells by their indexes, as they were shown them.

Indexes shift while others work. So each of these refuses a call if another cell than the one that
the caller was shown is at an index by now, and keeps track of what the caller itself shifts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import editing
from .cell_selection import Targets, in_ranges, insertion_point
from .guards import RunRequest, guard_places
from .sites import SiteDocument


def cell_at(here: SiteDocument, index: int) -> int:
    """The cell at an index, which may count from the end.

    Raises:
        CellError: There is none, or not the one that the caller was shown.
    """
    guard_places(here, [index])
    return here.peer.notebook.position(index)


def cells_in(here: SiteDocument, ranges: Sequence[tuple[int, int | None]]) -> list[range]:
    """The cells of half-open ranges that are to be changed.

    Raises:
        InvalidArgument: A range is not one of existing cells.
        CellError: They are not those that the caller was shown.
    """
    chosen = in_ranges(here.peer.notebook, ranges)
    guard_places(here, [index for indexes in chosen for index in indexes])
    return chosen


def show(here: SiteDocument, indexes: Iterable[int]) -> None:
    """Record that the caller is shown the cells at some indexes."""
    here.seat.places.show((index, here.peer.notebook.id_at(index)) for index in indexes)


async def insert_at(
    here: SiteDocument, cells: Sequence[editing.NewCell], position: int, running: RunRequest
) -> list[str]:
    """Insert cells before the one at a position, or at the end for -1; returns their ids.

    At the top or the end of a new notebook, the first fills its empty cell.
    """
    notebook = here.peer.notebook
    place = insertion_point(notebook, position, None)
    guard_places(here, [place])
    only = notebook.id_at(0) if len(notebook) == 1 else None
    start, after = None, None
    if place == 0 or position == -1:
        start = 0 if place == 0 else -1
    else:  # by the cell before it: others may insert something until it is done
        after = notebook.id_at(place - 1)
    limits = here.site.workspace.limits
    made = editing.insert_cells(here, cells, None, start, after, limits, running)
    ids = await here.perform(made)
    filled = only is not None and only in ids
    place = 0 if filled else place
    here.seat.places.insert(place + filled, len(ids) - filled)
    here.seat.places.show((place + number, cell_id) for number, cell_id in enumerate(ids))
    return ids


async def delete_at(here: SiteDocument, indexes: Sequence[int]) -> list[str]:
    """Delete the cells at some indexes; returns their ids."""
    targets = Targets.of((index, None) for index in indexes)
    limits = here.site.workspace.limits
    gone = await here.perform(editing.delete_cells(here, targets, limits, RunRequest(False)))
    here.seat.places.delete(indexes)
    return gone
