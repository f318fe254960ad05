"""What agents did that is in no file yet, and what became of it.

A change of the file on disk takes it from the room (B9), and a server that goes down may. To do it
again one must know what the cells said just before. The update with the content of the file is
known by the sign that follows it; but a server takes a large file over bit by bit, and who asks it
meanwhile is given a piece of that. So pieces are not believed before something whole has come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..backends.base import Piece
from ..documents.differ import edits, patch
from ..documents.text_document import Document
from .reapply import by_cell
from .undo import Deleted, Inserted, SourceChanged, Step

Texts = Mapping[str, str]
"""What cells say that have unsaved changes, of those that are there."""


@dataclass(slots=True)
class _Entry:
    step: Step
    acknowledged: bool
    """Whether the room has it."""


@dataclass(slots=True)
class Before:
    """How the cells were before an update from the room."""

    texts: Texts
    since: list[Step] = field(default_factory=list)
    """What was made after it, which would be lost with the rest."""


class Unsaved:
    """The unsaved steps in one document, oldest first."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._entries: list[_Entry] = []
        self._last = Before({})  # ... update, and the pieces that came right before it
        self._in_pieces = False
        self._each: list[Before] = []  # ... update of this round
        self._before_round = self._last

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def steps(self) -> list[Step]:
        return [entry.step for entry in self._entries]

    def add(self, step: Step, acknowledged: bool = False) -> None:
        """Remember a step that was just made."""
        self._entries.append(_Entry(step, acknowledged))
        self._last.since.append(step)

    def clear(self) -> None:
        self._entries.clear()
        self._last = Before({})

    def sent(self) -> Sequence[_Entry]:
        """What will be with the room when it has answered, for `acknowledge`."""
        return list(self._entries)

    def acknowledge(self, sent: Sequence[_Entry]) -> None:
        for entry in sent:
            entry.acknowledged = True

    def saved(self) -> None:
        """The file has all that was with the room."""
        if self._entries:
            self._entries = [entry for entry in self._entries if not entry.acknowledged]
            self._last = Before(self._say())

    # -- what the cells said -----------------------------------------------------------------

    def begin(self) -> None:
        """A round of updates from the room begins."""
        self._each, self._before_round = [], self._last

    def before(self) -> Before:
        """To be asked before an update is applied, and given to `after` if it brought something."""
        return self._last if self._in_pieces else Before(self._say())

    def after(self, update: bytes, before: Before) -> None:
        self._each.append(before)
        self._last = before
        self._in_pieces = isinstance(update, Piece)

    def said(self, place: int) -> Texts:
        """What the cells said before an update of this round; -1 is the last one before it."""
        if place >= len(self._each):
            return self._say()
        before = self._each[place] if place >= 0 else self._before_round
        texts = before.texts
        for step in before.since:
            texts = self._with(texts, step)
        return texts

    def _say(self) -> Texts:
        document = self._document
        return {
            cell: document.source(document.find(cell))
            for cell in by_cell(self.steps)
            if document.has(cell)
        }

    def _with(self, said: Texts, step: Step) -> Texts:
        """What cells would say if a step had been made on what they said."""
        now = dict(said)
        for change in step.changes:
            if isinstance(change, SourceChanged):
                now[change.cell_id] = _changed(now.get(change.cell_id), change)
            elif isinstance(change, Inserted):
                now[change.cell_id] = change.source
            elif isinstance(change, Deleted):
                now.pop(str(change.value["id"]), None)
            elif change.cell_id not in now and self._document.has(change.cell_id):
                now[change.cell_id] = self._document.source(self._document.find(change.cell_id))
        return now


def _changed(said: str | None, change: SourceChanged) -> str:
    """A text with a change that was made on another one, if it fits."""
    if said in (None, change.before):
        return change.after
    assert said is not None
    lost = edits(change.before, said)
    made = edits(change.before, change.after)
    if any(one.start <= other.end and other.start <= one.end for one in lost for other in made):
        return change.after
    return patch(change.before, sorted(lost + made, key=lambda edit: edit[:2]))
