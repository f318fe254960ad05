"""What an answer does for its reader without being asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ImageContent

from tests.harness import notebooks
from tests.harness.agents import AgentClient, text_of
from tests.harness.jupyter import JupyterProcess

from .conftest import MakeGate, New, Tab, Warm
from .test_outputs import png

pytestmark = pytest.mark.anyio


def replacing(cell: str | int, old: str, new: str) -> dict[str, Any]:
    name = {"index": cell} if isinstance(cell, int) else {"cell_id": cell}
    return {**name, "old_text": old, "new_text": new}


# -- text that stands elsewhere ----------------------------------------------------------------


async def test_a_text_found_in_one_other_cell_is_reported_with_that_cell(
    ada: AgentClient, new: New
) -> None:
    path = new("a = 1", "b = 2", "c = 3")
    call = {"path": path, "exec": False}
    error = await ada.refused(
        "batch_update_notebook_cells", **call, updates=[replacing(0, "b = 2", "b = 4")]
    )
    assert (error["code"], error["found_in"]) == ("text_mismatch", "cell-1")
    (handle,) = re.findall(r"it is in \[1\] (cell-1@[0-9a-f]{6})\.", error["message"])
    assert handle in error["next_step"]
    await ada.ask(
        "batch_update_notebook_cells", **call, updates=[replacing(handle, "b = 2", "b = 4")]
    )
    assert await ada.sources(path) == ["a = 1", "b = 4", "c = 3"]


async def test_a_text_found_in_several_other_cells_is_not_attributed(
    ada: AgentClient, new: New
) -> None:
    path = new("a = 1", "b = 2", "b = 2")
    update = replacing(0, "b = 2", "b = 4")
    error = await ada.refused("batch_update_notebook_cells", path=path, updates=[update])
    assert "found_in" not in error
    assert await ada.sources(path) == ["a = 1", "b = 2", "b = 2"]


# -- the empty cell of a new notebook ----------------------------------------------------------


async def inserted(ada: AgentClient, path: str, *cells: dict[str, Any], **more: Any) -> Any:
    call = {"path": path, "cells": list(cells), "exec": False, **more}
    return await ada.ask("batch_insert_notebook_cells", **call)


async def test_the_empty_cell_of_a_new_notebook_is_filled(
    ada: AgentClient, new: New, tab: Tab
) -> None:
    path = new("")
    ana = await tab(path)
    facts = await inserted(ada, path, {"content": "x = 1"}, {"content": "x"})
    assert [cell["index"] for cell in facts["cells"]] == [0, 1]
    assert facts["cells"][0]["id"] == "cell-0"  # a caret in it stays
    assert await ada.sources(path) == ["x = 1", "x"]
    await ana.flush()
    assert [ana.source(index) for index in range(2)] == ["x = 1", "x"]
    await ada.ask("undo_agent_changes", path=path)
    assert await ada.sources(path) == [""]


async def test_the_empty_cell_takes_content_of_another_type_too(ada: AgentClient, new: New) -> None:
    path = new("")
    await inserted(ada, path, {"content": "# Title", "cell_type": "markdown"}, start_position=0)
    (cell,) = (await ada.ask("get_notebook", path=path))["cells"]
    assert (cell["cell_type"], cell["source"]) == ("markdown", "# Title")
    await ada.ask("undo_agent_changes", path=path)
    (cell,) = (await ada.ask("get_notebook", path=path))["cells"]
    assert (cell["cell_type"], cell["source"]) == ("code", "")


@pytest.mark.parametrize(
    ("cells", "where"),
    [
        ([""], {"after_cell_id": "cell-0"}),
        ([""], {"positions": [1]}),
        (["", ""], {}),
        ([" "], {}),
        ([notebooks.code("cell-0", "", metadata={"tags": ["parameters"]})], {}),
        ([notebooks.markdown("cell-0", "")], {}),
        ([notebooks.code("cell-0", "", execution_count=1)], {}),
    ],
)
async def test_an_empty_cell_that_somebody_may_want_stays(
    ada: AgentClient, new: New, cells: list[Any], where: dict[str, Any]
) -> None:
    path = new(*cells)
    await inserted(ada, path, {"content": "new"}, **where)
    assert (await ada.sources(path))[len(cells) :] == ["new"]


# -- a result that the caller could not know ---------------------------------------------------


async def test_a_partial_replacement_shows_a_cell_that_others_changed(
    ada: AgentClient, bob: AgentClient, new: New
) -> None:
    path = new("a = 1\nb = 2\nc = 3")
    call = {"path": path, "exec": False}
    await ada.sources(path)
    plain = await ada.say(
        "batch_update_notebook_cells", **call, updates=[replacing(0, "a = 1", "a = 10")]
    )
    assert "Others had changed" not in plain
    await bob.replace(path, "cell-0", "b = 2", "b = 20")
    said = await ada.say(
        "batch_update_notebook_cells", **call, updates=[replacing(0, "c = 3", "c = 30")]
    )
    assert "Others had changed [0] cell-0@" in said
    assert "-b = 2\n-c = 3\n+b = 20\n+c = 30" in said
    again = await ada.say(
        "batch_update_notebook_cells", **call, updates=[replacing(0, "a = 10", "a = 1")]
    )
    assert "Others had changed" not in again
    await bob.replace(path, "cell-0", "b = 20", "b = 2")
    whole = {"index": 0, "content": "all of it"}
    assert "Others had changed" not in await ada.say(
        "batch_update_notebook_cells", **call, updates=[whole]
    )


async def test_a_partial_replacement_shows_a_text_file_that_others_changed(
    server: JupyterProcess, ada: AgentClient, bob: AgentClient
) -> None:
    file = Path(server.root) / "known.md"
    file.write_text("first\nsecond\nthird\n")

    async def replace(client: AgentClient, old: str, new: str) -> str:
        operations = [{"old_text": old, "new_text": new}]
        return await client.say("batch_update_document", path=file.name, operations=operations)

    assert "Others had changed" not in await replace(ada, "first", "1st")  # nor has it read it
    await replace(bob, "second", "2nd")
    assert "-second\n-third\n+2nd\n+3rd" in await replace(ada, "third", "3rd")
    assert "Others had changed" not in await replace(ada, "1st", "first")


# -- a cell by what it says ------------------------------------------------------------------------


async def test_a_cell_can_be_named_by_text_that_only_it_has(ada: AgentClient, warm: Warm) -> None:
    path = await warm("total = 1 + 1", "print(total)", "print('other')")
    await ada.ask(
        "batch_execute_notebook_cells", path=path, cell_ids=["text:total =", "text:print(total)"]
    )
    assert "print(total)" in await ada.say("get_notebook", path=path, cell_ids=["text:(total)"])
    update = {"old_text": "'other'", "new_text": "'changed'"}
    await ada.ask("batch_update_notebook_cells", path=path, updates=[update], exec=False)
    assert (await ada.sources(path))[2] == "print('changed')"
    several = await ada.refused("execute_notebook_cell", path=path, cell_id="text:print(")
    assert several["code"] == "ambiguous_cell"
    assert "[1] cell-1@" in several["message"]
    assert "[2] cell-2@" in several["message"]
    none = await ada.refused("execute_notebook_cell", path=path, cell_id="text:nowhere")
    assert none["code"] == "cell_not_found"
    for name in ("other", "text:"):  # a word alone is an id: that of a cell which is gone, say
        error = await ada.refused("execute_notebook_cell", path=path, cell_id=name)
        assert error["code"] == "cell_not_found"
    update = {"old_text": "print(", "new_text": "show("}
    error = await ada.refused("batch_update_notebook_cells", path=path, updates=[update])
    assert error["code"] == "ambiguous_cell"
    update = {"old_text": "nowhere at all", "new_text": ""}
    error = await ada.refused("batch_update_notebook_cells", path=path, updates=[update])
    assert (error["code"], "is in no cell" in error["message"]) == ("text_mismatch", True)
    many = [f"text:word {n}" for n in range(21)]
    error = await ada.refused("batch_execute_notebook_cells", path=path, cell_ids=many)
    assert error["code"] == "too_large"


# -- what failed -------------------------------------------------------------------------------


async def test_the_variables_on_the_failing_line_are_shown(ada: AgentClient, warm: Warm) -> None:
    path = await warm("rows = [1, 2]\nlimit = 5\nprint(rows[limit])")
    text = await ada.say("execute_notebook_cell", path=path, cell_id=0)
    assert "IndexError" in text
    assert "Variables on the failing line: 'rows list [1, 2]; limit int 5'" in text


async def test_the_variables_of_a_function_are_not_confused_with_global_ones(
    ada: AgentClient, warm: Warm
) -> None:
    path = await warm("def half(part, whole):\n    return part / whole\nwhole = 10\nhalf(1, 0)")
    text = await ada.say("execute_notebook_cell", path=path, cell_id=0)
    assert "ZeroDivisionError" in text
    assert "whole int" not in text


async def test_an_agents_own_undo_is_not_reported_as_a_change_by_others(
    ada: AgentClient, new: New
) -> None:
    path = new("a = 1\nb = 2")
    await ada.sources(path)
    await ada.replace(path, "cell-0", "a = 1", "a = 10")
    await ada.ask("undo_agent_changes", path=path)
    updates = [replacing("cell-0", "b = 2", "b = 20")]
    call = {"path": path, "exec": False, "updates": updates}
    assert "Others had changed" not in await ada.say("batch_update_notebook_cells", **call)


async def test_an_error_without_variables_shows_none(ada: AgentClient, warm: Warm) -> None:
    path = await warm("raise ValueError('x' * 3)", "not python at all")
    for cell in (0, 1):
        text = await ada.say("execute_notebook_cell", path=path, cell_id=cell)
        assert "FAILED" in text
        assert "failing line" not in text


# -- many runs ---------------------------------------------------------------------------------


async def test_running_many_cells_gives_a_short_answer(ada: AgentClient, warm: Warm) -> None:
    cells = [f"x{n} = {n}" for n in range(84)]
    cells[7] = "import sys; print('careful', file=sys.stderr)"
    cells[20] = "print('printed')"
    cells[21] = "print('printed')"
    path = await warm(*cells)
    text = await ada.say("batch_execute_notebook_cells", path=path, timeout=60)
    assert len(text) < 700
    assert re.match(r"84 cells in \d+\.\d\d s: 84 completed\.\n", text)
    assert "With warnings or stderr: [7].\n" in text
    assert "With output: [7], [20]." in text  # the last output is there itself
    assert "[21] " in text
    cells[40] = "unknown_name + 1"
    path = await warm(*cells)
    text = await ada.say("batch_execute_notebook_cells", path=path, timeout=60)
    assert len(text) < 1_500
    assert re.match(r"84 cells in \d+\.\d\d s: 40 completed, 1 FAILED, 43 not run\.\n\[40\] ", text)
    assert "NameError" in text
    assert "Not run: [41] to [83]." in text


async def test_the_last_of_many_queued_runs_is_named(
    ada: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm(door.code, *[f"x{n} = {n}" for n in range(20)])
    text = await ada.say("batch_execute_notebook_cells", path=path, timeout=0)
    (run_id,) = re.findall(r"Last in the queue: \[20\] \S+ as (run-\w+);", text)
    door.open()
    assert "completed" in await ada.say("get_run", run_id=run_id, wait=60)


async def test_output_in_any_script_fits_the_limit(ada: AgentClient, warm: Warm) -> None:
    path = await warm(*["print('\u65e5\u672c\u8a9e' * 20_000)"] * 4)
    text = await ada.say("batch_execute_notebook_cells", path=path, timeout=60)
    assert len(text.encode()) < 40_000


# -- pictures, and long cells ------------------------------------------------------------------


async def test_reading_a_cell_with_its_outputs_shows_its_pictures(
    ada: AgentClient, new: New
) -> None:
    display = {"output_type": "display_data", "data": {"image/png": png(8, 6)}, "metadata": {}}
    path = new(*[notebooks.code(f"cell-{n}", "plot()", outputs=[display]) for n in range(8)])
    more: dict[str, Any]
    for more in ({"include_outputs": True}, {"format": "full"}):
        answer = await ada.call("get_notebook", path=path, cell_ids=[0, 1], **more)
        assert sum(isinstance(part, ImageContent) for part in answer.content) == 2
        assert "image/png" in text_of(answer)
    for more in ({"cell_ids": [0]}, {"format": "outline"}, {"format": "full"}):
        answer = await ada.call("get_notebook", path=path, **more)
        assert not any(isinstance(part, ImageContent) for part in answer.content), more


async def test_a_long_cell_can_be_read_in_pieces(ada: AgentClient, new: New) -> None:
    source = "\n".join(f"line_{n} = {n}" for n in range(6_000))
    path = new(source, "other")
    read = ""
    start: int | None = 0
    text = await ada.say("get_notebook", path=path)
    first = text.partition("\n")[0]
    assert 'continue with cell_ids=["cell-0"], start_position=' in first
    assert "continue with start_index=1" in first
    while start is not None:
        facts = await ada.ask("get_notebook", path=path, cell_ids=[0], start_position=start)
        read += facts["cells"][0]["source"]
        start = facts.get("next_position")
    assert read == source
    for more, said in (
        ({"cell_ids": [0], "start_position": len(source)}, f"has only {len(source):,} characters"),
        ({"start_position": 5}, "start_position is for one cell"),
        ({"cell_ids": [0], "start_position": 5, "format": "outline"}, "is for one cell"),
        ({"start_index": 2}, "start_index is 2, but"),
    ):
        error = await ada.refused("get_notebook", path=path, **more)
        assert (error["code"], said in error["message"]) == ("invalid_argument", True), error


async def test_the_first_line_of_an_outline_says_how_to_continue(
    ada: AgentClient, new: New
) -> None:
    path = new(*[f"number_{n} = {n}  # {'x' * 40}" for n in range(1_200)])
    seen: list[str] = []
    start: int | None = 0
    while start is not None:
        text = await ada.say("get_notebook", path=path, format="outline", start_index=start)
        assert len(text.encode()) < 40_000
        seen += re.findall(r"^\[(\d+)\] ", text, re.MULTILINE)
        more = re.search(r"continue with start_index=(\d+)", text.partition("\n")[0])
        start = None if more is None else int(more[1])
    assert seen == [str(n) for n in range(1_200)]


async def test_the_pages_of_a_listing_show_everything_once(
    server: JupyterProcess, ada: AgentClient
) -> None:
    folder = Path(server.root) / "pages"
    for n in range(130):
        inside = folder / f"sub-{n % 7}"
        inside.mkdir(parents=True, exist_ok=True)
        (inside / f"file-{n}.md").write_text("x")
    for more in ({"path_filter": "file-"}, {"path": "pages/sub-1"}):
        every = await ada.ask("list_documents", max_results=1000, **{"path": "pages", **more})
        seen: list[str] = []
        start: int | None = 0
        while start is not None:
            call = {"path": "pages", **more, "max_results": 7, "start_index": start}
            page = await ada.ask("list_documents", **call)
            seen += [entry["path"] for entry in page["documents"]]
            start = page.get("next_index")
        assert seen == [entry["path"] for entry in every["documents"]]
    beyond = await ada.refused("list_documents", path="pages/sub-1", start_index=500)
    assert beyond["code"] == "invalid_argument"
