"""Merge this process's own edits, line by line, into a text that lacks them.

Agents of other processes reapply their own edits, perhaps at this very moment. So nothing that
others wrote may be restored here, although every step holds the whole text before and after it: the
steps are undone on the last text that had them all, and only what that removes is our own.

A save contains the first few of the steps or all of them, and may have gone unnoticed. We assume
that the file has as many of them as make the text most like it. What is missing is merged by lines:
new lines find a place wherever they stood, and a changed line must still be there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import NamedTuple, Protocol

from ..documents.differ import WORK, Differ, Edit, Gap, patch
from ..documents.merge import revert

#: Texts that are compared with the file's, in addition to the one without any of the steps.
_STAGES = 10

#: Lines around a lost place that are searched for.
_NEAR = 20

#: Lines with more than this in common may be the same; most pairs compared, and their length.
_ALIKE = 0.5
_COMPARED = 400


_Piece = tuple[int, int, Sequence[str]]
"""A half-open range of lines in a file, and the lines that replace it."""


class Rewrite(Protocol):
    """A change of a text, with the whole text before and after it."""

    @property
    def before(self) -> str: ...

    @property
    def after(self) -> str: ...


class MergedText(NamedTuple):
    """A text with the edits that it lacked."""

    text: str
    edits: list[Edit]
    """The edits that turn the previous text into this one, line by line."""
    there: int
    """How many of the edits the previous text had, counted from the oldest."""
    clash: bool
    """Whether something may be lost because others wrote at the same place."""


def merge_lines(changes: Sequence[Rewrite], said: str, current: str) -> MergedText:
    """Add to a text what it lacks of the changes.

    Args:
        changes: Made by this process, oldest first; others may have written in between.
        said: The last text with all changes, as far as others had left them.
        current: The text now, from a file; other processes may have reapplied their edits.
    """
    if said == current:
        return MergedText(current, [], len(changes), False)
    differ = Differ(3 * WORK)
    stages, mixed = _stages(changes, said, differ)
    own, new = said.split("\n"), current.split("\n")
    first = stages[-1][1].split("\n")
    results = (
        _merged(there, text.split("\n"), first, own, new, differ)
        for there, text in _nearest(stages, current, differ)
    )
    result = min(results, key=lambda merged: merged.clash)
    if mixed and not result.clash:
        lost = any(edit.start < edit.end for edit in differ.edits(said, result.text))
        result = result._replace(clash=lost)
    return result


def _merged(
    there: int,
    base: Sequence[str],
    first: Sequence[str],
    own: Sequence[str],
    new: Sequence[str],
    differ: Differ,
) -> MergedText:
    """A file, with the edits that turn the base into our own text.

    Args:
        first: The base without any of the changes.
    """
    merge = _Merge(base, new, differ)
    clash = any(merge.undid(gap, first) for gap in differ.gaps(base, first))
    for gap in differ.gaps(base, own):
        clash |= not merge.add(gap, own[gap.new_start : gap.new_end])
    edits = merge.edits()
    return MergedText(patch("\n".join(new), edits), edits, there, clash)


def _stages(
    changes: Sequence[Rewrite], said: str, differ: Differ
) -> tuple[list[tuple[int, str]], bool]:
    """The last text with fewer and fewer of the changes: their number, and the text.

    Also returns whether others wrote into the changed text, so that it cannot be told apart.
    """
    stages = [(len(changes), said)]
    text, mixed = said, False
    end = len(changes)
    while end:
        start = end - 1
        if len(stages) > _STAGES:
            while start and changes[start].before == changes[start - 1].after:
                start -= 1  # nobody wrote in between
        without = _without(changes[start].before, changes[end - 1].after, text, differ)
        if without is None:
            mixed = True
        else:
            text = without
        end = start
        if len(stages) <= _STAGES or not end:
            stages.append((end, text))
    return stages, mixed


def _without(before: str, after: str, text: str, differ: Differ) -> str | None:
    """A text without a change; None if others wrote into the changed text."""
    if text in (before, after):
        return before
    lines, old, now = after.split("\n"), before.split("\n"), text.split("\n")
    made = differ.gaps(lines, old)
    if (found := _without_unique(made, lines, old, now)) is not None:
        return "\n".join(found)
    merge = _Merge(lines, now, differ)
    if all(merge.add(gap, old[gap.new_start : gap.new_end]) for gap in made):
        return patch(text, merge.edits())
    without = revert(before, after, text, differ)
    return without.text if without.clean else None


def _without_unique(
    made: Sequence[Gap], lines: Sequence[str], old: Sequence[str], now: Sequence[str]
) -> list[str] | None:
    """Lines without those that were inserted or changed, wherever others moved them.

    None if some of them do not occur exactly once.
    """
    counts, left = Counter(lines), Counter(now)
    instead: dict[str, list[str]] = {}
    for gap in made:
        before, size = old[gap.new_start : gap.new_end], gap.old_end - gap.old_start
        if len(before) not in (0, size):
            return None
        for number, line in enumerate(lines[gap.old_start : gap.old_end]):
            if not line.strip() or counts[line] != 1 or left[line] != 1:
                return None
            instead[line] = list(before[number : number + 1])
    return [one for line in now for one in instead.get(line, [line])]


def _nearest(
    stages: Sequence[tuple[int, str]], current: str, differ: Differ
) -> list[tuple[int, str]]:
    """The stages with the fewest lines that the file lacks, and of those the ones that lack least
    of the file, since then the file has only lost something. Those with the most changes come
    first."""
    lines = Counter(current.split("\n"))

    def others(text: str) -> int:
        theirs = Counter(text.split("\n"))
        return (theirs - lines).total() + (lines - theirs).total()

    def distance(stage: tuple[int, str]) -> tuple[int, int]:
        made = differ.edits(stage[1], current)
        return sum(len(edit.text) for edit in made), sum(edit.end - edit.start for edit in made)

    numbers = {stage: others(stage[1]) for stage in stages}
    fewest = min(numbers.values())
    nearest = [stage for stage in stages if numbers[stage] == fewest]
    if len(nearest) == 1:
        return nearest
    distances = {stage: distance(stage) for stage in nearest}
    least = min(distances.values())
    return [stage for stage in nearest if distances[stage] == least]


class _Merge:
    """Merges our own lines into the lines of a file.

    Args:
        base: The common origin of the file and our own text.
        new: The file.
    """

    def __init__(self, base: Sequence[str], new: Sequence[str], differ: Differ) -> None:
        self._base, self._new, self._differ = base, new, differ
        self._gaps = differ.gaps(base, new)  # where the file differs
        self._instead: list[_Piece] = []

    def add(self, own: Gap, lines: Sequence[str]) -> bool:
        """Put our own lines where they belong; False if that place no longer exists."""
        start, end = own.old_start, own.old_end
        changed = self._overlapping(start, end)
        if start == end:
            if not any(_has(self._lines(gap), lines) for gap in self._touching(start, end)):
                self._insert(start, lines)
            return True
        if not changed:
            place = self._place(start)
            self._instead.append((place, place + end - start, lines))
            return True
        if not lines and end - start > 1:  # others may have written in between
            place = own.new_start
            each = [self.add(Gap(n, n + 1, place, place), []) for n in range(start, end)]
            return all(each)
        if not self._holds(changed, start, end):
            return False
        now = self._lines(changed[0])
        if _has(now, lines) if lines else not _resemble(now, self._base[start:end]):
            return True
        instead = self._changed_within(changed[0], start, end, lines)
        if instead is None:
            return False
        place = start + changed[0].new_start - changed[0].old_start
        self._instead.append((place, place + len(lines), instead))
        return True

    def undid(self, own: Gap, first: Sequence[str]) -> bool:
        """Whether the file differs where our own lines were written or removed.

        Args:
            own: The gap that turns the base into the first text, which lacks our lines.
        """
        start, end = own.old_start, own.old_end
        lines = first[own.new_start : own.new_end]
        if start < end:
            changed = self._overlapping(start, end)
            return bool(changed) and (
                not self._holds(changed, start, end)
                or self._changed_within(changed[0], start, end, lines) is None
            )
        removed = set(lines)
        return any(removed.intersection(self._lines(gap)) for gap in self._touching(start, end))

    def edits(self) -> list[Edit]:
        """The edits that turn the file into the result. No edit touches a letter of adjacent lines:
        they look the same, but may belong to others who are about to remove them."""
        starts = [0, *accumulate(len(line) + 1 for line in self._new)]
        last = len(self._new)
        edits: list[Edit] = []
        for start, end, lines in _joined(sorted(self._instead, key=lambda piece: piece[:2])):
            old, new = "\n".join(self._new[start:end]), "\n".join(lines)
            if start < end and lines:
                offset = starts[start]
                for edit in self._differ.edits(old, new):
                    edits.append(Edit(edit.start + offset, edit.end + offset, edit.text))
            elif end < last or not start:
                # With the line break after it, or all there is.
                stop = min(starts[end], starts[last] - 1)
                edits.append(Edit(starts[start], stop, f"{new}\n" if lines else ""))
            else:  # At the end, with the line break before it.
                edits.append(Edit(starts[start] - 1, starts[end] - 1, f"\n{new}" if lines else ""))
        return edits

    def _lines(self, gap: Gap) -> Sequence[str]:
        return self._new[gap.new_start : gap.new_end]

    def _touching(self, start: int, end: int) -> Sequence[Gap]:
        """Where the file differs within some lines, or right before or after them."""
        first = bisect_left(self._gaps, start, key=lambda gap: gap.old_end)
        return self._gaps[first : bisect_right(self._gaps, end, key=lambda gap: gap.old_start)]

    def _overlapping(self, start: int, end: int) -> Sequence[Gap]:
        return [
            gap for gap in self._touching(start, end) if gap.old_start < end and start < gap.old_end
        ]

    def _insert(self, line: int, lines: Sequence[str]) -> None:
        """Insert our own lines before a line of the base."""
        around = self._overlapping(line, line)
        place = self._place_within(around[0], line) if around else self._place(line)
        self._instead.append((place, place, lines))

    def _place(self, line: int) -> int:
        """The place of a base line in the file, after what was inserted before it."""
        before = bisect_right(self._gaps, line, key=lambda gap: gap.old_end)
        if not before:
            return line
        gap = self._gaps[before - 1]
        return gap.new_end + line - gap.old_end

    def _place_within(self, gap: Gap, line: int) -> int:
        """A place among other lines: next to the nearest one that still exists, or at the end."""
        counts = Counter(self._lines(gap))
        for distance in range(_NEAR):
            for number, after in ((line - 1 - distance, 1), (line + distance, 0)):
                if gap.old_start <= number < gap.old_end and counts[self._base[number]] == 1:
                    return self._new.index(self._base[number], gap.new_start) + after
        return gap.new_end

    def _changed_within(
        self, gap: Gap, start: int, end: int, lines: Sequence[str]
    ) -> list[str] | None:
        """Our lines for a part of the base, without what the file has lost of that part.

        None if the file has done more than lose something there.
        """
        if gap.new_end - gap.new_start != gap.old_end - gap.old_start or len(lines) != end - start:
            return None
        place = start + gap.new_start - gap.old_start
        changed = []
        for base, new, own in zip(self._base[start:], self._new[place:], lines, strict=False):
            lost, made = self._differ.edits(base, new), self._differ.edits(base, own)
            apart = all(
                one.end <= other.start or other.end <= one.start for one in lost for other in made
            )
            if not new.strip() or not apart or any(edit.text for edit in lost):
                return None
            changed.append(patch(base, sorted(lost + made)))
        return changed

    @staticmethod
    def _holds(changed: Sequence[Gap], start: int, end: int) -> bool:
        """Whether a single gap of the file covers all of some lines."""
        return len(changed) == 1 and changed[0].old_start <= start and end <= changed[0].old_end


def _joined(pieces: Iterable[_Piece]) -> list[_Piece]:
    """The same pieces, with adjacent ones joined."""
    joined: list[_Piece] = []
    for start, end, lines in pieces:
        if joined and joined[-1][1] == start:
            start, _, before = joined.pop()
            lines = [*before, *lines]
        joined.append((start, end, lines))
    return joined


def _has(lines: Sequence[str], some: Sequence[str]) -> bool:
    """Whether some lines occur among others, consecutively."""
    size, some = len(some), list(some)
    return any(
        line == some[0] and list(lines[n : n + size]) == some for n, line in enumerate(lines)
    )


def _resemble(lines: Sequence[str], others: Sequence[str]) -> bool:
    """Whether one of some lines may be a changed version of another."""
    return len(lines) * len(others) > _COMPARED or any(
        max(len(one), len(other)) > _COMPARED or SequenceMatcher(None, one, other).ratio() > _ALIKE
        for one in lines
        for other in others
    )
