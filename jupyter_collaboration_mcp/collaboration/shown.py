"""What agents were shown lately, so that a stale edit can be told what changed since."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from ..documents.render import CellView

#: Characters of source that are remembered for one notebook.
_KEPT = 2_000_000


class ShownSources:
    """The latest sources by revision; bounded, the oldest go first."""

    def __init__(self) -> None:
        self._sources: OrderedDict[str, str] = OrderedDict()
        self._length = 0

    def add(self, cells: Iterable[CellView]) -> None:
        for cell in cells:
            if self._sources.pop(cell.revision, None) is not None:
                self._length -= len(cell.source)
            self._sources[cell.revision] = cell.source
            self._length += len(cell.source)
        while self._length > _KEPT:
            _, source = self._sources.popitem(last=False)
            self._length -= len(source)

    def get(self, revision: str) -> str | None:
        return self._sources.get(revision)
