"""Changing a shared text, and cutting texts to a length.

Positions are code points everywhere; only `apply` knows what the store counts in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pycrdt import Text

from jupyter_collaboration_mcp.errors import InvalidArgument

from .differ import Edit, patch


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


def size(text: str) -> int:
    """The length of a text in bytes: some clients limit those."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def beginning(text: str, limit: int) -> str:
    """The beginning of a text in that many bytes; at least one character, for progress."""
    if size(text) <= limit:
        return text
    cut = text[: max(1, limit)]
    while len(cut) > 1 and (over := size(cut) - limit) > 0:
        cut = cut[: -max(1, over // 4)]
    return cut


def quantity(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
