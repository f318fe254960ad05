"""Records who is in a room, so that the history knows the authors of what they write there.

A tab writes with the client id that it has in the room's awareness. What agents of this process
write is recorded with their edits, by `InProcessLink`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from jupyter_server_ydoc.rooms import DocumentRoom

from ...documents.members import Member, member_of
from ...documents.updates import deletion_key
from ..protocols.room_ids import RoomId
from ..protocols.versions import Source
from .history.credits import Credit
from .journal import Journal

#: The most clients of one room that are recorded, each once.
_CLIENTS = 10_000


class RoomAuthors:
    """The authors in one room, whoever opened it."""

    def __init__(self, room: DocumentRoom, room_id: RoomId, journal: Journal) -> None:
        self.reloading = False
        """Whether the room is taking over a file that was changed on disk."""
        self._room = room
        self._room_id = room_id
        self._journal = journal
        self._known: dict[int, Member] = {}
        # A room serves each tab in a task of its own.
        self._clients: WeakKeyDictionary[asyncio.Task[Any], set[int]] = WeakKeyDictionary()
        credit = Credit.of_client(room.ydoc.client_id, "file", None, time.time())
        journal.credit(room_id, credit)
        self._meet(room.awareness.states)
        self._awareness = room.awareness.observe(self._on_awareness)

    def close(self) -> None:
        """Stop observing."""
        self._room.awareness.unobserve(self._awareness)

    def on_deletion(self, update: bytes) -> None:
        """Record who deleted something, which no update says: whoever is being served now, or the
        only person who is here."""
        who = None if self.reloading else self._served() or self._only_person()
        if self.reloading or (who is not None and not who.is_agent):
            source: Source = "file" if self.reloading else "person"
            credit = Credit.of_deletion(deletion_key(update), source, who, time.time())
            self._journal.credit(self._room_id, credit)

    def _served(self) -> Member | None:
        """Who has sent what the room is just handling."""
        task = asyncio.current_task()
        clients = self._clients.get(task, ()) if task is not None else ()
        members = {self._known[client] for client in clients if client in self._known}
        return members.pop() if len(members) == 1 else None

    def _only_person(self) -> Member | None:
        people = set()
        for state in self._room.awareness.states.values():
            if state:
                who = member_of(state)
                if who is None:
                    return None
                if not who.is_agent:
                    people.add(who)
        return people.pop() if len(people) == 1 else None

    def _on_awareness(self, topic: str, changes: tuple[dict[str, Any], Any]) -> None:
        if topic == "change":  # somebody has come, or moved their caret
            clients = [*changes[0]["added"], *changes[0]["updated"]]
            self._meet(clients)
            if clients and (task := asyncio.current_task()) is not None:
                self._clients.setdefault(task, set()).update(clients[:_CLIENTS])

    def _meet(self, clients: Iterable[int]) -> None:
        for client in clients:
            state = self._room.awareness.states.get(client)
            who = member_of(state)
            if who is None or self._known.get(client) == who or len(self._known) >= _CLIENTS:
                continue
            self._known[client] = who
            if not who.is_agent:  # agents write as other clients, and report that
                credit = Credit.of_client(client, "person", who, time.time())
                self._journal.credit(self._room_id, credit)
