"""A change of the source of a cell, or of the text of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ...documents.differ import Edit, edits, patch, trimmed
from ...documents.merge import revert
from ...documents.text import apply
from ...documents.text_diff import unified
from ...documents.text_document import Document
from ..line_merge import MergedText, merge_lines
from .change import Change, OverwrittenCell, RestartedCell, UndoPlan, count_lines


@dataclass(frozen=True, slots=True)
class SourceChange(Change):
    before: str
    after: str

    kind = "source"
    verb = "changed"
    aspect = "source"
    keys = ("source",)

    @property
    def size(self) -> int:
        return len(self.before) + len(self.after)

    def texts(self) -> Collection[str]:
        return (self.before, self.after)

    def line_counts(self) -> tuple[int, int]:
        return count_lines(self.before, self.after)

    def values(self) -> dict[str, Any]:
        # Most of a long text is the same before and after, so it is stored once.
        start, old, new = trimmed(self.before, self.after)
        end = start + len(old)
        return {
            "cell_id": self.cell_id,
            "before": self.before,
            "start": start,
            "end": end,
            "text": new,
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        before = values["before"]
        after = before[: values["start"]] + values["text"] + before[values["end"] :]
        return cls(values["cell_id"], before, after)

    def plan_undo(self, plan: UndoPlan) -> None:
        if not plan.requires(self.cell_id):
            return
        current = plan.source(self.cell_id)
        reverted = revert(self.before, self.after, current, plan.differ)
        if not reverted.clean:
            what = f"where {plan.others(self.cell_id)} changed what {plan.wrote} wrote"
            plan.conflict(self.cell_id, what, unified(current, reverted.text))
        plan.sources[self.cell_id] = reverted.text

    def replay(self, texts: dict[str, str], document: Document) -> None:
        text = texts.get(self.cell_id)
        texts[self.cell_id] = self.after if text is None else self._applied_to(text)

    def _applied_to(self, text: str) -> str:
        """Apply this change, which was made on another text, to a text, if it fits."""
        if text == self.before:
            return self.after
        lost, made = edits(self.before, text), edits(self.before, self.after)
        if any(_collide(one, other) for one in lost for other in made):
            return self.after
        return patch(self.before, sorted(lost + made, key=lambda edit: edit[:2]))

    def amount_in(self, lines: Counter[str] | None) -> int:
        if lines is None:
            return 0
        before, after = Counter(self.before.split("\n")), Counter(self.after.split("\n"))
        return (lines & (after - before)).total() - (lines & (before - after)).total()

    def wrote(self, text: str, earlier: Collection[str]) -> bool:
        return any(
            edit.text.strip()
            and edit.text in text
            and not any(edit.text in other for other in (self.before, *earlier))
            for edit in edits(self.before, self.after)
        )

    @property
    def _replaces(self) -> bool:
        return any(edit.start < edit.end for edit in edits(self.before, self.after))

    @classmethod
    def compare(cls, changes: Sequence[Self], cell: RestartedCell) -> Iterable[Callable[[], None]]:
        result = merge_lines(changes, cell.before.source(cell.index_before), cell.source)
        cell.source = result.text
        if result.clash:
            cell.report.report_clash(cell.cell_id)
        return ()

    @classmethod
    def reapply(cls, changes: Sequence[Self], cell: OverwrittenCell) -> Iterable[Change]:
        if cell.is_inserted:
            return
        shared = cell.document.shared_source(cell.index)
        current = before = str(shared)
        own = tuple(changes)
        result = cell.merge(own, cell.text_before, current)
        fine = result.text == current and not result.clash
        if (cell.is_late or not fine) and (strays := cell.find_stray_text().get(cell.cell_id)):
            cleaned = patch(current, strays)
            again = cell.merge(own, cell.text_before, cleaned)
            if (fine and again.text == current and not again.clash) or (
                not fine and not (again.clash and any(change._replaces for change in own))
            ):
                before, result = cleaned, again
                # Do not compare texts: others may have written the same letters beside it and may
                # remove them. Rewrite it even if it is in its place: only what is written anew is
                # certain to be in no file.
                apply(shared, strays, current)
            elif not fine:
                # What it replaced is gone, too, and cannot be restored.
                result = MergedText(current, [], len(own), clash=True)
        if result.clash:
            cell.report.report_clash(cell.cell_id)
        cell.is_changed |= result.text != current
        apply(shared, result.edits, before)
        yield from own[: result.there]
        if result.text != before:
            yield SourceChange(cell.cell_id, before, result.text)


def _collide(lost: Edit, made: Edit) -> bool:
    """Whether edits of one text touch each other, so that the later one, which was made, wins.

    Text inserted next to what others inserted or removed does not collide with it.
    """
    beside = lost.start == lost.end == made.start or not lost.text
    if made.start == made.end and beside:
        return lost.start < made.start < lost.end
    return lost.start <= made.end and made.start <= lost.end
