"""What the panel has of calls: each as it begins, as it changes a document, and as it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ..collaboration.activity.activity import how_many, now
from ..collaboration.activity.guard import harmless
from ..collaboration.edits import LARGE_TEXT, Kept
from ..collaboration.panel.cell_changes import (
    CellChanges,
    cell_entry,
    collected,
    name_of,
    place_of,
)
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
from ..documents.foreign_text import PATH
from ..errors import (
    AgentHeld,
    CollaborationError,
    ExecutionError,
    InternalError,
    PathError,
    PermissionRefused,
    PresenceError,
    RateLimited,
    ServerError,
    TooManyDocuments,
)
from ..execution.run import Run
from ..owned_tasks import OwnedTasks
from ..workspace.agent import Agent, name_in
from ..workspace.holds import Holds
from ..workspace.open_document import OpenDocument
from ..workspace.permissions import Level
from .call_record import CANCELLED, OK, CallRecord, without_query

#: Characters of a summary and of an error.
_SUMMARY, _ERROR = 120, 300

#: Seconds between calls that are shown of an agent that calls too often, and agents of which it is
#: remembered.
_FLOOD, _REMEMBERED = 1.0, 500

#: Cells that a summary names.
_NAMED = 3

#: Errors that say nothing of what is in documents, and so may be shown to everybody.
_HARMLESS = (
    AgentHeld,
    ExecutionError,
    InternalError,
    PathError,
    PermissionRefused,
    PresenceError,
    RateLimited,
    ServerError,
    TooManyDocuments,
)

#: What is done to a document, in plain words, while nothing more is known.
_DOING: dict[CallKind, str] = {
    "read": "reading",
    "edit": "editing",
    "run": "running code in",
    "file": "working on",
}

_VERBS = {
    "inserted": "inserted",
    "deleted": "deleted",
    "source": "edited",
    "moved": "moved",
    "type": "changed the type of",
    "metadata": "changed the metadata of",
    "outputs": "cleared the outputs of",
}


class Feed(Protocol):
    """Learns of calls, and knows which agents people hold."""

    def require(self, agent: Agent, level: Level) -> None: ...

    async def ready(self) -> None: ...

    def begin(self, record: CallRecord) -> None: ...

    def step(self, record: CallRecord, kept: Kept) -> None: ...

    def end(self, record: CallRecord) -> None: ...


class NoFeed:
    """Shows nothing, and holds nobody."""

    def require(self, agent: Agent, level: Level) -> None:
        pass

    async def ready(self) -> None:
        pass

    def begin(self, record: CallRecord) -> None:
        pass

    def step(self, record: CallRecord, kept: Kept) -> None:
        pass

    def end(self, record: CallRecord) -> None:
        pass


class CallFeed:
    """Makes entries of the panel of calls and runs."""

    def __init__(self, ledger: Ledger, holds: Holds) -> None:
        self._ledger = ledger
        self._holds = holds
        self._tasks = OwnedTasks()
        self.require = holds.require
        self._flooding: dict[str, int] = {}  # when a refused call of an agent was shown last
        self.on_fork_step: Callable[[str], None] | None = None
        """Called with the id of each fork that a call has changed."""

    async def close(self) -> None:
        await self._tasks.close()

    # -- calls -------------------------------------------------------------------------------

    async def ready(self) -> None:
        """What people have decided is known."""

    def begin(self, record: CallRecord, path: str | None = None) -> None:
        """A call has come; nothing was done for it yet.

        Args:
            path: What it is about, if it names that otherwise.
        """
        agent = self._meet(record.agent, record.allowed)
        call = CallEntry(
            id=record.id,
            agent=agent.id,
            tool=record.name,
            title=record.title or record.name,
            kind=record.kind,
            path=_path(record) if path is None else path[:PATH],
            began=record.began,
        )
        doing = _DOING.get(record.kind)
        if doing is not None and call.path:
            agent.work[call.id] = (f"{doing} {call.path.rpartition('/')[2]}", record.began)
            agent.path = call.path
        self._ledger.say_agent(agent, keep=False)
        self._ledger.say_call(call)

    def step(self, record: CallRecord, kept: Kept) -> None:
        """A call has changed a document."""
        self._note_undone(record, kept)
        call = self._ledger.calls.get(record.id)
        if call is None or kept.undone or not kept.step.changes:
            return
        call.steps.append(kept.step.id)
        call.room, call.file_id = kept.room_id, kept.room_id.file_id
        cells = collected(kept.step.changes, kept.document)
        # What is in a fork is reviewed with the fork.
        review: Review = "none" if kept.room_id.is_fork else "open"
        if kept.room_id.is_fork and self.on_fork_step is not None:
            self.on_fork_step(kept.room_id.file_id)
        if kept.step.characters <= LARGE_TEXT:
            self._add(call, [cell_entry(cell, review) for cell in cells])
        else:
            self._tasks.start(self._add_large(call, cells, review))

    async def _add_large(
        self, call: CallEntry, cells: Sequence[CellChanges], review: Review
    ) -> None:
        entries = await asyncio.to_thread(lambda: [cell_entry(cell, review) for cell in cells])
        self._add(call, entries)

    def _add(self, call: CallEntry, cells: Sequence[CellEntry]) -> None:
        call.add(cells)
        call.summary = summary_of(call.cells)
        agent = self._ledger.agents.get(call.agent)
        if agent is not None and cells:
            agent.cell_id = cells[-1].cell_id or None
            agent.file_id = call.file_id
            if call.state == "running":
                agent.work[call.id] = (f"editing {cells[-1].name}", call.began)
        self._ledger.say_call(call)

    def end(self, record: CallRecord) -> None:
        """A call is over, and its answer has left."""
        call = self._ledger.calls.get(record.id)
        if call is None:  # it was refused at the door
            self.begin(record)
            call = self._ledger.calls[record.id]
        agent = self._ledger.agents.get(call.agent)
        call.state, call.error = _state(record), _error(record)
        call.ended = now()
        documents = record.documents
        if documents:
            _, visit = documents[0]
            call.path, call.file_id = visit.path, call.file_id or visit.file_id
        if not call.summary:
            call.summary = _said(record, call)
        if agent is not None:
            agent.work.pop(call.id, None)
            agent.seen = call.ended
            if documents:
                agent.path, agent.file_id = call.path, call.file_id
            self._ledger.say_agent(agent)
        self._ledger.say_call(call)
        if isinstance(record.error, RateLimited):
            self._limit_flood(call)

    def _limit_flood(self, call: CallEntry) -> None:
        """Of calls that are refused because there are too many, show one each second."""
        before = self._flooding.get(call.agent, 0)
        if call.began - before < _FLOOD * 1000:
            self._ledger.drop_call(call)
        else:
            self._flooding[call.agent] = call.began
            if len(self._flooding) > _REMEMBERED:
                del self._flooding[next(iter(self._flooding))]

    def _note_undone(self, record: CallRecord, kept: Kept) -> None:
        """The agent itself, or another one, has undone calls."""
        for step in kept.undone:
            call = self._ledger.call_of_step(step.id)
            if call is None:
                continue
            for cell in call.cells:
                cell.review = "undone"  # whatever people thought of it: it is gone
            call.reviewed_by, call.reviewed_at = record.agent.name, now()
            call.steps = [each for each in call.steps if each != step.id]
            self._ledger.say_call(call)

    # -- runs --------------------------------------------------------------------------------

    @harmless
    def on_run(self, here: OpenDocument, run: Run) -> None:
        """A run was asked for, or is over."""
        agent = self._ledger.agents.get(here.seat.member.id)
        if agent is None:
            return
        if run.over:
            agent.runs.pop(run.id, None)
            for next_id, (doing, _) in list(agent.runs.items())[:1]:
                agent.runs[next_id] = (doing, now())  # it has its turn now
        else:
            name = "code"
            if run.cell_id is not None:
                name = name_of(run.code, place_of(run.cell_id, here.peer.document))
                agent.cell_id, agent.file_id = run.cell_id, run.room_id.file_id
            agent.runs[run.id] = (f"running {name}", now())
        agent.seen = now()
        self._ledger.say_agent(agent, keep=False)

    # -- agents ------------------------------------------------------------------------------

    def _meet(self, agent: Agent, allowed: Level) -> AgentEntry:
        entry = self._ledger.agents.get(agent.username)
        if entry is None:
            entry = AgentEntry(
                id=agent.username,
                key=agent.key,
                credential=agent.credential,
                name=name_in(agent.key),
                color=colour_of(agent.key),
            )
            entry.state = self._holds.meet(agent)
            entry.level, entry.connected = allowed.name, True
            self._ledger.say_agent(entry)
        entry.level, entry.connected, entry.seen = allowed.name, True, now()
        return entry


def summary_of(cells: Sequence[CellEntry]) -> str:
    """What a call did to cells, in a line that names some of them."""
    groups: dict[str, list[str]] = {}
    for cell in cells:
        aspects = [aspect for aspect in _VERBS if aspect in cell.changes]
        groups.setdefault(_VERBS[aspects[0]] if aspects else "changed", []).append(cell.name)
    said = [
        f"{verb} {', '.join(names)}"
        if len(names) <= _NAMED
        else f"{verb} {how_many(len(names), 'cell')}"
        for verb, names in groups.items()
    ]
    return _cut("; ".join(said), _SUMMARY)


def _said(record: CallRecord, call: CallEntry) -> str:
    """What a call did that has changed no cells."""
    where = (call.path or "").rpartition("/")[2]
    if record.outcome != OK:
        return ""
    if runs := record.runs:
        return f"ran code in {where}: {', '.join(f'{n} {state}' for state, n in runs.items())}"
    if call.kind == "read":
        cells = len(record.cells)
        what = f"{how_many(cells, 'cell')} of {where}" if cells and where else where
        return _cut(f"read {what}", _SUMMARY) if what else "read"
    return _cut(f"{call.title}{f': {where}' if where else ''}", _SUMMARY)


def _state(record: CallRecord) -> CallState:
    if record.outcome == OK:
        return "done"
    if record.outcome == CANCELLED:
        return "cancelled"
    refused = isinstance(record.error, PermissionRefused | RateLimited | AgentHeld)
    return "refused" if refused else "failed"


def _error(record: CallRecord) -> str | None:
    """Why a call failed, without anything of the text of a document."""
    if record.outcome in (OK, CANCELLED):
        return None
    error = record.error
    if isinstance(error, CollaborationError) and isinstance(error, _HARMLESS):
        return _cut(error.happened.partition("\n")[0], _ERROR)
    return record.outcome.replace("_", " ")


def _path(record: CallRecord) -> str | None:
    named = record.named_path
    if not isinstance(named, str) or not named:
        return None
    return without_query(named)[:PATH]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
