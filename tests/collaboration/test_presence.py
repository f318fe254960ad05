"""People see the agent: its name, and its caret where it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pycrdt import StickyIndex

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.lobby import Lobby
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(server: JupyterProcess, request: pytest.FixtureRequest) -> str:
    """A notebook of the test's own: its room outlives the test that opened it."""
    path = f"{notebooks.name_for(request.node.name)}.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.numbered(3))
    return path


def agents_state(ana: Collaborator, name: str) -> dict[str, Any] | None:
    """What a person's tab knows of an agent."""
    for state in ana.awareness.states.values():
        if state.get("user", {}).get("name") == name:
            return state
    return None


async def caret(ana: Collaborator, name: str, source: str) -> int:
    """Where a person's tab shows an agent in the cell with this source.

    A room sends carets and text on their own ways, so either may come first.
    """

    def cell() -> Any:
        return next((c for c in ana.notebook.ycells if str(c["source"]) == source), None)

    await ana.until(lambda: "cursors" in (agents_state(ana, name) or {}) and cell() is not None)
    state = agents_state(ana, name)
    assert state is not None
    with ana.doc.transaction():
        return StickyIndex.from_json(state["cursors"][0]["head"], cell()["source"]).get_index()


async def test_a_person_sees_an_agents_name_and_caret(server: JupyterProcess, path: str) -> None:
    async with (
        agent(server, "Ada Lovelace") as ada,
        Collaborator(server.url, server.token, path, "Ana") as ana,
    ):
        await ada.replace(path, "cell-00001", "x = 1", "x = 1  # 😀é")
        assert await caret(ana, "Ada Lovelace", "x = 1  # 😀é\n") > len("x = 1")
        state = agents_state(ana, "Ada Lovelace")
        assert state is not None
        user = state["user"]
        assert user["display_name"] == "Ada Lovelace (agent)"
        assert user["initials"] == "AL"
        assert user["username"].startswith("agent-")
        (cursor,) = state["cursors"]
        assert set(cursor["head"]) == {"type", "tname", "item", "assoc"}


async def test_the_caret_is_at_the_end_of_a_cell_that_the_agent_inserted(
    server: JupyterProcess, path: str
) -> None:
    async with (
        agent(server, "Ina") as ina,
        Collaborator(server.url, server.token, path, "Ana") as ana,
    ):
        source = "# 😀é\nx"
        await ina.ask(
            "batch_insert_notebook_cells", path=path, cells=[{"content": source}], exec=False
        )
        assert await caret(ana, "Ina", source) == len(source.encode("utf-16-le")) // 2


async def test_a_person_who_joins_later_sees_the_agent_at_once(
    server: JupyterProcess, path: str
) -> None:
    async with agent(server, "Early") as early:
        await early.ask("create_notebook_session", path=path)
        async with Collaborator(server.url, server.token, path, "Late") as late:
            await late.until(lambda: agents_state(late, "Early") is not None)
            await late.flush()  # the room knows of Late when it has answered
            facts = await early.ask("get_notebook", path=path)
            assert "Late" in facts["collaboration"]["people"]
            assert "Early (agent)" not in facts["collaboration"]["people"]


async def test_an_agent_does_not_switch_on_an_autosave_that_people_switched_off(
    server: JupyterProcess, path: str
) -> None:
    async with agent(server, "Polite") as polite:
        await polite.ask("create_notebook_session", path=path)
        async with Collaborator(server.url, server.token, path, "Manual") as manual:
            manual.awareness.set_local_state_field("autosave", False)
            await manual.until(
                lambda: (agents_state(manual, "Polite") or {}).get("autosave") is False
            )
            manual.awareness.set_local_state_field("autosave", True)
            await manual.until(
                lambda: (agents_state(manual, "Polite") or {}).get("autosave") is True
            )


async def test_an_idle_agent_leaves_and_its_room_is_cleaned_up(make_server: MakeServer) -> None:
    config = {
        "JupyterCollaborationMCP": {"idle_timeout": 0.5},
        "YDocExtension": {"document_cleanup_delay": 0.2},
    }
    server = make_server(config=config)
    file = Path(server.root) / "idle.ipynb"
    notebooks.write(file, notebooks.numbered(3))
    async with server, agent(server, "Idle") as idle:
        async with (
            Collaborator(server.url, server.token, file.name, "Ana") as ana,
            Lobby(server, "Ana") as lobby,
        ):
            seen = note_names(ana)
            facts = await idle.ask("create_notebook_session", path=file.name)
            await lobby.sees("Idle")
            await ana.until(lambda: "Idle" in seen and agents_state(ana, "Idle") is None)
            await lobby.until(lambda: lobby.named("Idle") is None)
        deleted = f"Room {facts['room_id']} deleted"
        await until(lambda: server.log.count(deleted) == 1)
        await idle.write(file.name, "cell-00000", "written by one who then falls asleep")
        await until(lambda: server.log.count(deleted) == 2)
        assert notebooks.sources(file)[0].startswith("written by")
        # And it comes back as if it had never been away, with all it can take back.
        await idle.ask("undo_agent_changes", path=file.name)
        assert (await idle.sources(file.name))[0] == "x = 0\n"


def note_names(ana: Collaborator) -> set[str]:
    """Everybody whom a person's tab sees from now on, however short they stay."""
    names: set[str] = set()

    def look(topic: str, change: object) -> None:
        names.update(str(user["name"]) for user in ana.awareness_users())

    ana.awareness.observe(look)
    return names
