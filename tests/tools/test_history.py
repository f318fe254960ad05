"""Versions of documents against a real server, through the extension and through the command."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeServer
from tests.harness import measuring, notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.standalone import StandaloneProcess
from tests.harness.ways import WAYS, served

pytestmark = pytest.mark.anyio

Put = Callable[..., str]

_RESULT = {
    "output_type": "execute_result",
    "data": {"text/plain": "41"},
    "metadata": {},
    "execution_count": 7,
}


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, request: pytest.FixtureRequest, anyio_backend: str
) -> AsyncIterator[JupyterProcess]:
    """A server with the extension; agents come through it, or through the command beside it."""
    async with make_server(env=measuring.shared_server()) as process:
        if request.param == "extension":
            yield process
            return
        async with StandaloneProcess([process], env=measuring.shared_command()) as command:
            process.standalone = command
            yield process


@pytest.fixture
async def ada(server: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(server) as client:
        yield client


@pytest.fixture
def put(server: JupyterProcess, request: pytest.FixtureRequest) -> Put:
    """Puts a document of this test's own on the server's disk; returns its path."""
    name = re.sub(r"\W+", "-", request.node.name)

    def write(content: str | Sequence[Any] = ("one", "two", "three"), more: str = "") -> str:
        is_text = isinstance(content, str)
        file = Path(server.root) / f"{name}{more}{'.md' if is_text else '.ipynb'}"
        if isinstance(content, str):
            file.write_text(content)
        else:
            cells = [
                notebooks.code(f"cell-{n}", each) if isinstance(each, str) else each
                for n, each in enumerate(content)
            ]
            notebooks.write(file, notebooks.notebook(cells))
        return file.name

    return write


async def newest(ada: AgentClient, path: str) -> dict[str, Any]:
    facts = await ada.ask("get_document_history", path=path, limit=1)
    found: dict[str, Any] = facts["versions"][0]
    return found


async def listed(ada: AgentClient, path: str, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await ada.ask("get_document_history", path=path, **more))[
        "versions"
    ]
    return found


def tab(server: JupyterProcess, path: str, name: str = "Ana", **more: Any) -> Collaborator:
    return Collaborator(server.url, server.token, path, name, **more)


# -- what there is ------------------------------------------------------------------------------


async def test_a_document_that_nobody_had_open_has_one_version_which_is_now(
    ada: AgentClient, put: Put
) -> None:
    for path in (put(), put("# Title\n")):
        (only,) = await listed(ada, path)
        assert only["source"] == "file"
        said = await ada.say("get_document_history", path=path)
        assert f"{only['version']} {only['time']} the file on disk: " in said
        assert "say the same" in await ada.say(
            "diff_document_versions", path=path, from_version=only["version"]
        )


async def test_history_says_who_changed_what_and_continues_where_it_stopped(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    path = put()
    async with tab(server, path) as ana:
        await ada.write(path, "cell-0", "uno\ndos")
        ana.append_cell("four")
        await ana.synced()
        await ana.flush()
        await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["cell-1"])
        found = await listed(ada, path)
    authors = [(each["source"], each["author"]) for each in found]
    assert authors == [("agent", "Ada"), ("person", "Ana"), ("agent", "Ada"), ("file", None)]
    assert found[0]["changes"] == {"deleted": 1, "lines_removed": 1}
    assert found[1]["changes"]["added"] == 1
    assert found[2]["changes"] == {"edited": 1, "lines_added": 2, "lines_removed": 1}
    said = await ada.say("get_document_history", path=path, limit=2)
    lines = said.splitlines()
    assert lines[0].endswith(f"; continue with before={found[1]['version']}")
    assert lines[1].endswith(" Ada (agent): 1 cell deleted, +0 -1 lines")
    assert len(await listed(ada, path, before=found[1]["version"])) == 2


async def test_each_cell_shows_who_wrote_it_last(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    path = put()
    async with tab(server, path) as ana:
        await ada.write(path, "cell-0", "by an agent")
        await ana.until(lambda: ana.source("cell-0") == "by an agent")
        ana.insert("cell-1", 0, "by a person: ")
        await ana.flush()
        for form in ("outline", "source", "full"):
            said = await ada.say("get_notebook", path=path, format=form, authors=True)
            for line in (
                r"\[0\] .* by Ada \(agent\)",
                r"\[1\] .* by Ana",
                r"\[2\] .* by the file on disk",
            ):
                assert re.search(rf"^{line} 20\d\d-", said, re.MULTILINE), said
        facts = await ada.ask("get_notebook", path=path, authors=True)
    assert {key: each["source"] for key, each in facts["authors"].items()} == {
        "cell-0": "agent",
        "cell-1": "person",
        "cell-2": "file",
    }
    assert "by Ada" not in await ada.say("get_notebook", path=path, format="outline")


# -- diff ---------------------------------------------------------------------------------------


async def test_a_diff_shows_each_cell_that_differs(ada: AgentClient, put: Put) -> None:
    output = notebooks.code("run", "6 * 7", outputs=[_RESULT], execution_count=7)
    path = put(["one\ntwo\nthree", "gone", output])
    old = (await newest(ada, path))["version"]
    await ada.write(path, "cell-0", "one\n2\nthree")
    await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["cell-1"])
    new = [{"content": "# New", "cell_type": "markdown"}]
    await ada.ask("batch_insert_notebook_cells", path=path, cells=new, exec=False)
    await ada.ask("clear_notebook_outputs", path=path)
    said = await ada.say("diff_document_versions", path=path, from_version=old)
    assert "4 cells differ between version" in said
    assert "[0] cell-0: edited\n```\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n```" in said
    assert "\ncell-1: deleted\n```\n-gone\n```" in said
    assert "outputs: 1 output (text) In[7] -> none" in said
    assert " markdown: added\n```\n+# New\n```" in said
    only = await ada.say("diff_document_versions", path=path, from_version=old, cell_ids=["cell-1"])
    assert "1 cell differs" in only
    now = (await newest(ada, path))["version"]
    between = await ada.ask("diff_document_versions", path=path, from_version=old, to_version=now)
    assert between["different"] == 4


async def test_a_long_diff_continues_where_it_stopped(ada: AgentClient, put: Put) -> None:
    path = put([f"{n}\n" + f"line of cell {n}\n" * 150 for n in range(40)])
    old = (await newest(ada, path))["version"]
    updates = [{"cell_id": f"cell-{n}", "content": "short"} for n in range(40)]
    await ada.ask("batch_update_notebook_cells", path=path, updates=updates, exec=False)
    seen: list[str] = []
    start: int | None = 0
    while start is not None:
        result = await ada.call(
            "diff_document_versions", path=path, from_version=old, start_index=start
        )
        facts: dict[str, Any] = result.structured_content
        assert (
            len(
                await ada.say(
                    "diff_document_versions", path=path, from_version=old, start_index=start
                )
            )
            < 40_000
        )
        seen += [cell["id"] for cell in facts["cells"]]
        start = facts.get("next_index")
    assert seen == [f"cell-{n}" for n in range(40)]


# -- restore ------------------------------------------------------------------------------------


async def test_a_restore_is_seen_live_undone_as_one_step_and_restored_again(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    ran = notebooks.code("run", "6 * 7", outputs=[_RESULT], execution_count=7)
    path = put(["one", "two", ran, "four"])
    old = (await newest(ada, path))["version"]
    async with tab(server, path) as ana:
        before = [ana.cell(cell_id) for cell_id in ana.ids()]
        await ada.write(path, "cell-0", "changed")
        await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["cell-1"])
        await ada.ask("move_notebook_cells", path=path, cell_ids=["cell-3"], to_index=0)
        await ada.ask("clear_notebook_outputs", path=path)
        changed = await ada.sources(path)
        said = await ada.say("restore_document_version", path=path, version=old)
        assert "1 cell inserted, 1 moved, 1 edited, 1 given other outputs" in said
        facts = await ada.ask("restore_document_version", path=path, version=old)
        assert not facts.keys() & {"inserted", "deleted", "moved", "edited", "outputs"}
        await ana.until(lambda: [ana.cell(cell_id) for cell_id in ana.ids()] == before)
        match = re.search(r"The version before is (\d+)", said)
        assert match is not None
        await ada.ask("undo_agent_changes", path=path)
        assert await ada.sources(path) == changed
        await ada.ask("restore_document_version", path=path, version=old)
        again = await ada.ask("restore_document_version", path=path, version=int(match[1]))
        assert again["edited"] == ["cell-0"]
        assert await ada.sources(path) == changed


async def test_one_cell_alone_is_restored_and_its_revision_may_be_given(
    ada: AgentClient, put: Put
) -> None:
    path = put()
    old = (await newest(ada, path))["version"]
    for number in range(3):
        await ada.write(path, f"cell-{number}", "changed")
    await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["cell-1"])
    await ada.ask(
        "restore_document_version", path=path, version=old, cell_ids=["cell-1", "[2] cell-2@9ab1c2"]
    )
    assert await ada.sources(path) == ["changed", "two", "three"]


async def test_a_text_file_is_compared_and_restored(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    path = put("one\ntwo\nthree\n")
    old = (await newest(ada, path))["version"]
    async with tab(server, path, kind="file") as ana:
        change = [{"old_text": "two", "new_text": "2"}]
        await ada.ask("batch_update_document", path=path, operations=change)
        said = await ada.say("diff_document_versions", path=path, from_version=old)
        assert "\n one\n-two\n+2\n three\n" in said
        await ana.until(lambda: "2" in ana.source())
        ana.insert(None, 0, "zero\n")
        await ana.flush()
        facts = await ada.ask("restore_document_version", path=path, version=old)
        await ana.until(lambda: ana.source() == "one\ntwo\nthree\n")
        await ada.ask("undo_agent_changes", path=path)
        await ana.until(lambda: ana.source() == "zero\none\n2\nthree\n")
    assert facts["edited"] == [""]


async def test_what_a_person_types_elsewhere_stays_and_where_they_are_is_named(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    path = put()
    old = (await newest(ada, path))["version"]
    async with tab(server, path) as ana:
        await ada.write(path, "cell-0", "changed")
        await ana.until(lambda: ana.source("cell-0") == "changed")
        ana.insert("cell-2", 0, "typed ")
        await ana.flush()
        ana.put_caret("cell-0", 3)
        await ana.flush()
        said = await ada.say(
            "restore_document_version", path=path, version=old, cell_ids=["cell-0"]
        )
        assert "Ana's caret is in [0] cell-0" in said
        assert await ada.sources(path) == ["one", "two", "typed three"]


# -- names --------------------------------------------------------------------------------------


async def test_a_version_is_found_by_its_name(ada: AgentClient, put: Put) -> None:
    path = put()
    await ada.ask("name_document_version", path=path, name="before the work")
    await ada.write(path, "cell-0", "changed")
    await ada.ask("name_document_version", path=path, name="After it")
    said = await ada.say("get_document_history", path=path)
    assert ", named 'before the work'" in said
    facts = await ada.ask(
        "diff_document_versions",
        path=path,
        from_version="before the work",
        to_version="after it",
    )
    assert facts["different"] == 1
    await ada.ask("restore_document_version", path=path, version="before the work")
    assert await ada.sources(path) == ["one", "two", "three"]


# -- what is refused ----------------------------------------------------------------------------


async def test_a_version_that_the_document_does_not_have_is_unknown(
    ada: AgentClient, put: Put
) -> None:
    path, other = put(), put(more="-other")
    await newest(ada, path)
    theirs = (await newest(ada, other))["version"]
    future = time.time_ns() // 1_000_000 + 10**9
    for version in (12345, -1, 10**30, theirs, future, str(theirs), "-5", "never", ""):
        for tool in ("restore_document_version", "name_document_version"):
            more = {"name": "x"} if tool.startswith("name") else {}
            error = await ada.refused(tool, path=path, version=version, **more)
            assert error["code"] == "unknown_version", version
            assert error["next_step"] == "Call get_document_history to see what is there."
        error = await ada.refused("diff_document_versions", path=path, from_version=version)
        assert error["code"] == "unknown_version"
    error = await ada.refused("restore_document_version", path=path, version=future)
    assert "would be in the future" in error["message"]
    assert await ada.sources(path) == ["one", "two", "three"]


async def test_names_are_unique_and_not_empty_and_no_numbers(ada: AgentClient, put: Put) -> None:
    path = put()
    first = (await ada.ask("name_document_version", path=path, name="Draft"))["named"]
    for name in ("", "  ", "123", "two\nlines", "x" * 101):
        error = await ada.refused("name_document_version", path=path, name=name)
        assert error["code"] == "invalid_argument"
        assert "Nothing was named" in error["message"]
    await ada.write(path, "cell-0", "changed")
    error = await ada.refused("name_document_version", path=path, name="Draft")
    assert error["code"] == "invalid_argument"
    assert str(first) in error["message"]
    await ada.ask("name_document_version", path=path, name="draft")
    error = await ada.refused("restore_document_version", path=path, version="DRAFT")
    assert error["code"] == "invalid_argument"
    assert "Draft, draft" in error["message"]
    error = await ada.refused("restore_document_version", path=path, version="draf")
    assert (error["code"], "Did you mean" in error["message"]) == ("unknown_version", True)


async def test_a_cell_that_the_version_does_not_have_is_not_found(
    ada: AgentClient, put: Put
) -> None:
    path, text = put(), put("words\n")
    old = (await newest(ada, path))["version"]
    new = await ada.ask(
        "batch_insert_notebook_cells", path=path, cells=[{"content": "later"}], exec=False
    )
    later = new["cells"][0]["id"]
    for wanted, code in ((later, "cell_not_found"), ("cell-", "ambiguous_cell")):
        error = await ada.refused(
            "restore_document_version", path=path, version=old, cell_ids=["cell-0", wanted]
        )
        assert error["code"] == code
        assert "Nothing was changed" in error["message"]
    error = await ada.refused("restore_document_version", path=path, version=old, cell_ids=[])
    assert error["code"] == "invalid_argument"
    theirs = (await newest(ada, text))["version"]
    error = await ada.refused(
        "restore_document_version", path=text, version=theirs, cell_ids=["cell-0"]
    )
    assert error["code"] == "invalid_argument"
    error = await ada.refused("diff_document_versions", path=path, from_version=old, start_index=9)
    assert error["code"] == "invalid_argument"


async def test_a_protected_cell_keeps_a_restore_from_changing_anything(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    path = put()
    old = (await newest(ada, path))["version"]
    await ada.write(path, "cell-0", "changed")
    await ada.write(path, "cell-1", "changed")
    async with tab(server, path) as ana:
        ana.set_metadata("cell-1", tags=["agent-protected"])
        await ana.flush()
        error = await ada.refused("restore_document_version", path=path, version=old)
        assert error["code"] == "cell_protected"
        assert await ada.sources(path) == ["changed", "changed", "three"]
        await ada.ask("restore_document_version", path=path, version=old, cell_ids=["cell-0"])
        assert await ada.sources(path) == ["one", "changed", "three"]


async def test_of_two_restores_at_once_one_is_refused_and_nothing_is_lost(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    path = put([f"{n}" for n in range(1_500)])
    old = (await newest(ada, path))["version"]
    updates = [{"cell_id": f"cell-{n}", "content": f"new {n}"} for n in range(900)]
    await ada.ask("batch_update_notebook_cells", path=path, updates=updates, exec=False)
    async with agent(server, "Bob") as bob:
        both = (
            each.call("restore_document_version", path=path, version=old) for each in (ada, bob)
        )
        results = await asyncio.gather(*both)
        errors = [each.structured_content["error"] for each in results if each.is_error]
        # The second may also have come when the first was done.
        assert [error["code"] for error in errors] in (["document_busy"], [])
        sources = [await _all_sources(each, path) for each in (ada, bob)]
    assert sources == [[f"{n}" for n in range(1_500)]] * 2


async def _all_sources(ada: AgentClient, path: str) -> list[str]:
    found: list[str] = []
    start: int | None = 0
    while start is not None:
        facts = await ada.ask("get_notebook", path=path, start_index=start)
        found += [cell["source"] for cell in facts["cells"]]
        start = facts.get("next_index")
    return found


async def test_a_file_that_was_deleted_and_created_again_has_a_history_of_its_own(
    ada: AgentClient, put: Put
) -> None:
    path = put()
    old = (await newest(ada, path))["version"]
    await ada.ask("delete_document", path=path)
    error = await ada.refused("get_document_history", path=path)
    assert error["code"] == "document_not_found"
    await ada.ask("create_document", path=path, type="notebook")
    assert len(await listed(ada, path)) >= 1
    error = await ada.refused("restore_document_version", path=path, version=old)
    assert error["code"] == "unknown_version"


async def test_without_the_extension_there_is_no_history_and_the_error_says_what_to_install(
    make_server: MakeServer,
) -> None:
    async with served(make_server, "standalone") as stock, agent(stock) as ada:
        notebooks.write(Path(stock.root) / "a.ipynb", notebooks.numbered(2))
        for tool, more in (
            ("get_document_history", {}),
            ("diff_document_versions", {"from_version": 5}),
            ("restore_document_version", {"version": 5}),
            ("name_document_version", {"name": "x"}),
            ("get_notebook", {"authors": True}),
        ):
            error = await ada.refused(tool, path="a.ipynb", **more)
            assert error["code"] == "needs_extension"
            assert "install jupyter-collaboration-mcp" in error["next_step"]
        assert len(await ada.sources("a.ipynb")) == 2


async def test_levels_are_read_for_looking_and_write_for_the_rest(
    server: JupyterProcess, put: Put
) -> None:
    path = put()
    async with agent(server, "Eve", permission="read") as eve:
        version = (await newest(eve, path))["version"]
        offered = {each.name for each in (await eve.client.list_tools()).tools}
        assert "diff_document_versions" in offered
        assert not offered & {"restore_document_version", "name_document_version"}
        result = await eve.call("restore_document_version", path=path, version=version)
        assert result.is_error


async def test_a_file_that_changes_during_a_restore_keeps_its_change_and_the_restore_is_whole(
    server: JupyterProcess, ada: AgentClient, put: Put
) -> None:
    path = put([f"first {n}" for n in range(1_000)])
    file = Path(server.root) / path
    old = (await newest(ada, path))["version"]
    updates = [{"cell_id": f"cell-{n}", "content": f"second {n}"} for n in range(1_000)]
    await ada.ask("batch_update_notebook_cells", path=path, updates=updates, exec=False)
    async with tab(server, path) as ana:
        await ana.save()
        saved = await notebooks.whole_sources(file)
        assert saved[999] == "second 999"
        restoring = asyncio.create_task(
            ada.call("restore_document_version", path=path, version=old)
        )
        await ana.until(lambda: ana.source("cell-0") == "first 0")
        pulled = [notebooks.code(f"cell-{n}", f"second {n}") for n in range(1_000)]
        pulled.append(notebooks.code("pulled", "from elsewhere"))
        notebooks.write(file, notebooks.notebook(pulled))
        await restoring
        found = await _all_sources(ada, path)
        assert found == [*(f"first {n}" for n in range(1_000)), "from elsewhere"]
        await ana.until(lambda: ana.sources() == found)
