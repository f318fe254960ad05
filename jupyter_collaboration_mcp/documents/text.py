"""Changing a shared text, finding the place to change in it, and showing what has changed.

Positions are code points everywhere; only `apply` knows what the store counts in.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from pycrdt import Text

from jupyter_collaboration_mcp.errors import InvalidArgument, TextMismatch

from .differ import Edit, Gap, gaps, patch


def apply(text: Text, changes: Sequence[Edit], old: str) -> None:
    """Apply ascending `changes` to `text`, which reads `old`, in the caller's transaction.

    Very many are made as fewer, of which each replaces more.

    Raises:
        InvalidArgument: A change has characters that no document can hold.
        ValueError: `text` does not read `old`; nothing was changed.
    """
    # pycrdt would raise half-way and not roll back, so look before the first change.
    for change in changes:
        require_storable(change.text)
    changes = _joined(old, changes)
    offsets, length = _byte_offsets(old, changes)
    if len(text) != length:
        raise ValueError(f"the shared text has {len(text)} bytes, expected {length}")
    # From the middle outwards: pycrdt keeps text in blocks, and copies the block that it splits.
    shifts = _Shifts(len(changes))
    for number in _halving(len(changes)):
        change, (start, end) = changes[number], offsets[number]
        at = start + shifts.before(number)
        if start < end:
            del text[at : at + end - start]
        if change.text:
            text.insert(at, change.text)
        shifts.add(number, len(change.text.encode()) - (end - start))


def require_storable(text: str) -> None:
    """Refuse half a surrogate pair: JSON can carry one, UTF-8 and therefore a document cannot.

    Raises:
        InvalidArgument: There is a lone surrogate in `text`.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"Character {error.start} of the text is half of a surrogate pair "
            f"(U+{ord(text[error.start]):04X}), which no document can hold. Nothing was changed.",
            "Send the text again with the whole character.",
        ) from None


def replace_once(source: str, old_text: str, new_text: str) -> str:
    """Replace `old_text`, which must be in `source` exactly once, literally.

    Raises:
        InvalidArgument: `old_text` is empty.
        TextMismatch: `old_text` is not there, or there more than once.
    """
    start = find_once(source, old_text)
    return source[:start] + new_text + source[start + len(old_text) :]


def find_once(source: str, old_text: str) -> int:
    """Where `old_text`, which must be in `source` exactly once, begins.

    Raises:
        InvalidArgument: `old_text` is empty.
        TextMismatch: `old_text` is not there, or there more than once.
    """
    if not old_text:
        raise InvalidArgument(
            "old_text is empty, so there is no place to change.",
            "Give the text to replace, or use content instead.",
        )
    found = _occurrences(source, old_text)
    if not found:
        raise _not_found(source, old_text)
    if len(found) > 1:
        raise _found_often(source, found)
    return found[0]


def unified(before: str, after: str, context: int = 2, limit: int = 4000) -> str:
    """A compact diff without file headers, cut with a count when longer than `limit`."""
    old, new = before.split("\n"), after.split("\n")
    lines: list[str] = []
    for group in _grouped(gaps(old, new), context):
        lines += _hunk_lines(old, new, group, context)
    return _cut_lines(lines, limit)


