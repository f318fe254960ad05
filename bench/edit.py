"""A durable edit of one cell beside a no-op tool of the same server, in small and large notebooks.

Both are called over the same connection, so the ratio is what the edit itself costs. Answers are
those that agents get unless they ask for more.
"""

from __future__ import annotations

from functools import partial
from itertools import count

from tests.harness.agents import AgentClient, text_of
from tests.harness.jupyter import JupyterProcess

from .bare import NOOP
from .measuring import Call, Goal, Row, Sizes, interleave
from .serving import ERAS, connect, jupyter, make_notebook, saved, source

GOAL = Goal(1.5)
GROWTH = Goal(1.3)


async def run(sizes: Sizes) -> list[Row]:
    rows: list[Row] = []
    async with jupyter() as server:
        for cells in sizes.cells:
            make_notebook(server.root, _path(cells), cells)
        for mode in ERAS:
            rows += await _measure(server, mode, sizes)
    return rows


async def _measure(server: JupyterProcess, mode: str, sizes: Sizes) -> list[Row]:
    url, token = server.url, server.token
    async with (
        connect(url, token, mode=mode, structured="false") as ada,
        connect(url, token, "Bob", mode=mode) as bob,
    ):
        calls: dict[str, Call] = {}
        for cells in sizes.cells:
            # A floor for each size: one sample each, taken at the same moments.
            calls[f"noop {cells}"] = partial(ada.call, NOOP)
            calls[f"edit {cells}"] = _edits(ada, cells)
            await calls[f"edit {cells}"]()  # opens it
        for cells in sizes.cells:
            await saved(bob, _path(cells))
        times = await interleave(calls, sizes)
        for cells in sizes.cells:
            await saved(bob, _path(cells))
    rows = {
        cells: Row.compare(
            "edit",
            f"{cells:,} cells, {mode}",
            times[f"noop {cells}"],
            times[f"edit {cells}"],
            GOAL,
        )
        for cells in sizes.cells
    }
    small, large = rows[sizes.cells[0]].figure, rows[sizes.cells[-1]].figure
    case = f"{sizes.cells[-1]:,} against {sizes.cells[0]}, {mode}"
    growth = Row(
        "edit", case, sizes.calls, "x no-op", small, None, large, None, large / small, GROWTH
    )
    return [*rows.values(), growth]


def _edits(ada: AgentClient, cells: int) -> Call:
    """A call that gives the cell in the middle another line each time."""
    steps = count(cells + 1)
    cell_id = f"cell-{cells // 2:05d}"

    async def edit() -> None:
        update = {"cell_id": cell_id, "content": source(next(steps))}
        arguments = {"path": _path(cells), "updates": [update], "exec": False}
        result = await ada.call("batch_update_notebook_cells", **arguments)
        assert not result.is_error, text_of(result)

    return edit


def _path(cells: int) -> str:
    return f"{cells}.ipynb"
