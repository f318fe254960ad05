"""A part of a text, as somebody wants to read it: whole lines where that is possible."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InvalidArgument
from .text import beginning


@dataclass(frozen=True, slots=True)
class Lines:
    """Some of a text, and where to go on."""

    content: str
    start: int
    """The position of its first character."""
    first: int
    """Its first line, counted from 1."""
    last: int
    partial: bool
    """Whether there is more of the text than this."""
    at_end: bool
    """Whether it goes to the end of the text."""
    next_position: int | None
    """Where what was wanted goes on, if it was too long."""


def cut(
    source: str,
    start_line: int | None,
    end_line: int | None,
    start_position: int | None,
    limit: int,
) -> Lines:
    """The lines that are wanted, as far as they fit.

    Raises:
        InvalidArgument: There are no such lines.
    """
    if start_position is not None and start_line is not None:
        raise InvalidArgument("Both start_line and start_position are given.", "Give one of them.")
    start = _start_of(source, start_line or 1) if start_position is None else start_position
    if start is None or start > len(source):
        raise InvalidArgument(
            f"There is no such place: the document has {line_count(source):,} lines and "
            f"{len(source):,} characters.",
            "Read it from an earlier line.",
            length=len(source),
        )
    first = source.count("\n", 0, start) + 1
    if end_line is not None and end_line < first:
        raise InvalidArgument(
            f"end_line is {end_line}, before the first line {first}.",
            "Give end_line >= start_line; it is included.",
        )
    wanted = len(source) if end_line is None else _start_of(source, end_line + 1, first, start)
    end = len(source) if wanted is None else wanted
    shown = start + len(beginning(source[start : min(end, start + limit)], limit))
    if shown < end and (newline := source.rfind("\n", start, shown)) >= 0:
        shown = newline + 1
    content = source[start:shown]
    return Lines(
        content=content,
        start=start,
        first=first,
        last=first + content.removesuffix("\n").count("\n"),
        partial=len(content) < len(source),
        at_end=shown == len(source),
        next_position=None if shown >= end else shown,
    )


def line_count(source: str) -> int:
    """How many lines a text has; a line break ends a line and begins none."""
    return source.count("\n") + (not source.endswith("\n")) if source else 0


def _start_of(source: str, line: int, known: int = 1, position: int = 0) -> int | None:
    """Where a line begins; None if there are not that many.

    Args:
        known: A line before it, in which `position` is.
    """
    end, missing = len(source), line - known
    if missing <= 0:
        return position
    if source.count("\n", position) < missing:
        return None
    # Halving what is counted: there may be millions of lines, and a step for each takes seconds.
    while end - position > 1:
        middle = (position + end) // 2
        breaks = source.count("\n", position, middle)
        if breaks < missing:
            position, missing = middle, missing - breaks
        else:
            end = middle
    return end
