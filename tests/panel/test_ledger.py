"""The ledger of the panel: what a listener gets that was away, and what is dropped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from jupyter_collaboration_mcp.collaboration.panel.cell_changes import name_of
from jupyter_collaboration_mcp.collaboration.panel.entries import AgentEntry, CallEntry, CellEntry
from jupyter_collaboration_mcp.collaboration.panel.ledger import (
    MOST_CALLS,
    MOST_EVENTS,
    Ledger,
    Surroundings,
)
from jupyter_collaboration_mcp.documents.members import agent_username
from jupyter_collaboration_mcp.errors import AgentPaused, AgentStopped
from jupyter_collaboration_mcp.workspace.agent import Agent
from jupyter_collaboration_mcp.workspace.holds import Holds
from jupyter_collaboration_mcp.workspace.permissions import Level

pytestmark = pytest.mark.anyio


class Kept:
    """Keeps entries in memory."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Mapping[str, Any]]] = {"agents": {}, "calls": {}}

    def put(self, table: str, entry_id: str, row: Callable[[], Mapping[str, Any]]) -> None:
        self.tables[table][entry_id] = json.loads(json.dumps(row()))

    def drop(self, table: str, entry_id: str) -> None:
        self.tables[table].pop(entry_id, None)

    def rows(self) -> dict[str, list[Mapping[str, Any]]]:
        return {table: list(rows.values()) for table, rows in self.tables.items()}


AROUND = Surroundings(lambda file_id: "a.ipynb", lambda credential: None, "admin", True)


def ledger(kept: Kept | None = None, review_limit: int = 10) -> Ledger:
    return Ledger(kept or Kept(), AROUND, review_limit)


def an_agent(name: str = "Ada", credential: str = "token:server") -> AgentEntry:
    key = f"{name} <{credential}>"
    return AgentEntry(
        id=agent_username(key), key=key, credential=credential, name=name, color="red"
    )


def a_call(number: int, agent: AgentEntry, reviewed: bool = True) -> CallEntry:
    cells = [CellEntry("c", "load", ["source"], review="kept" if reviewed else "open")]
    return CallEntry(
        id=f"call-{number}",
        agent=agent.id,
        tool="t",
        title="T",
        kind="edit",
        state="done",
        cells=cells,
        steps=[f"step-{number}"],
    )


def test_a_listener_that_was_away_gets_what_it_missed_and_otherwise_everything() -> None:
    book, ada = ledger(), an_agent()
    book.say_agent(ada)
    for number in range(3):
        book.say_call(a_call(number, ada))
    missed = book.since(2, book.epoch)
    assert missed is not None
    assert [(each["seq"], each["call"]["id"]) for each in missed] == [(3, "call-1"), (4, "call-2")]
    assert all(each["agent"]["id"] == ada.id for each in missed)
    assert book.since(book.seq, book.epoch) == []
    for seq, epoch in ((2, "another"), (99, book.epoch), (-1, book.epoch), (2, None)):
        assert book.since(seq, epoch) is None
    for _ in range(MOST_EVENTS):
        book.say_agent(ada)
    assert book.since(2, book.epoch) is None
    assert book.since(book.seq - MOST_EVENTS, book.epoch) is not None


def test_the_newest_calls_stay_and_of_older_ones_those_that_wait_for_a_review() -> None:
    kept = Kept()
    book, ada = ledger(kept), an_agent()
    book.say_agent(ada)
    for number in range(3 * MOST_CALLS):
        book.say_call(a_call(number, ada, reviewed=number % 20 != 0))
    shown = [call["id"] for call in book.state()["calls"]]
    newest = [f"call-{number}" for number in range(2 * MOST_CALLS, 3 * MOST_CALLS)]
    assert shown[-MOST_CALLS:] == newest
    older = shown[:-MOST_CALLS]
    assert all(int(each.removeprefix("call-")) % 20 == 0 for each in older)
    assert 10 <= len(older) <= 13
    assert len(kept.tables["calls"]) == len(book.calls) < MOST_CALLS + 70
    assert book.call_of_step("step-1") is None
    assert book.call_of_step(f"step-{3 * MOST_CALLS - 1}") is not None
    missed = book.since(book.seq - 5, book.epoch)
    assert missed is not None
    assert all(each["kind"] in ("call", "gone") for each in missed)


def test_what_was_kept_is_there_again_and_what_ran_is_over() -> None:
    kept = Kept()
    book, ada = ledger(kept), an_agent()
    ada.state = "paused"
    book.say_agent(ada)
    book.say_call(a_call(1, ada, reviewed=False))
    running = a_call(2, ada)
    running.state = "running"
    book.say_call(running)
    kept.tables["calls"]["broken"] = {"id": "broken"}
    kept.tables["agents"]["broken"] = {"what": 1}
    again = ledger(kept)
    again.restore(kept.rows())
    assert again.epoch != book.epoch
    assert again.agents[ada.id].state == "paused"
    assert again.calls["call-1"].row() == book.calls["call-1"].row()
    assert again.calls["call-2"].state == "cancelled"
    assert again.call_of_step("step-1") is again.calls["call-1"]


