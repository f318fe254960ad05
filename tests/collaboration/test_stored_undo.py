"""What an agent can undo, as it is kept: the same as it has in memory, after every history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.backends.protocols.steps import Lazy, Steps, StoredStep
from jupyter_collaboration_mcp.collaboration import undo
from jupyter_collaboration_mcp.collaboration.changes import SourceChange, Step
from jupyter_collaboration_mcp.collaboration.changes.storage import restored, stored
from jupyter_collaboration_mcp.collaboration.undo import UndoLog
from jupyter_collaboration_mcp.errors import (
    AmbiguousUser,
    DocumentBusy,
    InvalidArgument,
    NothingToUndo,
    StepNotFound,
    UndoRefused,
)
from jupyter_collaboration_mcp.workspace import editing
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from jupyter_collaboration_mcp.workspace.undo_steps import UndoSteps
from tests.harness.examples import examples
from tests.harness.memory_room import MemoryLink, MemoryRoom, perform

from .test_undo import Story, agent_steps, person_steps

pytestmark = pytest.mark.anyio

ROOM = MemoryLink.room_id

undo_steps = st.tuples(st.just("undo"), st.integers(1, 3), st.just(""))
HISTORY = st.lists(st.one_of(agent_steps, agent_steps, undo_steps, person_steps), max_size=12)


class MemorySteps:
    """Steps as a file has them: as bytes."""

    def __init__(self) -> None:
        self.on_loss: set[Callable[[], Awaitable[None]]] = set()
        self.rows: dict[str, tuple[RoomId, StoredStep]] = {}
        self.reading: Callable[[], None] = lambda: None

    def add(self, room: RoomId, step: StoredStep) -> None:
        assert isinstance(step.changes, Lazy)
        self.rows[step.id] = room, replace(step, changes=step.changes.make())

    def remove(self, ids: Sequence[str]) -> None:
        for step_id in ids:
            self.rows.pop(step_id, None)

    def forget(self, room: RoomId) -> None:
        self.rows = {key: row for key, row in self.rows.items() if row[0] != room}

    async def of(self, room: RoomId, agent: str) -> list[StoredStep]:
        found = [step for at, step in self.rows.values() if (at, step.agent) == (room, agent)]
        self.reading()
        return found

    async def agents(self, room: RoomId) -> list[str]:
        return list({step.agent: None for at, step in self.rows.values() if at == room})

    async def durable(self) -> None:
        pass

    async def opened(self) -> Steps:
        return self


def kept_in(room: MemoryRoom) -> MemorySteps:
    """Have the peer of a room keep its steps."""
    steps = MemorySteps()
    room.peer._steps = steps
    return steps


def story(history: Any) -> tuple[Story, MemorySteps]:
    told = Story()
    steps = kept_in(told.room)
    for kind, place, what in history:
        if kind == "undo":
            try:
                told.undo(place)
            except (NothingToUndo, UndoRefused):
                continue
        else:
            told.play(kind, place, what)
    return told, steps


def ids(log: UndoLog) -> list[str]:
    return [step.id for step in log]


@given(HISTORY)
@examples(60, 300)
def test_a_log_from_storage_equals_the_one_in_memory(history: Any) -> None:
    told, steps = story(history)
    kept = asyncio.run(steps.of(ROOM, told.here.seat.agent))
    log = UndoLog()
    log.complete(restored(kept))
    assert list(log) == list(told.here.seat.undo)
    assert (ids(log), log.characters) == (ids(told.here.seat.undo), told.here.seat.undo.characters)


@given(HISTORY, st.integers(1, 4), st.booleans())
@examples(60, 300)
def test_an_undo_from_storage_does_the_same_as_one_from_memory(
    history: Any, count: int, force: bool
) -> None:
    def outcome(forgetful: bool) -> tuple[list[str], str]:
        told, steps = story(history)
        if forgetful:  # as after a restart
            seat = told.room.seat()
            asyncio.run(
                UndoSteps({(ROOM, seat.agent): seat}, steps.opened).recall(ROOM, seat.agent)
            )
            told.here = replace(told.here, seat=seat)
        try:
            told.undo(count, force)
        except (NothingToUndo, UndoRefused) as error:
            return told.room.sources(), type(error).__name__
        assert len(steps.rows) == len(told.here.seat.undo)
        return told.room.sources(), ""

    assert outcome(True) == outcome(False)


class Agents:
    """Two agents in a notebook, whose steps are kept."""

    def __init__(self, *sources: str) -> None:
        self.room = MemoryRoom(sources or ("one", "two"))
        self.steps = kept_in(self.room)
        self.seats = [self.room.seat("Ada"), self.room.seat("Bob")]
        self.ada, self.bob = (
            OpenDocument("memory.ipynb", self.room.peer, seat, "test") for seat in self.seats
        )
        self.known = UndoSteps({(ROOM, seat.agent): seat for seat in self.seats}, self.steps.opened)

    def write(self, here: OpenDocument, cell: str, old: str, new: str) -> str:
        """Returns the id of the call."""
        notebook = self.room.peer.notebook
        with self.room.peer.edit(here.seat, "test") as record:
            index = notebook.find(cell)
            before = notebook.source(index)
            after = before.replace(old, new) if old else new
            notebook.set_source(index, after)
            record(SourceChange(cell, before, after))
        return here.seat.undo.last(1)[0].id

    def undo(self, here: OpenDocument, call: str, force: bool = False) -> editing.UndoResult:
        return perform(here, editing.undo(here, 1, None, force, call))


class TestOneCall:
    def test_a_call_is_undone_alone_while_later_ones_stay(self) -> None:
        agents = Agents("one", "two")
        calls = [
            agents.write(agents.ada, "cell-0", "one", "one 1"),
            agents.write(agents.ada, "cell-1", "two", "two 2"),
            agents.write(agents.ada, "cell-0", "one 1", "a\none 1"),
        ]
        assert agents.undo(agents.ada, calls[0]).ids == calls[:1]
        assert agents.room.sources() == ["a\none", "two 2"]
        assert ids(agents.ada.seat.undo) == list(agents.steps.rows) == calls[1:]
        agents.undo(agents.ada, calls[2])
        agents.undo(agents.ada, calls[1])
        assert agents.room.sources() == ["one", "two"]
        assert agents.steps.rows == {}

    def test_a_later_call_of_the_agent_itself_is_named_where_it_is_in_the_way(self) -> None:
        agents = Agents("one", "two")
        first = agents.write(agents.ada, "cell-0", "one", "one TWO three")
        second = agents.write(agents.ada, "cell-0", "TWO", "2")
        agents.write(agents.ada, "cell-1", "two", "2")
        with pytest.raises(UndoRefused) as refused:
            agents.undo(agents.ada, first)
        said = str(refused.value)
        assert f"cell cell-0, where your later call {second} changed what you wrote" in said
        assert "later calls of the same agent" in said
        assert "others" not in said
        assert agents.room.sources() == ["one 2 three", "2"]
        agents.undo(agents.ada, first, force=True)
        assert agents.room.sources() == ["one2", "2"]

    def test_others_are_named_where_they_are_in_the_way_as_well(self) -> None:
        agents = Agents("one")
        first = agents.write(agents.ada, "cell-0", "one", "one TWO three")
        agents.write(agents.bob, "cell-0", "thr", "th---r")
        agents.write(agents.ada, "cell-0", "TWO", "2")
        with pytest.raises(UndoRefused, match="where others changed what you wrote"):
            agents.undo(agents.ada, first)

    def test_an_unknown_call_is_refused(self) -> None:
        agents = Agents()
        bobs = agents.write(agents.bob, "cell-0", "one", "1")
        for call in ("c-00000000", "", bobs):
            with pytest.raises(StepNotFound, match="Nothing was changed"):
                agents.undo(agents.ada, call)

    def test_a_call_and_a_version_together_are_refused(self) -> None:
        agents = Agents()
        call = agents.write(agents.ada, "cell-0", "one", "1")
        with pytest.raises(InvalidArgument, match="Both since and call"):
            editing.undo(agents.ada, 1, 0, False, call)


class TestOtherAgents:
    async def test_an_agent_is_found_by_its_name_or_id(self) -> None:
        agents = Agents()
        call = agents.write(agents.bob, "cell-0", "one", "1")
        for wanted in ("Bob", "bob", agents.bob.seat.member.id):
            found = await agents.known.find(ROOM, wanted)
            assert (found.name, ids(found.log), found.seat) == ("Bob", [call], agents.bob.seat)
        with pytest.raises(NothingToUndo, match=r"No agent 'Eve'.*'Bob'"):
            await agents.known.find(ROOM, "Eve")
        with pytest.raises(NothingToUndo, match="No agent"):
            await agents.known.find(RoomId("json:notebook:other"), "Bob")

    async def test_a_name_that_two_agents_have_is_refused(self) -> None:
        agents = Agents()
        for credential in "xy":
            step = Step(1, "test", (SourceChange("a", "", "x"),), f"Eve <{credential}>")
            agents.steps.add(ROOM, stored(step))
        with pytest.raises(AmbiguousUser, match="2 users are called 'Eve'"):
            await agents.known.find(ROOM, "Eve")

    async def test_steps_of_an_agent_that_never_came_back_can_be_undone(self) -> None:
        agents = Agents()
        agents.write(agents.bob, "cell-0", "one", "1 TWO 3")
        agents.write(agents.ada, "cell-0", "TWO", "2")
        known = UndoSteps({}, agents.steps.opened)
        found = await known.find(ROOM, "Bob")
        assert found.seat is None
        with pytest.raises(UndoRefused, match="where others changed what Bob wrote"):
            perform(agents.ada, editing.undo(agents.ada, 1, None, False, None, found))
        done = perform(agents.ada, editing.undo(agents.ada, 1, None, True, None, found))
        assert (done.steps, len(found.log), len(agents.ada.seat.undo)) == (1, 0, 1)
        assert [step.agent for _, step in agents.steps.rows.values()] == [agents.ada.seat.agent]


class TestSlices:
    """An undo that is applied in slices, which a journal has as a whole before the first one."""

    def written(self) -> Agents:
        agents = Agents(*[f"{n}" for n in range(250)])
        notebook = agents.room.peer.notebook
        with agents.room.peer.edit(agents.ada.seat, "test") as record:
            for index in range(250):
                record(SourceChange(notebook.id_at(index), f"{index}", f"{index} by Ada"))
                notebook.set_source(index, f"{index} by Ada")
        return agents

    def undo(
        self,
        agents: Agents,
        pending: Callable[[], None],
        afterwards: Callable[[], None] = lambda: None,
    ) -> editing.UndoResult:
        link = agents.room.link

        @asynccontextmanager
        async def as_one(updates: Sequence[bytes]) -> AsyncIterator[None]:
            assert len(updates) > 1
            pending()
            yield
            afterwards()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(link, "as_one", as_one)
            return perform(agents.ada, editing.undo(agents.ada, 1, None, False), aside=True)

    def test_the_steps_are_removed_with_what_is_pending(self) -> None:
        agents, stored_then = self.written(), list[int]()
        self.undo(agents, lambda: stored_then.append(len(agents.steps.rows)))
        assert (stored_then, len(agents.ada.seat.undo), agents.steps.rows) == ([0], 0, {})
        assert agents.room.sources() == [f"{n}" for n in range(250)]

    def test_they_are_stored_again_if_nothing_comes_of_it(self) -> None:
        agents = self.written()
        before = dict(agents.steps.rows)

        def fail() -> None:
            assert not agents.steps.rows
            raise DocumentBusy.while_replacing()

        with pytest.raises(DocumentBusy):
            self.undo(agents, fail)
        assert (agents.steps.rows, len(agents.ada.seat.undo)) == (before, 1)

    def test_they_are_stored_again_until_the_undo_fits(self) -> None:
        agents, attempts = self.written(), list[int]()

        def delete_once() -> None:
            attempts.append(len(agents.steps.rows))
            if len(attempts) == 1:
                with agents.room.doc.transaction():
                    agents.room.notebook.delete([0])

        self.undo(agents, delete_once)
        assert (attempts, agents.steps.rows) == ([0, 0], {})
        assert agents.room.sources() == [f"{n}" for n in range(1, 250)]

    def test_without_a_journal_they_are_removed_after_the_last_slice(self) -> None:
        agents, stored_then = self.written(), list[int]()

        def look() -> None:
            stored_then.append(len(agents.steps.rows))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(agents.room.link, "pends", False)
            self.undo(agents, look, afterwards=look)
        assert (stored_then, agents.steps.rows) == ([1, 1], {})

    def test_without_a_journal_they_stay_if_nothing_comes_of_it(self) -> None:
        agents = self.written()
        before = dict(agents.steps.rows)

        def fail() -> None:
            raise DocumentBusy.while_replacing()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(agents.room.link, "pends", False)
            with pytest.raises(DocumentBusy):
                self.undo(agents, lambda: None, afterwards=fail)
        assert agents.steps.rows == before


class TestRecall:
    async def test_what_happens_while_steps_are_read_counts(self) -> None:
        agents = Agents()
        calls = [agents.write(agents.ada, "cell-0", "one", "1")]
        seat = agents.room.seat("Ada")
        here = replace(agents.ada, seat=seat)
        known = UndoSteps({(ROOM, seat.agent): seat}, agents.steps.opened)
        agents.steps.reading = lambda: calls.append(agents.write(here, "cell-1", "two", "2"))
        log = (await known.recall(ROOM, seat.agent)).log
        assert ids(log) == calls
        agents.steps.reading = lambda: pytest.fail("it is read once")
        assert (await known.recall(ROOM, seat.agent)).log is log

    async def test_two_reads_at_once_do_not_bring_back_what_was_undone(self) -> None:
        agents = Agents()
        agents.write(agents.ada, "cell-0", "one", "1")
        seat = agents.room.seat("Ada")
        here = replace(agents.ada, seat=seat)
        known = UndoSteps({(ROOM, seat.agent): seat}, agents.steps.opened)

        def other_call() -> None:
            agents.steps.reading = lambda: None
            seat.undo.complete(restored([row for _, row in agents.steps.rows.values()]))
            perform(here, editing.undo(here, 1, None, False))

        agents.steps.reading = other_call
        assert ids((await known.recall(ROOM, seat.agent)).log) == []

    async def test_steps_in_memory_are_stored_again_when_a_file_is_lost(self) -> None:
        agents = Agents()
        agents.write(agents.ada, "cell-0", "one", "1")
        agents.write(agents.bob, "cell-0", "1", "2")
        await agents.known.opened()
        before = dict(agents.steps.rows)
        agents.steps.rows.clear()
        for tell in agents.steps.on_loss:
            await tell()
        assert agents.steps.rows == before

    async def test_forgetting_a_document_leaves_others(self) -> None:
        agents = Agents()
        agents.write(agents.ada, "cell-0", "one", "1")
        await agents.known.forget(RoomId("json:notebook:other"))
        assert agents.steps.rows
        await agents.known.forget(ROOM)
        assert not agents.steps.rows


def test_a_log_keeps_its_limits_when_stored_steps_are_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(undo, "MAX_STEPS", 3)
    steps = [Step(n, "test", (SourceChange("a", "", "x"),)) for n in range(5)]
    log = UndoLog()
    log.push(steps[3])
    log.push(steps[4])
    log.complete(steps)
    assert ([step.version for step in log], log.characters) == ([2, 3, 4], 3)


def test_a_version_in_the_future_is_refused() -> None:
    agents = Agents()
    agents.write(agents.ada, "cell-0", "one", "1")
    with pytest.raises(InvalidArgument, match="in the future"):
        editing.undo(agents.ada, 1, agents.room.peer.version + 10**9, False)
    with pytest.raises(NothingToUndo):
        perform(agents.ada, editing.undo(agents.ada, 1, agents.room.peer.version, False))
