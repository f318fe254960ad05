"""Large calls: for how long the server serves nobody else, at a notebook of 5,000 cells.

A fifth of the cells is as many as one call may change. The figure is the longest callback of the
event loop in CPU time, which does not depend on what else the machine does; what others waited for
`/api/status` on the clock stands beside it as `subject`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from tests.harness import notebooks, stall_meter
from tests.harness.agents import AgentClient
from tests.harness.jupyter import JupyterProcess

from .measuring import Goal, Row, Sizes
from .serving import asking, connect, jupyter, make_notebook, saved

WORST = Goal(100)

_PATH, _TEXT = "stalls.ipynb", "stalls.md"

Call = Callable[[AgentClient, int], Awaitable[object]]


async def run(sizes: Sizes) -> list[Row]:
    cells = sizes.cells[-1] // 2
    rows: list[Row] = []
    # Only here: what it does at each callback of the loop would count in other figures.
    meter = {stall_meter.NAME: True}
    async with jupyter(extensions=meter) as server, connect(server.url, server.token) as ada:
        _prepare(server.root, cells)
        await ada.ask("list_notebooks")
        for case, call in _CASES.items():
            rows.append(await _measure(server, ada, case, call, cells))
            await saved(ada, _PATH)
    return rows


def _prepare(root: Path, cells: int) -> None:
    make_notebook(root, _PATH, cells)
    content = json.loads((root / _PATH).read_text())
    for number, cell in enumerate(content["cells"][::5]):
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": f"{number}\n"}]
        cell["execution_count"] = number + 1
    notebooks.write(root / _PATH, content)
    lines = "".join(f"{n:05d} the quick brown fox jumps over the lazy dog\n" for n in range(20_000))
    (root / _TEXT).write_text(lines)


async def _open(ada: AgentClient, cells: int) -> None:
    await ada.ask("create_notebook_session", path=_PATH)


def _read(form: str) -> Call:
    async def call(ada: AgentClient, cells: int) -> None:
        await ada.ask("get_notebook", path=_PATH, format=form)

    return call


async def _update(ada: AgentClient, cells: int) -> None:
    updates = [
        {"index": 2 * n, "old_text": "step = ", "new_text": f"step_{n} = "}
        for n in range(cells // 5)
    ]
    await ada.ask("batch_update_notebook_cells", path=_PATH, updates=updates, exec=False)


async def _undo(ada: AgentClient, cells: int) -> None:
    await ada.ask("undo_agent_changes", path=_PATH)


async def _delete(ada: AgentClient, cells: int) -> None:
    first, last = cells // 5, 2 * cells // 5
    await ada.ask("batch_delete_notebook_cells", path=_PATH, start_index=first, end_index=last)


async def _scattered(ada: AgentClient, cells: int) -> None:
    chosen = list(range(0, cells, 5))
    await ada.ask("batch_delete_notebook_cells", path=_PATH, cell_ids=chosen)


async def _move(ada: AgentClient, cells: int) -> None:
    chosen = list(range(0, cells, 5))
    await ada.ask("move_notebook_cells", path=_PATH, cell_ids=chosen, to_index=-1)


async def _insert(ada: AgentClient, cells: int) -> None:
    new = [{"content": f"x = {n}"} for n in range(cells // 5)]
    await ada.ask(
        "batch_insert_notebook_cells", path=_PATH, cells=new, start_position=10, exec=False
    )


async def _clear(ada: AgentClient, cells: int) -> None:
    await ada.ask("clear_notebook_outputs", path=_PATH)


async def _open_text(ada: AgentClient, cells: int) -> None:
    await ada.ask("create_document_session", path=_TEXT)


async def _operations(ada: AgentClient, cells: int) -> None:
    changes: list[dict[str, Any]] = [
        {"old_text": f"{7 * n:05d} the", "new_text": f"{7 * n:05d} one"} for n in range(cells // 5)
    ]
    await ada.ask("batch_update_document", path=_TEXT, operations=changes)


async def _undo_text(ada: AgentClient, cells: int) -> None:
    await ada.ask("undo_agent_changes", path=_TEXT)


_CASES: dict[str, Call] = {
    "open": _open,
    "read source": _read("source"),
    "read outline": _read("outline"),
    "read full": _read("full"),
    "update a fifth": _update,
    "undo it": _undo,
    "delete a fifth": _delete,
    "undo that": _undo,
    "delete every fifth": _scattered,
    "undo that too": _undo,
    "move every fifth": _move,
    "undo the move": _undo,
    "insert a fifth": _insert,
    "undo the insertion": _undo,
    "clear a fifth": _clear,
    "undo the clearing": _undo,
    "open a text": _open_text,
    "1,000 operations": _operations,
    "undo them": _undo_text,
}


async def _measure(
    server: JupyterProcess, ada: AgentClient, case: str, call: Call, cells: int
) -> Row:
    async with httpx.AsyncClient(headers=server.headers, timeout=60) as http:
        await http.get(f"{server.url}stall-meter")
        async with asking(server) as times:
            await call(ada, cells)
        longest = (await http.get(f"{server.url}stall-meter")).json()
    return Row(
        "stalls",
        f"{cells:,} cells, {case}: longest callback, and worst /api/status",
        len(times),
        "ms",
        None,
        None,
        max(times),
        None,
        longest["milliseconds"],
        WORST,
    )
