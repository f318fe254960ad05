"""What agents did, in the order in which they did it, for everybody who looks at the panel.

Every change of an entry is an *event* with a number. A listener that was away asks for all after
the last number that it has. The *epoch* names this run of the server: with another one, or when the
buffer no longer reaches back, a listener gets the whole state instead.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal, NamedTuple, Protocol

from ..activity.activity import now
from .entries import AgentEntry, CallEntry

_log = logging.getLogger(__name__)

Entry = Literal["agent", "call", "proposal"]

#: Calls that are shown whatever people think of them, and events that a listener can catch up with.
MOST_CALLS, MOST_EVENTS = 500, 5_000

#: Agents that are remembered.
_MOST_AGENTS = 200

#: Calls beyond the limit from which on the oldest are dropped, all at once.
_SLACK = 50

Listener = Callable[[str], None]
"""Takes a message as JSON."""


class Event(NamedTuple):
    """One change of an entry; what the entry says is looked up when it is told."""

    seq: int
    time: int
    kind: Entry
    id: str


class Keeper(Protocol):
    """Keeps entries for the next start of the server."""

    def put(
        self, table: Literal["agents", "calls"], entry_id: str, row: Callable[[], Mapping[str, Any]]
    ) -> None: ...

    def drop(self, table: Literal["agents", "calls"], entry_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What entries say that is known elsewhere."""

    path_of: Callable[[str], str | None]
    """The path of the document with a file id; None if it is gone."""
    token_of: Callable[[str], Mapping[str, Any] | None]
    """The agent token that a credential stands for, if it does."""
    permission: str
    """The most that any agent may do."""
    reviews: bool
    """Whether changes can be reviewed."""


