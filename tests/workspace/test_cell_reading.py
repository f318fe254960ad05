"""Reading many cells gives way to others."""

from __future__ import annotations

from itertools import count

import pytest

from jupyter_collaboration_mcp.documents.cell_view import CellView
from jupyter_collaboration_mcp.workspace import cell_reading
from tests.harness.memory_room import MemoryRoom


@pytest.mark.parametrize(("seconds", "cells"), [(1.0, 1), (0.003, 4)])
def test_reading_yields_to_others_after_a_slow_cell(
    monkeypatch: pytest.MonkeyPatch, seconds: float, cells: int
) -> None:
    clock = count()
    monkeypatch.setattr("time.perf_counter", lambda: next(clock) * seconds)
    notebook = MemoryRoom([str(n) for n in range(20)]).notebook
    looking = cell_reading.read_cells(notebook, lambda: range(20), outputs=True, enough=None)
    turns = 0
    found: list[CellView] = []
    while not found:
        try:
            looking.send(None)
            turns += 1
        except StopIteration as ended:
            found = ended.value
    assert turns == 20 / cells
    assert [view.source for view in found] == [str(n) for n in range(20)]


@pytest.mark.anyio
@pytest.mark.parametrize(("enough", "read"), [(10, 2), (21, 2), (22, 3), (1_000, 20)])
async def test_one_cell_more_than_fits_is_read_however_slow_that_is(
    monkeypatch: pytest.MonkeyPatch, enough: int, read: int
) -> None:
    """Otherwise an answer would not say that there is more. Each cell here counts as 22."""
    clock = count()
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))  # one cell at a time
    notebook = MemoryRoom([f"{n:02d}" for n in range(20)]).notebook
    found = await cell_reading.read_cells(notebook, lambda: range(20), False, enough)
    assert [view.source for view in found] == [f"{n:02d}" for n in range(read)]
