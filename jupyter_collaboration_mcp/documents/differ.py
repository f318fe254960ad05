"""How two texts differ: the smallest edits that make one of the other, with bounded work.

Positions are code points.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from math import isqrt
from typing import NamedTuple

#: Steps of comparison for one pair of texts; about a fifth of a second at worst.
WORK = 600_000


class Edit(NamedTuple):
    """Replace `old[start:end]` by `text`."""

    start: int
    end: int
    text: str


class Gap(NamedTuple):
    """Where two sequences differ; half-open on both sides."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def edits(old: str, new: str) -> list[Edit]:
    """Few and small edits, ascending and apart from each other, that turn `old` into `new`."""
    return Differ().edits(old, new)


def patch(old: str, changes: Iterable[Edit]) -> str:
    """`old` with ascending `changes` applied."""
    pieces = []
    position = 0
    for change in changes:
        pieces += [old[position : change.start], change.text]
        position = change.end
    pieces.append(old[position:])
    return "".join(pieces)


def gaps(old: Sequence[str], new: Sequence[str]) -> list[Gap]:
    """Where two sequences of lines differ, ascending."""
    return Differ().gaps(old, new)


# Comparing

#: Compares two pieces that differ; the offset is where the old piece stands.
_Finer = Callable[[str, str, int], Iterator["Edit"]]

#: Above this many characters only what is common at both ends is looked for.
_LARGEST_DIFF = 4_000_000
#: The same for lines: even a linear comparison of more would hold up everybody else.
_MOST_ELEMENTS = 10_000
#: Replaced lines up to this many characters on each side are compared by characters.
_LARGEST_BLOCK = 2_000
#: What it costs to make an edit in a shared text, in such steps.
_WORK_OF_AN_EDIT = 64
#: A shortest edit script longer than this says that the two texts have little in common.
_LONGEST_SCRIPT = 256

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


class _Match(NamedTuple):
    """`size` elements are the same from `old` in the one and from `new` in the other."""

    old: int
    new: int
    size: int


