"""Taking an agent's change of a text back without touching what others did to it since.

The three texts are all that is known: before, after, and what stands there now.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from .differ import WORK, Differ, Edit, patch


class Reverted(NamedTuple):
    """A text without the agent's change."""

    text: str
    clean: bool
    """False where others changed what the agent wrote; their characters are in `text` all the
    same, but no longer where they meant something."""


def revert(before: str, after: str, current: str, differ: Differ | None = None) -> Reverted:
    """Take back what made `after` of `before`, and keep what others made `current` with.

    What others typed right before or after the agent's text is theirs and stays where it is. What
    they only deleted is gone for good and is no conflict. Where they typed inside the agent's
    text, or wrote something else instead of it, the result is not clean. Where they had already
    put the old text back, nothing is done.

    Args:
        differ: Of a call that takes several back, so that all together take bounded time.
    """
    if current in (before, after):
        return Reverted(before, True)
    differ = differ or Differ(2 * WORK)
    hunks = _hunks(before, differ.edits(before, after))
    theirs = differ.edits(after, current)
    for hunk_number in range(len(hunks)):
        _part(after, hunks, hunk_number, theirs)
    return _merged(after, hunks, theirs)


@dataclass(frozen=True, slots=True)
class _Hunk:
    """What the agent wrote stands in `after[start:end]`, instead of `removed`."""

    start: int
    end: int
    removed: str


def _hunks(before: str, made: Sequence[Edit]) -> list[_Hunk]:
    hunks = []
    shift = 0
    for edit in made:
        start = edit.start + shift
        hunks.append(_Hunk(start, start + len(edit.text), before[edit.start : edit.end]))
        shift += len(edit.text) - (edit.end - edit.start)
    return hunks


# The same two texts can be explained in several ways: "a" typed before or after another "a" gives
# "aa" either way. `_part` prefers the one in which nobody typed inside the agent's text, and nobody
# deleted a part of it together with what stood beside it.


def _part(after: str, hunks: list[_Hunk], hunk_number: int, theirs: list[Edit]) -> None:
    """Slide an edit of others and the agent's text apart, if that tells the same story."""
    hunk = hunks[hunk_number]
    near = _near(theirs, hunk)
    for number in range(near.start, near.stop):
        edit = theirs[number]
        floor = theirs[number - 1].end + 1 if number else 0
        ceiling = theirs[number + 1].start - 1 if number + 1 < len(theirs) else len(after)
        if not edit.text:
            theirs[number] = _deletion_within(after, hunk, edit, floor, ceiling)
            continue
        if edit.start < edit.end or not hunk.start < edit.start < hunk.end:
            continue
        alone = floor <= hunk.start and hunk.end <= ceiling
        left = _leftmost(after, edit, max(floor, hunk.start))
        right = _rightmost(after, edit, min(ceiling, hunk.end))
        for moved in (left, right):
            if moved.start in (hunk.start, hunk.end):
                theirs[number] = moved
                break
            parted = _hunk_beside(after, hunks, hunk_number, moved, floor, ceiling)
            if alone and parted:
                theirs[number] = moved
                hunks[hunk_number] = hunk = parted
                break


def _deletion_within(after: str, hunk: _Hunk, deletion: Edit, floor: int, ceiling: int) -> Edit:
    """A deletion of others that goes across a border of the agent's text, found inside of it."""
    start, end, _ = deletion
    if start < hunk.start < end < hunk.end:
        distance = hunk.start - start
        same = after[start : hunk.start] == after[end : end + distance]
    elif hunk.start < start < hunk.end < end:
        distance = hunk.end - end
        same = after[start + distance : start] == after[hunk.end : end]
    else:
        return deletion
    if not same or start + distance < floor or end + distance > ceiling:
        return deletion
    return Edit(start + distance, end + distance, "")


def _leftmost(after: str, insertion: Edit, floor: int) -> Edit:
    """`insertion` begun as early as it can be with the same outcome."""
    typed = insertion.text
    distance = 0
    while (
        insertion.start - distance > floor
        and after[insertion.start - distance - 1] == typed[-1 - distance % len(typed)]
    ):
        distance += 1
    turn = distance % len(typed)
    start = insertion.start - distance
    return Edit(start, start, typed[len(typed) - turn :] + typed[: len(typed) - turn])


