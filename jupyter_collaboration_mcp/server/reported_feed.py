"""The panel's side of the command: what its agents do is told to the servers that have the panel.

The command has a ledger for each server, which it does not keep; its events go to the server, whose
ledger takes them over. Which agents people hold comes back, and which steps they have undone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..backends.protocols.panel_messages import (
    MOST_CHARACTERS,
    PanelReports,
    dump_step,
    load_step,
)
from ..backends.protocols.room_ids import RoomId
from ..collaboration.changes.storage import restored, stored
from ..collaboration.edits import Kept
from ..collaboration.panel.entries import AgentState
from ..collaboration.panel.ledger import Ledger, Surroundings
from ..errors import CollaborationError
from ..owned_tasks import OwnedTasks
from ..workspace.agent import Agent, credential_in, name_in
from ..workspace.holds import STATES, Holds
from ..workspace.permissions import Level
from ..workspace.sites import Site, Sites
from .call_feed import CallFeed
from .call_record import CallRecord

_log = logging.getLogger(__name__)

#: Calls whose servers are remembered.
_REMEMBERED = 1_000


class ReportedFeed:
    """Tells the servers of some sites what agents do there."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._reports: dict[PanelReports, _SiteReports] = {}
        self._by_call: dict[str, _SiteReports] = {}

    def require(self, agent: Agent, level: Level) -> None:
        """Refuse what people of any server do not let the agent do now."""
        for each in self._reports.values():
            each.holds.require(agent, level)

    async def ready(self) -> None:
        """Wait for what people have decided, if an agent has just come."""
        for each in list(self._reports.values()):
            await each.ready()

    def begin(self, record: CallRecord) -> None:
        found = self._site_of(record)
        if found is None:
            return
        site, path = found
        reports = self._of(site)
        if reports is not None:
            self._by_call[record.id] = reports
            if len(self._by_call) > _REMEMBERED:
                del self._by_call[next(iter(self._by_call))]
            reports.feed.begin(record, path)
            if path is not None and _is_possible(site, path):
                reports.line.open()

    def step(self, record: CallRecord, kept: Kept) -> None:
        if (reports := self._by_call.get(record.id)) is not None:
            reports.step(record, kept)

    def end(self, record: CallRecord) -> None:
        if record.id not in self._by_call:  # it was refused at the door
            self.begin(record)
        if (reports := self._by_call.pop(record.id, None)) is not None:
            reports.feed.end(record)

    async def close(self) -> None:
        for each in self._reports.values():
            await each.close()

    def _site_of(self, record: CallRecord) -> tuple[Site, str | None] | None:
        """The site that a call is about, and the path there."""
        if not len(self._sites):
            return None
        path = record.named_path
        if not isinstance(path, str):
            return self._sites.default, None
        return self._sites.find(path)

    def _of(self, site: Site) -> _SiteReports | None:
        if site.panel is None or not site.panel.wanted:
            return None
        if site.panel not in self._reports:
            self._reports[site.panel] = _SiteReports(site, site.panel)
        return self._reports[site.panel]


def _is_possible(site: Site, path: str) -> bool:
    """Whether a call for a path may reach a server at all: others are none of its business."""
    try:
        site.workspace.allowed_path(path)
    except CollaborationError:
        return False
    return True


class _Nowhere:
    """Keeps nothing: the server does."""

    def put(self, table: object, entry_id: str, row: object) -> None:
        pass

    def drop(self, table: object, entry_id: str) -> None:
        pass


class _SiteReports:
    """What one server is told, and what it tells."""

    def __init__(self, site: Site, line: PanelReports) -> None:
        self.line = line
        self.holds = Holds()
        around = Surroundings(site.workspace.path_of, lambda credential: None, "", True)
        self._ledger = Ledger(_Nowhere(), around, 0)
        self.feed = CallFeed(self._ledger, self.holds)
        self._site = site
        self._tasks = OwnedTasks()
        site.runs.on_run = self.feed.on_run
        line.on_message = self._take
        self._ledger.listen(self._tell)

    async def close(self) -> None:
        await self._tasks.close()
        await self.feed.close()

    async def ready(self) -> None:
        """Wait for what people have decided, if nobody has asked there yet."""
        self._ledger.flush()
        await self.line.ready()

    def step(self, record: CallRecord, kept: Kept) -> None:
        """A call has changed a document there."""
        self.feed.step(record, kept)
        self._ledger.flush()  # the call before its step
        if kept.undone:
            self.line.send({"kind": "undone", "steps": [step.id for step in kept.undone]})
        elif kept.step.changes and kept.step.characters <= MOST_CHARACTERS:
            step = dump_step(stored(kept.step))
            self.line.send(
                {"kind": "step", "call": record.id, "room": str(kept.room_id), "step": step}
            )

    def _tell(self, message: str) -> None:
        event = json.loads(message)
        agent = self._ledger.agents.get(event.get("agent", {}).get("id", ""))
        if agent is not None:
            self.line.send({"kind": "event", "event": event, "key": agent.key})

    def _take(self, message: Mapping[str, Any]) -> None:
        """What people have decided."""
        if message.get("kind") in ("welcome", "hold"):
            agents = dict(message.get("agents") or {})
            if message["kind"] == "welcome":  # nobody else is held any more
                for key in self.holds.states().keys() - agents.keys():
                    self.holds.forget(credential_in(key), key)
            for key, state in agents.items():
                if state in STATES:
                    self._hold(str(key), state)
            if "held" in message:
                self.line.send({"kind": "held", "held": message["held"]})
        elif message.get("kind") == "undone":
            self._tasks.start(self._forget_steps(message))
        elif message.get("kind") == "interrupt":
            self._end_runs(str(message.get("agent")), "a person has interrupted it")

    def _hold(self, key: str, state: AgentState) -> None:
        credential = credential_in(key)
        before = self.holds.state_of(Agent(credential, name_in(key)))
        self.holds.set(credential, key, state)
        if state == "stopped" and before != "stopped":
            self._end_runs(key, "a person has stopped its agent")
            self._site.workspace.rooms.leave(key)

    def _end_runs(self, key: str, reason: str) -> None:
        self._tasks.start(self._site.runs.end_of(partial(str.__eq__, key), reason))

    async def _forget_steps(self, message: Mapping[str, Any]) -> None:
        """Take what a person has undone from the agent's own list."""
        try:
            room, agent = RoomId(str(message["room"])), str(message["agent"])
            gone = [str(each) for each in message["gone"]]
            left = [load_step(each) for each in message["left"]]
            log = await self._site.workspace.rooms.undo_steps.recall(room, agent)
            steps = await self._site.workspace.rooms.undo_steps.opened()
            log.log.replace(restored(left))
            log.log.remove([step for step in log.log if step.id in gone])
            steps.remove(gone)
            for step in left:
                steps.add(room, step)
            if log.seat is not None:
                log.seat.notes.append(str(message.get("note", ""))[:500])
        except (KeyError, TypeError, ValueError) as error:
            _log.warning("What a person has undone cannot be understood: %r", error)
