"""Undo what an agent did, and nothing that anybody else did.

Every call of an agent leaves a step: what it changed, with what was there before. Undoing is
planned first, without touching the document, so that the preview is exact: either the plan is
carried out, or it is refused with a diff.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ..documents.protection import CellAction
from ..documents.text_document import Document
from ..errors import NothingToUndo, UndoRefused
from .changes import SourceChange, Step
from .changes.change import UndoPlan

#: How much an agent can undo in one document: steps, and characters in them.
MAX_STEPS = 200
MAX_CHARACTERS = 20_000_000


class UndoLog:
    """The steps of one agent in one document, newest last."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self.characters = 0
        """The characters in all steps."""

    def __len__(self) -> int:
        return len(self._steps)

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

    def pop(self, count: int) -> None:
        for _ in range(count):
            self.characters -= self._steps.pop().characters


def plan_undo(document: Document, steps: Sequence[Step], force: bool) -> UndoPlan:
    """Plan to undo steps, the newest first, without touching the document.

    Raises:
        NothingToUndo: There is no step.
        UndoRefused: Somebody else's text is in the way, and `force` is not set.
    """
    if not steps:
        raise NothingToUndo(
            "There is no change of yours to undo here.",
            "Nothing to do; changes from before a restart of the server cannot be undone.",
        )
    plan = UndoPlan(document)
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
    if plan.conflicts and not force:
        raise UndoRefused(
            "Undoing this would remove or tear apart what others wrote; nothing was changed.\n"
            + "\n".join(plan.conflicts),
            "Leave it, edit by hand, or repeat with force=true: "
            "that keeps every character of the others and drops yours around them.",
        )
    return plan


def _set_source(plan: UndoPlan, cell_id: str, source: str) -> Callable[[], None]:
    def act() -> None:
        plan.document.set_source(plan.document.find(cell_id), source, plan.differ)

    return act