def _rightmost(after: str, insertion: Edit, ceiling: int) -> Edit:
    typed = insertion.text
    distance = 0
    while (
        insertion.start + distance < ceiling
        and after[insertion.start + distance] == typed[distance % len(typed)]
    ):
        distance += 1
    turn = distance % len(typed)
    start = insertion.start + distance
    return Edit(start, start, typed[turn:] + typed[:turn])


def _hunk_beside(
    after: str, hunks: list[_Hunk], number: int, insertion: Edit, floor: int, ceiling: int
) -> _Hunk | None:
    """The agent's insertion found just before or just after `insertion` instead of around it."""
    hunk = hunks[number]
    if hunk.removed:
        return None
    floor = max(floor, hunks[number - 1].end + 1 if number else 0)
    ceiling = min(ceiling, hunks[number + 1].start - 1 if number + 1 < len(hunks) else ceiling)
    for shift in (insertion.start - hunk.start, insertion.start - hunk.end):
        start, end = hunk.start + shift, hunk.end + shift
        low, high = min(hunk.start, start), max(hunk.end, end)
        # Both explain the same text if it is the same without the one as without the other.
        without_this = after[low : hunk.start] + after[hunk.end : high]
        without_that = after[low:start] + after[end:high]
        if floor <= start and end <= ceiling and without_this == without_that:
            return replace(hunk, start=start, end=end)
    return None


def _merged(after: str, hunks: Sequence[_Hunk], theirs: Sequence[Edit]) -> Reverted:
    """Compose the result from `after`: what stays, what is restored, what others typed."""
    clean = True
    additions: defaultdict[int, list[str]] = defaultdict(list)
    depths: Counter[int] = Counter()
    before_hunk = set()
    for hunk in hunks:
        near = theirs[_near(theirs, hunk)]
        if _put_back(after, hunk, near):
            continue
        clean = clean and not any(_collides(hunk, edit) for edit in near)
        additions[hunk.start].append(hunk.removed)
        depths.update({hunk.start: 1})
        depths.subtract({hunk.end: 1})
        if hunk.start < hunk.end:
            before_hunk.add(hunk.start)
    for edit in theirs:
        # Typed right before the agent's text it stays before what comes back; otherwise behind.
        first = edit.start == edit.end and edit.start in before_hunk
        additions[edit.start].insert(0 if first else len(additions[edit.start]), edit.text)
        depths.update({edit.start: 1})
        depths.subtract({edit.end: 1})
    return Reverted("".join(_composed(after, additions, depths)), clean)


def _composed(
    after: str, additions: Mapping[int, Sequence[str]], depths: Mapping[int, int]
) -> Iterator[str]:
    """`after` without what is inside a removal (depth above 0), with `additions` in place."""
    depth = 0
    for start, end in pairwise([*sorted({0, len(after), *additions, *depths}), len(after)]):
        yield from additions.get(start, ())
        depth += depths.get(start, 0)
        if depth == 0:
            yield after[start:end]


def _near(theirs: Sequence[Edit], hunk: _Hunk) -> slice:
    """The edits that overlap or touch what the agent wrote; a slice, for there may be thousands."""
    return slice(
        bisect_left(theirs, hunk.start, key=lambda edit: edit.end),
        bisect_right(theirs, hunk.end, key=lambda edit: edit.start),
    )


def _put_back(after: str, hunk: _Hunk, near: Sequence[Edit]) -> bool:
    """Whether others have themselves restored what the agent removed here."""
    if not near or near[0].start < hunk.start or near[-1].end > hunk.end:
        return False
    moved = [Edit(edit.start - hunk.start, edit.end - hunk.start, edit.text) for edit in near]
    return patch(after[hunk.start : hunk.end], moved) == hunk.removed


def _collides(hunk: _Hunk, edit: Edit) -> bool:
    """Whether others wrote inside the agent's text, or something else instead of it.

    A mere deletion loses nothing of theirs. Touching is no overlap.
    """
    return bool(edit.text) and edit.start < hunk.end and hunk.start < edit.end
