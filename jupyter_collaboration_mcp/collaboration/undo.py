"""Undo what an agent did, and nothing that anybody else did.

Every call of an agent leaves a step: what it changed, with what was there before. Undoing is
planned first, without touching the document, so that the preview is exact: either the plan is
carried out, or it is refused with a diff.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from ..backends.protocols.steps import StepLimits
from ..documents.protection import CellAction
from ..documents.text_document import Document
from ..errors import NothingToUndo, UndoRefused
from .changes import SourceChange, Step
from .changes.change import UndoPlan

#: How much an agent can undo in one document: steps, and characters in them.
MAX_STEPS, MAX_CHARACTERS = StepLimits()[:2]


class UndoLog:
    """The steps of one agent in one document, newest last."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self.characters = 0
        """The characters in all steps."""
        self.is_complete = False
        """Whether it has all steps that are stored."""

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(list(self._steps))

    def push(self, step: Step) -> None:
        self._steps.append(step)
        self.characters += step.characters
        while len(self._steps) > MAX_STEPS or (
            self.characters > MAX_CHARACTERS and len(self._steps) > 1
        ):
            self.characters -= self._steps.popleft().characters

    def last(self, count: int) -> list[Step]:
        """The latest steps, newest first."""
        return list(reversed(list(self._steps)[-count:])) if count else []

    def since(self, version: int) -> list[Step]:
        """The steps after a version, newest first."""
        return [step for step in reversed(self._steps) if step.version > version]

    def find(self, step_id: str) -> tuple[Step, list[Step]] | None:
        """A step by its id, and those after it, newest first."""
        for place, step in enumerate(self._steps):
            if step.id == step_id:
                return step, list(reversed(list(self._steps)[place + 1 :]))
        return None

    def remove(self, steps: Sequence[Step]) -> None:
        """Remove steps that were undone."""
        gone = {step.id for step in steps}
        self._fill([step for step in self._steps if step.id not in gone])

    def replace(self, steps: Sequence[Step]) -> None:
        """Take other versions of steps that were undone in part."""
        changed = {step.id: step for step in steps}
        self._fill([changed.get(step.id, step) for step in self._steps])

    def complete(self, stored: Sequence[Step]) -> None:
        """Add what was stored before this log began, oldest first; of others it has them."""
        if not self.is_complete:
            known = {step.id for step in self._steps}
            self._fill([*(step for step in stored if step.id not in known), *self._steps])
            self.is_complete = True

    def _fill(self, steps: Sequence[Step]) -> None:
        self._steps.clear()
        self.characters = 0
        for step in steps:
            self.push(step)


def plan_undo(
    document: Document,
    steps: Sequence[Step],
    force: bool,
    later: Sequence[Step] = (),
    author: str = "",
) -> UndoPlan:
    """Plan to undo steps, the newest first, without touching the document.

    Args:
        later: Later steps of the same agent, which stay, the newest first.
        author: The agent whose steps they are, by its name; empty if it undoes them itself.

    Raises:
        NothingToUndo: There is no step.
        UndoRefused: Somebody else's text is in the way, and `force` is not set.
    """
    if not steps:
        raise NothingToUndo.by(author)
    plan = _planned(document, steps, UndoPlan(document, author))
    if later and plan.conflicting:
        # Where undoing the later steps as well would meet nobody, only they are in the way.
        everything = _planned(document, [*later, *steps], UndoPlan(document, author))
        if own := plan.conflicting - everything.conflicting:
            calls = {cell_id: _calls_in(cell_id, later) for cell_id in own}
            plan = _planned(document, steps, UndoPlan(document, author, calls))
    if plan.conflicts and not force:
        raise UndoRefused.over(plan.conflicts, own=plan.conflicting <= plan.own_later.keys())
    return plan


def _planned(document: Document, steps: Sequence[Step], plan: UndoPlan) -> UndoPlan:
    for step in steps:
        for change in reversed(step.changes):
            change.plan_undo(plan)
    for cell_id, source in plan.sources.items():
        if cell_id not in plan.removed:
            plan.actions.append(_set_source(plan, cell_id, source))
            before = plan.added.get(cell_id)
            if before is None:
                before = document.source(document.find(cell_id))
            if before != source:
                plan.changes.append(SourceChange(cell_id, before, source))
                plan.touch(cell_id, CellAction.EDIT)
    return plan


def _calls_in(cell_id: str, steps: Sequence[Step]) -> list[str]:
    """The steps that are about a cell, the oldest first."""
    about = (step for step in steps if any(each.cell_id == cell_id for each in step.changes))
    return [step.id for step in about][::-1]


def _set_source(plan: UndoPlan, cell_id: str, source: str) -> Callable[[], None]:
    def act() -> None:
        plan.document.set_source(plan.document.find(cell_id), source, plan.differ)

    return act
