"""The feed of the panel: calls appear as they begin, and nothing is missed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, agent
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.kernels import Gate
from tests.harness.panel import Panel

pytestmark = pytest.mark.anyio

UPDATE = "batch_update_notebook_cells"


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_call_appears_while_it_runs_and_again_when_it_is_over(
    server: JupyterProcess, tmp_path: Path, mode: str
) -> None:
    path = f"runs-{mode}.ipynb"
    notebooks.write(server.root / path, notebooks.numbered(2))
    gate = Gate(tmp_path / mode)
    async with Panel(server) as panel, agent(server, mode=mode) as ada:
        began = time.time()
        running = asyncio.create_task(ada.say("run_code", path=path, code=gate.code))
        call = await panel.until(lambda: panel.call_of("run_code", path=path), timeout=5)
        assert call["state"] == "running"
        assert call["kind"] == "run"
        assert time.time() - began < 2
        await panel.until(lambda: panel.agent("Ada")["doing"] == "running code")
        assert panel.agent("Ada")["connected"]
        assert panel.agent("Ada")["level"] == "admin"
        gate.open()
        await running
        done = await panel.until(lambda: panel.call_of("run_code", path=path, state="done"))
        assert done["id"] == call["id"]
        assert done["ended"] >= done["began"]
        await panel.until(lambda: panel.agent("Ada")["doing"] is None)


async def test_edits_reads_and_refusals_are_told_without_the_text_of_cells(
    server: JupyterProcess,
) -> None:
    notebooks.write(server.root / "told.ipynb", notebooks.numbered(3))
    secret = "the_words_of_a_cell"
    async with Panel(server) as panel, agent(server, permission="write") as ada:
        await ada.sources("told.ipynb")
        await ada.write("told.ipynb", "cell-00001", f"def load():\n    return '{secret}'")
        await ada.refused(
            UPDATE,
            path="told.ipynb",
            updates=[{"cell_id": "cell-00002", "old_text": secret, "new_text": "x"}],
            exec=False,
        )
        await ada.refused("run_code", path="told.ipynb", code=secret)
        await panel.until(lambda: panel.call_of("run_code", state="refused"))
        read = panel.call_of("get_notebook", state="done")
        assert read is not None
        assert (read["kind"], read["path"], read["review"]) == ("read", "told.ipynb", "none")
        edit = panel.call_of(UPDATE, state="done")
        assert edit is not None
        assert edit["summary"] == "edited load"
        assert edit["review"] == "open"
        (cell,) = edit["cells"]
        assert cell["cell_id"] == "cell-00001"
        assert cell["name"] == "load"
        assert cell["changes"] == ["source"]
        assert (cell["added"], cell["removed"]) == (2, 1)
        failed = panel.call_of(UPDATE, state="failed")
        assert failed is not None
        assert failed["error"] == "text mismatch"
        refused = panel.call_of("run_code")
        assert refused is not None
        assert "permission level execute" in refused["error"]
        assert panel.agent("Ada")["cell_id"] == "cell-00001"
        state = await panel.get("state")
        assert secret not in str(panel.events) + str(state)
        assert state["permission"] == "admin"


async def test_a_resource_that_is_read_is_a_read_of_its_document(server: JupyterProcess) -> None:
    notebooks.write(server.root / "resource.ipynb", notebooks.numbered(1))
    async with Panel(server) as panel, agent(server) as ada:
        joined = await ada.ask("create_notebook_session", path="resource.ipynb")
        uri = f"notebook://{joined['session_id']}/{joined['file_id']}"
        await ada.client.read_resource(uri)
        read = await panel.until(lambda: panel.call_of("resources/read", state="done"))
        assert (read["kind"], read["path"]) == ("read", "resource.ipynb")


async def test_a_call_is_told_within_a_fifth_of_a_second(server: JupyterProcess) -> None:
    notebooks.write(server.root / "soon.ipynb", notebooks.numbered(1))
    async with Panel(server) as panel, agent(server) as ada:
        delays = []
        for _ in range(10):
            seen = len(panel.events)
            await ada.sources("soon.ipynb")
            begun = await panel.until(
                lambda seen=seen: [e for e in panel.events[seen:] if e["kind"] == "call"]  # type: ignore[misc]
            )
            delays.append(time.time() * 1000 - begun[0]["call"]["began"])
        assert sorted(delays)[len(delays) // 2] < 200, delays


async def test_what_happened_during_a_cut_is_told_after_it(server: JupyterProcess) -> None:
    notebooks.write(server.root / "cut.ipynb", notebooks.numbered(2))
    async with Panel(server) as panel, agent(server) as ada:
        await ada.sources("cut.ipynb")
        await panel.until(lambda: panel.call_of("get_notebook", state="done", path="cut.ipynb"))
        await panel.cut()
        for number in range(5):
            await ada.write("cut.ipynb", "cell-00000", f"x = {number}")
        await panel.follow()
        assert panel.firsts == ["state", "events"]
        await panel.until(
            lambda: (
                len(
                    [
                        c
                        for c in panel.calls.values()
                        if c["tool"] == UPDATE and c["path"] == "cut.ipynb" and c["state"] == "done"
                    ]
                )
                == 5
            )
        )
        panel.epoch = "another"
        await panel.cut()
        known = dict(panel.calls)
        await panel.follow()
        assert panel.firsts[-1] == "state"
        assert panel.calls == known


async def test_calls_and_reviews_survive_a_restart_of_the_server(make_server: MakeServer) -> None:
    async with make_server(env=NOT_MEASURED) as server:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(3))
        async with Panel(server) as panel:
            async with agent(server) as ada:
                await ada.write("a.ipynb", "cell-00000", "kept = 1")
                first = await panel.open_call(UPDATE, "a.ipynb")
                await panel.post(f"calls/{first['id']}", action="keep")
                await ada.write("a.ipynb", "cell-00001", "open = 1")
                await panel.until(lambda: panel.call_of(UPDATE, review="open", state="done"))
            await panel.get("state")
            before = dict(panel.calls)
            await server.terminate()
            await server.start()
            await panel.cut()
            await panel.follow()
            assert panel.firsts[-1] == "state"
            assert panel.calls == before
            left = panel.call_of(UPDATE, review="open")
            assert left is not None
            undone = await panel.post(f"calls/{left['id']}", action="undo")
            assert undone["review"] == "undone"
        async with agent(server) as ada:
            assert (await ada.sources("a.ipynb"))[:2] == [
                "kept = 1",
                notebooks.numbered(3)["cells"][1]["source"],
            ]
