"""What agents read lately, so that an answer can show what has changed since."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

#: Characters of source that are remembered for one document.
_KEPT = 2_000_000


#: Cells for which we remember what one agent knows.
_CELLS = 20_000


class Readable(Protocol):
    """A cell, or the text of a file, as an agent reads it."""

    @property
    def revision(self) -> str: ...

    @property
    def source(self) -> str: ...


class SeenSources:
    """The latest sources by revision; bounded, drops the oldest first."""

    def __init__(self) -> None:
        self._sources: OrderedDict[str, str] = OrderedDict()
        self._length = 0

    def add(self, cells: Iterable[Readable]) -> None:
        for cell in cells:
            known = self._sources.get(cell.revision)
            if known is not None and len(known) == len(cell.source):
                self._sources.move_to_end(cell.revision)
                continue
            self._length += len(cell.source) - len(known or "")
            self._sources[cell.revision] = cell.source
            self._sources.move_to_end(cell.revision)
        while self._length > _KEPT:
            _, source = self._sources.popitem(last=False)
            self._length -= len(source)

    def get(self, revision: str) -> str | None:
        return self._sources.get(revision)


class KnownRevisions:
    """The revision of each cell that an agent was shown, or has written."""

    def __init__(self) -> None:
        self._revisions: dict[str, str] = {}

    def add(self, cell_id: str, revision: str) -> None:
        """Record that the agent knows the text of a cell at a revision."""
        self._revisions[cell_id] = revision
        if len(self._revisions) > _CELLS:
            del self._revisions[next(iter(self._revisions))]

    def get(self, cell_id: str) -> str | None:
        return self._revisions.get(cell_id)
