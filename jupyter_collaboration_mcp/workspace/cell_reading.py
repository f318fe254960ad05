"""Reading many cells without blocking the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeVar

from ..documents.cell_view import CellView
from ..documents.notebook import Notebook

T = TypeVar("T")

#: Seconds after which the loop yields to other tasks.
_SLICE = 0.01

#: The most cells that are read without yielding.
_MOST = 200

#: How often reading starts over because cells came or went. After that it no longer yields.
_ATTEMPTS = 3

#: Cells, and characters in them, from which on they are rendered in a thread.
_MANY, _MUCH = 100, 50_000

#: Characters that every cell adds to a text beside its source: index, id, revision, type.
_FRAME = 20


async def read_cells(
    notebook: Notebook, choose: Callable[[], Sequence[int]], outputs: bool, enough: int | None
) -> list[CellView]:
    """Read cells as plain values, each as it is at the moment it is read.

    Args:
        choose: Picks the cells; called again if cells came or went in the meantime.
        enough: Characters of text that the caller can use; None to read all cells.
    """
    for attempt in range(_ATTEMPTS + 1):
        structure = notebook.structure
        found: list[CellView] = []
        left, indexes = enough, choose()
        while len(found) < len(indexes):
            if left is not None and left < 0:
                # One more than fits, so that the caller knows that there is more.
                return found + _slice(notebook, indexes[len(found) : len(found) + 1], outputs)
            views = _slice(notebook, indexes[len(found) : len(found) + _MOST], outputs)
            found += views
            if left is not None:
                left -= sum(_FRAME + len(view.source) for view in views)
            if attempt < _ATTEMPTS:
                await asyncio.sleep(0)
                if notebook.structure != structure:
                    break
        else:
            return found
    return found


def _slice(notebook: Notebook, indexes: Sequence[int], outputs: bool) -> list[CellView]:
    """The first of some cells, as many as can be read without yielding."""
    found: list[CellView] = []
    end = time.perf_counter() + _SLICE
    with closing(notebook.views(indexes, outputs)) as views:
        for view in views:
            found.append(view)
            if time.perf_counter() > end:
                break
    return found


async def render_in_thread(cells: Sequence[CellView], make: Callable[[], T]) -> T:
    """Render cells, in a thread if there is a lot to render."""
    much = len(cells) > _MANY or sum(cell.weight for cell in cells) > _MUCH
    return await asyncio.to_thread(make) if much else make()
