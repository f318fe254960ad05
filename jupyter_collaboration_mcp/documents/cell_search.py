"""Looking for a text in cells: the lines of sources and outputs that contain it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import outputs
from .cell_view import CellView
from .text import quantity

_MOST_LINES = 20


#: Characters that are searched in one go: a millisecond or two.
_LARGEST_PIECE = 100_000


_AROUND = 80


def matching_lines(cell: CellView, pattern: re.Pattern[str]) -> list[str]:
    lines = [f"  {line}" for line in _lines_with(cell.source, pattern)]
    for number, output in enumerate(cell.outputs):
        content = outputs.readable(output)
        lines += [f"  output {number} line {line}" for line in _lines_with(content, pattern)]
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"  ... {quantity(more, 'more line')}"]


def _lines_with(content: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Each line where a match begins, once, with its number; long ones only around the match."""
    number, position, end = 1, 0, -1
    for match in _matches(content, pattern):
        if match.start() < end:
            continue
        number += content.count("\n", position, match.start())
        position = match.start()
        start = content.rfind("\n", 0, position) + 1
        end = content.find("\n", position)
        end = len(content) if end < 0 else end
        yield f"{number}: {_around(content, start, end, match)}"


def _matches(content: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Search for a literal text in pieces: nothing else runs while `re` does."""
    longest, place = len(pattern.pattern), 0
    while place < len(content):
        match = pattern.search(content, place, place + _LARGEST_PIECE + longest)
        if match is not None:
            yield match
        place = place + _LARGEST_PIECE if match is None else match.end()


def _around(content: str, start: int, end: int, match: re.Match[str]) -> str:
    low = max(start, match.start() - _AROUND)
    high = min(end, max(match.end(), match.start() + 1) + _AROUND, low + 3 * _AROUND)
    line = re.sub(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]", " ", content[low:high]).rstrip()
    return f"{'...' if low > start else ''}{line}{'...' if high < end else ''}"
