"""Printed text as a terminal would show it: `\\r` and `\\b` go back and overwrite the last line."""

from __future__ import annotations

import re

_BACK = re.compile(r"[\r\b]")
_PIECES = re.compile(r"[\r\b]|[^\r\b]+")


class Screen:
    """A text that is printed to piece by piece, and knows what changed since it was last taken."""

    def __init__(self) -> None:
        self._lines: list[str] = []  # whole lines
        self._lines_length = 0
        self._line: list[str] = []  # the last one, to which is printed
        self._line_length = 0
        self._cursor = 0
        self._unchanged = 0

    def __len__(self) -> int:
        return self._lines_length + self._line_length

    @property
    def text(self) -> str:
        return "".join(self._lines) + "".join(self._line)

    def print(self, text: str) -> None:
        """Print at the cursor."""
        if self._cursor == self._line_length and not _BACK.search(text):
            self._append(text)
            return
        for number, line in enumerate(text.split("\n")):
            if number:
                self._new_line()
            self._overwrite(line)

    def cut(self, length: int) -> None:
        """Forget what is beyond a length."""
        text = self.text[:length]
        unchanged = min(self._unchanged, length)
        self.__init__()  # type: ignore[misc]
        self._append(text)
        self._unchanged = unchanged

    def take(self) -> tuple[int, str]:
        """How many characters are as they were when it was last taken, and what follows them."""
        text = self.text
        unchanged = self._unchanged
        start = text.rfind("\n") + 1
        self._lines, self._line = [text[:start]], [text[start:]]
        self._unchanged = len(text)
        return unchanged, text[unchanged:]

    def _append(self, text: str) -> None:
        end = text.rfind("\n") + 1
        if end:
            self._lines += (*self._line, text[:end])
            self._lines_length += self._line_length + end
            self._line, self._line_length = [], 0
        if end < len(text):
            self._line.append(text[end:])
            self._line_length += len(text) - end
        self._cursor = self._line_length

    def _new_line(self) -> None:
        self._lines += (*self._line, "\n")
        self._lines_length += self._line_length + 1
        self._line, self._line_length, self._cursor = [], 0, 0

    def _overwrite(self, text: str) -> None:
        if not text:
            return
        line = "".join(self._line)
        for piece in _PIECES.findall(text):
            if piece == "\r":
                self._cursor = 0
            elif piece == "\b":
                self._cursor = max(0, self._cursor - 1)
            else:
                end = self._cursor + len(piece)
                if line[self._cursor : end] != piece:
                    self._unchanged = min(self._unchanged, self._lines_length + self._cursor)
                    line = line[: self._cursor] + piece + line[end:]
                self._cursor = end
        self._line, self._line_length = [line], len(line)