def size(text: str) -> int:
    """How long a text is for those who show it to a model: some of them count bytes."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def beginning(text: str, limit: int) -> str:
    """As much of a text as has that many bytes; at least one character, so that it goes on."""
    if size(text) <= limit:
        return text
    cut = text[: max(1, limit)]
    while len(cut) > 1 and (over := size(cut) - limit) > 0:
        cut = cut[: -max(1, over // 4)]
    return cut


def clip(text: str, limit: int) -> str:
    """`text`, or its head and tail with a count of what is cut between them."""
    if len(text) <= limit:
        return text
    note = f"\n... {len(text):,} characters cut ...\n"
    room = max(0, limit - len(note))
    head, tail = text[: (room + 1) // 2], text[len(text) - room // 2 :]
    # Whole lines read better, where that costs little.
    if (newline := head.rfind("\n")) > len(head) * 3 // 4:
        head = head[:newline]
    if 0 <= (newline := tail.find("\n")) < len(tail) // 4:
        tail = tail[newline + 1 :]
    return f"{head}\n... {len(text) - len(head) - len(tail):,} characters cut ...\n{tail}"


def clip_bytes(text: str, limit: int) -> str:
    """The same, where the limit is in bytes; a text that is as short as the note stays whole."""
    made = clip(text, limit)
    while (length := size(made)) > limit > 0 and len(made) > _NOTE:
        made = clip(text, max(0, len(made) * limit // length - 1))
    return made


#: Characters of the note about what is cut; a text cannot be cut to less.
_NOTE = 60


# Applying

#: pycrdt looks for each place from the beginning, past all edits before it: what one costs grows
#: with their number, and with the length of the text.
_MOST_EDITS = 1_000


def _halving(count: int) -> Iterator[int]:
    """All numbers below `count`: the middle one, then the middle ones of both halves, and so on."""
    halves = [(0, count)]
    for start, end in halves:
        if start < end:
            middle = (start + end) // 2
            yield middle
            halves += [(start, middle), (middle + 1, end)]


class _Shifts:
    """How far edits in any order have moved what stands behind them (a Fenwick tree)."""

    def __init__(self, count: int) -> None:
        self._sums = [0] * (count + 1)

    def add(self, number: int, shift: int) -> None:
        place = number + 1
        while place < len(self._sums):
            self._sums[place] += shift
            place += place & -place

    def before(self, number: int) -> int:
        total = 0
        while number:
            total += self._sums[number]
            number -= number & -number
        return total


def _joined(old: str, changes: Sequence[Edit]) -> Sequence[Edit]:
    """The same in no more edits than are made in one text; the nearest to each other are joined."""
    excess = len(changes) - _MOST_EDITS
    if excess <= 0:
        return changes
    kept = [after.start - before.end for before, after in pairwise(changes)]
    near = set(sorted(range(len(kept)), key=kept.__getitem__)[:excess])
    joined: list[list[Edit]] = [[changes[0]]]
    for number, change in enumerate(changes[1:]):
        if number in near:
            joined[-1].append(change)
        else:
            joined.append([change])
    return [_one(old, group) for group in joined]


def _one(old: str, group: Sequence[Edit]) -> Edit:
    """An edit that does what several do."""
    start, end = group[0].start, group[-1].end
    moved = [Edit(edit.start - start, edit.end - start, edit.text) for edit in group]
    return Edit(start, end, patch(old[start:end], moved))


def _byte_offsets(old: str, changes: Sequence[Edit]) -> tuple[list[tuple[int, int]], int]:
    """Start and end of each change as pycrdt counts them, and the length of `old`.

    B8: `Text` counts UTF-8 bytes, and an index inside a character silently lands elsewhere.
    """
    if old.isascii():
        return [(change.start, change.end) for change in changes], len(old)
    offsets = []
    position = byte = 0
    for change in changes:
        start = byte + len(old[position : change.start].encode())
        byte = start + len(old[change.start : change.end].encode())
        offsets.append((start, byte))
        position = change.end
    return offsets, byte + len(old[position:].encode())


# What to say when a text to replace is not there once

#: More occurrences than this are not counted.
_MOST_OCCURRENCES = 1_000
#: A source is searched for the same text, but for white space or case, up to this many characters;
#: and for similar lines up to this many. Each takes some 10 ms, in which nobody else is served.
_LARGEST_FOLDED = 200_000
_LARGEST_SEARCH = 80_000
#: Characters of similar lines that are compared.
_LARGEST_WINDOW = 2_000
_SHOWN_LINES = 8
_SHOWN_COLUMNS = 160


def _occurrences(source: str, wanted: str) -> list[int]:
    """Where `wanted` is; overlapping ones count, for they too leave a choice."""
    found: list[int] = []
    place = source.find(wanted)
    while place >= 0 and len(found) < _MOST_OCCURRENCES:
        found.append(place)
        place = source.find(wanted, place + 1)
    return found


def _found_often(source: str, found: Sequence[int]) -> TextMismatch:
    lines = [source.count("\n", 0, place) + 1 for place in found[:10]]
    least = "at least " if len(found) == _MOST_OCCURRENCES else ""
    more = f" and {len(found) - len(lines):,} more" if len(found) > len(lines) else ""
    return TextMismatch(
        f"old_text is there {least}{len(found):,} times, on lines "
        f"{', '.join(map(str, lines))}{more}. Nothing was changed.",
        "Include more surrounding text in old_text, so that it matches once.",
        matches=len(found),
        lines=lines,
    )


def _not_found(source: str, wanted: str) -> TextMismatch:
    next_step = "Copy old_text exactly from the source, then call again."
    if not source.strip():
        return TextMismatch(
            "old_text was not found: the source is empty. Nothing was changed.",
            "Use content instead of old_text.",
            matches=0,
        )
    beginning = source[:_LARGEST_FOLDED]
    where = f" in the first {_LARGEST_SEARCH:,} characters" * (len(source) > _LARGEST_SEARCH)
    for difference, fold in _FOLDS:
        if window := _folded_window(beginning, wanted, fold):
            happened = f"old_text was not found; the source differs in {difference} here:"
            break
    else:
        window = _nearest_window(beginning[:_LARGEST_SEARCH], wanted)
        happened = f"old_text was not found; the nearest lines{where} are:"
    if not window:
        count = source.count("\n") + 1
        return TextMismatch(
            f"old_text was not found, nor anything like it{where} ({count:,} lines). "
            "Nothing was changed.",
            "Read the source again; it may stand elsewhere, or somebody changed it.",
            matches=0,
        )
    return TextMismatch(
        f"{happened}\n{_numbered(beginning, window)}\nNothing was changed.",
        next_step,
        matches=0,
        lines=[window.start + 1, window.stop],
    )


def _without_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


def _without_space(text: str) -> str:
    return "".join(text.split())


_FOLDS: Sequence[tuple[str, Callable[[str], str]]] = (
    ("line ends (CRLF)", _without_line_ends),
    ("white space", _without_space),
    ("case", str.casefold),
    ("white space and case", lambda text: _without_space(text).casefold()),
)


def _folded_window(source: str, wanted: str, fold: Callable[[str], str]) -> range | None:
    """The lines where `wanted` is found once both are folded."""
    target = fold(wanted) if len(wanted) <= _LARGEST_FOLDED else ""
    place = fold(source).find(target) if target else -1
    if place < 0:
        return None
    folded = [fold(line) for line in source.splitlines(keepends=True)]
    ends = list(accumulate(map(len, folded)))
    first = next(number for number, end in enumerate(ends) if end > place)
    last = next(number for number, end in enumerate(ends) if end >= place + len(target))
    return range(first, last + 1)


def _nearest_window(source: str, wanted: str) -> range | None:
    """The lines most like `wanted`: pieces of three characters first, then difflib on the best."""
    lines = source.splitlines()
    target = wanted.strip("\n")[:_LARGEST_WINDOW]
    height = min(target.count("\n") + 1, len(lines))
    pieces = _pieces(target)
    scores = [len(pieces & _pieces(line)) for line in lines]
    sums = _running_sums(scores, height)
    best = sorted(range(len(sums)), key=lambda first: -sums[first])[:5]

    def likeness(first: int) -> float:
        window = "\n".join(lines[first : first + height])[:_LARGEST_WINDOW]
        return difflib.SequenceMatcher(None, window, target).ratio()

    ranked = [(likeness(first), -first) for first in best if sums[first]]
    if not ranked or max(ranked)[0] < 0.4:
        return None
    first = -max(ranked)[1]
    return range(first, first + height)


def _pieces(text: str) -> set[str]:
    text = text.strip().casefold()
    return {text[place : place + 3] for place in range(max(1, len(text) - 2))} - {""}


def _running_sums(numbers: Sequence[int], width: int) -> list[int]:
    totals = [0]
    for number in numbers:
        totals.append(totals[-1] + number)
    return [totals[end] - totals[end - width] for end in range(width, len(totals))]


def _numbered(source: str, window: range) -> str:
    lines = source.splitlines()
    shown = [f"{number + 1:>5}  {_narrow(lines[number])}" for number in window[:_SHOWN_LINES]]
    if len(window) > _SHOWN_LINES:
        shown.append(f"       ... {len(window) - _SHOWN_LINES:,} more lines")
    return "\n".join(shown)


def _narrow(line: str) -> str:
    cut = len(line) - _SHOWN_COLUMNS
    return line if cut <= 0 else f"{line[:_SHOWN_COLUMNS]}... ({cut:,} more characters)"


# The diff for people and models


def _grouped(hunks: Sequence[Gap], context: int) -> Iterator[list[Gap]]:
    """Gaps whose contexts touch, together."""
    group: list[Gap] = []
    for gap in hunks:
        if group and gap.old_start - group[-1].old_end > 2 * context:
            yield group
            group = []
        group.append(gap)
    if group:
        yield group


def _hunk_lines(
    old: Sequence[str], new: Sequence[str], group: Sequence[Gap], context: int
) -> Iterator[str]:
    first, last = group[0], group[-1]
    lead = min(context, first.old_start)
    trail = min(context, len(old) - last.old_end)
    old_range = _range(first.old_start - lead, last.old_end + trail)
    new_range = _range(first.new_start - lead, last.new_end + trail)
    yield f"@@ -{old_range} +{new_range} @@"
    yield from _marked(" ", old[first.old_start - lead : first.old_start])
    for gap, following in pairwise([*group, None]):
        assert gap is not None
        yield from _marked("-", old[gap.old_start : gap.old_end])
        yield from _marked("+", new[gap.new_start : gap.new_end])
        end = following.old_start if following else gap.old_end + trail
        yield from _marked(" ", old[gap.old_end : end])


def _range(start: int, end: int) -> str:
    return f"{start + 1}" if end - start == 1 else f"{start + (end > start)},{end - start}"


def _marked(mark: str, lines: Iterable[str]) -> Iterator[str]:
    # A carriage return would not be seen, and a line that lost one would look unchanged.
    return (mark + line.replace("\r", "␍") for line in lines)


def _cut_lines(lines: Sequence[str], limit: int) -> str:
    if sum(map(len, lines)) + len(lines) - 1 <= limit:
        return "\n".join(lines)
    room = limit - len("... 1,000,000 more lines of the diff cut")
    kept = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join([*kept, f"... {len(lines) - len(kept):,} more lines of the diff cut"])
