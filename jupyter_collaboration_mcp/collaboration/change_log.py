"""What happened in a document since an agent last looked, in one line."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..documents.cell_mirror import CellChange, ChangeKind
from ..documents.foreign_text import listed
from ..documents.members import Member

#: Changes that are remembered; an agent that last looked before them is notified of that.
_KEPT = 2000

_WORDS: dict[ChangeKind, str] = {
    "inserted": "inserted",
    "deleted": "deleted",
    "moved": "moved",
    "edited": "edited",
    "outputs": "given new outputs",
    "metadata": "given new metadata",
}

_AWAY = "You were away for a while: others may have changed what you saw before."


#: The author of reapplied changes, which a note reports.
REAPPLIED = Member("<reapplied>", "<reapplied>")


class _Entry(NamedTuple):
    version: int
    author: Member | None
    change: CellChange


class ChangeLog:
    """The latest changes of one document, whoever made them."""

    def __init__(self, start: int) -> None:
        self.start = start
        """The version from which on it has recorded changes, although not all may be kept."""
        self._entries: deque[_Entry] = deque(maxlen=_KEPT)
        self._forgotten = start

    def add(self, version: int, author: Member | None, changes: Sequence[CellChange]) -> None:
        for change in changes:
            if len(self._entries) == _KEPT:
                self._forgotten = self._entries[0].version
            self._entries.append(_Entry(version, author, change))

    def by_others(self, since: int, agent: str) -> list[_Entry]:
        """The changes after a version that others than this agent made.

        Args:
            agent: Its username: a person may have the same name.
        """
        found: list[_Entry] = []
        for entry in reversed(self._entries):
            if entry.version <= since:
                break
            if entry.author is None or entry.author.id not in (agent, REAPPLIED.id):
                found.append(entry)
        return found[::-1]

    def summary(
        self, since: int, agent: str, label: Callable[[str], str], away: str | None = None
    ) -> str | None:
        """One line for an answer; None if nobody else changed anything.

        Args:
            agent: The username of the agent that asks.
            label: Returns how to show a cell with a given id.
            away: What happened before `start`, if that is known; empty if nothing did.
        """
        entries = self.by_others(since, agent)
        if not entries:
            return away or (_AWAY if away is None and since < self._forgotten else None)
        deleted = {e.change.cell_id for e in entries if e.change.kind == "deleted"}
        inserted = {e.change.cell_id for e in entries if e.change.kind == "inserted"}
        groups: dict[ChangeKind, dict[str, None]] = {}
        for entry in entries:
            kind, cell_id = entry.change.kind, entry.change.cell_id
            if kind not in ("deleted", "inserted") and cell_id in deleted | inserted:
                continue  # the other word says more
            groups.setdefault(kind, {})[cell_id] = None
        parts = [_part(kind, list(cells), label) for kind, cells in groups.items()]
        authors = sorted({entry.author.name for entry in entries if entry.author})
        by = f" by {listed(authors)}" if authors else ""
        forgotten = self._forgotten > (since if away is None else max(since, self.start))
        more = " (and more before that)" if forgotten else ""
        said = f"Since you last looked, others changed{by}: {'; '.join(parts)}{more}."
        return f"{away} {said}" if away else said


def _part(kind: ChangeKind, cells: list[str], label: Callable[[str], str]) -> str:
    shown = ", ".join(label(cell) for cell in cells[:5])
    rest = f" and {len(cells) - 5} more" if len(cells) > 5 else ""
    return f"{shown}{rest} {_WORDS[kind]}"
