"""What agents did that is in no file yet, and what became of it.

A change of the file on disk takes it from the room (B9), and a server that goes down may. To do it
again one must know what the cells said just before. The update with the content of the file is
known by the sign that follows it; but a server takes a large file over bit by bit, and who asks it
meanwhile is given a piece of that. So pieces are not believed before something whole has come.

While a server cannot save, steps gather. The oldest of very many are forgotten, but not the cells
that they were in: where these say something else in the end, one can say that.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..backends.protocols.rooms import Piece
from ..documents.cell_mirror import Mark
from ..documents.differ import Edit, edits, patch
from ..documents.text_document import Document
from .reapply import by_cell
from .undo import Deleted, Inserted, SourceChanged, Step, named

#: How much is remembered of one document: steps, and characters they may hold. A server that can
#: save does so every second.
MAX_STEPS = 2_000
MAX_CHARACTERS = 50_000_000

Texts = Mapping[str, str]
"""What cells say that have unsaved changes, of those that are there."""


Clocks = tuple[int, int]
"""What a client wrote: from a clock on, and before another."""


@dataclass(slots=True)
class Entry:
    """One step that is in no file yet."""

    step: Step
    acknowledged: bool
    """Whether the room has it."""
    written: Clocks


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
        self._entries: deque[Entry] = deque()
        self._characters = 0
        self.forgotten: set[str] = set()
        """The cells of unsaved steps that were too many to be remembered."""
        self._last = Before({})  # ... update, and the pieces that came right before it
        self._in_pieces = False
        self._each: list[Before] = []  # ... update of this round
        self._before_round = self._last
        self._tracked: set[str] | None = None  # the cells of all steps
        self._said: tuple[Mark, Texts] = ((-1, -1), {})

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def steps(self) -> list[Step]:
        return [entry.step for entry in self._entries]

    def add(self, step: Step, acknowledged: bool = False, written: Clocks = (0, 0)) -> None:
        """Remember a step that was just made."""
        self._entries.append(Entry(step, acknowledged, written))
        self._tracked = None
        self._last.since.append(step)
        self._characters += step.characters
        while len(self._entries) > MAX_STEPS or (
            self._characters > MAX_CHARACTERS and len(self._entries) > 1
        ):
            self._forget_oldest()

    def clear(self) -> None:
        self.forgotten.clear()
        self._keep([])
        self._last = Before({})

    def sent(self) -> Sequence[Entry]:
        """What will be with the room when it has answered, for `acknowledge`."""
        return list(self._entries)

    def acknowledge(self, sent: Sequence[Entry]) -> None:
        for entry in sent:
            entry.acknowledged = True

    def has_of(self, agent: str) -> bool:
        """Whether something of an agent is unsaved."""
        return any(entry.step.agent in ("", agent) for entry in self._entries)

    def saved(self, sent: Sequence[Entry] | None = None) -> None:
        """The file has all that was with the room, or only what had been sent at some time."""
        if self._entries:
            known = None if sent is None else {id(entry) for entry in sent}
            later = [
                entry
                for entry in self._entries
                if (not entry.acknowledged if known is None else id(entry) not in known)
            ]
            if len(later) < len(self._entries):
                self.forgotten.clear()  # they were with the room before the others
            self._keep(later)
            self._last = Before(self.say())

    def missing(self, said: Texts) -> list[str]:
        """In words, where the oldest changes may be gone: those cells said something else."""
        now = self.say()
        return [
            f"the oldest changes in {named(cell)}, of which too many were unsaved"
            for cell in sorted(self.forgotten)
            if now.get(cell) != said.get(cell)
        ]

    def _keep(self, entries: Sequence[Entry]) -> None:
        self._entries = deque(entries)
        self._tracked = None
        self._characters = sum(entry.step.characters for entry in entries)

    def _forget_oldest(self) -> None:
        step = self._entries.popleft().step
        self._characters -= step.characters
        self.forgotten |= by_cell([step]).keys()
        last = self._last
        if last.since and last.since[0] is step:
            last.texts = self._with(last.texts, last.since.pop(0))

    # -- what the cells said -----------------------------------------------------------------

    def begin(self) -> None:
        """A round of updates from the room begins."""
        self._each, self._before_round = [], self._last

    def before(self) -> Before:
        """To be asked before an update is applied, and given to `after` if it brought something."""
        return self._last if self._in_pieces else Before(self.say())

    def after(self, update: bytes, before: Before) -> None:
        self._each.append(before)
        self._last = before
        self._in_pieces = isinstance(update, Piece)

    def said(self, places: range) -> Texts:
        """What the cells said before one of some updates of this round; -1 is the last before it.

        It is the one that took the most of what was unsaved, and of several the last.
        """
        candidates = [self._before(place) for place in reversed(places)]
        return max(candidates, key=self._amount) if len(candidates) > 1 else candidates[0]

    def _amount(self, texts: Texts) -> int:
        """How much texts have of what is unsaved, about."""
        amount = 0
        for cell, changes in by_cell(self.steps).items():
            lines = Counter(texts[cell].split("\n")) if cell in texts else None
            for change in changes:
                if isinstance(change, Inserted):
                    amount += lines is not None
                elif isinstance(change, Deleted):
                    amount += lines is None
                elif isinstance(change, SourceChanged) and lines is not None:
                    before, after = (Counter(t.split("\n")) for t in (change.before, change.after))
                    amount += (lines & (after - before)).total() - (
                        lines & (before - after)
                    ).total()
        return amount

    def _before(self, place: int) -> Texts:
        if place >= len(self._each):
            return self.say()
        before = self._each[place] if place >= 0 else self._before_round
        texts = before.texts
        for step in before.since:
            texts = self._with(texts, step)
        return texts

    def say(self) -> Texts:
        """What the cells say now. Only those are read that have changed since this was asked."""
        mark, known = self._said
        changed = self._document.changed_since(mark)
        if self._tracked is None or changed is None:
            known = {}
            self._tracked = changed = {*by_cell(self.steps), *self.forgotten}
        if changed := changed & self._tracked:
            now = {cell: text for cell, text in known.items() if cell not in changed}
            now |= {
                cell: self._document.source(self._document.find(cell))
                for cell in changed
                if self._document.has(cell)
            }
            known = now
        self._said = self._document.mark(), known
        return known

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
    if any(_collide(one, other) for one in lost for other in made):
        return change.after
    return patch(change.before, sorted(lost + made, key=lambda edit: edit[:2]))


def _collide(lost: Edit, made: Edit) -> bool:
    """Whether edits of one text touch each other, so that the later one, which was made, counts.

    What is inserted beside something that others inserted or removed can be there as well.
    """
    beside = lost.start == lost.end == made.start or not lost.text
    if made.start == made.end and beside:
        return lost.start < made.start < lost.end
    return lost.start <= made.end and made.start <= lost.end
