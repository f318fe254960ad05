"""The updates that a room has sent, until the peer receives them."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocols.rooms import Piece

#: Bytes of updates kept for an inactive peer; more than that are dropped and requested at once.
_BACKLOG = 1 << 26

#: The most updates of ours that are recognised when the room sends them back.
_ECHOES = 1000

_NOTHING = b"\x00\x00"


class RoomInbox:
    """Updates in order of arrival, without echoes of our own."""

    def __init__(self) -> None:
        self._updates: list[bytes] = []
        self._size = 0
        self._whole = 0  # number of updates up to the room's last answer
        self._last_answer: int | None = None
        self._echoes: dict[int, None] = {}

    @property
    def waiting(self) -> Sequence[bytes]:
        """Updates that have not been received yet."""
        return self._updates

    def news(self, update: bytes) -> bool:
        """Add an update that the room sent by itself; False if it changes nothing."""
        if update == _NOTHING:
            return False
        self._add(update)
        return True

    def answer(self, update: bytes) -> Piece | None:
        """Add what the room had when it was queried; None if it changes nothing."""
        taken = None
        if hash(update) != self._last_answer:  # each answer includes all deletions ever made
            self._last_answer = hash(update)
            if update != _NOTHING:
                taken = Piece(update)
                self._add(taken)
        self._whole = len(self._updates)
        return taken

    def drain(self, everything: bool) -> Sequence[bytes]:
        """Return what arrived until the room last answered.

        What arrived since may be half of a change, for example the new content of a file without
        the mark that identifies it.
        """
        whole = len(self._updates) if everything else self._whole
        drained, self._updates = self._updates[:whole], self._updates[whole:]
        self._size = sum(map(len, self._updates))
        self._whole = 0
        return drained

    def drop_backlog(self) -> None:
        """Drop the updates if there are too many: the next answer includes all of them."""
        if self._size > _BACKLOG:
            self._updates.clear()
            self._size = self._whole = 0
            self._last_answer = None

    def expect_echo(self, update: bytes) -> None:
        """Expect our own update back: the room sends everything to everybody, us included."""
        self._echoes[hash(update)] = None
        if len(self._echoes) > _ECHOES:
            del self._echoes[next(iter(self._echoes))]

    def is_echo(self, update: bytes) -> bool:
        key = hash(update)
        if key not in self._echoes:
            return False
        del self._echoes[key]
        return True

    def forget_echoes(self) -> None:
        """Expect no more echoes: a lost connection sends nothing back."""
        self._echoes.clear()

    def _add(self, update: bytes) -> None:
        self._updates.append(update)
        self._size += len(update)
