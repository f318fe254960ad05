"""Agents' steps that are in no file yet, and the texts of their cells before the file came.

A change of the file on disk overwrites unsaved steps in the room (B9), and a server that dies may
lose them. Reapplying them requires the texts that the cells had just before. The update with the
file's content is recognised by the mark that follows it. But a server reloads a large file bit by
bit, and answers requests in the meantime with a `Piece`: the texts are remembered from before the
first one.

While a server cannot save, steps pile up. The oldest of very many are forgotten, but not which
cells they changed: if such a cell has another text in the end, that is reported.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..backends.protocols.rooms import Overwrite, Piece
from ..documents.cell_mirror import Mark
from ..documents.text_document import Document
from .changes import Step, by_cell, cell_name
from .replica import Clocks

#: How much is remembered of one document: steps, and characters in them. A server that can save
#: does so every second.
MAX_STEPS = 2_000
MAX_CHARACTERS = 50_000_000

Texts = Mapping[str, str]
"""The texts of cells with unsaved changes, for those that exist."""


@dataclass(slots=True)
class Entry:
    """One step that is in no file yet."""

    step: Step
    acknowledged: bool
    """Whether the room has it."""
    written: Clocks


@dataclass(slots=True)
class Before:
    """The texts of the cells before an update from the room."""

    texts: Texts
    since: list[Step] = field(default_factory=list)
    """Steps that were made after it, which would be lost with the rest."""


class UnsavedSteps:
    """The unsaved steps in one document, oldest first."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._entries: deque[Entry] = deque()
        self._characters = 0
        self.unacknowledged = 0
        """How many of them the room is not known to have."""
        self.forgotten: set[str] = set()
        """The cells of unsaved steps that were too many to remember."""
        self._last = Before({})  # before the last update and the pieces right before it
        self._in_pieces = False
        self._each: list[Before] = []  # before each update of this round
        self._before_round = self._last
        self._tracked: set[str] | None = None  # the cells of all steps
        self._latest: tuple[Mark, Texts] = (document.mark(), {})

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def steps(self) -> list[Step]:
        return [entry.step for entry in self._entries]

    def add(self, step: Step, acknowledged: bool = False, written: Clocks = (0, 0)) -> None:
        """Remember a step that was just made."""
        self._entries.append(Entry(step, acknowledged, written))
        self.unacknowledged += not acknowledged
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

    def snapshot(self) -> Sequence[Entry]:
        """What the room will have when it has answered; pass it to `acknowledge`."""
        return list(self._entries)

    def acknowledge(self, sent: Sequence[Entry]) -> None:
        for entry in sent:
            entry.acknowledged = True
        self._count_unacknowledged()

    def _count_unacknowledged(self) -> None:
        self.unacknowledged = sum(not entry.acknowledged for entry in self._entries)

    def has_of(self, agent: str) -> bool:
        """Whether an agent has unsaved steps."""
        return any(entry.step.agent in ("", agent) for entry in self._entries)

    def mark_saved(self, sent: Sequence[Entry] | None = None) -> None:
        """Forget what the room had when it saved, or only what had been sent by some time."""
        if self._entries:
            known = None if sent is None else {id(entry) for entry in sent}
            later = [
                entry
                for entry in self._entries
                if (not entry.acknowledged if known is None else id(entry) not in known)
            ]
            if len(later) < len(self._entries):
                self.forgotten.clear()  # the room had them before the others
            self._keep(later)
            self._last = Before(self.texts())

    def missing(self, said: Texts) -> list[str]:
        """Describe where the oldest changes may be lost: cells that now have another text."""
        now = self.texts()
        return [
            f"the oldest changes in {cell_name(cell)}, of which too many were unsaved"
            for cell in sorted(self.forgotten)
            if now.get(cell) != said.get(cell)
        ]

    def _keep(self, entries: Sequence[Entry]) -> None:
        self._entries = deque(entries)
        self._tracked = None
        self._characters = sum(entry.step.characters for entry in entries)
        self._count_unacknowledged()

    def _forget_oldest(self) -> None:
        oldest = self._entries.popleft()
        step = oldest.step
        self.unacknowledged -= not oldest.acknowledged
        self._characters -= step.characters
        self.forgotten |= by_cell([step]).keys()
        last = self._last
        if last.since and last.since[0] is step:
            last.texts = self._with(last.texts, last.since.pop(0))

    # -- what the cells said -----------------------------------------------------------------

    def begin(self) -> None:
        """Start a round of updates from the room."""
        self._each, self._before_round = [], self._last

    def before(self) -> Before:
        """What to pass to `after` if the next update changes anything."""
        return self._last if self._in_pieces else Before(self.texts())

    def after(self, update: bytes, before: Before) -> None:
        """Record that an update from the room was applied and changed something."""
        self._each.append(before)
        self._last = before
        self._in_pieces = isinstance(update, Piece)

    def texts_before(self, overwrite: Overwrite) -> Texts:
        """The texts of the cells before the file overwrote them.

        Of the updates that may have brought the file, this chooses the one that removed the most of
        what was unsaved, and of several the last.
        """
        candidates = [self._texts_before_update(n) for n in reversed(overwrite.updates)]
        if overwrite.or_previous:
            candidates.append(self._with_later_steps(self._before_round))
        if len(candidates) == 1:  # the usual case; comparing large texts takes long
            return candidates[0]
        return max(candidates, key=self._amount)

    def _amount(self, texts: Texts) -> int:
        """About how much of the unsaved steps is in some texts."""
        lines = {cell: Counter(text.split("\n")) for cell, text in texts.items()}
        return sum(
            change.amount_in(lines.get(cell))
            for cell, changes in by_cell(self.steps).items()
            for change in changes
        )

    def _texts_before_update(self, number: int) -> Texts:
        if number >= len(self._each):
            return self.texts()
        return self._with_later_steps(self._each[number])

    def _with_later_steps(self, before: Before) -> Texts:
        texts = before.texts
        for step in before.since:
            texts = self._with(texts, step)
        return texts

    def texts(self) -> Texts:
        """The current texts of the cells. Only reads cells that changed since the last call."""
        mark, known = self._latest
        changed = self._document.changed_since(mark)
        if self._tracked is None or changed is None:
            known = {}
            self._tracked = changed = {*by_cell(self.steps), *self.forgotten}
        if changed := changed & self._tracked:
            now = {cell: text for cell, text in known.items() if cell not in changed}
            with self._document.doc.transaction():  # one for all: there may be thousands
                now |= {
                    cell: self._document.source(self._document.find(cell))
                    for cell in changed
                    if self._document.has(cell)
                }
            known = now
        self._latest = self._document.mark(), known
        return known

    def _with(self, said: Texts, step: Step) -> Texts:
        """The texts that cells would have if a step had been made on given ones."""
        now = dict(said)
        for change in step.changes:
            change.replay(now, self._document)
        return now