async def test_every_listener_is_told_and_one_that_fails_is_left_out() -> None:
    book, ada = ledger(), an_agent()
    told: list[dict[str, Any]] = []

    def fail(message: str) -> None:
        raise OSError("gone")

    book.say_agent(ada)
    book.listen(fail)
    book.listen(lambda message: told.append(json.loads(message)))
    book.say_call(a_call(1, ada))
    book.say_agent(ada)
    book.flush()
    book.forget_agent(ada.id)
    book.flush()
    assert [each["kind"] for each in told] == ["call", "agent", "gone", "gone"]
    assert told[2]["gone"] == {"kind": "call", "id": "call-1"}
    assert [each["seq"] for each in told] == [2, 3, 4, 5]


def test_agents_with_thousands_of_names_are_forgotten_but_not_that_they_are_held() -> None:
    book = ledger()
    for number in range(1_000):
        agent = an_agent(f"Eve {number}")
        agent.state = "stopped"
        book.say_agent(agent)
    assert len(book.agents) <= 201
    assert all(agent.state == "stopped" for agent in book.agents.values())


def test_who_is_forgotten_comes_back_as_somebody_new_and_held_like_others() -> None:
    holds, book = Holds(), ledger()
    book.on_forgotten = lambda agent: holds.forget(agent.credential, agent.key)
    for number in range(300):
        name = f"Eve {number}"
        entry = an_agent(name)
        entry.state = holds.meet(Agent("token:server", name))
        book.say_agent(entry)
    forgotten = Agent("token:server", "Eve 0")
    assert forgotten.username not in book.agents
    for entry in book.agents.values():  # people stop all that they see
        holds.set(entry.credential, entry.key, "stopped")
    with pytest.raises(AgentStopped):
        holds.require(forgotten, Level.read)
    assert set(holds.states()) == {entry.key for entry in book.agents.values()}
    for entry in list(book.agents.values()):
        holds.set(entry.credential, entry.key, "active")
    holds.require(forgotten, Level.admin)


def test_agents_that_cannot_return_are_forgotten_before_their_number_grows() -> None:
    holds, book = Holds(), ledger()
    book.on_forgotten = lambda agent: holds.forget(agent.credential, agent.key)
    for number in range(300):
        entry = an_agent(f"Tom {number}", f"agent:{number}")
        entry.state = "stopped"
        holds.set(entry.credential, entry.key, "stopped")
        book.say_agent(entry)
    assert len(book.agents) == len(holds.states()) == 200
    assert not any(agent["can_return"] for agent in book.state()["agents"])
    book.say_agent(ada := an_agent())
    assert book.view_agent(ada)["can_return"]


async def test_an_agent_that_has_just_come_is_shown_although_there_are_too_many() -> None:
    book = ledger()
    told: list[dict[str, Any]] = []
    book.listen(lambda message: told.append(json.loads(message)))
    for number in range(210):
        agent = an_agent(f"Eve {number}")
        agent.state, agent.seen = "stopped", 1_000 - number  # the last one is the first to go
        book.say_agent(agent)
        book.say_call(a_call(number, agent))
        book.drop_call(book.calls[f"call-{number}"])
    last = an_agent("Eve last")
    last.state, last.seen = "stopped", 0
    book.say_agent(last, keep=False)
    book.say_call(a_call(1_000, last))
    book.flush()
    assert told[-1]["call"]["id"] == "call-1000"
    assert told[-1]["agent"]["id"] == last.id
    assert last.id in book.agents
    assert [each["seq"] for each in told] == list(range(1, book.seq + 1))
    missed = book.since(0, book.epoch)
    assert missed is not None
    assert len(missed) == book.seq


async def test_a_call_of_an_agent_that_is_gone_is_told_as_gone() -> None:
    book, ada = ledger(), an_agent()
    told: list[dict[str, Any]] = []
    book.listen(lambda message: told.append(json.loads(message)))
    book.say_agent(ada)
    book.say_call(a_call(1, ada))
    del book.agents[ada.id]
    book.say_agent(an_agent("Bob"))
    book.flush()
    assert [each["kind"] for each in told] == ["gone", "gone", "agent"]
    assert book.since(0, book.epoch) is not None


def test_a_new_name_is_held_like_the_strictest_with_its_credential() -> None:
    holds = Holds()
    ada, eve = Agent("token:server", "Ada"), Agent("token:server", "Eve")
    assert holds.meet(ada) == holds.meet(eve) == "active"
    holds.set(eve.credential, eve.key, "paused")
    holds.require(ada, Level.admin)
    holds.require(eve, Level.read)
    with pytest.raises(AgentPaused):
        holds.require(eve, Level.write)
    new = Agent("token:server", "Eve 2")
    with pytest.raises(AgentPaused):
        holds.require(new, Level.execute)
    holds.set(eve.credential, eve.key, "stopped")
    assert holds.meet(new) == "stopped"
    for agent in (eve, new):
        with pytest.raises(AgentStopped):
            holds.require(agent, Level.read)
    holds.require(Agent("user:ana", "Eve 2"), Level.admin)
    holds.set(eve.credential, eve.key, "active")
    holds.require(eve, Level.admin)
    with pytest.raises(AgentStopped):
        holds.require(new, Level.read)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def load(path):\n    pass", "load"),
        ("import os\n\n\nclass Model:\n    pass", "Model"),
        ("async def fetch(): ...", "fetch"),
        ("# Load the data\nx = 1", "Load the data"),
        ("## **Results**\ntext", "Results"),
        ("\n\n  x = 1  \n", "x = 1"),
        ("x" * 100, "x" * 39 + "…"),
        ("", "cell 4"),
        ("###\n---", "cell 4"),
    ],
)
def test_a_cell_is_named_as_people_would_call_it(source: str, name: str) -> None:
    assert name_of(source, 3) == name