class Ledger:
    """The entries of one server.

    Args:
        review_limit: Calls that are left to review; older ones are no longer shown.
    """

    def __init__(self, keeper: Keeper, around: Surroundings, review_limit: int) -> None:
        self.epoch = secrets.token_hex(8)
        self.agents: dict[str, AgentEntry] = {}
        self.calls: dict[str, CallEntry] = {}
        self.proposals: dict[str, dict[str, Any]] = {}
        self.around = around
        self._keeper = keeper
        self._review_limit = review_limit
        self._seq = 0
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._listeners: list[Listener] = []
        self._told = 0
        self._telling = False
        self._calls_of_steps: dict[str, str] = {}
        self.on_forgotten: Callable[[AgentEntry], None] | None = None
        """Called with each agent that is forgotten to make room, and that nothing has to hold."""

    def restore(self, tables: Mapping[Any, list[Mapping[str, Any]]]) -> None:
        """Take over what was kept; a call that was running then has ended with the server."""
        for row in tables.get("agents", ()):
            try:
                agent = AgentEntry.of_row(row)
            except (KeyError, TypeError):
                continue
            self.agents[agent.id] = agent
        for row in tables.get("calls", ()):
            try:
                call = CallEntry.of_row(row)
            except (KeyError, TypeError):
                continue
            if call.agent in self.agents:
                if call.state == "running":
                    call.state, call.ended = "cancelled", call.began
                    call.error = "The server was stopped."
                self.calls[call.id] = call
                self._calls_of_steps.update(dict.fromkeys(call.steps, call.id))

    # -- changing ----------------------------------------------------------------------------

    def say_agent(self, agent: AgentEntry, keep: bool = True) -> None:
        """Tell that an agent has changed."""
        if agent.id not in self.agents:
            self._forget_agents()
            self.agents[agent.id] = agent
        if keep:
            self._keeper.put("agents", agent.id, agent.row)
        self._say("agent", agent.id)

    def say_call(self, call: CallEntry) -> None:
        """Tell that a call has begun or changed."""
        if call.id not in self.calls:
            self.calls[call.id] = call
            if len(self.calls) >= MOST_CALLS + self._review_limit + _SLACK or (
                len(self.calls) % _SLACK == 0
            ):
                self._trim()
        for step in call.steps:
            self._calls_of_steps[step] = call.id
        self._keeper.put("calls", call.id, call.row)
        self._say("call", call.id)

    def say_proposal(self, proposal: dict[str, Any]) -> None:
        """Tell that a proposal is new or has changed."""
        self.proposals[proposal["id"]] = proposal
        self._say("proposal", proposal["id"])

    def forget_agent(self, agent_id: str) -> None:
        """Forget an agent and its calls."""
        for call in [each for each in self.calls.values() if each.agent == agent_id]:
            self.drop_call(call)
        self.agents.pop(agent_id, None)
        self._keeper.drop("agents", agent_id)
        self._say("agent", agent_id)

    def forget_proposal(self, proposal_id: str) -> None:
        if self.proposals.pop(proposal_id, None) is not None:
            self._say("proposal", proposal_id)

    def moved(self) -> None:
        """Tell of all calls whose documents are elsewhere than people have been told."""
        paths: dict[str, str | None] = {}
        for call in self.calls.values():
            if call.file_id is None:
                continue
            if call.file_id not in paths:
                paths[call.file_id] = self.around.path_of(call.file_id)
            if call.path != paths[call.file_id]:
                call.path = paths[call.file_id]
                self.say_call(call)
        for agent in self.agents.values():
            if agent.file_id in paths and agent.path != paths[agent.file_id]:
                agent.path = paths[agent.file_id]
                self.say_agent(agent)

    def call_of_step(self, step_id: str) -> CallEntry | None:
        """The call that a step undoes."""
        return self.calls.get(self._calls_of_steps.get(step_id, ""))

    def _trim(self) -> None:
        """Drop the oldest calls: those that nobody has to review, and too many of the others."""
        newest = list(self.calls.values())
        older = [call for call in newest[:-MOST_CALLS] if call.state != "running"]
        left = [call for call in older if call.review == "open"]
        kept = {call.id for call in left[-self._review_limit :]} if self._review_limit else set()
        for call in older:
            if call.id not in kept:
                self.drop_call(call)

    def drop_call(self, call: CallEntry) -> None:
        """Show a call no longer."""
        del self.calls[call.id]
        for step in call.steps:
            self._calls_of_steps.pop(step, None)
        self._keeper.drop("calls", call.id)
        self._say("call", call.id)

    def _forget_agents(self) -> None:
        """Make room for one more: forget agents that have not been here for the longest time, and
        have nothing here."""
        if len(self.agents) < _MOST_AGENTS:
            return
        needed = {call.agent for call in self.calls.values()}
        for agent in sorted(self.agents.values(), key=lambda each: each.seen):
            if len(self.agents) < _MOST_AGENTS:
                return
            if agent.id not in needed and self._can_forget(agent):
                del self.agents[agent.id]
                self._keeper.drop("agents", agent.id)
                self._say("agent", agent.id)
                held = agent.state != "active" and self.can_return(agent)
                if self.on_forgotten is not None and not held:
                    self.on_forgotten(agent)

    def _can_forget(self, agent: AgentEntry) -> bool:
        """Whether nothing is lost with an agent. One that is held like others with its credential
        is held again when it comes back: somebody may come with thousands of names."""
        if agent.connected and agent.state == "active":
            return False
        if not self.can_return(agent):
            return True
        others = (each for each in self.of_credential(agent.credential) if each is not agent)
        return agent.state == "active" or any(each.state == agent.state for each in others)

    # -- telling -----------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """The number of the latest event."""
        return self._seq

    def listen(self, listener: Listener) -> None:
        """Call a function with each event from now on."""
        self.flush()  # what happened before is no news to it
        self._listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def since(self, seq: int, epoch: str | None) -> list[dict[str, Any]] | None:
        """The events after a number; None if only the whole state can help."""
        if epoch != self.epoch or not 0 <= seq <= self._seq:
            return None
        if seq < self._seq and (not self._events or self._events[0].seq > seq + 1):
            return None
        return [self._rendered(event) for event in self._events if event.seq > seq]

    def state(self) -> dict[str, Any]:
        """Everything: the newest calls, and all that are left to review, the oldest first."""
        calls = list(self.calls.values())
        first = len(calls) - MOST_CALLS
        return {
            "kind": "state",
            "epoch": self.epoch,
            "seq": self._seq,
            "agents": [self.view_agent(agent) for agent in self.agents.values()],
            "calls": [
                self.view_call(call)
                for number, call in enumerate(calls)
                if number >= first or call.review == "open"
            ],
            "proposals": list(self.proposals.values()),
            "permission": self.around.permission,
            "review": self.around.reviews,
        }

    def view_call(self, call: CallEntry) -> dict[str, Any]:
        """A call as people see it."""
        return call.view(call.path)

    def view_agent(self, agent: AgentEntry) -> dict[str, Any]:
        """An agent as people see it."""
        token = self.around.token_of(agent.credential)
        return {**agent.view(agent.path, token), "can_return": self.can_return(agent)}

    def can_return(self, agent: AgentEntry) -> bool:
        """Whether an agent can come again: not if its own token was revoked or has expired."""
        return not agent.has_own_token or self.around.token_of(agent.credential) is not None

    def of_credential(self, credential: str) -> Iterator[AgentEntry]:
        """The agents with a credential."""
        return (each for each in self.agents.values() if each.credential == credential)

    def _say(self, kind: Entry, entry_id: str) -> None:
        self._seq += 1
        self._events.append(Event(self._seq, now(), kind, entry_id))
        if self._listeners and not self._telling:
            self._telling = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Tell all listeners what has come together in this turn of the loop, now."""
        self._telling = False
        told, self._told = self._told, self._seq
        if not self._listeners:
            return
        for event in reversed(
            list(takewhile(lambda each: each.seq > told, reversed(self._events)))
        ):
            try:
                message = json.dumps(self._rendered(event))
            except Exception:
                _log.exception("A change cannot be shown in the panel")
                continue
            for listener in list(self._listeners):
                try:
                    listener(message)
                except Exception:
                    _log.exception("Somebody who looks at the panel could not be told")
                    self.unlisten(listener)

    def _rendered(self, event: Event) -> dict[str, Any]:
        said: dict[str, Any] = {
            "kind": event.kind,
            "seq": event.seq,
            "epoch": self.epoch,
            "time": event.time,
        }
        if event.kind == "agent" and (agent := self.agents.get(event.id)) is not None:
            return {**said, "agent": self.view_agent(agent)}
        call = self.calls.get(event.id) if event.kind == "call" else None
        if call is not None and (whose := self.agents.get(call.agent)) is not None:
            return {**said, "call": self.view_call(call), "agent": self.view_agent(whose)}
        if event.kind == "proposal" and (proposal := self.proposals.get(event.id)) is not None:
            return {**said, "proposal": proposal}
        return {**said, "kind": "gone", "gone": {"kind": event.kind, "id": event.id}}
