"""While a large call is made, others are served: no callback of the event loop takes long.

What is measured is CPU time of the loop's thread, beside a piece of work that tells how fast the
machine is just then: a busy machine does not matter. What that does not see (a wait for the disk,
or for the interpreter) others notice by the clock: they are served within a limit that a busy
machine keeps, too.

All the while a person types in the notebook, in a cell that the calls do not change.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks, stall_meter
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.subscribers import address

pytestmark = pytest.mark.anyio

T = TypeVar("T")

#: Milliseconds of CPU time, on a machine on which the meter's piece of work takes this many.
LIMIT, UNIT = 100, 2.0

#: How often calls are made that seem to take long. Memory that the machine has to find for somebody
#: else first takes long once; what we do takes long each time.
ATTEMPTS = 3

#: Seconds that anybody else may wait for an answer, on a machine that may be very busy.
PATIENCE = 10.0

CELLS, MOST = 5_000, 1_000

NOTEBOOK, TEXT, LINES, BREAKS = "large.ipynb", "large.md", "lines.md", "breaks.md"
UNOPENED = "unopened.ipynb"

EVERY_FIFTH = list(range(0, CELLS, 5))

#: The cell that the person types in.
TYPED = "cell-00002-id"


def prepare(root: Path) -> None:
    cells = [
        notebooks.code(
            f"cell-{n:05d}-id",
            f"step = {n}\n" + "total = sum(values[1:10]) / 10\n" * 5,
            execution_count=n + 1 if n % 5 == 0 else None,
            outputs=[{"output_type": "stream", "name": "stdout", "text": f"{n}\n"}] * (n % 5 == 0),
        )
        for n in range(CELLS)
    ]
    for path in (NOTEBOOK, UNOPENED):
        notebooks.write(root / path, notebooks.notebook(cells))
    (root / TEXT).write_text("".join(f"{n:06d} the quick brown fox\n" for n in range(150_000)))
    (root / LINES).write_text("".join(f"{n:05d} the lazy dog\n" for n in range(20_000)))
    (root / BREAKS).write_text("\n" * 9_000_000)


@pytest.fixture(scope="module")
async def large(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A server with large documents, which are open.

    It does not save by itself: Jupyter's own saving of 5,000 cells takes a tenth of a second.
    """
    never = "--YDocExtension.document_save_delay=None"
    async with make_server(never, extensions={stall_meter.NAME: True}, env=NOT_MEASURED) as server:
        prepare(Path(server.root))
        async with agent(server) as ada:
            await ada.ask("create_notebook_session", path=NOTEBOOK)
            await ada.ask("name_document_version", path=NOTEBOOK, name="start")
            for path in (TEXT, LINES, BREAKS):
                await ada.ask("create_document_session", path=path)
        yield server


@pytest.fixture(scope="module")
async def meter(large: JupyterProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(headers=large.headers, base_url=large.url, timeout=60) as client:
        yield client


async def longest(meter: httpx.AsyncClient) -> dict[str, Any]:
    """What took longest since this was last asked, and what the piece of work took now."""
    found: dict[str, Any] = (await meter.get("stall-meter")).json()
    return found


def excess(before: dict[str, Any], found: dict[str, Any]) -> float:
    """How many times the limit a callback took, on a machine that is as slow as it is just then."""
    unit: float = max(UNIT, before["unit"], found["unit"])
    milliseconds: float = found["milliseconds"]
    return milliseconds / LIMIT * UNIT / unit


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"k": value}
    return value


LONG_NAMES = [f"{n:04d}" + "abcdefghij" * 99 for n in range(MOST)]

Case = tuple[str, dict[str, Any]]
"""A tool and its arguments."""

