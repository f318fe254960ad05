"""While a large call is made, others are served: no callback of the event loop takes long.

What is measured is CPU time of the loop's thread, so that a busy machine does not matter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks, stall_meter
from tests.harness.agents import AgentClient, agent
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess

pytestmark = pytest.mark.anyio

#: Milliseconds.
LIMIT = 100

CELLS, MOST = 5_000, 1_000

NOTEBOOK, TEXT, LINES, BREAKS = "large.ipynb", "large.md", "lines.md", "breaks.md"

EVERY_FIFTH = list(range(0, CELLS, 5))


def prepare(root: Path) -> None:
    cells = [
        notebooks.code(
            f"cell-{n:05d}",
            f"step = {n}\n" + "total = sum(values[1:10]) / 10\n" * 5,
            execution_count=n + 1 if n % 5 == 0 else None,
            outputs=[{"output_type": "stream", "name": "stdout", "text": f"{n}\n"}] * (n % 5 == 0),
        )
        for n in range(CELLS)
    ]
    notebooks.write(root / NOTEBOOK, notebooks.notebook(cells))
    (root / TEXT).write_text("".join(f"{n:06d} the quick brown fox\n" for n in range(150_000)))
    (root / LINES).write_text("".join(f"{n:05d} the lazy dog\n" for n in range(20_000)))
    (root / BREAKS).write_text("\n" * 9_000_000)


@pytest.fixture(scope="module")
async def large(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A server with large documents, which are open.

    It does not save by itself: Jupyter's own saving of 5,000 cells takes a tenth of a second.
    """
    late = "--YDocExtension.document_save_delay=3600"
    async with make_server(late, extensions={stall_meter.NAME: True}, env=NOT_MEASURED) as server:
        prepare(Path(server.root))
        async with agent(server) as ada:
            await ada.ask("create_notebook_session", path=NOTEBOOK)
            for path in (TEXT, LINES, BREAKS):
                await ada.ask("create_document_session", path=path)
        yield server


@pytest.fixture(scope="module")
async def meter(large: JupyterProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(headers=large.headers, base_url=large.url, timeout=60) as client:
        yield client


async def longest(meter: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await meter.get("stall-meter")).json()
    return found


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"k": value}
    return value


READS: dict[str, tuple[str, dict[str, Any]]] = {
    "source": ("get_notebook", {"path": NOTEBOOK}),
    "outline": ("get_notebook", {"path": NOTEBOOK, "format": "outline"}),
    "full": ("get_notebook", {"path": NOTEBOOK, "format": "full"}),
    "a query": ("get_notebook", {"path": NOTEBOOK, "query": "(a+)+$" * 160}),
    "a query that is found": ("get_notebook", {"path": NOTEBOOK, "query": "t"}),
    "cells by index": ("get_notebook", {"path": NOTEBOOK, "cell_ids": EVERY_FIFTH}),
    "cells by prefix": (
        "get_notebook",
        {"path": NOTEBOOK, "cell_ids": [f"cell-{n:04d}" for n in range(100, 500)]},
    ),
    "one cell very often": ("get_notebook", {"path": NOTEBOOK, "cell_ids": [0] * 100_000}),
    "status": ("get_notebook_status", {"path": NOTEBOOK}),
    "a description": ("get_document_info", {"path": NOTEBOOK}),
    "a text": ("get_document", {"path": TEXT}),
    "the end of a text": ("get_document", {"path": TEXT, "start_line": 149_999}),
    "a line far away": ("get_document", {"path": BREAKS, "start_line": 8_999_999}),
    "a path that is long": ("get_document", {"path": "x/" * 200_000}),
    "a path that is deep": ("get_document", {"path": "x/" * 50 + "y"}),
    "a filter": ("list_documents", {"path_filter": "*a" * 500}),
    "a prefix": ("list_notebooks", {"path_prefix": "x/" * 49}),
    "an unknown argument": ("get_notebook", {"path": NOTEBOOK, "x" * 4_000_000: 1}),
    "a list in a list": ("get_notebook", {"path": NOTEBOOK, "cell_ids": [[0] * 1000] * 1000}),
    "a list as a text": ("get_notebook", {"path": NOTEBOOK, "cell_ids": "[" * 2_000_000}),
}

UNDO: tuple[str, dict[str, Any]] = ("undo_agent_changes", {"path": NOTEBOOK})
UNDO_TEXT: tuple[str, dict[str, Any]] = ("undo_agent_changes", {"path": TEXT})

