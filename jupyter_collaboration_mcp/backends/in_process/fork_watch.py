"""Watches the room of one fork: keeps every update, and copies the root's if they are in sync."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pycrdt import TransactionEvent, get_state

from ...documents.members import Member, member_of
from ...documents.updates import decode_state, sole_author
from ...panics import contained
from ..protocols.forks import Fork
from .fork_store import ROOT, ForkStore, Row

if TYPE_CHECKING:
    from pycrdt.websocket import YRoom

    from .room_watch import RoomWatch

_log = logging.getLogger(__name__)


Clocks = dict[int, int]
"""How much a document has of each client: a state vector."""


class ForkWatch:
    """What is known about one fork, from its creation or the start of the server to its end.

    Args:
        commit_soon: Called when something waits to be committed.
        clocks: Those of the fork's base; read when they are needed if not known.
    """

    def __init__(
        self,
        fork: Fork,
        room: YRoom,
        store: ForkStore,
        commit_soon: Callable[[], None],
        clocks: Clocks | None = None,
    ) -> None:
        self.fork = fork
        self.room = room
        self.listeners: set[Callable[[bytes], None]] = set()
        """Called with each update, in the room's own transaction: must not raise."""
        self.writes = 0
        """How many updates its document has got."""
        self._store = store
        self._commit_soon = commit_soon
        self._latest: list[Row] = []  # by nobody known, and not committed yet
        self._updates = room.ydoc.observe(self._on_update)
        self._root: RoomWatch | None = None
        self._clocks = clocks  # of the base, while no root is followed
        self._copying = False

    def close(self) -> None:
        """Stop watching; B28: an observed document is never freed."""
        self.release()
        self.room.ydoc.unobserve(self._updates)
        self.listeners.clear()

    @property
    def awaits(self) -> bool:
        """Whether somebody's message has arrived that the room has not read yet."""
        queues = (getattr(client, "_message_queue", None) for client in self.room.clients)
        return any(queue is not None and not queue.empty() for queue in queues)

    def attribute(self, writer: Member) -> None:
        """Tell who has just written what nobody is known to have written."""
        for row in self._latest:
            self._store.attribute(row, writer)
        self._latest.clear()

    def on_commit(self) -> None:
        """Note that everything is committed."""
        self._latest.clear()

    def _on_update(self, event: TransactionEvent) -> None:
        self.writes += 1
        writer = ROOT if self._copying else self._writer_of(event.update)
        row = self._store.append(self.fork.id, event.update, writer)
        if writer is None:
            self._latest.append(row)
        self._commit_soon()
        for listener in self.listeners:
            listener(event.update)

    def _writer_of(self, update: bytes) -> Member | None:
        """The person who wrote an update: a tab has the same client id in its awareness."""
        client = sole_author(update)
        state: Any = None if client is None else self.room.awareness.states.get(client)
        member = member_of(state)
        return None if member is None or member.is_agent else member

    # -- synchronizing -----------------------------------------------------------------------

    def follow(self, root: RoomWatch) -> None:
        """Copy what happens in the root's room from now on, and what has happened meanwhile.

        B18: jupyter-server-ydoc never stops observing the root.
        """
        self.release()
        ours, theirs = self.room.ydoc, root.room.ydoc
        has = decode_state(theirs.get_state())
        if self._clocks is None:
            self._clocks = base_clocks(self._store, self.fork.id)
        if any(has.get(client, 0) < clock for client, clock in self._clocks.items()):
            _log.warning("Fork %s: its document has another history now", self.fork.id)
            return
        self._root = root
        root.listeners.add(self._on_root_update)
        self._on_root_update(theirs.get_update(ours.get_state()))

    def release(self) -> None:
        """Stop copying what happens in the root's room."""
        if self._root is not None:
            # All that it had so far is in the base.
            self._clocks = decode_state(self._root.room.ydoc.get_state())
            self._detach()

    def _detach(self) -> None:
        if self._root is not None:
            self._root.listeners.discard(self._on_root_update)
            self._root = None

    @property
    def follows(self) -> bool:
        """Whether it copies what happens in the root's room."""
        return self._root is not None and self._on_root_update in self._root.listeners

    def _on_root_update(self, update: bytes) -> None:
        try:
            with contained():
                self._store.append_base(self.fork.id, update)
                self._copying = True
                self.room.ydoc.apply_update(update)
        except Exception:  # this is called in a transaction of the root
            _log.exception("Could not synchronize fork %s", self.fork.id)
            self._clocks = None
            self._detach()
        finally:
            self._copying = False


def base_clocks(store: ForkStore, fork_id: str) -> Clocks:
    """The clocks of the base of a fork; takes long for a large document."""
    base = store.base(fork_id)
    return {} if base is None else decode_state(get_state(base))
