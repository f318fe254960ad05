"""Which rows are one version: what one author did in one go."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ....documents.members import Member
from ....documents.updates import is_deletion
from ...protocols.versions import Source
from .content import METADATA, Changes, ReplayedDocument, Text
from .credits import Author
from .rows import Row

#: Seconds of a pause that ends a version, and that a version lasts at most.
_PAUSE, _LONGEST = 30.0, 600.0

#: Seconds between two rows of one large call.
_CALL = 2.0

#: The most calls that a version names.
_CALLS = 20

#: Characters of a version that is not over. A larger one is over.
_LARGEST_DRAFT = 20_000_000

#: Words in the name of a call whose changes are a version of their own. What was there before is
#: kept if the word has a reason for that.
_APART: Mapping[str, str | None] = {
    "restore": "before a restore",
    "merge": "before a merge",
    "undo": None,
}


@dataclass(slots=True)
class Draft:
    """A version to which rows may still be added."""

    first_row: int
    began: float
    source: Source
    member: Member | None
    moment: float
    """Of a call that is a version of its own: when it was made."""
    last_row: int = 0
    ended: float = 0.0
    id: int = 0
    calls: dict[str, None] = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    before: dict[str, Text | None] = field(default_factory=dict)
    """What the changed cells said before."""
    kept: str | None = None
    deletes: bool = True
    """Whether it has nothing but deletions so far."""

    @classmethod
    def begin(cls, row: Row, author: Author) -> Self:
        """A version that begins with a row, which is still to be added."""
        return cls(row.number, row.time, author.source, author.member, _moment_apart(author))

    def add(self, row: Row, author: Author, changes: Changes, texts: Mapping[str, Text]) -> None:
        """Add a row.

        Args:
            texts: What all cells said before this version.
        """
        self.last_row, self.ended, self.id = row.number, row.time, row.version
        self.deletes = self.deletes and is_deletion(row.update)
        if not self.deletes and not is_deletion(row.update):
            self.moment = _moment_apart(author)
        if (author.source, author.member) != (self.source, self.member):
            if author.who != (self.source, self.member.id if self.member else ""):
                self.source, self.member = "several", None
            else:
                self.member = author.member  # who has changed their name
        for call in author.calls[: _CALLS - len(self.calls)]:
            self.calls[call] = None
        for cell, kinds in changes.items():
            if cell not in self.changes:
                self.before[cell] = texts.get(cell)
            self.changes.setdefault(cell, set()).update(kinds)

    def takes(self, row: Row, author: Author, named: bool) -> bool:
        """Whether a row belongs to this version.

        Args:
            named: Whether somebody has named the version as it is.
        """
        if row.version == self.id:
            return True  # one millisecond cannot end two versions
        same = author.who == (self.source, self.member.id if self.member else "")
        return (
            same
            and not named
            and self._is_same_call(row, author)
            and 0 <= row.time - self.ended <= _PAUSE
            and row.time - self.began <= _LONGEST
        )

    def _is_same_call(self, row: Row, author: Author) -> bool:
        """Whether a row is of the call that is this version, if it is only one."""
        moment = _moment_apart(author)
        if moment == self.moment:
            return True
        # What a large call deletes is recorded at its end, and what it writes before.
        deletes = self.deletes or is_deletion(row.update)
        same = bool(moment and self.moment) and set(author.calls) == set(self.calls)
        return deletes and same and row.time - self.ended <= _CALL

    def after(self, document: ReplayedDocument) -> dict[str, Text | None]:
        """What the changed cells say now."""
        return {
            cell: document.text(cell) if cell != METADATA and document.has(cell) else None
            for cell in self.changes
        }

    def dump(self) -> str | None:
        """What has to be remembered to continue it; None if it is too large for that."""
        value = {
            "moment": self.moment,
            "deletes": self.deletes,
            "changes": {cell: sorted(kinds) for cell, kinds in self.changes.items()},
            "before": self.before,
        }
        text = json.dumps(value)
        return text if len(text) <= _LARGEST_DRAFT else None

    def load(self, text: str) -> None:
        """The inverse of `dump`."""
        value: dict[str, Any] = json.loads(text)
        self.moment, self.deletes = value["moment"], value["deletes"]
        self.changes = {cell: set(kinds) for cell, kinds in value["changes"].items()}
        self.before = {
            cell: None if before is None else (before[0], before[1])
            for cell, before in value["before"].items()
        }


class Days:
    """The last day on which each agent wrote: before the first edit of a day, all is kept."""

    #: The most agents that are remembered.
    _AGENTS = 200

    def __init__(self, days: Mapping[str, str]) -> None:
        self.days = dict(days)

    def begins(self, row: Row, author: Author) -> bool:
        """Whether a row is an agent's first of its day."""
        if author.source != "agent" or author.member is None:
            return False
        return self.days.get(author.member.id) != _day(row)

    def note(self, row: Row, author: Author) -> None:
        """Remember that an agent wrote a row."""
        if author.source == "agent" and author.member is not None:
            self.days.pop(author.member.id, None)
            self.days[author.member.id] = _day(row)
            if len(self.days) > self._AGENTS:
                del self.days[next(iter(self.days))]


def reason_to_keep(author: Author, first_of_day: bool) -> str | None:
    """Why the version before a change is kept, if it is."""
    for word, reason in _APART.items():
        if reason is not None and any(word in call for call in author.calls):
            return reason
    if first_of_day and author.member is not None:
        return f"before the first edit of the day by {author.member.name}"
    return None


def _moment_apart(author: Author) -> float:
    """When a call was made that is a version of its own; 0.0 if it is none."""
    apart = any(word in call for call in author.calls for word in _APART)
    return author.moment if apart else 0.0


def _day(row: Row) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(row.time))
