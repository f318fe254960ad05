"""Calls of agents of a command, which the command reports: they are shown like all others.

What people decide about them is decided here, and told to the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, get_args

from ..backends.protocols.panel_messages import dump_step, load_step
from ..backends.protocols.room_ids import RoomId
from ..backends.protocols.steps import Steps, StoredStep
from ..collaboration.activity.activity import now
from ..collaboration.panel.entries import (
    AgentEntry,
    CallEntry,
    CallKind,
    CallState,
    CellEntry,
    Review,
)
from ..collaboration.panel.ledger import Ledger
from ..collaboration.presence import colour_of
from ..documents.members import agent_username
from ..workspace.agent import Agent, credential_in, name_in
from ..workspace.holds import Holds
from ..workspace.permissions import Level

_log = logging.getLogger(__name__)

#: Seconds after which what a command that is gone was doing counts as over.
_GONE = 30.0

#: Seconds that a command has to learn whom people hold, before the person is answered.
_KNOWN = 0.5

#: Characters of a short text and of a longer one, and cells of one call.
_SHORT, _LONG, _CELLS = 200, 1_000, 1_000

#: Commands that are away for which is kept what people have undone, and messages for each.
_SOURCES, _MISSED = 50, 100

#: The work of an agent elsewhere, among what it does.
_ELSEWHERE = "elsewhere"


class Reporter:
    """One command that is connected.

    Args:
        tell: Sends it a message.
    """

    def __init__(self, tell: Callable[[Mapping[str, Any]], None]) -> None:
        self.tell = tell
        self.source = ""
        self.agents: set[str] = set()
        """The ids of its agents."""
        self.told = self.confirmed = 0
        """Holds that it was told of, and that it has said it knows."""
        self.changed = asyncio.Event()


class ReportedCalls:
    """The calls that commands report.

    Args:
        open_steps: Opens where the steps are kept that undo calls.
    """

    def __init__(
        self, ledger: Ledger, holds: Holds, open_steps: Callable[[], Awaitable[Steps]]
    ) -> None:
        self._ledger = ledger
        self._holds = holds
        self._open_steps = open_steps
        self._reporters: list[Reporter] = []
        self._missed: dict[str, deque[Mapping[str, Any]]] = {}  # by source

    def enter(self, reporter: Reporter) -> None:
        """A command has come."""
        self._reporters.append(reporter)

    def leave(self, reporter: Reporter) -> None:
        """A command has gone, or will be back in a moment."""
        self._reporters.remove(reporter)
        reporter.changed.set()
        loop = asyncio.get_running_loop()
        loop.call_later(_GONE, self._end, reporter.source, set(reporter.agents))

    async def take(self, reporter: Reporter, message: Mapping[str, Any]) -> None:
        """What a command says.

        Raises:
            KeyError, TypeError, ValueError: It makes no sense.
        """
        kind = message["kind"]
        if kind == "hello":
            reporter.source = str(message["source"])[:_SHORT]
            reporter.tell({"kind": "welcome", "agents": self._holds.states()})
            for missed in self._missed.pop(reporter.source, ()):
                reporter.tell(missed)
            return
        if kind == "event":
            self._take_event(reporter, message["event"], str(message["key"])[: 2 * _SHORT])
        elif kind == "step":
            await self._take_step(str(message["call"]), message["room"], message["step"])
        elif kind == "held":
            reporter.confirmed = int(message["held"])
            reporter.changed.set()
        elif kind == "undone":
            steps = await self._open_steps()
            steps.remove([str(each)[:_SHORT] for each in message["steps"]])
        reporter.tell({"kind": "ack", "n": int(message["n"])})

    def on_hold(self, agent: AgentEntry) -> None:
        """A person has paused or stopped an agent, or lets it go on."""
        for reporter in self._reporters:
            _tell_hold(reporter, agent)

    async def known(self) -> None:
        """Wait a moment until all commands know whom people hold."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KNOWN):
                for reporter in list(self._reporters):
                    while reporter.confirmed < reporter.told and reporter in self._reporters:
                        reporter.changed.clear()
                        await reporter.changed.wait()

    def on_undone(
        self,
        call: CallEntry,
        agent: str,
        gone: Sequence[str],
        left: Sequence[StoredStep],
        note: str,
    ) -> None:
        """A person has undone steps of an agent, by its key, or a part of them."""
        if call.source:
            message = {
                "kind": "undone",
                "room": call.room,
                "agent": agent,
                "gone": list(gone),
                "left": [dump_step(step) for step in left],
                "note": note,
            }
            for reporter in self._reporters:
                reporter.tell(message)
            if not any(each.source == call.source for each in self._reporters):
                self._miss(call.source, message)

    def interrupt(self, call: CallEntry, agent: str) -> bool:
        """End the runs of an agent, by its key, in the command that made a call; whether the
        command is connected."""
        there = [each for each in self._reporters if each.source == call.source]
        for reporter in there:
            reporter.tell({"kind": "interrupt", "agent": agent})
        return bool(there)

    def _miss(self, source: str, message: Mapping[str, Any]) -> None:
        """Keep a message for a command that may be back in a moment."""
        self._missed.setdefault(source, deque(maxlen=_MISSED)).append(message)
        if len(self._missed) > _SOURCES:
            del self._missed[next(iter(self._missed))]

    # -- events ------------------------------------------------------------------------------

    def _take_event(self, reporter: Reporter, event: Mapping[str, Any], key: str) -> None:
        agent = self._agent(event["agent"], key)
        if agent.id not in reporter.agents:
            reporter.agents.add(agent.id)
            _tell_hold(reporter, agent)
        self._ledger.say_agent(agent)
        if "call" in event:
            self._ledger.say_call(self._call(event["call"], agent, reporter.source))

    def _agent(self, said: Mapping[str, Any], key: str) -> AgentEntry:
        agent_id = agent_username(key)
        if said["id"] != agent_id:
            raise ValueError("the id of an agent")
        entry = self._ledger.agents.get(agent_id)
        if entry is None:
            credential = credential_in(key)
            agent = Agent(credential, name_in(key))
            entry = AgentEntry(
                id=agent_id,
                key=key,
                credential=credential,
                name=agent.name,
                color=colour_of(key),
                state=self._holds.meet(agent),
            )
        entry.level = Level[str(said["level"])].name
        entry.connected, entry.seen = bool(said["connected"]), now()
        entry.path, entry.cell_id = _text(said["path"], _LONG), _text(said["cell_id"])
        entry.runs.pop(_ELSEWHERE, None)
        if said["doing"] is not None:
            entry.runs[_ELSEWHERE] = (str(said["doing"])[:_SHORT], int(said["since"]))
        return entry

    def _call(self, said: Mapping[str, Any], agent: AgentEntry, source: str) -> CallEntry:
        call_id = _text(said["id"])
        if call_id is None or said["agent"] != agent.id:
            raise ValueError("the id of a call")
        call = self._ledger.calls.get(call_id)
        if call is None:
            kind = _one_of(said["kind"], get_args(CallKind))
            call = CallEntry(
                id=call_id,
                agent=agent.id,
                tool=str(said["tool"])[:_SHORT],
                title=str(said["title"])[:_SHORT],
                kind=kind,
                began=int(said["began"]),
                source=source,
            )
        elif not call.source or call.agent != agent.id:
            raise ValueError("a call of somebody else")
        call.path = _text(said["path"], _LONG)
        call.file_id = _text(said["file_id"])
        call.ended = None if said["ended"] is None else int(said["ended"])
        call.summary, call.error = str(said["summary"])[:_SHORT], _text(said["error"], _LONG)
        call.state = _one_of(said["state"], get_args(CallState))
        self._take_cells(call, said)
        return call

    def _take_cells(self, call: CallEntry, said: Mapping[str, Any]) -> None:
        """What a call did to cells; what people here have decided stays."""
        known = {cell.cell_id: cell for cell in call.cells}
        call.cells = [_cell(each) for each in said["cells"][:_CELLS]]
        for cell in call.cells:
            before = known.get(cell.cell_id)
            if cell.review != "undone":
                if before is not None and before.review in ("kept", "undone"):
                    cell.review = before.review
            elif before is None or before.review != "undone":
                call.reviewed_by = _text(said["reviewed_by"])
                call.reviewed_at = now()

    async def _take_step(self, call_id: str, room: Any, said: Any) -> None:
        step, room_id = load_step(said), RoomId(str(room))
        call = self._ledger.calls.get(call_id)
        if call is None or not call.source or self._ledger.agents[call.agent].key != step.agent:
            raise ValueError("a step of no call")
        (await self._open_steps()).add(room_id, step)
        call.room, call.file_id = str(room_id), room_id.file_id
        if step.id not in call.steps:
            call.steps.append(step.id)
        self._ledger.say_call(call)

    def _end(self, source: str, agents: set[str]) -> None:
        """What a command that has not come back was doing is over, as far as anybody knows."""
        if any(each.source == source for each in self._reporters):
            return
        for call in list(self._ledger.calls.values()):
            if call.source == source and call.state == "running":
                call.state, call.ended = "cancelled", now()
                call.error = "The command of the agent is gone."
                self._ledger.say_call(call)
        for agent_id in agents:
            if (agent := self._ledger.agents.get(agent_id)) is not None:
                agent.connected = False
                agent.runs.pop(_ELSEWHERE, None)
                self._ledger.say_agent(agent)


def _tell_hold(reporter: Reporter, agent: AgentEntry) -> None:
    """Tell a command what an agent may do, whether or not it has such an agent: it may not have
    reported one since its line was cut."""
    reporter.told += 1
    held = {agent.key: agent.state}
    reporter.tell({"kind": "hold", "agents": held, "held": reporter.told})


def _cell(said: Mapping[str, Any]) -> CellEntry:
    review: Review = _one_of(said["review"], ("none", "open", "kept", "undone"))
    return CellEntry(
        str(said["cell_id"])[:_SHORT],
        str(said["name"])[:_SHORT],
        [str(each)[:_SHORT] for each in said["changes"][:20]],
        int(said["added"]),
        int(said["removed"]),
        review,
        _text(said["after_cell"]),
    )


def _text(value: Any, most: int = _SHORT) -> str | None:
    return None if value is None else str(value)[:most]


def _one_of(value: Any, choices: Sequence[str]) -> Any:
    if value not in choices:
        raise ValueError(value)
    return value
