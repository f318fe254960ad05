"""A text file inside a shared document: Markdown, Python, CSV, whatever is not a notebook.

It is a document of one part, whose name is empty; so what takes back or redoes a change of a
cell's source does the same with the text of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pycrdt import Doc, Text

from . import text
from .cell_mirror import CellChange, Mark, Parts
from .differ import Differ, Edit
from .handles import revision
from .notebook import Notebook

#: The name of the only part.
WHOLE = ""

#: Lines of one change that are named; a change of more is one of its first lines.
_NAMED_LINES = 5


@dataclass(frozen=True, slots=True)
class TextView:
    """A text as plain values."""

    revision: str
    source: str


class TextDocument:
    """The text of a shared file. All methods are synchronous; edits need a transaction.

    Args:
        follows: Whether it asks the document what others do in it; see `Notebook`.
    """

    def __init__(self, doc: Doc[Any], follows: bool = True) -> None:
        self.doc = doc
        self.on_change: Callable[[list[CellChange]], None] | None = None
        self.on_text: Callable[[Any], None] | None = None
        """Called with each change of the text, before `on_change`, as pycrdt reports it."""
        self._on_touch: Callable[[Collection[str]], None] | None = None
        self._changes = 0
        self._shared: Text = doc.get("source", type=Text)
        self._events = [self._shared.observe(self._on_event)] if follows else []

    def __str__(self) -> str:
        return str(self._shared)

    def close(self) -> None:
        """Follow the Doc no longer. One that is followed is never freed (B28)."""
        for subscription in self._events:
            self._shared.unobserve(subscription)

    @property
    def size(self) -> int:
        """How long the text is, in bytes."""
        return len(self._shared)

    def view(self) -> TextView:
        """The text with the short hash that changes whenever it does."""
        source = str(self)
        return TextView(revision("file", source), source)

    def change(self, changes: Sequence[Edit], old: str) -> bool:
        """Apply ascending edits to the text, which reads `old`.

        Returns whether the last thing it did was to insert text.
        """
        text.apply(self._shared, changes, old)
        return bool(changes and changes[-1].text)

    def watch(self, tell: Callable[[Collection[str]], None] | None) -> None:
        """Call a function with `WHOLE` whenever the text changes."""
        self._on_touch = tell

    # -- as a document of one part -----------------------------------------------------------

    def __len__(self) -> int:
        return 1

    @property
    def ids(self) -> list[str]:
        return [WHOLE]

    def has(self, part: str) -> bool:
        return part == WHOLE

    def find(self, part: str) -> int:
        assert part == WHOLE
        return 0

    def source(self, index: int) -> str:
        return str(self)

    def shared_source(self, index: int) -> Text:
        return self._shared

    def set_source(self, index: int, source: str, differ: Differ | None = None) -> bool:
        """Change the text by the smallest edits: carets and concurrent typing stay."""
        old = str(self)
        return self.change((differ or Differ()).edits(old, source), old)

    def mark(self) -> Mark:
        return 0, self._changes

    def changed_since(self, mark: Mark) -> set[str] | None:
        return set() if self.mark() == mark else {WHOLE}

    def is_unchanged(self, since: Mark, parts: Parts) -> bool:
        return self.mark() == since

    def cell_type(self, index: int) -> str:
        return "file"

    def metadata(self, index: int) -> dict[str, Any]:
        return {}

    def label(self, part: str) -> str:
        """How a changed place is named to an agent: it is a line already."""
        return part

    def _on_event(self, event: Any) -> None:
        self._changes += 1
        if self.on_text is not None:
            self.on_text(event)
        if self.on_change is not None:
            lines = _touched(event.delta, str(self))
            self.on_change([CellChange("edited", f"line {line}") for line in lines])
        if self._on_touch is not None:
            self._on_touch((WHOLE,))


Document = Notebook | TextDocument
"""What a room is about."""


def _touched(delta: Sequence[Any], now: str) -> list[int]:
    """The lines, counted from 1, that a change has touched, as they are after it."""
    content = now.encode()  # pycrdt counts in bytes
    at, line, counted = 0, 1, 0
    lines: dict[int, None] = {}
    for operation in delta:
        if "retain" in operation:
            at += int(operation["retain"])
            continue
        line += content.count(b"\n", counted, at)
        counted = at
        inserted = operation.get("insert")
        if inserted is None:
            lines[line] = None
            continue
        written = str(inserted)
        # A line break at the end leaves the next line as it was.
        for number in range(min(_NAMED_LINES, written.removesuffix("\n").count("\n") + 1)):
            lines[line + number] = None
        at += len(written.encode())
    return list(lines)
