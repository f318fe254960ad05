"""Which elements can stay where they are when others change places."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence


def longest_ascending(cell_ids: Sequence[str], index: Mapping[str, int]) -> set[str]:
    """The most cells that can stay where they are when all others move around them."""
    ends: list[int] = []  # the smallest last index of an ascending row of each length
    tails: list[str] = []
    before: dict[str, str | None] = {}
    for cell_id in cell_ids:
        length = bisect_left(ends, index[cell_id])
        before[cell_id] = tails[length - 1] if length else None
        ends[length : length + 1] = [index[cell_id]]
        tails[length : length + 1] = [cell_id]
    kept: set[str] = set()
    last = tails[-1] if tails else None
    while last is not None:
        kept.add(last)
        last = before[last]
    return kept
