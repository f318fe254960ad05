"""Looking at many cells without holding up everybody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeVar

from ..documents.cell_view import CellView
from ..documents.notebook import Notebook

T = TypeVar("T")

#: Seconds after which others get their turn.
_SLICE = 0.01

#: Cells that are looked at in one go at most.
_MOST = 200

#: How often it begins anew because cells came or went. After that nobody gets a turn.
_ATTEMPTS = 3

#: Cells, and characters in them, from which on they are made into text in a thread.
_MANY, _MUCH = 100, 50_000

#: Characters that every cell has in a text beside its source: index, id, revision, type.
_FRAME = 20


async def read_cells(
    notebook: Notebook, choose: Callable[[], Sequence[int]], outputs: bool, enough: int | None
) -> list[CellView]:
    """Cells as plain values, each as it is when it is looked at.

    Args:
        choose: Says which; asked again if cells came or went meanwhile.
        enough: Characters of text that these cells are for; None if all are wanted.
    """
    for attempt in range(_ATTEMPTS + 1):
        structure = notebook.structure
        found: list[CellView] = []
        left, indexes = enough, choose()
        while len(found) < len(indexes):
            views = _slice(notebook, indexes[len(found) : len(found) + _MOST], outputs)
            found += views
            if left is not None:
                left -= sum(_FRAME + len(view.source) for view in views)
                if left < 0:
                    return found
            if attempt < _ATTEMPTS:
                await asyncio.sleep(0)
                if notebook.structure != structure:
                    break
        else:
            return found
    return found


def _slice(notebook: Notebook, indexes: Sequence[int], outputs: bool) -> list[CellView]:
    """The first of some cells, as many as can be looked at in one go."""
    found: list[CellView] = []
    end = time.perf_counter() + _SLICE
    with closing(notebook.views(indexes, outputs)) as views:
        for view in views:
            found.append(view)
            if time.perf_counter() > end:
                break
    return found


async def render_in_thread(cells: Sequence[CellView], make: Callable[[], T]) -> T:
    """What is made of cells, in a thread if they are much."""
    much = len(cells) > _MANY or sum(cell.weight for cell in cells) > _MUCH
    return await asyncio.to_thread(make) if much else make()
