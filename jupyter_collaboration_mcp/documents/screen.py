"""Printed text as a terminal would show it: `\\r` and `\\b` go back and overwrite the last line."""

from __future__ import annotations

import re
from io import StringIO

_BACK = re.compile(r"[\r\b]")
_PIECES = re.compile(r"[\r\b]|[^\r\b]+")


class Screen:
    """A text that is printed to piece by piece, and knows what changed since it was last taken."""

    def __init__(self) -> None:
        self._settled: list[str] = []  # whole lines, which nothing can change any more
        self._start = 0  # where the last line begins
        self._line = StringIO()  # the last line; its position is the cursor
        self._length = 0  # of the last line
        self._taken_start = 0  # the last line as it was when the text was taken
        self._taken_line = ""

    def __len__(self) -> int:
        return self._start + self._length

    @property
    def text(self) -> str:
        return "".join(self._settled) + self._line.getvalue()

    @property
    def taken(self) -> str:
        """The text as it was last taken."""
        return "".join(self._settled)[: self._taken_start] + self._taken_line

    @property
    def taken_line(self) -> tuple[int, int]:
        """Where the last line of the text as it was last taken begins and ends."""
        return self._taken_start, self._taken_start + len(self._taken_line)

    @property
    def on_new_line(self) -> bool:
        """Whether nothing stands on the last line."""
        return self._length == 0

    def print(self, text: str) -> None:
        """Print at the cursor."""
        if "\r" not in text and "\b" not in text and self._line.tell() == self._length:
            self._append(text)  # as most text: this test is far faster than a search
            return
        text = text.replace("\r\n", "\n")  # the same here, and shorter to print
        position = 0
        while position < len(text):
            if self._line.tell() == self._length:
                back = _BACK.search(text, position)
                end = len(text) if back is None else back.start()
                self._append(text[position:end])
                position = end
            end = text.find("\n", position)
            end = len(text) if end < 0 else end
            self._overwrite(text[position:end])
            if end < len(text):
                self._line.seek(self._length)
                self._append("\n")
            position = end + 1

    def cut(self, length: int) -> str:
        """Forget what is beyond a length, and return it."""
        text = self.text
        start = text.rfind("\n", 0, length) + 1
        if start < self._taken_start:
            self._taken_start, self._taken_line = start, text[start:length]
        self._settled, self._start = [text[:start]], start
        self._line, self._length = StringIO(), 0
        self._append(text[start:length])
        return text[length:]

    def take(self) -> tuple[int, str]:
        """How many characters are as they were when it was last taken, and what follows them."""
        settled, line = "".join(self._settled), self._line.getvalue()
        rest = settled[self._taken_start :] + line
        common = _common_length(self._taken_line, rest)
        unchanged = self._taken_start + common
        self._settled = [settled]
        self._taken_start, self._taken_line = self._start, line
        return unchanged, rest[common:]

    def _append(self, text: str) -> None:
        """Print where the text ends, and nothing that goes back."""
        end = text.rfind("\n") + 1
        if end:
            self._settled += (self._line.getvalue(), text[:end])
            self._start += self._length + end
            self._line, self._length = StringIO(), 0
        self._length += self._line.write(text[end:])

    def _overwrite(self, text: str) -> None:
        """Print within the last line."""
        for piece in _PIECES.findall(text):
            if piece == "\r":
                self._line.seek(0)
            elif piece == "\b":
                self._line.seek(max(0, self._line.tell() - 1))
            else:
                self._line.write(piece)
                self._length = max(self._length, self._line.tell())


def _common_length(one: str, other: str) -> int:
    """How many characters two texts begin with that are the same."""
    if other.startswith(one):
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
