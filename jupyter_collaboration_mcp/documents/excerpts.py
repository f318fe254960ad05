"""As much of a long text as there is room for: its beginning and its end, in whole lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .outputs import (
    as_on_screen,
    joined,
)
from .text import quantity
from .text_view import line_count

UNBOUNDED = 1 << 40


class Excerpt(NamedTuple):
    """As much of a text as there was room for."""

    head: str
    whole: bool
    gap: str = ""
    """What is left out between head and tail, in our words."""
    tail: str = ""
    title: str = ""
    """Another title, if that depends on the room."""

    def text(self) -> str:
        return "\n".join(part for part in (self.head, self.gap, self.tail) if part)


#: A text up to this length is shown whole, ...
LONGEST_WHOLE = 3_000


#: ... of a longer one as much as this, two thirds of it from its beginning.
_LONGEST_PART = 1_200


_LEAST = 60


@dataclass(frozen=True, slots=True)
class LongText:
    """A text as it stands on a screen, or its beginning and end if it is long."""

    head: str
    tail: str | None
    """None if the head is all there is."""
    lines: int
    length: int
    whole: bool = True
    """False if something is missing even where head and tail are all shown."""
    most: int = UNBOUNDED

    @classmethod
    def of(cls, text: str, cut: Any = None) -> LongText:
        """Takes time for what will be shown of `text`, not for all of it."""
        lines, length, end = line_count(text), len(text), text
        missing = isinstance(cut, Mapping) and _number(cut.get("length"), 0) > length
        if missing:
            end = joined(cut.get("tail"))
            length = _number(cut.get("length"), 0)
            lines = max(lines, _number(cut.get("lines"), 0))
        shown = without_base64(text)
        head, complete = _beginning(shown, LONGEST_WHOLE)
        if complete and not missing:
            return cls(head, None, lines, length, whole=shown is text)
        return cls(head, _end(without_base64(end), _LONGEST_PART), lines, length, whole=False)

    @property
    def all(self) -> Excerpt | None:
        """Everything, if that is known and not long."""
        known = self.tail is None and self.whole
        return Excerpt(self.head, whole=True) if known else None

    def fit(self, room: int) -> Excerpt:
        room = min(room, self.most)
        if self.tail is None and len(self.head) <= min(room, LONGEST_WHOLE):
            return Excerpt(self.head, self.whole)
        room = min(room, _LONGEST_PART) if room >= _LEAST else 0
        head = _first_lines(self.head, room * 2 // 3)
        tail = _last_lines(self.head if self.tail is None else self.tail, room // 3)
        characters = max(0, self.length - len(head) - len(tail))
        lines = self.lines - line_count(head) - line_count(tail)
        if not characters:
            return Excerpt(head, whole=False, tail=tail)
        left_out = quantity(characters, "character")
        if lines > 0:
            left_out = f"{lines:,} of {quantity(self.lines, 'line')} ({left_out})"
        return Excerpt(head, whole=False, gap=f"... {left_out} left out ...", tail=tail)


def _beginning(text: str, room: int) -> tuple[str, bool]:
    """At least `room` characters as on a screen, and whether they are all."""
    lines: list[str] = []
    length = start = 0
    while length <= room:
        newline = text.find("\n", start)
        line = text[start : len(text) if newline < 0 else newline].removesuffix("\r")
        if "\r" not in line and len(line) > 4 * room:
            return "\n".join([*lines, as_on_screen(line[: 4 * room])]), False
        lines.append(_drawn(line))
        length += len(lines[-1]) + 1
        if newline < 0:
            return "\n".join(lines).rstrip("\n"), True
        start = newline + 1
    # A last line end is no more to be shown.
    rest = text[start:] if len(text) - start < room else "more"
    return "\n".join(lines).rstrip("\n"), not rest.strip("\r\n")


def _end(text: str, room: int) -> str:
    """The last `room` characters or more, as on a screen."""
    text = text.rstrip("\r\n")
    lines: list[str] = []
    length, stop = 0, len(text)
    while length <= room and stop >= 0:
        newline = text.rfind("\n", 0, stop)
        line = text[newline + 1 : stop].removesuffix("\r")
        if "\r" not in line:
            line = line[-4 * room :]
        lines.append(_drawn(line))
        length += len(lines[-1]) + 1
        stop = newline
    return "\n".join(reversed(lines))


#: Of a line that is drawn again and again this is more than its last state.
_LONGEST_REDRAWN = 20_000


def _drawn(line: str) -> str:
    if len(line) > _LONGEST_REDRAWN:
        line = line[-_LONGEST_REDRAWN:]
        line = line.partition("\r")[2] or line
    return as_on_screen(line) if line else ""


def _first_lines(text: str, room: int) -> str:
    """The beginning, in whole lines where that costs little."""
    if len(text) <= room:
        return text
    newline = text.rfind("\n", 0, room + 1)
    return text[: newline if newline > room // 2 else room]


def _last_lines(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    start = len(text) - room
    newline = text.find("\n", max(0, start - 1))
    return text[newline + 1 if 0 <= newline < start + room // 2 else start :]


_BASE64 = re.compile(r";base64,[A-Za-z0-9+/=]{40,}")


def without_base64(text: str) -> str:
    """An image written into a text is nothing to read, and half of it is no image."""
    return _BASE64.sub(";base64,...", text) if ";base64," in text else text


def _number(value: Any, otherwise: int) -> int:
    """Numbers from a shared document are floats."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
