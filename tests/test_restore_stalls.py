"""Restoring thousands of cells, and undoing it, blocks nobody, and loses nothing that people type.

With `--all` they are 10,000. The store's own checkpoints, which are upstream's, then take most of
the longest turn of the loop.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import MakeServer, Times
from tests.harness import notebooks, stall_meter
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED
from tests.test_stalls import ATTEMPTS, excess, longest

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

#: The cell that a person types in.
TYPED = "cell-02000-id"


def cells(count: int, word: str) -> list[dict[str, Any]]:
    return [
        notebooks.code(f"cell-{n:05d}-id", f"step = {n}\n{word} = sum(values) / {n}\n")
        for n in range(count)
    ]


async def version_now(ada: AgentClient) -> int:
    facts = await ada.ask("get_document_history", path="large.ipynb", limit=1)
    return int(facts["versions"][0]["version"])


async def test_restoring_thousands_of_cells_blocks_nobody_and_undo_neither(
    make_server: MakeServer, times: Times
) -> None:
    count = times(4_000, 10_000)
    never = "--YDocExtension.document_save_delay=None"  # saving takes long, in Jupyter itself
    async with make_server(never, extensions={stall_meter.NAME: True}, env=NOT_MEASURED) as server:
        file = Path(server.root) / "large.ipynb"
        notebooks.write(file, notebooks.notebook(cells(count, "total")))
        meter = httpx.AsyncClient(headers=server.headers, base_url=server.url, timeout=60)
        async with agent(server) as ada, meter:
            first = await version_now(ada)
            notebooks.write(file, notebooks.notebook(cells(count, "mean")))
            await ada.ask("get_notebook", path="large.ipynb", end_index=1)
            await version_now(ada)
            async with Collaborator(server.url, server.token, "large.ipynb") as ana:
                typed = 0

                async def type_on() -> None:
                    nonlocal typed
                    while True:
                        ana.insert(TYPED, 0, "#")
                        typed += 1
                        await asyncio.sleep(0.02)

                worst = []
                for _ in range(ATTEMPTS):
                    typing = asyncio.create_task(type_on())
                    found = []
                    for tool, more in (
                        ("restore_document_version", {"version": first}),
                        ("undo_agent_changes", {}),
                    ):
                        before = await longest(meter)
                        began = time.monotonic()
                        facts = await ada.ask(tool, path="large.ipynb", **more)
                        took = time.monotonic() - began
                        measured = await longest(meter)
                        print(f"{tool}: {took:.1f} s, {measured}")  # noqa: T201
                        found.append((tool, excess(before, measured), measured["callback"]))
                        if "counts" in facts:
                            assert facts["counts"] == {"edited": count}
                            assert facts["changed_meanwhile"] == {TYPED: ["Ana"]}
                    typing.cancel()
                    worst = [each for each in found if each[1] > 1]
                    if not worst:
                        break
                assert not worst
                await ana.flush()
                await ana.until(lambda: ana.source(TYPED).count("#") == typed)
                sources = ana.sources()
    assert typed
    assert [source.replace("#", "") for source in sources] == [
        cell["source"] for cell in cells(count, "mean")
    ]