class Differ:
    """Compares texts with a bounded amount of work, however many they are.

    difflib is quadratic, and worse, on large or repetitive inputs. What it may cost is estimated
    before it is asked; when it is too dear, lines that occur once on both sides split the input.
    When all work is used up, only what is common at both ends of a text is looked for.

    Args:
        work: For all texts that are compared.
    """

    def __init__(self, work: int = WORK) -> None:
        self._work = work
        self._reserve = 0

    def edits(self, old: str, new: str) -> list[Edit]:
        """Few and small edits, ascending and apart from each other, that turn `old` into `new`."""
        start, removed, inserted = trimmed(old, new)
        if not removed and not inserted:
            return []
        self._next_pair()
        shorter, longer = sorted((removed, inserted), key=len)
        if not shorter or (len(shorter) == 1 and shorter not in longer):
            # Nothing in common is left to look for: the usual case, when a value changes.
            changes = _tidy(old, [Edit(start, start + len(removed), inserted)])
        else:
            changes = _tidy(old, self._lines(removed, inserted, start))
        self._work = max(0, self._work - _WORK_OF_AN_EDIT * len(changes))
        return changes

    def gaps(self, old: Sequence[str], new: Sequence[str]) -> list[Gap]:
        """Where two sequences of lines differ, ascending."""
        self._next_pair()
        return list(_between(self.matches(old, new), len(old), len(new)))

    def _next_pair(self) -> None:
        """Go on with what is left, but with no more than a pair is given that comes alone."""
        self._reserve += self._work
        self._work = min(WORK, self._reserve)
        self._reserve -= self._work

    def _lines(self, old: str, new: str, offset: int) -> Iterator[Edit]:
        """Compare by lines, and inside replaced lines more finely."""
        if self._work <= 0 or _too_large(old) or _too_large(new):
            yield Edit(offset, offset + len(old), new)
            return
        if _only_typed(old, new) and (matches := self._characters(old, new)) is not None:
            yield from self._within(old, new, matches, offset, self._whole)
            return
        old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
        matches = self.matches(old_lines, new_lines)
        yield from self._within(old_lines, new_lines, matches, offset, self._block)

    def matches(self, old: Sequence[str], new: Sequence[str]) -> list[_Match]:
        """What two sequences have in common, ascending; lines or words."""
        head = 0
        while head < min(len(old), len(new)) and old[head] == new[head]:
            head += 1
        tail = 0
        while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        middle = self._middle(old[head : len(old) - tail], new[head : len(new) - tail])
        return [
            _Match(0, 0, head),
            *(_Match(head + match.old, head + match.new, match.size) for match in middle),
            _Match(len(old) - tail, len(new) - tail, tail),
        ]

    def _middle(self, old: Sequence[str], new: Sequence[str]) -> Iterator[_Match]:
        if not old or not new or max(len(old), len(new)) > _MOST_ELEMENTS:
            return
        self._work -= len(old) + len(new)  # whatever is found out, each of them is looked at
        if self._affordable(old, new):
            matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
            yield from (_Match(*block) for block in matcher.get_matching_blocks())
            return
        old_start = new_start = 0
        for anchor in [*_anchors(old, new), _Match(len(old), len(new), 0)]:
            # An element that was unique on both sides is in no gap, so this ends.
            old_gap, new_gap = old[old_start : anchor.old], new[new_start : anchor.new]
            if len(old_gap) < len(old):
                for match in self.matches(old_gap, new_gap):
                    yield _Match(old_start + match.old, new_start + match.new, match.size)
            yield anchor
            old_start, new_start = anchor.old + 1, anchor.new + 1

    def _affordable(self, old: Sequence[str], new: Sequence[str]) -> bool:
        """Whether difflib at its worst stays in what is left; if so, it is paid for."""
        counts = Counter(new)
        pairs = sum(counts[element] for element in old)
        cost = (pairs + len(old) + len(new)) * min(len(old), len(new), pairs + 1)
        if cost > self._work:
            return False
        self._work -= cost
        return True

    def _within(
        self,
        old: Sequence[str],
        new: Sequence[str],
        matches: Iterable[_Match],
        offset: int,
        finer: _Finer,
    ) -> Iterator[Edit]:
        """The edits between `matches`, each compared once more by `finer`."""
        old_starts = _starts(old)
        for gap in _between(matches, len(old), len(new)):
            yield from finer(
                "".join(old[gap.old_start : gap.old_end]),
                "".join(new[gap.new_start : gap.new_end]),
                offset + old_starts[gap.old_start],
            )

    def _block(self, old: str, new: str, offset: int) -> Iterator[Edit]:
        """Replaced lines: by characters where that is cheap, else by words."""
        start, old, new = trimmed(old, new)
        if not old or not new or max(len(old), len(new)) > _LARGEST_BLOCK:
            yield from self._whole(old, new, offset + start)
            return
        matches = self._characters(old, new)
        if matches is not None:
            yield from self._within(old, new, matches, offset + start, self._whole)
            return
        old_words, new_words = _WORD.findall(old), _WORD.findall(new)
        matches = self.matches(old_words, new_words)
        yield from self._within(old_words, new_words, matches, offset + start, self._whole)

    def _characters(self, old: str, new: str) -> list[_Match] | None:
        longest = min(_LONGEST_SCRIPT, isqrt(max(0, self._work) // 4))
        history = _shortest_script(old, new, longest)
        self._work -= 4 * min(len(history), longest) ** 2
        if history[-1].get(len(old) - len(new)) != len(old):
            return None
        return _walk_back(history, len(old), len(new))

    def _whole(self, old: str, new: str, offset: int) -> Iterator[Edit]:
        start, old, new = trimmed(old, new)
        if old or new:
            yield Edit(offset + start, offset + start + len(old), new)


def trimmed(old: str, new: str) -> tuple[int, str, str]:
    """How much is common at the front, and what is left without the common front and back."""
    start = _common_prefix(old, new)
    end = _common_suffix(old, new, min(len(old), len(new)) - start)
    return start, old[start : len(old) - end], new[start : len(new) - end]


def _too_large(text: str) -> bool:
    return len(text) > _LARGEST_DIFF or text.count("\n") > _MOST_ELEMENTS


def _only_typed(old: str, new: str) -> bool:
    """Whether letters were only added, or only removed, and not so many that it is chance.

    By lines such a change can look like more: of two blank lines the wrong one is found again.
    """
    shorter, longer = sorted((old, new), key=len)
    added = len(longer) - len(shorter)
    if len(longer) > _LARGEST_BLOCK or added > max(64, len(shorter)):
        return False
    rest = iter(longer)
    return all(letter in rest for letter in shorter)


def _common_prefix(old: str, new: str) -> int:
    # Halving with whole slices: 10 MB take milliseconds, a loop over characters a second.
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(old: str, new: str, most: int) -> int:
    low, high = 0, most
    old_end, new_end = len(old), len(new)
    while low < high:
        middle = (low + high + 1) // 2
        if old[old_end - middle : old_end - low] == new[new_end - middle : new_end - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _between(matches: Iterable[_Match], old_length: int, new_length: int) -> Iterator[Gap]:
    old_end = new_end = 0
    common = [match for match in matches if match.size]
    for match in [*common, _Match(old_length, new_length, 0)]:
        if old_end < match.old or new_end < match.new:
            yield Gap(old_end, match.old, new_end, match.new)
        old_end, new_end = match.old + match.size, match.new + match.size


def _starts(pieces: Sequence[str]) -> list[int]:
    starts = [0]
    for piece in pieces:
        starts.append(starts[-1] + len(piece))
    return starts


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[_Match]:
    """Elements that occur once on both sides, in the longest order common to both (patience)."""
    old_counts, new_counts = Counter(old), Counter(new)
    places = {element: place for place, element in enumerate(new) if new_counts[element] == 1}
    unique = [
        (place, places[element])
        for place, element in enumerate(old)
        if old_counts[element] == 1 and element in places
    ]
    return [_Match(old_place, new_place, 1) for old_place, new_place in _longest_rise(unique)]


def _longest_rise(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run through `pairs` in which the second numbers rise."""
    tops: list[int] = []
    top_pairs: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        pile = bisect_left(tops, place)
        before.append(top_pairs[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [place]
        top_pairs[pile : pile + 1] = [number]
    rise = []
    number = top_pairs[-1] if top_pairs else -1
    while number >= 0:
        rise.append(pairs[number])
        number = before[number]
    return rise[::-1]


def _shortest_script(old: str, new: str, longest: int) -> list[dict[int, int]]:
    """Myers' greedy search: for each number of edits, how far each diagonal gets in `old`.

    difflib does not look for the shortest script, and calls typed characters replaced ones.
    """
    history: list[dict[int, int]] = []
    reached = {1: 0}
    for distance in range(longest + 1):
        following: dict[int, int] = {}
        for diagonal in range(-distance, distance + 1, 2):
            place = _step(reached, diagonal, len(old), len(new))
            if place < 0:
                continue
            other = place - diagonal
            while place < len(old) and other < len(new) and old[place] == new[other]:
                place += 1
                other += 1
            following[diagonal] = place
        history.append(following)
        if following.get(len(old) - len(new)) == len(old):
            break
        reached = following
    return history


def _step(reached: dict[int, int], diagonal: int, old_length: int, new_length: int) -> int:
    """Where one more edit leads on `diagonal`; -1 where it leads out of the texts."""
    deleted = reached.get(diagonal - 1, -2) + 1
    inserted = reached.get(diagonal + 1, -1)
    if deleted > old_length:
        deleted = -1
    if inserted - diagonal > new_length:
        inserted = -1
    return max(deleted, inserted)


def _walk_back(history: Sequence[dict[int, int]], old: int, new: int) -> list[_Match]:
    old_length, new_length = old, new
    matches = []
    for reached in reversed(history[:-1]):
        diagonal = old - new
        place = _step(reached, diagonal, old_length, new_length)
        matches.append(_Match(place, place - diagonal, old - place))
        if reached.get(diagonal + 1, -1) == place:
            old, new = place, place - diagonal - 1
        else:
            old, new = place - 1, place - diagonal
    matches.append(_Match(0, 0, old))
    return matches[::-1]


# Edits as a person would have made them


def _tidy(old: str, changes: Iterable[Edit]) -> list[Edit]:
    """Join edits that only share stray letters; let inserted and deleted lines be whole lines."""
    joined: list[Edit] = []
    for change in changes:
        if joined and _belongs_to(old, joined[-1], change):
            before = joined.pop()
            kept = old[before.end : change.start]
            change = Edit(before.start, change.end, before.text + kept + change.text)
        joined.append(change)
    tidy: list[Edit] = []
    for change, following in zip_longest(joined, joined[1:]):
        floor = tidy[-1].end + 1 if tidy else 0
        ceiling = following.start - 1 if following else len(old)
        tidy.append(_at_boundary(old, change, floor, ceiling))
    return tidy


def _belongs_to(old: str, before: Edit, change: Edit) -> bool:
    """Whether what is kept between two replacements is a stray letter or two of a rewritten word.

    What was only typed, or only deleted, is never joined: it would claim letters that stayed.
    """
    kept = old[before.end : change.start]
    rewritten = before.start < before.end and change.start < change.end
    typed = bool(before.text and change.text)
    return rewritten and typed and len(kept) < 3 and kept.isalnum()


def _at_boundary(old: str, change: Edit, floor: int, ceiling: int) -> Edit:
    """Slide an insertion or deletion to the line or word it is about.

    In `def a … def b` the second function can be seen as `def b` or as `b … def`; who types in
    front of the next `def` must not land in the middle of it.
    """
    if change.text and change.start < change.end:
        return change
    for newline in ("\r\n", "\n"):
        if _moved(old, change).startswith(newline) and old.startswith(newline, change.end):
            return _next_line(change, newline, ceiling)
    line = max(old.rfind("\n", 0, change.start) + 1, floor)
    if (slid := _slid(old, change, line)) and _moved(old, slid).endswith("\n"):
        return slid
    word = change.start
    while word > max(line, change.start - 100) and old[word - 1].isalnum():
        word -= 1
    if (slid := _slid(old, change, word)) and not _moved(old, slid)[-1].isalnum():
        return slid
    return change


def _moved(old: str, change: Edit) -> str:
    return change.text or old[change.start : change.end]


def _next_line(change: Edit, newline: str, ceiling: int) -> Edit:
    """The same change begun behind the line end it was found to begin with."""
    if change.end + len(newline) > ceiling:
        return change
    turned = change.text[len(newline) :] + newline if change.text else ""
    return Edit(change.start + len(newline), change.end + len(newline), turned)


def _slid(old: str, change: Edit, start: int) -> Edit | None:
    """The same change begun at an earlier `start`, if there is such a one."""
    distance = change.start - start
    if distance <= 0:
        return None
    passed = old[start : change.start]
    if not change.text:
        same = old[change.end - distance : change.end] == passed
        return Edit(start, change.end - distance, "") if same else None
    longer = passed + change.text
    if not longer.endswith(passed):
        return None
    return Edit(start, start, longer[: len(change.text)])