READS: dict[str, Case] = {
    "source": ("get_notebook", {"path": NOTEBOOK}),
    "outline": ("get_notebook", {"path": NOTEBOOK, "format": "outline"}),
    "authors": ("get_notebook", {"path": NOTEBOOK, "format": "outline", "authors": True}),
    "history": ("get_document_history", {"path": NOTEBOOK, "limit": 100}),
    "diff": ("diff_document_versions", {"path": NOTEBOOK, "from_version": "start"}),
    "full": ("get_notebook", {"path": NOTEBOOK, "format": "full"}),
    "a query": ("get_notebook", {"path": NOTEBOOK, "query": "(a+)+$" * 160}),
    "a query that is found": ("get_notebook", {"path": NOTEBOOK, "query": "t"}),
    "cells by index": ("get_notebook", {"path": NOTEBOOK, "cell_ids": EVERY_FIFTH}),
    "cells by prefix": (
        "get_notebook",
        {"path": NOTEBOOK, "cell_ids": [f"cell-{n:05d}" for n in range(1000, 2000)]},
    ),
    "one cell very often": ("get_notebook", {"path": NOTEBOOK, "cell_ids": [0] * 100_000}),
    "status": ("get_notebook_status", {"path": NOTEBOOK}),
    "a description": ("get_document_info", {"path": NOTEBOOK}),
    "all cells as JSON": ("read_nb_cells", {"path": NOTEBOOK}),
    "ranges of cells": ("read_nb_cells", {"path": NOTEBOOK, "ranges": [{"start": 0}] * 1000}),
    "a table of all cells": ("list_cell", {"notebook_name": "large", "limit": 0}),
    "all cells in pages": ("read_notebook", {"notebook_name": "large", "limit": 0}),
    "a text": ("get_document", {"path": TEXT}),
    "the end of a text": ("get_document", {"path": TEXT, "start_line": 149_999}),
    "a line far away": ("get_document", {"path": BREAKS, "start_line": 8_999_999}),
    "a path that is long": ("get_document", {"path": "x/" * 200_000}),
    "a path that is deep": ("get_document", {"path": "x/" * 50 + "y"}),
    "a filter": ("list_documents", {"path_filter": "*a" * 500}),
    "a prefix": ("list_notebooks", {"path_prefix": "x/" * 49}),
    "an unknown argument": ("get_notebook", {"path": NOTEBOOK, "x" * 4_000_000: 1}),
    "a list in a list": ("get_notebook", {"path": NOTEBOOK, "cell_ids": [[0] * 1000] * 500}),
    "a list as a text": (
        "get_notebook",
        {"path": NOTEBOOK, "cell_ids": "[" + "[]," * 5_000_000 + "[]]"},
    ),
    "a long text": ("get_notebook", {"path": NOTEBOOK, "query": "x" * 15_000_000}),
    "long names": ("get_notebook", {"path": NOTEBOOK, "cell_ids": LONG_NAMES}),
}

LIST: Case = ("list_agent_changes", {"path": NOTEBOOK})
UNDO: Case = ("undo_agent_changes", {"path": NOTEBOOK})
UNDO_TEXT: Case = ("undo_agent_changes", {"path": TEXT})

WRITES: dict[str, list[Case]] = {
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
        LIST,
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
    "five megabytes of metadata": [
        (
            "batch_update_notebook_cells",
            {
                "path": NOTEBOOK,
                "exec": False,
                "updates": [{"index": 1, "metadata": {f"k{n}": "x" * 1000}} for n in range(5_000)],
            },
        ),
    ],
    "as much metadata as there may be": [
        (
            "batch_update_notebook_cells",
            {
                "path": NOTEBOOK,
                "exec": False,
                "updates": [{"index": 1, "metadata": {f"k{n}": "x" * 980}} for n in range(1_000)],
            },
        ),
        UNDO,
    ],
    "folders in folders": [
        ("create_document", {"path": "z/" * 49 + "a.md", "type": "file"}),
    ],
}


#: What is refused of these, with the code of the error.
REFUSED = {
    "one cell very often": "too_large",
    "a path that is long": "too_large",
    "a path that is deep": "document_not_found",
    "an unknown argument": "invalid_argument",
    "a list in a list": "too_large",
    "a list as a text": "too_large",
    "a long text": "too_large",
    "long names": "cell_not_found",
    "text that is not there": "text_mismatch",
    "too many operations": "too_large",
    "five megabytes of metadata": "too_large",
}