WRITES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "updates": [
        (
            "batch_update_notebook_cells",
            {
                "path": NOTEBOOK,
                "exec": False,
                "updates": [
                    {"index": n, "old_text": "step", "new_text": "steps"} for n in EVERY_FIFTH
                ],
            },
        ),
        UNDO,
    ],
    "a large cell": [
        (
            "batch_update_notebook_cells",
            {
                "path": NOTEBOOK,
                "exec": False,
                "updates": [{"index": 1, "content": "\n".join(f"a{n % 7}" for n in range(9_999))}],
            },
        ),
        (
            "batch_update_notebook_cells",
            {
                "path": NOTEBOOK,
                "exec": False,
                "updates": [{"index": 1, "content": "\n".join(f"a{n % 11}" for n in range(9_999))}],
            },
        ),
        ("undo_agent_changes", {"path": NOTEBOOK, "steps": 2}),
    ],
    "metadata": [
        (
            "batch_update_notebook_cells",
            {
                "path": NOTEBOOK,
                "exec": False,
                "updates": [{"index": 1, "metadata": {"k": list(range(49_000)), "d": deep(60)}}],
            },
        ),
        UNDO,
    ],
    "deletion of a range": [
        (
            "batch_delete_notebook_cells",
            {"path": NOTEBOOK, "start_index": 1000, "end_index": 1000 + MOST},
        ),
        UNDO,
    ],
    "deletion": [
        ("batch_delete_notebook_cells", {"path": NOTEBOOK, "cell_ids": EVERY_FIFTH}),
        UNDO,
    ],
    "moving": [
        ("move_notebook_cells", {"path": NOTEBOOK, "cell_ids": EVERY_FIFTH, "to_index": -1}),
        UNDO,
    ],
    "insertion": [
        (
            "batch_insert_notebook_cells",
            {
                "path": NOTEBOOK,
                "exec": False,
                "cells": [{"content": f"x = {n}"} for n in range(MOST)],
                "positions": EVERY_FIFTH,
            },
        ),
        UNDO,
    ],
    "clearing": [("clear_notebook_outputs", {"path": NOTEBOOK}), UNDO],
    "operations in a text": [
        (
            "batch_update_document",
            {
                "path": LINES,
                "operations": [
                    {"old_text": f"{7 * n:05d} the", "new_text": f"{7 * n:05d} one"}
                    for n in range(MOST)
                ],
            },
        ),
        ("undo_agent_changes", {"path": LINES}),
    ],
    "positions in a large text": [
        (
            "batch_update_document",
            {
                "path": TEXT,
                "operations": [
                    {"content": "x", "position": 4_000 * n, "length": 3} for n in range(MOST)
                ],
            },
        ),
        UNDO_TEXT,
    ],
    "a text instead of another": [
        (
            "create_document",
            {
                "path": LINES,
                "type": "file",
                "overwrite": True,
                "content": "\n".join(f"b{n % 13}" for n in range(200_000)),
            },
        ),
        ("undo_agent_changes", {"path": LINES}),
    ],
    "text that is not there": [
        (
            "batch_update_document",
            {"path": TEXT, "operations": [{"old_text": "a" * 3_000_000, "new_text": ""}]},
        ),
    ],
    "too many operations": [
        ("batch_update_document", {"path": TEXT, "operations": [{"content": "x"}] * 100_000}),
    ],
    "folders in folders": [
        ("create_document", {"path": "z/" * 49 + "a.md", "type": "file"}),
    ],
}


@pytest.fixture(scope="module")
async def reader(large: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(large, "Rea", permission="read") as client:
        yield client


@pytest.fixture(scope="module")
async def writer(large: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(large, "Will", permission="write") as client:
        yield client


@pytest.mark.parametrize("call", READS)
async def test_a_reader_holds_nobody_up(
    reader: AgentClient, meter: httpx.AsyncClient, call: str
) -> None:
    tool, arguments = READS[call]
    await longest(meter)
    await reader.call(tool, **arguments)
    found = await longest(meter)
    assert found["milliseconds"] < LIMIT, found


@pytest.mark.parametrize("calls", WRITES)
async def test_a_writer_holds_nobody_up(
    writer: AgentClient, meter: httpx.AsyncClient, calls: str
) -> None:
    for tool, arguments in WRITES[calls]:
        await longest(meter)
        await writer.call(tool, **arguments)
        found = await longest(meter)
        assert found["milliseconds"] < LIMIT, (tool, found)
