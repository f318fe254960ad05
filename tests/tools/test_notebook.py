"""The notebook toolset against a real server, with a person's tab beside the agent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from docs.generate import _tools as every_tool
from jupyter_collaboration_mcp.tools.registry import select
from jupyter_collaboration_mcp.workspace.permissions import Level
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, AgentClient, agent, mcp_address, structured_address
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.waiting import until
from tests.transport.conftest import HEADERS, INITIALIZE, modern_call

pytestmark = pytest.mark.anyio

THREE = [
    notebooks.markdown("intro-0001", "# Títle 😀\n\nwords"),
    notebooks.code("load-00002", "import os\nvalue = 1\nprint(value)"),
    notebooks.code("plot-00003", "plot(value)"),
]

Make = Callable[..., str]


@pytest.fixture
def make(server: JupyterProcess, request: pytest.FixtureRequest) -> Make:
    """Puts a notebook of this test's own on the server's disk and returns its path."""
    count = 0

    def write(cells: Any = None, **more: Any) -> str:
        nonlocal count
        count += 1
        path = f"{notebooks.name_for(request.node.name)}-{count}.ipynb"
        content = notebooks.notebook(THREE if cells is None else cells, **more)
        notebooks.write(Path(server.root) / path, content)
        return path

    return write


@pytest.fixture
async def ada(server: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(server, "Ada") as client:
        yield client


async def update(client: AgentClient, path: str, *updates: dict[str, Any], **more: Any) -> Any:
    return await client.ask(
        "batch_update_notebook_cells", path=path, updates=list(updates), exec=False, **more
    )


async def saved_with(file: Path, *sources: str) -> dict[str, Any]:
    """What a file holds when its cells have these sources, read once: Jupyter writes in place."""

    async def look() -> dict[str, Any]:
        try:
            return dict(json.loads(file.read_text()))
        except ValueError:
            return {"cells": []}

    def holds(content: dict[str, Any]) -> bool:
        return ["".join(cell["source"]) for cell in content["cells"]] == list(sources)

    return dict(await eventually(look, holds))


async def refused_update(client: AgentClient, path: str, *updates: Any, **more: Any) -> Any:
    more.setdefault("exec", False)
    return await client.refused(
        "batch_update_notebook_cells", path=path, updates=list(updates), **more
    )


# -- reading ---------------------------------------------------------------------------------


async def test_a_listing_shows_who_has_a_notebook_open(
    server: JupyterProcess, ada: AgentClient, make: Make
) -> None:
    path = make()
    async with Collaborator(server.url, server.token, path, name="Ana") as ana:
        await ana.flush()  # she says who she is when she is in already
        if server.standalone is not None:
            # From outside only the rooms are known that one is in, and people by their heartbeat.
            await ada.ask("create_notebook_session", path=path)
        listing = await ada.ask("list_notebooks", path_prefix=path[:-6])
        (entry,) = listing["notebooks"]
        assert entry["path"] == path
        assert entry["open"] is True
        assert server.standalone is not None or "Ana" in entry["people"]
    assert "complete" in listing


async def test_a_listing_is_bounded_and_recursive(server: JupyterProcess, ada: AgentClient) -> None:
    folder = Path(server.root) / "deep" / "er"
    folder.mkdir(parents=True)
    for number in range(4):
        notebooks.write(folder / f"{number}.ipynb", notebooks.notebook([]))
    listing = await ada.ask("list_notebooks", path_prefix="deep", max_results=3)
    assert [entry["path"] for entry in listing["notebooks"]] == [
        f"deep/er/{number}.ipynb" for number in range(3)
    ]
    assert listing["complete"] is False


async def test_reading_shows_index_id_revision_and_unescaped_source(
    ada: AgentClient, make: Make
) -> None:
    path = make()
    text = await ada.say("get_notebook", path=path)
    facts = await ada.ask("get_notebook", path=path)
    second = facts["cells"][1]
    assert f"[1] load-000@{second['revision']}\n```\n" in text
    assert "import os\nvalue = 1\nprint(value)" in text
    assert facts["cell_count"] == 3
    assert facts["saved"] is True


async def test_an_outline_has_one_line_per_cell(ada: AgentClient, make: Make) -> None:
    text = await ada.say("get_notebook", path=make(), format="outline")
    assert sum(line.startswith("[") for line in text.splitlines()) == 3
    assert "plot(value)" in text


async def test_cells_can_be_selected_by_range_id_prefix_and_query(
    ada: AgentClient, make: Make
) -> None:
    path = make()

    async def ids(**choice: Any) -> list[str]:
        facts = await ada.ask("get_notebook", path=path, **choice)
        return [cell["id"] for cell in facts["cells"]]

    assert await ids(start_index=1, end_index=2) == ["load-00002"]
    assert await ids(start_index=-1) == ["plot-00003"]
    assert await ids(cell_ids=["pl", 0]) == ["plot-00003", "intro-0001"]
    assert await ids(query="PRINT(") == ["load-00002"]


async def test_a_long_answer_is_cut_and_says_where_to_continue(
    ada: AgentClient, make: Make
) -> None:
    path = make([notebooks.code(f"cell-{n:04}", "x" * 400) for n in range(20)])
    facts = await ada.ask("get_notebook", path=path, max_content_length=3000)
    shown = len(facts["cells"])
    assert 0 < shown < 20
    assert facts["next_index"] == shown
    text = await ada.say("get_notebook", path=path, max_content_length=3000)
    assert f"start_index={shown}" in text
    assert len(text) < 3500


async def test_no_answer_exceeds_25_000_tokens(ada: AgentClient, make: Make) -> None:
    path = make([notebooks.code("huge", "y = 1  # 😀\n" * 100_000), notebooks.code("small", "1")])
    for form in ("outline", "source", "full"):
        text = await ada.say("get_notebook", path=path, format=form, max_content_length=10**9)
        assert len(text) / 4 < 25_200


async def test_the_full_format_summarizes_outputs_and_never_shows_base64(
    ada: AgentClient, make: Make
) -> None:
    image = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBOR" * 500}}
    printed = {"output_type": "stream", "name": "stdout", "text": "hello\n"}
    cell = notebooks.code("plot", "draw()", outputs=[printed, image], execution_count=4)
    text = await ada.say("get_notebook", path=make([cell]), format="full")
    assert "hello" in text
    assert "image/png" in text
    assert "iVBORiVBOR" not in text


async def test_a_session_reports_its_room_and_session_id(ada: AgentClient, make: Make) -> None:
    facts = await ada.ask("create_notebook_session", path=make())
    assert facts["room_id"] == f"json:notebook:{facts['file_id']}"
    assert facts["session_id"]
    assert facts["agent"] == "Ada"


# -- updating --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_an_edit_reaches_the_person_and_the_file(
    server: JupyterProcess, make: Make, mode: str
) -> None:
    path = make()
    async with (
        agent(server, mode=mode) as ada,
        Collaborator(server.url, server.token, path) as ana,
    ):
        facts = await ada.replace(path, "load", "value = 1", "value = '😀é'")
        assert [cell["id"] for cell in facts["cells"]] == ["load-00002"]
        await ana.until(lambda: ana.source(1) == "import os\nvalue = '😀é'\nprint(value)")
        file = Path(server.root) / path
        # It is said to be saved when it is, which may be before the answer is made.
        if facts["saved"]:
            assert "'😀é'" in "".join(await notebooks.whole_sources(file))
        await until(lambda: "'😀é'" in "".join(notebooks.sources(file)))

        async def look() -> dict[str, Any]:
            return await ada.ask("get_notebook", path=path)

        await eventually(look, lambda facts: "saved" in facts)


async def test_everything_else_in_a_notebook_stays_unchanged(
    server: JupyterProcess, ada: AgentClient, make: Make
) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "1\n"}
    cells = [
        notebooks.code(
            "kept",
            "a = 1",
            metadata={"tags": ["x"], "custom": {"deep": [1, 2]}},
            outputs=[output],
            execution_count=7,
        ),
        notebooks.markdown("pic", "![](attachment:a.png)", attachments={"a.png": {"x/y": "z"}}),
    ]
    path = make(cells, nbformat_minor=5)
    await update(ada, path, {"cell_id": "kept", "content": "a = 2"}, {"index": 1, "content": "b"})
    saved = await saved_with(Path(server.root) / path, "a = 2", "b")
    kept, picture = saved["cells"]
    assert kept["metadata"] == {"tags": ["x"], "custom": {"deep": [1, 2]}}
    assert (kept["id"], kept["execution_count"]) == ("kept", 7)
    assert kept["outputs"][0]["text"] in ("1\n", ["1\n"])
    assert picture["attachments"] == {"a.png": {"x/y": "z"}}
    assert saved["nbformat_minor"] == 5


async def test_an_old_notebook_keeps_its_minor_version(
    server: JupyterProcess, ada: AgentClient, make: Make
) -> None:
    cell = notebooks.code("x", "a = 1")
    del cell["id"]
    path = make([cell], nbformat_minor=2)
    await update(ada, path, {"index": 0, "content": "a = 2"})
    saved = await saved_with(Path(server.root) / path, "a = 2")
    assert saved["nbformat_minor"] == 2
    assert "id" not in saved["cells"][0]


async def test_a_call_updates_all_its_cells_or_none(ada: AgentClient, make: Make) -> None:
    path = make()
    before = await ada.sources(path)
    error = await refused_update(
        ada, path, {"index": 0, "content": "new"}, {"index": 1, "old_text": "nope", "new_text": ""}
    )
    assert error["code"] == "text_mismatch"
    assert await ada.sources(path) == before
    await update(ada, path, {"content": "A"}, {"content": "B"}, start_index=1)
    assert (await ada.sources(path))[1:] == ["A", "B"]
    await update(ada, path, {"content": "C"}, {"content": "D"}, cell_ids=["plot", "load"])
    assert (await ada.sources(path))[1:] == ["D", "C"]


async def test_two_replacements_in_one_cell_are_both_applied(ada: AgentClient, make: Make) -> None:
    path = make()
    await update(
        ada,
        path,
        {"index": 1, "old_text": "import os", "new_text": "import sys"},
        {"index": 1, "old_text": "value = 1", "new_text": "value = 2"},
    )
    assert (await ada.sources(path))[1] == "import sys\nvalue = 2\nprint(value)"


async def test_a_person_sees_changes_of_type_and_metadata(
    server: JupyterProcess, ada: AgentClient, make: Make
) -> None:
    before = {"a": 1, "b": 2, "trusted": False}
    path = make([notebooks.code("note", "# words", metadata={"a": 1, "b": 2})])
    async with Collaborator(server.url, server.token, path) as ana:
        change = {"index": 0, "cell_type": "markdown", "metadata": {"a": None, "c": 3}}
        await update(ada, path, change)
        await ana.until(lambda: ana.cell(0)["cell_type"] == "markdown")
        cell = ana.cell(0)
        assert cell["metadata"] == {"b": 2, "c": 3, "trusted": False}
        assert (cell["id"], cell["source"]) == ("note", "# words")
        assert "outputs" not in cell
        await ada.ask("undo_agent_changes", path=path)
        await ana.until(lambda: ana.cell(0)["cell_type"] == "code")
        assert ana.cell(0)["metadata"] == before


async def test_a_stale_revision_is_refused_with_the_source_and_a_diff(
    server: JupyterProcess, ada: AgentClient, make: Make
) -> None:
    path = make()
    seen = (await ada.ask("get_notebook", path=path))["cells"]
    async with Collaborator(server.url, server.token, path) as ana:
        ana.insert(1, len("import os"), ", sys")
        await ana.flush()
        error = await refused_update(
            ada,
            path,
            {"index": 0, "content": "must not be applied"},
            {"index": 1, "content": "nor this", "if_revision": seen[1]["revision"]},
        )
        assert error["code"] == "stale_revision"
        assert error["source"] == "import os, sys\nvalue = 1\nprint(value)"
        assert "-import os\n+import os, sys" in error["diff"]
        await ana.flush()
        assert ana.source(0) == THREE[0]["source"]
        new = await ada.write(path, "load", "now", if_revision=error["revision"])
        assert (await ada.sources(path))[1] == "now"
        assert new["cells"][0]["revision"] != error["revision"]


async def test_deletions_and_moves_are_guarded_too(ada: AgentClient, make: Make) -> None:
    path = make()
    for tool, more in (
        ("batch_delete_notebook_cells", {}),
        ("move_notebook_cells", {"to_index": 0}),
    ):
        error = await ada.refused(tool, path=path, cell_ids=["plot"], if_revision="000000", **more)
        assert error["code"] == "stale_revision"
    assert len(await ada.sources(path)) == 3


async def test_a_text_that_does_not_match_once_shows_where_to_look(
    ada: AgentClient, make: Make
) -> None:
    path = make([notebooks.code("one", "total = sum(prices)\nprint(total)\nprint(total)")])
    missing = await refused_update(
        ada, path, {"index": 0, "old_text": "total = sum(price)", "new_text": "x"}
    )
    assert "total = sum(prices)" in missing["message"]
    twice = await refused_update(
        ada, path, {"index": 0, "old_text": "print(total)", "new_text": "x"}
    )
    assert twice["code"] == "text_mismatch"
    assert "2" in twice["message"]


async def test_cells_without_code_need_no_kernel(ada: AgentClient, make: Make) -> None:
    path = make()
    text = [{"content": "words", "cell_type": "markdown"}]
    await ada.ask("batch_insert_notebook_cells", path=path, cells=text)
    assert len(await ada.sources(path)) == 4


# -- inserting, deleting, moving -------------------------------------------------------------


async def insert(client: AgentClient, path: str, *contents: str, **where: Any) -> Any:
    cells = [{"content": content} for content in contents]
    return await client.ask(
        "batch_insert_notebook_cells", path=path, cells=cells, exec=False, **where
    )


async def test_cells_are_inserted_at_the_requested_places(ada: AgentClient, make: Make) -> None:
    path = make([notebooks.code("a", "a"), notebooks.code("b", "b")])
    await insert(ada, path, "end")
    await insert(ada, path, "top", start_position=0)
    facts = await insert(ada, path, "after a", "after that", after_cell_id="a")
    assert [cell["index"] for cell in facts["cells"]] == [2, 3]
    assert await ada.sources(path) == ["top", "a", "after a", "after that", "b", "end"]
    await insert(ada, path, "p4", "p0", positions=[4, 0])
    assert await ada.sources(path) == [
        *("p0", "top", "a", "after a", "after that", "p4", "b", "end"),
    ]


async def test_cells_can_be_deleted_by_range_and_by_id(ada: AgentClient, make: Make) -> None:
    path = make([notebooks.code(name, name) for name in "abcdef"])

    async def delete(**which: Any) -> list[str]:
        facts = await ada.ask("batch_delete_notebook_cells", path=path, **which)
        deleted: list[str] = facts["deleted"]
        return deleted

    assert await delete(start_index=1) == ["b"]
    assert await delete(start_index=0, end_index=2) == ["a", "c"]
    assert await delete(cell_ids=["f", "d"]) == ["f", "d"]
    assert await ada.sources(path) == ["e"]


async def test_cells_are_moved_with_everything_they_have(
    server: JupyterProcess, ada: AgentClient, make: Make
) -> None:
    printed = {"output_type": "stream", "name": "stdout", "text": "é😀\n"}
    moved = notebooks.code("m", "m", outputs=[printed], execution_count=3, metadata={"k": [1]})
    path = make([moved, notebooks.code("a", "a"), notebooks.code("b", "b")])
    async with Collaborator(server.url, server.token, path) as ana:
        before = ana.cell(0)
        await ada.ask("move_notebook_cells", path=path, cell_ids=["m"], after_cell_id="b")
        await ana.until(lambda: ana.ids() == ["a", "b", "m"])
        assert ana.cell(2) == before
        await ada.ask("move_notebook_cells", path=path, cell_ids=["m", "a"], to_index=0)
        await ana.until(lambda: ana.ids() == ["m", "a", "b"])
        await ada.ask("undo_agent_changes", path=path, steps=2)
        await ana.flush()  # the order is the same before and after
        assert ana.ids() == ["m", "a", "b"]
        assert ana.cell(0) == before


# -- undo ------------------------------------------------------------------------------------


async def test_undo_reverts_the_agents_calls_and_nothing_else(
    server: JupyterProcess, ada: AgentClient, make: Make
) -> None:
    path = make()
    async with Collaborator(server.url, server.token, path) as ana:
        await update(ada, path, {"index": 0, "content": "gone"}, {"index": 2, "content": "plot()"})
        await ada.replace(path, "load", "value = 1", "value = 2")
        await ana.until(lambda: "value = 2" in ana.source(1))
        ana.insert(1, 0, "# Ana 😀\n")
        ana.insert(1, len(ana.source(1)), "\n# bye")
        await ana.flush()
        facts = await ada.ask("undo_agent_changes", path=path)
        assert facts["steps"] == 1
        await ana.until(
            lambda: ana.source(1) == "# Ana 😀\nimport os\nvalue = 1\nprint(value)\n# bye"
        )
        await ada.ask("undo_agent_changes", path=path)
        await ana.until(lambda: ana.source(0) == THREE[0]["source"])
        assert ana.source(2) == THREE[2]["source"]
    assert (await ada.refused("undo_agent_changes", path=path))["code"] == "nothing_to_undo"


async def test_undo_is_refused_if_it_would_strand_somebodys_text(
    server: JupyterProcess, ada: AgentClient, make: Make
) -> None:
    path = make()
    async with Collaborator(server.url, server.token, path) as ana:
        await ada.replace(path, "plot", "plot(value)", "plot(value)\nagents_line = compute(1)")
        await ana.until(lambda: "compute" in ana.source(2))
        ana.insert(2, ana.source(2).index("compute"), "careful_")
        await ana.flush()
        before = ana.source(2)
        error = await ada.refused("undo_agent_changes", path=path)
        assert error["code"] == "undo_refused"
        assert "careful_" in error["message"]
        assert (await ada.sources(path))[2] == before
        await ada.ask("undo_agent_changes", path=path, force=True)
        await ana.until(lambda: "compute" not in ana.source(2))
        assert "careful_" in ana.source(2)


async def test_undo_keeps_what_others_wrote_into_an_inserted_cell(
    server: JupyterProcess, ada: AgentClient, make: Make
) -> None:
    path = make()
    async with Collaborator(server.url, server.token, path) as ana:
        facts = await insert(ada, path, "agent's cell", start_position=0)
        cell_id = facts["cells"][0]["id"]
        await ana.until(lambda: ana.ids()[0] == cell_id)
        ana.insert(0, 0, "Ana: ")
        await ana.flush()
        assert (await ada.refused("undo_agent_changes", path=path))["code"] == "undo_refused"
        await ada.ask("undo_agent_changes", path=path, force=True)
        assert (await ada.sources(path))[0] == "Ana: "


async def test_undo_since_a_version_reverts_everything_after_it(
    ada: AgentClient, make: Make
) -> None:
    path = make()
    await ada.write(path, "plot", "first")
    version = (await ada.ask("get_notebook", path=path))["version"]
    await ada.write(path, "plot", "second")
    await insert(ada, path, "third")
    await ada.ask("batch_delete_notebook_cells", path=path, start_index=0, end_index=2)
    facts = await ada.ask("undo_agent_changes", path=path, since=version)
    assert facts["steps"] == 3
    assert await ada.sources(path) == [THREE[0]["source"], THREE[1]["source"], "first"]


async def test_each_agent_undoes_only_its_own_edits(server: JupyterProcess, make: Make) -> None:
    path = make()
    async with agent(server, "Ada") as ada, agent(server, "Bob") as bob:
        await ada.replace(path, "load", "import os", "import sys")
        await bob.replace(path, "load", "print(value)", "print(value, 2)")
        await ada.ask("undo_agent_changes", path=path)
        assert (await bob.sources(path))[1] == "import os\nvalue = 1\nprint(value, 2)"


# -- others ----------------------------------------------------------------------------------


async def test_an_answer_ends_with_what_others_changed(server: JupyterProcess, make: Make) -> None:
    path = make()
    async with AsyncExitStack() as stack:
        ada = await stack.enter_async_context(agent(server, "Ada"))
        bob = await stack.enter_async_context(agent(server, "Bob"))
        ana = await stack.enter_async_context(Collaborator(server.url, server.token, path, "Ana"))
        assert "Since you last looked" not in await ada.say("get_notebook", path=path)
        # From outside a person's name is known only after their next heartbeat.
        ana.awareness.set_local_state(ana.awareness.get_local_state())

        async def people() -> list[str]:
            facts = await ada.ask("get_notebook_status", path=path)
            return list(facts["people"])

        await eventually(people, lambda names: "Ana" in names)
        await bob.write(path, "intro", "Bob was here")
        ana.insert(2, 0, "# Ana\n")
        await ana.flush()
        text = await ada.say("get_notebook", path=path, format="outline")
        last = text.splitlines()[-1]
        assert last.startswith("Since you last looked, others changed by Ana, Bob: ")
        assert "[0] intro-00, [2] plot-000 edited" in last  # without revisions: nobody read these
        assert "Since you last looked" not in await ada.say("get_notebook", path=path)


# -- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../outside.ipynb", "path_refused"),
        ("a/../../outside.ipynb", "path_refused"),
        ("%2e%2e/outside.ipynb", "path_refused"),
        ("..%2foutside.ipynb", "path_refused"),
        ("%252e%252e%252foutside.ipynb", "path_refused"),
        ("..\\outside.ipynb", "path_refused"),
        ("nul\0.ipynb", "path_refused"),
        ("/etc/passwd", "document_not_found"),
        ("missing.ipynb", "document_not_found"),
        ("missing/too.ipynb", "document_not_found"),
        ("", "not_a_notebook"),
        ("folder", "not_a_notebook"),
        ("text.txt", "not_a_notebook"),
        ("corrupt.ipynb", "corrupt_document"),
    ],
)
async def test_a_bad_path_gives_a_clear_error_and_changes_nothing(
    server: JupyterProcess, ada: AgentClient, path: str, code: str
) -> None:
    root = Path(server.root)
    if not (root / "folder").exists():  # once: a room may have been opened since
        (root / "text.txt").write_text("text")
        (root / "corrupt.ipynb").write_text('{"cells": [')
        (root / "folder").mkdir()
    for tool, more in (
        ("get_notebook", {}),
        ("batch_insert_notebook_cells", {"cells": [{"content": "x"}], "exec": False}),
        ("undo_agent_changes", {}),
    ):
        error = await ada.refused(tool, path=path, **more)
        if tool == "undo_agent_changes" and code == "not_a_notebook":  # text can be undone too
            assert error["code"] == ("nothing_to_undo" if path == "text.txt" else "not_text")
        else:
            assert error["code"] == code, error
    assert (root / "text.txt").read_text() == "text"
    assert (root / "corrupt.ipynb").read_text() == '{"cells": ['


async def test_a_repaired_notebook_can_be_opened(server: JupyterProcess, ada: AgentClient) -> None:
    file = Path(server.root) / "mended.ipynb"
    file.write_text("not json")
    assert (await ada.refused("get_notebook", path=file.name))["code"] == "corrupt_document"
    notebooks.write(file, notebooks.notebook([notebooks.code("a", "a = 1")]))
    await ada.write(file.name, "a", "a = 2")
    await until(lambda: notebooks.sources(file) == ["a = 2"])


@pytest.mark.parametrize(
    ("update", "code"),
    [
        ({"cell_id": "nobody", "content": "x"}, "cell_not_found"),
        ({"cell_id": "", "content": "x"}, "cell_not_found"),
        ({"cell_id": "same-", "content": "x"}, "ambiguous_cell"),
        ({"index": 3, "content": "x"}, "cell_not_found"),
        ({"index": -4, "content": "x"}, "cell_not_found"),
        ({"content": "x"}, "invalid_argument"),
        ({"index": 0}, "invalid_argument"),
        ({"index": 0, "old_text": "a"}, "invalid_argument"),
        ({"index": 0, "old_text": "", "new_text": "a"}, "invalid_argument"),
        ({"index": 0, "content": "x", "old_text": "a", "new_text": "b"}, "invalid_argument"),
        ({"index": 0, "cell_type": "sql"}, "invalid_argument"),
        ({"index": 0, "contents": "misspelt"}, "invalid_argument"),
        ({"index": 0, "content": "y" * 20_000_000}, "too_large"),
    ],
)
async def test_a_bad_update_gives_a_clear_error_and_changes_nothing(
    ada: AgentClient, make: Make, update: dict[str, Any], code: str
) -> None:
    path = make([notebooks.code(name, name) for name in ("same-1", "same-2", "other")])
    good = {"index": 2, "content": "must not be applied"}
    assert (await refused_update(ada, path, good, update))["code"] == code
    assert await ada.sources(path) == ["same-1", "same-2", "other"]


async def test_half_a_character_is_refused(
    server: JupyterProcess, ada: AgentClient, make: Make
) -> None:
    path = make()
    updates = [{"index": 0, "content": "\ud83d"}]
    body, headers = modern_call(
        "batch_update_notebook_cells", path=path, updates=updates, exec=False
    )
    url, credentials = structured_address(server)
    headers = {**HEADERS, **credentials, **headers}
    async with httpx2.AsyncClient(headers=headers, timeout=60, verify=False) as http:
        # The SDK's own client cannot even send it; JSON can.
        answer = await http.post(url, content=json.dumps(body))
    result = answer.json()["result"]
    assert result["isError"] is True
    assert result["structuredContent"]["error"]["code"] == "invalid_argument"
    assert await ada.sources(path) == [cell["source"] for cell in THREE]


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("batch_update_notebook_cells", {"updates": []}, "invalid_argument"),
        ("batch_update_notebook_cells", {}, "invalid_argument"),
        ("batch_update_notebook_cells", {"updates": "all of it"}, "invalid_argument"),
        (
            "batch_update_notebook_cells",
            {"updates": [{"content": "x"}], "start_index": 0, "end_index": 2},
            "invalid_argument",
        ),
        ("batch_insert_notebook_cells", {"cells": []}, "invalid_argument"),
        ("batch_insert_notebook_cells", {"cells": [{"content": "x"}] * 10_000}, "too_large"),
        (
            "batch_insert_notebook_cells",
            {"cells": [{"content": "x"}], "start_position": 9},
            "invalid_argument",
        ),
        (
            "batch_insert_notebook_cells",
            {"cells": [{"content": "x"}], "positions": [0, 1]},
            "invalid_argument",
        ),
        (
            "batch_insert_notebook_cells",
            {"cells": [{"content": "x"}], "after_cell_id": "nobody"},
            "cell_not_found",
        ),
        ("batch_delete_notebook_cells", {}, "invalid_argument"),
        ("batch_delete_notebook_cells", {"cell_ids": []}, "invalid_argument"),
        ("batch_delete_notebook_cells", {"start_index": 2, "end_index": 1}, "invalid_argument"),
        ("batch_delete_notebook_cells", {"start_index": 0, "end_index": 4}, "invalid_argument"),
        (
            "batch_delete_notebook_cells",
            {"start_index": 0, "cell_ids": ["load"]},
            "invalid_argument",
        ),
        ("move_notebook_cells", {"cell_ids": ["load"]}, "invalid_argument"),
        ("move_notebook_cells", {"cell_ids": ["load", "load"], "to_index": 0}, "invalid_argument"),
        ("move_notebook_cells", {"cell_ids": ["load"], "to_index": 9}, "invalid_argument"),
        ("undo_agent_changes", {"steps": 0}, "invalid_argument"),
        ("get_notebook", {"format": "pdf"}, "invalid_argument"),
        ("get_notebook", {"cell_ids": ["load"], "start_index": 0}, "invalid_argument"),
    ],
)
async def test_bad_arguments_give_a_clear_error_and_change_nothing(
    ada: AgentClient, make: Make, tool: str, arguments: dict[str, Any], code: str
) -> None:
    path = make()
    if tool in ("batch_update_notebook_cells", "batch_insert_notebook_cells"):
        arguments = {"exec": False, **arguments}
    assert (await ada.refused(tool, path=path, **arguments))["code"] == code
    assert await ada.sources(path) == [cell["source"] for cell in THREE]


async def test_a_thousand_cells_can_be_inserted_in_one_call(ada: AgentClient, make: Make) -> None:
    path = make([])
    facts = await insert(ada, path, *(f"x = {n}" for n in range(1000)), start_position=0)
    assert len(facts["cells"]) == 1000
    assert facts["cells"][-1]["index"] == 999


# -- permissions and toolsets ----------------------------------------------------------------


async def test_a_connection_can_only_narrow_its_permissions(
    server: JupyterProcess, make: Make
) -> None:
    path = make()
    async with agent(server, permission="read") as reader:
        names = [tool.name for tool in (await reader.client.list_tools()).tools]
        usual = select("default", every_tool())
        readers = [each.name for each in usual if each.declaration.level is Level.read]
        if server.standalone is None:
            readers.remove("list_servers")
        assert names == readers
        assert {"get_notebook", "get_run"} < set(names)
        assert not {"batch_update_notebook_cells", "run_code", "delete_document"} & set(names)
        error = await reader.refused(
            "batch_delete_notebook_cells", path=path, start_index=0, end_index=1
        )
        assert error["code"] == "permission_refused"
        assert error["level"] == "write"
    async with agent(server, permission="write") as writer:
        error = await refused_update(writer, path, {"index": 1, "content": "x"}, exec=True)
        assert (error["code"], error["level"]) == ("permission_refused", "execute")
    async with agent(server, toolsets="core") as core:
        names = [tool.name for tool in (await core.client.list_tools()).tools]
        assert "create_notebook_session" not in names
        assert names[0] == "list_notebooks"
        error = await core.refused("create_notebook_session", path=path)
        assert error["code"] == "permission_refused"


async def test_repeated_levels_and_toolsets_give_the_narrowest(
    server: JupyterProcess, make: Make
) -> None:
    path = make()
    for levels in (["read", "admin"], ["admin", "read"], ["write", "READ ", "execute"]):
        async with agent(server, permission=levels) as reader:
            names = [tool.name for tool in (await reader.client.list_tools()).tools]
            assert "batch_delete_notebook_cells" not in names
            error = await reader.refused("batch_delete_notebook_cells", path=path, start_index=0)
            assert (error["code"], error["level"]) == ("permission_refused", "write")
    for toolsets in (["core", "document"], ["document", "core"], ["document,core", "core", "all"]):
        async with agent(server, toolsets=toolsets) as narrow:
            names = [tool.name for tool in (await narrow.client.list_tools()).tools]
            assert {"get_document", "batch_update_document"} <= set(names)
            assert "batch_insert_text" not in names
            if toolsets[-1] != "all":
                assert names == ["list_documents", "get_document", "batch_update_document"]
                error = await narrow.refused("get_notebook", path=path)
                assert error["code"] == "permission_refused"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("permision=read", "'permision'. Did you mean permission? Known parameters: agent, toolse"),
        ("agent=Ada&Permission=read", "'Permission'. Did you mean permission?"),
        ("level=read", "'level'. Known parameters: agent, toolsets, permission, structured, mode."),
        ("permission", "'permission' of the URL is empty"),
        ("permission=&permission=read", "'permission' of the URL is empty"),
        ("permission=read&permission=everything", "no permission level 'everything'"),
        (
            "toolsets=cor",
            "no toolset cor. Did you mean core? Choose from default, all, core",
        ),
        ("toolsets=core,everything", "no toolset everything. Choose from default, all"),
        ("toolsets=,", "No toolset is named"),
        ("agent=Ada&agent=Eve", "several agents: 'Ada', 'Eve'"),
        ("structured=yes", "'structured' of the URL is 'yes'. Give true or false."),
        ("structured=", "'structured' of the URL is empty"),
    ],
)
async def test_a_url_with_invalid_parameters_is_refused(
    server: JupyterProcess, query: str, said: str
) -> None:
    url, headers = mcp_address(server)
    async with httpx2.AsyncClient(headers={**headers, **HEADERS}, timeout=30, verify=False) as http:
        answer = await http.post(f"{url}?{query}", json=INITIALIZE)
    assert answer.status_code == 400
    assert said in str(answer.json())


async def test_an_agent_name_repeated_in_the_url_is_accepted(
    server: JupyterProcess, make: Make
) -> None:
    async with agent(server, ["Ada", "Ada"]) as ada:
        assert await ada.sources(make())


async def test_configuration_limits_everybody(make_server: MakeServer) -> None:
    config = {
        "JupyterCollaborationMCP": {
            "permission": "read",
            "denied_paths": ["secret/*"],
            "toolsets": "core",
        }
    }
    async with make_server(config=config) as server:
        root = Path(server.root)
        (root / "secret").mkdir()
        for path in ("open.ipynb", "secret/plan.ipynb"):
            notebooks.write(root / path, notebooks.notebook(THREE))
        async with agent(server, permission="admin", toolsets="all") as ada:
            names = [tool.name for tool in (await ada.client.list_tools()).tools]
            assert names == [
                "list_notebooks",
                "get_notebook",
                "list_documents",
                "get_document",
                "get_notebook_status",
                "get_run",
            ]
            listing = await ada.ask("list_notebooks")
            assert [entry["path"] for entry in listing["notebooks"]] == ["open.ipynb"]
            error = await ada.refused("get_notebook", path="secret/plan.ipynb")
            assert error["code"] == "permission_refused"
            error = await ada.refused("undo_agent_changes", path="open.ipynb")
            assert error["code"] == "permission_refused"


async def test_every_tool_is_short_and_consistent_with_its_annotations(ada: AgentClient) -> None:
    tools = (await ada.client.list_tools()).tools
    hints = {each.name: each.declaration.annotations for each in every_tool()}
    lengths = []
    for tool in tools:
        assert tool.title
        assert tool.description
        assert len(tool.description.split()) < 60
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is hints[tool.name].read_only_hint
        if tool.name in ("batch_insert_notebook_cells", "reply_to_input", "run_code"):
            assert tool.annotations.destructive_hint
            assert tool.annotations.open_world_hint
        for_model = {"n": tool.name, "d": tool.description, "s": tool.input_schema}
        lengths.append(len(json.dumps(for_model, separators=(",", ":"))))
    assert sum(lengths) / len(lengths) / 4 < 150
