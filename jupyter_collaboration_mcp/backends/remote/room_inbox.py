"""The updates that a room has sent, until the peer receives them."""

from __future__ import annotations

from collections.abc import Sequence

from ..protocols.rooms import Piece

#: Bytes of updates kept for a peer that does not ask; beyond, they come in one piece when it does.
_BACKLOG = 1 << 26

#: Own updates that the room will send back are recognised, this many at most.
_ECHOES = 1000

_NOTHING = b"\x00\x00"


class RoomInbox:
    """Updates in the order in which they came, without echoes of our own."""

    def __init__(self) -> None:
        self._updates: list[bytes] = []
        self._size = 0
        self._whole = 0  # of them are there: what the room had when it last answered
        self._last_answer: int | None = None
        self._echoes: dict[int, None] = {}

    @property
    def waiting(self) -> Sequence[bytes]:
        """What nobody has received yet."""
        return self._updates

    def news(self, update: bytes) -> bool:
        """Take an update that the room sent by itself; False if it brings nothing."""
        if update == _NOTHING:
            return False
        self._add(update)
        return True

    def answer(self, update: bytes) -> Piece | None:
        """Take what the room had when it was asked; None if it brings nothing."""
        taken = None
        if hash(update) != self._last_answer:  # each has all deletions that ever were
            self._last_answer = hash(update)
            if update != _NOTHING:
                taken = Piece(update)
                self._add(taken)
        self._whole = len(self._updates)
        return taken

    def drain(self, everything: bool) -> Sequence[bytes]:
        """Hand out what came until the room last answered.

        What came since may be half of a change: the new content of a file, say, without the mark
        that says so.
        """
        whole = len(self._updates) if everything else self._whole
        drained, self._updates = self._updates[:whole], self._updates[whole:]
        self._size = sum(map(len, self._updates))
        self._whole = 0
        return drained

    def drop_backlog(self) -> None:
        """Forget what came if it is too much: the next answer has all of it."""
        if self._size > _BACKLOG:
            self._updates.clear()
            self._size = self._whole = 0
            self._last_answer = None

    def expect_echo(self, update: bytes) -> None:
        """Recognise an update of ours: the room sends everything to everybody, us included."""
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