@pytest.fixture(scope="module")
async def reader(large: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(large, "Rea", permission="read", toolsets="all") as client:
        await client.ask("connect_notebook", notebook_name="large", notebook_path=NOTEBOOK)
        yield client


@pytest.fixture(scope="module")
async def writer(large: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(large, "Will", permission="write") as client:
        yield client


@pytest.fixture(scope="module")
async def person(large: JupyterProcess) -> AsyncIterator[Collaborator]:
    async with Collaborator(large.url, large.token, NOTEBOOK) as ana:
        ana.put_caret(TYPED)  # so that each call has to find out which cell that is
        await ana.flush()
        yield ana


@asynccontextmanager
async def typing(person: Collaborator) -> AsyncIterator[None]:
    """Somebody types ten characters a second, of which none is lost."""
    before, typed = person.source(TYPED), 0

    async def type_on() -> None:
        nonlocal typed
        while True:
            typed += 1  # first: it is typed even if this ends in the next line
            await person.type(TYPED, None, "k")
            await asyncio.sleep(0.1)

    task = asyncio.ensure_future(type_on())
    try:
        yield
    finally:
        task.cancel()
    assert typed > 0
    assert person.source(TYPED) == before + "k" * typed


async def beside(
    meter: httpx.AsyncClient, request: Awaitable[T], name: str
) -> tuple[T, tuple[float, str]]:
    """Make a request while others ask how the server is.

    Returns:
        Its answer; how many times the limit its longest callback took, and which one that was.
    """
    waits: list[float] = []

    async def ask_on() -> None:
        while True:
            start = time.monotonic()
            (await meter.get("api/status")).raise_for_status()
            waits.append(time.monotonic() - start)
            await asyncio.sleep(0.05)

    before = await longest(meter)
    others = asyncio.ensure_future(ask_on())
    answer = await request
    others.cancel()
    found = await longest(meter)
    assert max(waits, default=0) < PATIENCE, name
    return answer, (excess(before, found), f"{name}: {found}")


async def measure(
    client: AgentClient, meter: httpx.AsyncClient, case: Case, refused: str | None
) -> tuple[float, str]:
    """Make a call beside others, and see that it did what it should."""
    tool, arguments = case
    result, found = await beside(meter, client.call(tool, **arguments), tool)
    assert result.structured_content is not None
    error = result.structured_content.get("error", {})
    assert (result.is_error, error.get("code")) == (refused is not None, refused), error
    return found


@pytest.mark.parametrize("call", READS)
async def test_reads_block_nobody(reader: AgentClient, meter: httpx.AsyncClient, call: str) -> None:
    found: list[tuple[float, str]] = []
    while not found or found[-1][0] >= 1:
        assert len(found) < ATTEMPTS, found
        found.append(await measure(reader, meter, READS[call], REFUSED.get(call)))


@pytest.mark.parametrize("form", ["srcmd", "json", "cells", "cells/cell-04999-id"])
async def test_reading_resources_blocks_nobody(
    large: JupyterProcess, reader: AgentClient, meter: httpx.AsyncClient, form: str
) -> None:
    uri = f"{await address(large, NOTEBOOK)}/{form}"
    found: list[tuple[float, str]] = []
    while not found or found[-1][0] >= 1:
        assert len(found) < ATTEMPTS, found
        result, took = await beside(meter, reader.client.read_resource(uri), form)
        (content,) = result.contents
        assert "step = 4999" in getattr(content, "text", "")
        found.append(took)


async def test_listing_resources_and_filling_in_a_prompt_blocks_nobody(
    reader: AgentClient, meter: httpx.AsyncClient
) -> None:
    await reader.ask("get_notebook", path=NOTEBOOK, format="outline")
    requests: dict[str, Callable[[], Awaitable[object]]] = {
        "list": reader.client.list_resources,
        "prompt": lambda: reader.client.get_prompt("review_notebook", {"path": NOTEBOOK}),
    }
    for name, request in requests.items():
        found: list[tuple[float, str]] = []
        while not found or found[-1][0] >= 1:
            assert len(found) < ATTEMPTS, found
            found.append((await beside(meter, request(), name))[1])


@pytest.mark.parametrize("calls", WRITES)
async def test_writes_block_nobody(
    writer: AgentClient, person: Collaborator, meter: httpx.AsyncClient, calls: str
) -> None:
    async with typing(person):
        found: list[tuple[float, str]] = []
        while not found or found[-1][0] >= 1:
            assert len(found) < ATTEMPTS, found
            found.append(
                max(
                    [
                        await measure(writer, meter, case, REFUSED.get(calls))
                        for case in WRITES[calls]
                    ]
                )
            )


async def test_a_request_with_millions_of_values_is_refused_before_it_is_parsed(
    reader: AgentClient, meter: httpx.AsyncClient
) -> None:
    call = {"name": "get_notebook", "arguments": {"path": NOTEBOOK, "cell_ids": []}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    body = request.replace("[]", "[0" + ",0" * 10_000_000 + "]")
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    before = await longest(meter)
    answer = await meter.post("mcp?permission=read", content=body, headers=headers)
    found = await longest(meter)
    assert (answer.status_code, "values in one request" in answer.text) == (413, True)
    assert excess(before, found) < 1, found


async def test_opening_a_large_notebook_blocks_nobody(
    reader: AgentClient, meter: httpx.AsyncClient
) -> None:
    opening = ("create_notebook_session", {"path": UNOPENED})
    found = await measure(reader, meter, opening, None)
    assert found[0] < 1, found
