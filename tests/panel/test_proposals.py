"""Proposals of agents: people see what they would change, merge all or a part of it, or discard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.panel import Panel

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

UPDATE = "batch_update_notebook_cells"


@pytest.fixture
async def panel(server: JupyterProcess) -> AsyncIterator[Panel]:
    async with Panel(server) as panel:
        yield panel


@pytest.fixture
async def ada(server: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(server, works="propose") as ada:
        yield ada


async def propose(server: JupyterProcess, panel: Panel, ada: AgentClient, path: str) -> Any:
    """A proposal that edits two cells, inserts and deletes one, of a notebook of five."""
    notebooks.write(server.root / path, notebooks.numbered(5))
    updates = [{"cell_id": f"cell-0000{n}", "content": f"def proposed_{n}(): pass"} for n in (0, 1)]
    await ada.say(UPDATE, path=path, updates=updates, exec=False)
    await ada.say(
        "batch_insert_notebook_cells",
        path=path,
        cells=[{"content": "new = 1"}],
        start_position=2,
        exec=False,
    )
    await ada.say("batch_delete_notebook_cells", path=path, cell_ids=["cell-00004"], exec=False)
    return await panel.until(
        lambda: next(
            (p for p in panel.proposals.values() if p["path"] == path and p["cells"] == 4), None
        )
    )


async def sources(server: JupyterProcess, path: str) -> list[str]:
    async with agent(server, "Reader") as reader:
        return await reader.sources(path)


async def test_a_proposal_is_listed_with_what_it_would_change_and_is_merged_as_a_whole(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    proposal = await propose(server, panel, ada, "whole.ipynb")
    before = await sources(server, "whole.ipynb")
    assert proposal["agent"] == "Ada"
    assert proposal["state"] == "open"
    assert proposal["title"]
    assert proposal["created"] > 0
    shown = await panel.get(f"proposals/{proposal['id']}")
    assert shown["conflicts"] == []
    assert shown["cells"] == 4
    by_change = {each["changes"][0]: each for each in shown["diffs"]}
    assert by_change["inserted"]["after"] == "new = 1"
    assert by_change["deleted"]["before"] == before[4]
    edited = next(each for each in shown["diffs"] if each["cell_id"] == "cell-00000")
    assert (edited["before"], edited["after"]) == (before[0], "def proposed_0(): pass")
    assert edited["name"] == "proposed_0"
    async with Collaborator(server.url, server.token, "whole.ipynb") as ana:
        merged = await panel.post(f"proposals/{proposal['id']}", action="merge")
        assert merged["state"] == "merged"
        expected = ["def proposed_0(): pass", "def proposed_1(): pass", "new = 1", *before[2:4]]
        await ana.until(lambda: ana.sources() == expected)
    await panel.until(lambda: panel.proposals[proposal["id"]]["state"] == "merged")
    error = await panel.post(f"proposals/{proposal['id']}", 404, action="merge")
    assert error["code"] == "fork_not_found"
    edits = [call for call in panel.calls.values() if call["path"] == "whole.ipynb"]
    assert {call["review"] for call in edits} == {"none"}, "a proposal is reviewed as such"


async def test_some_cells_of_a_proposal_are_merged_and_the_rest_stays(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    proposal = await propose(server, panel, ada, "parts.ipynb")
    before = await sources(server, "parts.ipynb")
    place = f"proposals/{proposal['id']}"
    diffs = (await panel.get(place))["diffs"]
    inserted = next(each["cell_id"] for each in diffs if each["changes"] == ["inserted"])
    assert (await panel.post(place, 400, action="merge", cells=["cell-00003"]))["code"]
    left = await panel.post(place, action="merge", cells=["cell-00001", inserted])
    assert left["state"] == "open"
    now = [before[0], "def proposed_1(): pass", "new = 1", *before[2:]]
    assert await sources(server, "parts.ipynb") == now
    diffs = (await panel.get(place))["diffs"]
    assert sorted(each["cell_id"] for each in diffs) == ["cell-00000", "cell-00004"]
    done = await panel.post(place, action="merge", cells=["cell-00000", "cell-00004"])
    assert done["state"] == "merged"
    assert await sources(server, "parts.ipynb") == ["def proposed_0(): pass", *now[1:-1]]


async def test_where_both_have_changed_a_cell_nothing_is_merged_unless_a_person_says_so(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    proposal = await propose(server, panel, ada, "both.ipynb")
    place = f"proposals/{proposal['id']}"
    async with Collaborator(server.url, server.token, "both.ipynb") as ana:
        ana.insert("cell-00000", 0, "hers = 1\n")
        await ana.flush()
        before = ana.sources()
        shown = await panel.get(place)
        assert shown["conflicts"] == ["cell-00000"]
        error = await panel.post(place, 409, action="merge")
        assert error["code"] == "merge_conflict"
        (diff,) = error["diffs"]
        assert diff["conflict_text"]["theirs"] == before[0]
        assert diff["conflict_text"]["yours"] == "def proposed_0(): pass"
        assert ana.sources() == before
        await panel.post(place, action="merge", cells=["cell-00001"])
        await ana.until(lambda: ana.source("cell-00001") == "def proposed_1(): pass")
        assert ana.source("cell-00000") == before[0]
        assert (await panel.post(place, action="merge", force=True))["state"] == "merged"
        await ana.until(lambda: ana.source("cell-00000") == "def proposed_0(): pass")


async def test_a_proposal_is_discarded_and_the_document_is_as_it_was(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    proposal = await propose(server, panel, ada, "discarded.ipynb")
    before = await sources(server, "discarded.ipynb")
    gone = await panel.post(f"proposals/{proposal['id']}", action="discard")
    assert gone["state"] == "discarded"
    assert await sources(server, "discarded.ipynb") == before
    await panel.get(f"proposals/{proposal['id']}", 404)


async def test_a_proposal_for_a_text_file(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    (server.root / "notes.md").write_text("one\ntwo\n")
    operations = [{"old_text": "two", "new_text": "2"}]
    await ada.say("batch_update_document", path="notes.md", operations=operations)
    proposal = await panel.until(
        lambda: next(
            (p for p in panel.proposals.values() if p["path"] == "notes.md" and p["cells"]), None
        )
    )
    (diff,) = (await panel.get(f"proposals/{proposal['id']}"))["diffs"]
    assert (diff["cell_id"], diff["after"]) == ("", "one\n2\n")
    await panel.post(f"proposals/{proposal['id']}", action="merge")
    async with Collaborator(server.url, server.token, "notes.md", kind="file") as ana:
        await ana.until(lambda: ana.source() == "one\n2\n")


async def test_what_a_person_has_merged_is_theirs_and_agents_list_no_steps_of_people(
    server: JupyterProcess, panel: Panel, ada: AgentClient
) -> None:
    proposal = await propose(server, panel, ada, "whose.ipynb")
    await panel.post(f"proposals/{proposal['id']}", action="merge")
    async with agent(server, "Boss") as boss:
        error = await boss.refused("list_agent_changes", path="whose.ipynb", agent="nobody")
        assert "Agents that have: 'Ada', 'Boss'." in error["message"]
