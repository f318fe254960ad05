"""Records what people do in one room, and who comes and goes.

An edit is one key press, so edits are collected for each person until they pause. What is collected
so far is written every second, in case the server is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..backends.protocols.rooms import RoomLink
from ..documents.cell_mirror import CellChange, ChangeKind
from ..documents.members import Member, people_of
from .activity.activity import MOST_CELLS, Activity, how_many, now
from .activity.guard import harmless
from .activity.log import ActivityLog
from .peer import RoomPeer
from .replica import Contribution

#: Seconds between two looks at what has come together.
_LOOK = 1.0

#: Seconds of a pause that ends an edit, and that an edit lasts at most.
_PAUSE, _LONGEST = 3.0, 30.0

#: Seconds in which edits end only once because an agent has seen them.
_SEEN = 10.0

#: Seconds after which somebody who is gone has left: a tab that reloads is back at once.
_GRACE = 2.0

#: Seconds in which all saves of a document are one activity.
_SAVES = 60.0

#: Whoever has changed something without being known: the file on disk, or another program.
_SOMEBODY = Member("", "")

#: What saves.
_SERVER = Member("", "Jupyter")


@dataclass(slots=True)
class _Collected:
    """What one person did since their last pause."""

    who: Member
    kind: str
    id: str
    began: float
    last: float
    at: int = 0
    changes: dict[ChangeKind, dict[str, None]] = field(default_factory=dict)
    cells: set[str] = field(default_factory=set)
    added: int = 0
    removed: int = 0
    written: bool = False


class RoomActivity:
    """What happens in one room, from joining it to leaving it."""

    def __init__(self, log: ActivityLog, peer: RoomPeer) -> None:
        self._log = log
        self._peer = peer
        self._link: RoomLink = peer.link
        self._collected: dict[tuple[str, str], _Collected] = {}
        self._people = people_of(self._link.states.values())
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._saved_version = peer.version if self._link.saved else 0
        self._save: Activity | None = None
        self._seen = -_SEEN  # when edits last ended because an agent had seen them
        if log.enabled:
            peer.on_contribution(self._on_contribution)
            peer.on_members(self._on_members)
            peer.on_look(self.on_look)

    @property
    def has_people(self) -> bool:
        """Whether anybody but agents is in the room, as far as known."""
        return bool(people_of(self._link.states.values()))

    @harmless
    def close(self) -> None:
        """Record what is collected; the room is left."""
        self.finish()
        for leaving in self._leaving.values():
            leaving.cancel()
        self._leaving.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- edits -------------------------------------------------------------------------------

    @harmless
    def _on_contribution(self, part: Contribution) -> None:
        who = part.author or _SOMEBODY
        outputs = [change for change in part.changes if change.kind == "outputs"]
        edits = [change for change in part.changes if change.kind != "outputs"]
        if edits:
            self._collect("edit", who, part, edits)
        if outputs:
            self._collect("outputs", who, part, outputs)
        if self._timer is None:
            self._look_later()

    def _collect(
        self, kind: str, who: Member, part: Contribution, changes: Sequence[CellChange]
    ) -> None:
        at = asyncio.get_running_loop().time()
        collected = self._collected.get((kind, who.id))
        if collected is None:
            first = Activity.of(kind, who, "")
            collected = _Collected(who, kind, first.id, at, at)
            self._collected[kind, who.id] = collected
        collected.last, collected.at, collected.written = at, part.version, False
        collected.cells.update(change.cell_id for change in changes)
        for change in changes[: 10 * MOST_CELLS]:  # thousands may have changed at once
            named = collected.changes.setdefault(change.kind, {})
            if len(named) < MOST_CELLS:
                named[change.cell_id] = None
        if kind == "edit":
            collected.added += part.added
            collected.removed += part.removed

    @harmless
    def on_look(self) -> None:
        """End what an agent has seen, so that what comes later is another activity."""
        at = asyncio.get_running_loop().time()
        if self._collected and at - self._seen >= _SEEN:  # many reads must not make many entries
            self._seen = at
            self.finish()

    @harmless
    def finish(self) -> None:
        """End everything that is collected."""
        for collected in self._collected.values():
            self._log.record(self._activity(collected))
        self._collected.clear()

    @harmless
    def look(self) -> None:
        """Write what has come together, and notice a save."""
        at = asyncio.get_running_loop().time()
        for key, collected in list(self._collected.items()):
            if at - collected.last >= _PAUSE or at - collected.began >= _LONGEST:
                del self._collected[key]
                self._log.record(self._activity(collected))
            elif not collected.written:
                collected.written = True
                self._log.draft(self._activity(collected))
        self._notice_save()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self.look()
        if self._collected:
            self._look_later()

    def _activity(self, collected: _Collected) -> Activity:
        count, name = len(collected.cells), collected.who.name or "Somebody"
        is_notebook = self._link.room_id.kind == "notebook"
        things = how_many(count, "cell" if is_notebook else "line")
        if collected.kind == "outputs":
            description = f"{name} changed the outputs of {things}"
        else:
            amount = f" (+{collected.added:,} -{collected.removed:,} characters)"
            wrote = collected.added or collected.removed
            description = f"{name} changed {things}{amount if wrote else ''}"
        named = list(dict.fromkeys(cell for ids in collected.changes.values() for cell in ids))
        return Activity.of(
            collected.kind,
            collected.who,
            description,
            path=self._link.path,
            file_id=self._link.room_id.file_id,
            cells=named if is_notebook else (),
            cell_count=count if is_notebook else 0,
            at=collected.at,
            activity_id=collected.id,
            changes={kind: list(ids) for kind, ids in collected.changes.items()},
            added=collected.added,
            removed=collected.removed,
            seconds=round(collected.last - collected.began, 1),
        )

    # -- saves -------------------------------------------------------------------------------

    def _notice_save(self) -> None:
        version = self._peer.version
        if not self._link.saved or version <= self._saved_version:
            return
        self._saved_version, last = version, self._save
        if last is None or now() - last.metadata["began"] > _SAVES * 1000:
            began = now()
            self._save = self._of("save", _SERVER, "Saved the document", began=began, saves=1)
            self._log.record(self._save)
        else:
            count = last.metadata["saves"] + 1
            self._save = replace(
                last,
                time=now(),
                description=f"Saved the document {count} times",
                metadata={**last.metadata, "saves": count},
            )
            self._log.draft(self._save)

    # -- members -----------------------------------------------------------------------------

    @harmless
    def agent_joined(self, who: Member) -> None:
        self._log.record(self._of("join", who, f"{who.name} joined"))

    @harmless
    def agent_left(self, who: Member) -> None:
        self._log.record(self._of("leave", who, f"{who.name} left"))

    @harmless
    def _on_members(self) -> None:
        people = people_of(self._link.states.values())
        for who in people.values():
            if (leaving := self._leaving.pop(who.id, None)) is not None:
                leaving.cancel()
            elif who.id not in self._people:
                self._log.record(self._of("join", who, f"{who.name} joined"))
        loop = asyncio.get_running_loop()
        for gone in self._people.keys() - people.keys():
            who = self._people[gone]
            self._leaving[gone] = loop.call_later(_GRACE, self._on_left, who)
        self._people = people

    @harmless
    def _on_left(self, who: Member) -> None:
        self._leaving.pop(who.id, None)
        self._log.record(self._of("leave", who, f"{who.name} left"))

    def _of(self, kind: str, who: Member, description: str, **metadata: Any) -> Activity:
        link = self._link
        return Activity.of(
            kind,
            who,
            description,
            path=link.path,
            file_id=link.room_id.file_id,
            **metadata,
        )
