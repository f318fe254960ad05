"""What an agent wrote is on disk before its code runs, although the server would save later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.disks import FULL
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.ways import WAYS, served
from tests.tools.conftest import MakeGate, New, Warm

pytestmark = pytest.mark.anyio

#: By itself this server saves after any of these tests.
LATE = "--YDocExtension.document_save_delay=600"
MANAGER = "--ServerApp.contents_manager_class=tests.harness.disks.FullDisk"

SHOW = "print(open('data.txt').read())"


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    async with served(make_server, request.param, LATE, MANAGER) as process:
        yield process


@pytest.fixture
def root(server: JupyterProcess) -> Path:
    return Path(server.root)


async def edit(ada: AgentClient, path: str, old: str, new: str) -> dict[str, Any]:
    return await ada.ask(
        "batch_update_document", path=path, operations=[{"old_text": old, "new_text": new}]
    )


async def test_a_module_is_reloaded_with_the_agents_latest_edit(
    root: Path, ada: AgentClient, warm: Warm
) -> None:
    path = await warm()
    (root / "lib.py").write_text("VALUE = 1\n")
    assert "is 1" in await ada.say("run_code", path=path, code="import lib; print('is', lib.VALUE)")
    reload = "import importlib; importlib.reload(lib); print('is', lib.VALUE)"
    for value in (1, 2):  # within one second: Python would take its compiled code for current
        facts = await edit(ada, "lib.py", f"= {value}", f"= {value + 1}")
        assert facts["saved"] is False
        told = await ada.say("run_code", path=path, code=reload)
        assert f"is {value + 1}" in told
        assert "not on disk" not in told


async def test_every_way_to_run_code_sees_the_agents_edits(
    root: Path, ada: AgentClient, warm: Warm
) -> None:
    path = await warm(SHOW, f"input('?')\n{SHOW}")
    (root / "data.txt").write_text("text 0\n")
    cells = "batch_update_notebook_cells"
    asked = await ada.ask("execute_notebook_cell", path=path, cell_id="cell-1", timeout=10)
    run_id = asked["runs"][0]["run_id"]
    ways: list[Callable[[], Awaitable[str]]] = [
        lambda: ada.say("reply_to_input", run_id=run_id, text="x"),
        lambda: ada.say("execute_notebook_cell", path=path, cell_id="cell-0"),
        lambda: ada.say("batch_execute_notebook_cells", path=path, cell_ids=["cell-0"]),
        lambda: ada.say("batch_insert_notebook_cells", path=path, cells=[{"content": SHOW}]),
        lambda: ada.say(cells, path=path, updates=[{"cell_id": "cell-0", "content": f"{SHOW} "}]),
        lambda: ada.say("batch_delete_notebook_cells", path=path, cell_ids=["cell-0"], exec=True),
        lambda: ada.say("run_code", path=path, code=SHOW),
    ]
    for number, run in enumerate(ways):
        await edit(ada, "data.txt", f"text {number}", f"text {number + 1}")
        assert f"text {number + 1}" in await run()


async def test_a_restarted_or_changed_kernel_finds_the_agents_edits_on_disk(
    root: Path, ada: AgentClient, new: New
) -> None:
    path, data = new(), root / "started.txt"
    data.write_text("0")
    await ada.ask("run_code", path=path, code="1")
    await edit(ada, data.name, "0", "1")
    await ada.ask("restart_notebook_kernel", path=path)
    assert data.read_text() == "1"
    await edit(ada, data.name, "1", "2")
    text = await ada.say("change_notebook_kernel", path=path, kernel_name="python3")
    assert data.read_text() == "2"
    assert "all variables are gone" in text


async def test_a_notebook_edited_by_the_agent_is_saved_before_code_reads_it(
    root: Path, ada: AgentClient, warm: Warm
) -> None:
    path = await warm("before = 1")
    other = root / "other.ipynb"
    notebooks.write(other, notebooks.notebook([notebooks.code("one", "before = 2")]))
    await ada.write(other.name, "one", "after = 2")
    await ada.write(path, "cell-0", "after = 1")
    code = f"print(open({path!r}).read().count('after'), open('other.ipynb').read().count('after'))"
    assert "1 1" in await ada.say("run_code", path=path, code=code)


async def test_code_sees_concurrent_edits_by_the_agent_and_on_disk(
    root: Path, ada: AgentClient, warm: Warm
) -> None:
    path, file = await warm(), root / "both.txt"
    file.write_text("one\ntwo\nthree\n")
    await edit(ada, file.name, "one", "ONE")
    file.write_text("one\ntwo\nTHREE\n")
    told = await ada.say("run_code", path=path, code=f"print(open({file.name!r}).read())")
    assert "ONE\ntwo\nTHREE" in told
    assert "not on disk" not in told


async def test_agents_that_run_code_at_once_share_one_save_of_a_large_notebook(
    root: Path, ada: AgentClient, bob: AgentClient, warm: Warm
) -> None:
    path, large = await warm(), root / "large.ipynb"
    notebooks.write(large, notebooks.numbered(1500))
    for number in range(3):
        await ada.write(large.name, "cell-00000", f"ada = {number}")
        await bob.write(large.name, "cell-00001", f"bob = {number}")
        runs = [one.say("run_code", path=path, code="1") for one in (ada, bob)]
        assert not [told for told in await asyncio.gather(*runs) if "not on disk" in told]
        assert notebooks.sources(large)[:2] == [f"ada = {number}", f"bob = {number}"]


async def test_edits_of_another_agent_are_not_saved_for_a_run(
    root: Path, ada: AgentClient, bob: AgentClient, warm: Warm
) -> None:
    path, mine, theirs = await warm(), root / "mine.txt", root / "theirs.txt"
    for file in (mine, theirs):
        file.write_text("0")
    await edit(ada, mine.name, "0", "1")
    await edit(bob, theirs.name, "0", "1")
    await ada.ask("run_code", path=path, code="1")
    assert (mine.read_text(), theirs.read_text()) == ("1", "0")


async def test_code_runs_even_if_a_file_cannot_be_saved_and_the_answer_says_so(
    root: Path, ada: AgentClient, warm: Warm
) -> None:
    path, file = await warm(), root / "unsaved.py"
    file.write_text("VALUE = 1\n")
    await edit(ada, file.name, "= 1", "= 2")
    (root / FULL).touch()
    try:
        result = await ada.call("run_code", path=path, code="print('it ran')")
    finally:
        (root / FULL).unlink()
    text = text_of(result)
    assert "it ran" in text
    (notice,) = result.structured_content["notices"]
    assert notice in text
    assert "not on disk when this ran" in notice
    assert file.name in notice
    text = await ada.say("run_code", path=path, code=f"print(open({file.name!r}).read())")
    assert "VALUE = 2" in text
    assert "not on disk" not in text


async def test_a_file_with_autosave_switched_off_is_not_saved_for_a_run(
    server: JupyterProcess, root: Path, ada: AgentClient, warm: Warm
) -> None:
    path, file = await warm(), root / "manual.txt"
    file.write_text("0")
    async with Collaborator(server.url, server.token, file.name, "Ana", kind="file") as ana:
        await ada.ask("get_document", path=file.name)
        ana.awareness.set_local_state_field("autosave", False)
        await ana.until(
            lambda: (
                [
                    state["autosave"]
                    for state in ana.awareness.states.values()
                    if "autosave" in state
                ]
                == [False, False]
            )
        )
        operation = {"old_text": "0", "new_text": "1"}
        told = await ada.say("batch_update_document", path=file.name, operations=[operation])
        assert "Not on disk: autosave is off." in told
        told = await ada.say("run_code", path=path, code="1")
        assert "manual.txt (autosave is off)" in told
        assert file.read_text() == "0"


async def test_the_answer_to_an_edit_says_whether_it_is_on_disk(
    root: Path, ada: AgentClient, warm: Warm
) -> None:
    path = await warm("1")
    update = {"cell_id": "cell-0", "content": "2"}
    edit_cells = "batch_update_notebook_cells"
    told = await ada.say(edit_cells, path=path, updates=[update], exec=False)
    assert "Not on disk yet" in told
    told = await ada.say(edit_cells, path=path, updates=[{**update, "content": "3"}])
    assert "On disk." in told
    facts = await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["cell-0"])
    assert facts["saved"] is False
    facts = await ada.ask("undo_agent_changes", path=path)
    assert facts["saved"] is False
    await ada.ask("run_code", path=path, code="1")
    assert notebooks.sources(root / path) == ["3"]


async def test_a_cell_that_prints_constantly_does_not_prevent_saves(
    root: Path, ada: AgentClient, new: New, gate: MakeGate
) -> None:
    door = gate()
    code = door.code.replace("time.sleep(0.01)", "time.sleep(0.01); print('more')")
    printing = new(code, "1", *["x = 1\n" * 20] * 2500)  # so that a save takes longer than a print
    await ada.ask("execute_notebook_cell", path=printing, cell_id="cell-0", timeout=0)
    await door.reached()
    # Before a run, at once.
    await ada.write(printing, "cell-1", "for a run")
    code = f"print('found', open({printing!r}).read().count('for a run'))"
    assert "found 1" in (told := await ada.say("run_code", path=new(), code=code))
    assert "not on disk" not in told
    # Without one, after some seconds; nobody has to be alarmed.
    await ada.write(printing, "cell-1", "for nobody")

    async def look() -> str:
        facts = await ada.ask("get_notebook_status", path=printing)
        assert "notices" not in facts
        return (await notebooks.whole_sources(root / printing))[1]

    assert await eventually(look, lambda source: source == "for nobody")
    (state,) = (await ada.ask("get_notebook_status", path=printing))["runs"]
    assert state["state"] == "working"
    door.open()


async def test_an_edit_that_stays_unsaved_for_long_is_reported(
    root: Path, ada: AgentClient
) -> None:
    file = root / "never.txt"
    file.write_text("0")
    (root / FULL).touch()
    try:
        await edit(ada, file.name, "0", "1")

        async def notices() -> str:
            facts = await ada.ask("get_document", path=file.name)
            return " ".join(facts.get("notices", ()))

        assert "never.txt" in await eventually(notices, lambda said: "has not saved" in said)
    finally:
        (root / FULL).unlink()
