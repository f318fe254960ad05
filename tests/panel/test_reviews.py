"""Reviewing what agents did: keep or undo, whole calls or single cells, without losing a letter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jupyter_collaboration_mcp.collaboration.panel.entries import CallEntry, CellEntry
from jupyter_collaboration_mcp.workspace.reviewing import chosen_in
from jupyter_collaboration_mcp.workspace.turns import Turns
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.panel import Panel

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

UPDATE, INSERT = "batch_update_notebook_cells", "batch_insert_notebook_cells"
DELETE, MOVE = "batch_delete_notebook_cells", "move_notebook_cells"
CLEAR, TEXT = "clear_notebook_outputs", "batch_update_document"


#: What is said of a cell that stood after another one.
STOOD = "moved; it stood after x = 1"


@pytest.fixture
async def panel(server: JupyterProcess) -> AsyncIterator[Panel]:
    async with Panel(server) as panel:
        yield panel


@pytest.fixture
async def ada(server: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(server) as ada:
        yield ada


def person(server: JupyterProcess, path: str, **more: Any) -> Collaborator:
    return Collaborator(server.url, server.token, path, **more)


def new(server: JupyterProcess, path: str, count: int = 3) -> str:
    notebooks.write(server.root / path, notebooks.numbered(count))
    return path


def cells(ana: Collaborator) -> list[dict[str, Any]]:
    return [ana.cell(cell_id) for cell_id in ana.ids()]


async def open_calls(panel: Panel, path: str, count: int) -> list[dict[str, Any]]:
    """The calls that wait for a review in a document, the oldest first, once there are so many."""

    def found() -> list[dict[str, Any]]:
        here = [call for call in panel.calls.values() if call["path"] == path]
        return [call for call in here if call["review"] == "open" and call["state"] == "done"]

    await panel.until(lambda: len(found()) == count)
    return found()


async def test_a_call_that_is_kept_is_off_the_list_and_stays_as_it_is(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path = new(server, "kept.ipynb")
    await ada.write(path, "cell-00001", "kept = 1")
    call = await panel.open_call(UPDATE, path)
    kept = await panel.post(f"calls/{call['id']}", action="keep")
    assert kept["review"] == "kept"
    assert kept["reviewed_by"]
    assert kept["reviewed_at"] >= kept["ended"]
    await panel.until(lambda: panel.calls[call["id"]]["review"] == "kept")
    assert "kept = 1" in await ada.sources(path)
    error = await panel.post(f"calls/{call['id']}", 409, action="undo")
    assert error["code"] == "already_reviewed"
    assert error["call"]["review"] == "kept"
    assert "kept = 1" in await ada.sources(path)


@pytest.mark.parametrize(
    ("tool", "arguments", "aspect", "notes"),
    [
        (
            UPDATE,
            {"updates": [{"cell_id": "cell-00001", "content": "x"}], "exec": False},
            "source",
            [],
        ),
        (
            INSERT,
            {"cells": [{"content": "new = 1"}], "start_position": 1, "exec": False},
            "inserted",
            [],
        ),
        (DELETE, {"cell_ids": ["cell-00001"], "exec": False}, "deleted", []),
        (
            MOVE,
            {"cell_ids": ["cell-00002"], "to_index": 0},
            "moved",
            ["moved; it stood after x = 1"],
        ),
        (
            UPDATE,
            {"updates": [{"cell_id": "cell-00001", "cell_type": "markdown"}], "exec": False},
            "type",
            ["type code → markdown"],
        ),
        (
            UPDATE,
            {"updates": [{"cell_id": "cell-00001", "metadata": {"tags": ["a"]}}], "exec": False},
            "metadata",
            ["metadata: tags"],
        ),
        (CLEAR, {}, "outputs", ["outputs cleared"]),
    ],
    ids=["source", "inserted", "deleted", "moved", "type", "metadata", "outputs"],
)
async def test_every_kind_of_change_is_shown_and_undone(
    server: JupyterProcess,
    panel: Panel,
    ada: AgentClient,
    tool: str,
    arguments: dict[str, Any],
    aspect: str,
    notes: list[str],
) -> None:
    path = f"kind-{aspect}.ipynb"
    notebook = notebooks.numbered(3)
    output = {"output_type": "stream", "name": "stdout", "text": "once printed\n"}
    notebook["cells"][1] |= {"outputs": [output], "execution_count": 7}
    notebooks.write(server.root / path, notebook)
    async with person(server, path) as ana:
        before = cells(ana)
        await ada.say(tool, path=path, **arguments)
        await ana.until(lambda: cells(ana) != before)
        call = await panel.open_call(tool, path)
        (changed,) = call["cells"]
        assert aspect in changed["changes"]
        diff = await panel.diff(call, changed["cell_id"])
        assert [note for note in notes if note not in diff["notes"]] == []
        assert diff["review"] == "open"
        assert not diff["conflict"]
        if aspect == "inserted":
            assert (diff["before"], diff["after"], diff["undone"]) == ("", "new = 1", None)
        elif aspect == "deleted":
            assert changed["after_cell"] == "cell-00000"
            assert (diff["after"], diff["now"]) == ("", None)
            assert diff["undone"] == diff["before"] == before[1]["source"]
        undone = await panel.post(f"calls/{call['id']}", action="undo")
        assert undone["review"] == "undone"
        await ana.until(lambda: cells(ana) == before)


async def test_text_files_are_reviewed_as_one_cell(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    (server.root / "notes.md").write_text("one\ntwo\nthree\n")
    await ada.say(TEXT, path="notes.md", operations=[{"old_text": "two", "new_text": "2"}])
    call = await panel.open_call(TEXT, "notes.md")
    assert [cell["cell_id"] for cell in call["cells"]] == [""]
    diff = await panel.diff(call, "")
    assert (diff["before"], diff["after"]) == ("one\ntwo\nthree\n", "one\n2\nthree\n")
    async with person(server, "notes.md", kind="file") as ana:
        ana.insert(None, 0, "hers\n")
        await ana.flush()
        assert (await panel.diff(call, ""))["undone"] == "hers\none\ntwo\nthree\n"
        await panel.post(f"calls/{call['id']}", action="undo")
        await ana.until(lambda: ana.source() == "hers\none\ntwo\nthree\n")


async def test_one_cell_of_a_call_is_undone_and_the_agent_can_undo_the_rest(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path = new(server, "parts.ipynb")
    before = await ada.sources(path)
    updates = [{"cell_id": f"cell-0000{n}", "content": f"agent = {n}"} for n in range(3)]
    await ada.say(UPDATE, path=path, updates=updates, exec=False)
    call = await panel.open_call(UPDATE, path)
    part = await panel.post(f"calls/{call['id']}", action="undo", cell_id="cell-00001")
    assert part["review"] == "open"
    assert [cell["review"] for cell in part["cells"]] == ["open", "undone", "open"]
    assert await ada.sources(path) == ["agent = 0", before[1], "agent = 2"]
    again = await panel.post(f"calls/{call['id']}", 409, action="undo", cell_id="cell-00001")
    assert again["code"] == "already_reviewed"
    kept = await panel.post(f"calls/{call['id']}", action="keep", cell_id="cell-00002")
    assert kept["review"] == "open"
    left = await ada.ask("list_agent_changes", path=path)
    assert [len(change["cells"]) for change in left["changes"]] == [2]
    await ada.say("undo_agent_changes", path=path)
    assert await ada.sources(path) == before
    after = await panel.until(
        lambda: panel.calls[call["id"]]["review"] not in ("open",) and panel.calls[call["id"]]
    )
    assert after["review"] == "undone"
    assert after["reviewed_by"] == "Ada"


async def test_one_cell_is_asked_for_alone_also_beyond_what_one_answer_has(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path, count = new(server, "many.ipynb", 210), 205
    before = await ada.ask("get_notebook", path=path, cell_ids=["cell-00204"])
    updates = [{"cell_id": f"cell-{n:05d}", "content": f"agent = {n}"} for n in range(count)]
    await ada.say(UPDATE, path=path, updates=updates, exec=False)
    call = await panel.open_call(UPDATE, path)
    assert len(call["cells"]) == count
    shown = await panel.get(f"calls/{call['id']}")
    assert len(shown["diffs"]) == 200
    (diff,) = (await panel.get(f"calls/{call['id']}?cell_id=cell-00204"))["diffs"]
    assert (diff["cell_id"], diff["after"]) == ("cell-00204", "agent = 204")
    assert diff["undone"] == before["cells"][0]["source"]
    error = await panel.get(f"calls/{call['id']}?cell_id=cell-00209", 404)
    assert error["code"] == "unknown"
    (server.root / "alone.md").write_text("one\n")
    await ada.say(TEXT, path="alone.md", operations=[{"old_text": "one", "new_text": "1"}])
    call = await panel.open_call(TEXT, "alone.md")
    (diff,) = (await panel.get(f"calls/{call['id']}?cell_id="))["diffs"]
    assert (diff["cell_id"], diff["undone"]) == ("", "one\n")


def test_the_rest_of_a_call_is_undone_also_in_cells_that_it_does_not_name() -> None:
    changed = [CellEntry(name, name, ["source"]) for name in ("kept", "open")]
    changed[0].review = "kept"
    call = CallEntry(id="x", agent="a", tool=UPDATE, title="", kind="edit", cells=changed)
    everything, one = chosen_in(call, None), chosen_in(call, "open")
    assert [everything(each) for each in ("kept", "open", "unnamed")] == [False, True, True]
    assert [one(each) for each in ("kept", "open", "unnamed")] == [False, True, False]


async def test_a_step_that_is_undone_here_is_gone_from_the_agents_own_list(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path = new(server, "own.ipynb")
    before = await ada.sources(path)
    await ada.write(path, "cell-00000", "first = 1")
    await ada.write(path, "cell-00001", "second = 1")
    first, _ = await open_calls(panel, path, 2)
    await panel.post(f"calls/{first['id']}", action="undo")
    said = await ada.say("get_notebook", path=path)
    assert "has undone what your call batch_update_notebook_cells did to 1 cell" in said
    assert (await ada.ask("list_agent_changes", path=path))["total"] == 1
    await ada.say("undo_agent_changes", path=path)
    assert await ada.sources(path) == before
    error = await ada.refused("undo_agent_changes", path=path)
    assert error["code"] == "nothing_to_undo"


async def test_a_call_that_its_agent_undoes_after_all_is_shown_as_undone(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path = new(server, "after-all.ipynb", 2)
    updates = [{"cell_id": f"cell-0000{n}", "content": f"agent = {n}"} for n in range(2)]
    await ada.say(UPDATE, path=path, updates=updates, exec=False)
    (call,) = await open_calls(panel, path, 1)
    await panel.post(f"calls/{call['id']}", action="keep", cell_id="cell-00000")
    await ada.say("undo_agent_changes", path=path)
    await panel.until(lambda: panel.calls[call["id"]]["review"] == "undone")
    assert panel.calls[call["id"]]["reviewed_by"] == "Ada"


async def test_an_older_call_is_undone_under_a_newer_one(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path = new(server, "older.ipynb", 1)
    await ada.write(path, "cell-00000", "a\nb\nc")
    await ada.replace(path, "cell-00000", "a", "A")
    await ada.replace(path, "cell-00000", "c", "C")
    calls = await open_calls(panel, path, 3)
    await panel.post(f"calls/{calls[1]['id']}", action="undo")
    assert await ada.sources(path) == ["a\nb\nC"]


async def test_where_a_person_has_written_into_it_there_are_three_texts_and_force_keeps_theirs(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path = new(server, "conflict.ipynb", 2)
    before = await ada.sources(path)
    updates = [
        {"cell_id": "cell-00000", "content": "total = compute(x)"},
        {"cell_id": "cell-00001", "content": "other = 1"},
    ]
    await ada.say(UPDATE, path=path, updates=updates, exec=False)
    call = await panel.open_call(UPDATE, path)
    async with person(server, path) as ana:
        await ana.until(lambda: ana.source("cell-00000") == "total = compute(x)")
        ana.insert("cell-00000", len("total = comp"), "HERS")
        await ana.flush()
        diff = await panel.diff(call, "cell-00000")
        assert diff["conflict"]
        assert diff["conflict_text"] == {
            "base": "total = compute(x)",
            "theirs": "total = compHERSute(x)",
            "yours": before[0],
        }
        assert "HERS" in diff["undone"]
        error = await panel.post(f"calls/{call['id']}", 409, action="undo")
        assert error["code"] == "undo_conflict"
        assert [each["cell_id"] for each in error["diffs"]] == ["cell-00000"]
        assert await ada.sources(path) == ["total = compHERSute(x)", "other = 1"]
        undone = await panel.post(f"calls/{call['id']}", action="undo", force=True)
        assert undone["review"] == "undone"
        await ana.until(lambda: "HERS" in ana.source("cell-00000"))
        assert await ada.sources(path) == [diff["undone"], before[1]]


async def test_what_an_undo_would_leave_follows_what_people_type(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path = new(server, "now.ipynb", 1)
    (source,) = await ada.sources(path)
    await ada.write(path, "cell-00000", f"{source}\nagent = 1")
    call = await panel.open_call(UPDATE, path)
    async with person(server, path) as ana:
        ana.insert("cell-00000", 0, "# hers\n")
        await ana.flush()
        diff = await panel.diff(call, "cell-00000")
    assert diff["now"] == f"# hers\n{source}\nagent = 1"
    assert diff["undone"] == f"# hers\n{source}"


@pytest.mark.parametrize("action", ["undo", "keep"])
async def test_a_person_types_in_the_cell_meanwhile_and_no_character_is_lost_or_moved(
    server: JupyterProcess, panel: Panel, ada: AgentClient, action: str
) -> None:
    path = new(server, f"typing-{action}.ipynb", 1)
    await ada.write(path, "cell-00000", "start\nagent = 1\nend")
    await ada.replace(path, "cell-00000", "agent = 1", "agent = 12345")
    call = (await open_calls(panel, path, 2))[1]
    typed = "every one of these letters stays where it was typed "
    async with person(server, path) as ana:
        await ana.until(lambda: "12345" in ana.source("cell-00000"))
        typing = asyncio.create_task(ana.type("cell-00000", 0, typed, delay=0.005))
        await ana.until(lambda: ana.source("cell-00000").startswith("every"))
        await panel.get(f"calls/{call['id']}")
        await panel.post(f"calls/{call['id']}", action=action)
        await typing
        number = "1" if action == "undo" else "12345"
        expected = f"{typed}start\nagent = {number}\nend"
        await ana.until(lambda: ana.source("cell-00000") == expected)
        await ana.flush()
        assert await ada.sources(path) == [expected]


async def test_two_people_who_review_at_once_have_one_outcome_that_both_see(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path = new(server, "both.ipynb", 1)
    (before,) = await ada.sources(path)
    await ada.write(path, "cell-00000", "agent = 1")
    call = await panel.open_call(UPDATE, path)
    async with Panel(server) as other:
        answers = await asyncio.gather(
            panel.ask("POST", f"calls/{call['id']}", {"action": "undo"}),
            other.ask("POST", f"calls/{call['id']}", {"action": "keep"}),
            other.ask("POST", f"calls/{call['id']}", {"action": "undo"}),
        )
        assert sorted(each.status_code for each in answers) == [200, 409, 409]
        (outcome,) = {each.json()["review"] for each in answers if each.status_code == 200}
        for late in (each.json() for each in answers if each.status_code == 409):
            assert late["code"] == "already_reviewed"
            assert late["call"]["review"] == outcome
        for each in (panel, other):
            await each.until(lambda each=each: each.calls[call["id"]]["review"] == outcome)  # type: ignore[misc]
    assert await ada.sources(path) == [before if outcome == "undone" else "agent = 1"]


async def test_a_third_person_waits_too_while_the_turn_passes_from_the_first_to_the_second() -> (
    None
):
    turns, inside, most = Turns(), 0, 0
    started = asyncio.Event()

    async def review() -> None:
        nonlocal inside, most
        async with turns.of("call"):
            started.set()
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            inside -= 1

    async with asyncio.TaskGroup() as reviews:
        for _ in range(10):
            reviews.create_task(review())
            await started.wait()
            await asyncio.sleep(0)
    assert most == 1
    assert inside == 0


async def test_force_on_an_inserted_cell_takes_the_agents_text_and_leaves_the_persons(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path = new(server, "inserted-conflict.ipynb", 1)
    (before,) = await ada.sources(path)
    await ada.say(INSERT, path=path, cells=[{"content": "agent = 1"}], start_position=1, exec=False)
    call = await panel.open_call(INSERT, path)
    (cell,) = call["cells"]
    async with person(server, path) as ana:
        await ana.until(lambda: len(ana.ids()) == 2)
        ana.insert(cell["cell_id"], len("agent = 1"), "\nhers = 2")
        await ana.flush()
        diff = await panel.diff(call, cell["cell_id"])
        assert diff["conflict"]
        assert (diff["now"], diff["undone"]) == ("agent = 1\nhers = 2", "\nhers = 2")
        error = await panel.post(f"calls/{call['id']}", 409, action="undo")
        assert error["code"] == "undo_conflict"
        undone = await panel.post(f"calls/{call['id']}", action="undo", force=True)
        assert undone["review"] == "undone"
        await ana.until(lambda: ana.source(cell["cell_id"]) == diff["undone"])
        assert await ada.sources(path) == [before, diff["undone"]]
        assert (await ada.ask("list_agent_changes", path=path))["total"] == 0


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (MOVE, {"cell_ids": ["cell-00001"], "to_index": 0}),
        (
            UPDATE,
            {"updates": [{"cell_id": "cell-00001", "cell_type": "markdown"}], "exec": False},
        ),
        (INSERT, {"cells": [{"content": "new = 1"}], "start_position": 1, "exec": False}),
    ],
    ids=["moved", "type", "inserted"],
)
async def test_a_cell_in_which_somebody_else_types_is_replaced_only_with_force(
    server: JupyterProcess,
    panel: Panel,
    ada: AgentClient,
    tool: str,
    arguments: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    path = new(server, f"caret-{request.node.callspec.id}.ipynb", 2)
    async with person(server, path, name="Ana") as ana:
        before = cells(ana)
        await ada.say(tool, path=path, **arguments)
        await ana.until(lambda: cells(ana) != before)
        call = await panel.open_call(tool, path)
        (changed,) = call["cells"]
        place = f"calls/{call['id']}"
        after = cells(ana)
        ana.put_caret(changed["cell_id"], 1)
        await ana.flush()
        error = await panel.post(place, 409, action="undo")
        assert error["code"] == "undo_conflict"
        assert error["message"].startswith(f"Ana is typing in {changed['name']}. ")
        assert [each["cell_id"] for each in error["diffs"]] == [changed["cell_id"]]
        assert cells(ana) == after
        assert (await panel.post("review", action="undo", path=path))["conflicts"]
        await panel.post(place, action="undo", force=True)
        await ana.until(lambda: cells(ana) == before)


async def test_a_reviewer_may_replace_the_cell_of_their_own_caret(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path = new(server, "own-caret.ipynb", 2)
    me = (await panel.http.get(f"{server.url}api/me")).json()["identity"]
    async with person(server, path, name=me["username"]) as ana:
        before = cells(ana)
        await ada.say(MOVE, path=path, cell_ids=["cell-00001"], to_index=0)
        await ana.until(lambda: cells(ana) != before)
        call = await panel.open_call(MOVE, path)
        ana.put_caret("cell-00001", 1)
        await ana.flush()
        await panel.post(f"calls/{call['id']}", action="undo")
        await ana.until(lambda: cells(ana) == before)


async def test_everything_that_matches_is_reviewed_newest_first_and_conflicts_stay_open(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path, beside = new(server, "all.ipynb", 2), new(server, "beside.ipynb", 1)
    before = await ada.sources(path)
    await ada.write(path, "cell-00000", "one")
    await ada.write(path, "cell-00000", "two")
    await ada.write(path, "cell-00001", "mine")
    await ada.write(beside, "cell-00000", "beside")
    await open_calls(panel, path, 3)
    await panel.open_call(UPDATE, beside)
    async with person(server, path) as ana:
        await ana.until(lambda: ana.source("cell-00001") == "mine")
        ana.insert("cell-00001", 2, "HERS")
        await ana.flush()
    done = await panel.post("review", action="undo", path=path)
    assert [call["review"] for call in done["calls"]] == ["undone", "undone"]
    (conflict,) = done["conflicts"]
    assert panel.calls[conflict["call"]]["review"] == "open"
    assert await ada.sources(path) == [before[0], "miHERSne"]
    kept = await panel.post("review", action="keep", agent=panel.agent("Ada")["id"])
    assert {call["path"] for call in kept["calls"]} >= {path, beside}
    state = await panel.get("state")
    assert all(call["review"] != "open" for call in state["calls"])
    assert await panel.post("review", action="undo") == {"calls": [], "conflicts": []}


async def test_of_everything_that_matches_only_the_named_calls_are_reviewed(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    path, beside = new(server, "seen.ipynb", 2), new(server, "unseen.ipynb", 1)
    before = await ada.sources(path)
    await ada.write(path, "cell-00000", "seen")
    (seen,) = await open_calls(panel, path, 1)
    await ada.write(path, "cell-00001", "nobody has seen this")
    await ada.write(beside, "cell-00000", "nor this")
    other = await panel.open_call(UPDATE, beside)
    await open_calls(panel, path, 2)
    ids = [seen["id"], other["id"], "too old"]
    done = await panel.post("review", action="undo", path=path, calls=ids)
    assert [call["id"] for call in done["calls"]] == [seen["id"]]
    assert await ada.sources(path) == [before[0], "nobody has seen this"]
    assert panel.calls[other["id"]]["review"] == "open"
    nonsense: list[Any] = ["text", [], [1], {}]
    for calls in nonsense:
        error = await panel.post("review", 400, action="keep", calls=calls)
        assert error["code"] == "invalid_argument"
    done = await panel.post("review", action="keep", calls=[other["id"]])
    assert [call["id"] for call in done["calls"]] == [other["id"]]


async def test_an_undo_is_the_persons_change_and_survives_a_crash(
    make_server: MakeServer,
) -> None:
    async with make_server(env=NOT_MEASURED) as server:
        path = new(server, "crash.ipynb", 2)
        async with Panel(server) as panel:
            async with agent(server) as ada:
                before = await ada.sources(path)
                await ada.write(path, "cell-00000", "agent = 1")
                await ada.write(path, "cell-00001", "agent = 2")
                await panel.until(
                    lambda: len([c for c in panel.calls.values() if c["review"] == "open"]) == 2
                )
                call = panel.call_of(UPDATE, review="open")
                assert call is not None
                undone = await panel.post(f"calls/{call['id']}", action="undo")
                activity = await ada.ask("get_user_activity", document_path=path)
                (edit,) = [
                    each for each in activity["activities"] if "undid" in each["description"]
                ]
                assert not edit["agent"]
                assert undone["reviewed_by"] in edit["description"]
                call = panel.call_of(UPDATE, review="open")
                assert call is not None
                await panel.post(f"calls/{call['id']}", action="undo")
                server.kill()
            await server.start()
            async with agent(server) as ada, Panel(server) as again:
                reviews = [each["review"] for each in again.calls.values() if each["cells"]]
                assert reviews == ["undone", "undone"]
                assert await ada.sources(path) == before
                versions = await ada.ask("get_document_history", path=path)
                authors = [each["author"] for each in versions["versions"]]
                assert undone["reviewed_by"] in authors, versions
                assert (await ada.ask("list_agent_changes", path=path))["total"] == 0
