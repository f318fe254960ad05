"""What has changed in a text, as a compact diff for people and models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from .differ import Gap, gaps


def unified(before: str, after: str, context: int = 2, limit: int = 4000) -> str:
    """A compact diff without file headers, cut with a count when longer than `limit`."""
    old, new = before.split("\n"), after.split("\n")
    lines: list[str] = []
    for group in _grouped(gaps(old, new), context):
        lines += _hunk_lines(old, new, group, context)
    return _cut_lines(lines, limit)


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
