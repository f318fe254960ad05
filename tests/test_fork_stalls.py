"""Forking 5,000 cells, and merging a fork of them, blocks nobody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks, stall_meter
from tests.harness.agents import agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED
from tests.test_stalls import ATTEMPTS, excess, longest

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

CELLS = 5_000


async def test_forking_and_merging_thousands_of_cells_blocks_nobody(
    make_server: MakeServer,
) -> None:
    never = "--YDocExtension.document_save_delay=None"  # saving takes long, in Jupyter itself
    async with make_server(never, extensions={stall_meter.NAME: True}, env=NOT_MEASURED) as server:
        cells = [
            notebooks.code(f"cell-{n:05d}", f"total = sum(values) / {n}") for n in range(CELLS)
        ]
        notebooks.write(Path(server.root) / "large.ipynb", notebooks.notebook(cells))
        meter = httpx.AsyncClient(headers=server.headers, base_url=server.url, timeout=60)
        async with agent(server) as ada, meter:
            await ada.ask("get_notebook", path="large.ipynb", end_index=1)
            async with Collaborator(server.url, server.token, "large.ipynb") as ana:
                typed = 0

                async def type_on() -> None:
                    nonlocal typed
                    while True:
                        ana.insert("cell-04999", 0, "#")
                        typed += 1
                        await asyncio.sleep(0.02)

                typing = asyncio.create_task(type_on())
                worst: list[tuple[str, float]] = []
                for attempt in range(ATTEMPTS):
                    found: list[tuple[str, float]] = []
                    before = await longest(meter)
                    made = await ada.ask("fork_document", path="large.ipynb", title="Try")
                    found.append(("fork", excess(before, await longest(meter))))
                    updates = [
                        {"cell_id": f"cell-{n:05d}", "content": f"merged = {attempt}"}
                        for n in range(0, 3_000, 3)
                    ]
                    await ada.ask(
                        "batch_update_notebook_cells",
                        path=made["fork"],
                        updates=updates,
                        exec=False,
                    )
                    before = await longest(meter)
                    merged = await ada.ask("merge_document_fork", fork=made["fork"])
                    found.append(("merge", excess(before, await longest(meter))))
                    assert len(merged["cells"]) == len(updates)
                    worst = [each for each in found if each[1] > 1]
                    print(found)  # noqa: T201
                    if not worst:
                        break
                typing.cancel()
                assert not worst
                await ana.flush()
                assert ana.source("cell-04999").count("#") == typed
                assert ana.sources().count(f"merged = {attempt}") == len(updates)
