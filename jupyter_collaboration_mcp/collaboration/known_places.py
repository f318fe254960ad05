"""Where an agent that names cells by their indexes believes them to be."""

from __future__ import annotations

from collections.abc import Collection, Iterable

#: Cells whose places are remembered for one agent at one document.
_CELLS = 20_000


class KnownPlaces:
    """The cells that an agent was shown, by their indexes at that time.

    What the agent itself inserts and deletes shifts them, because it knows about that.
    """

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}

    def show(self, cells: Iterable[tuple[int, str]]) -> None:
        """Record that the agent was shown cells, by index and id."""
        self._ids.update(cells)
        while len(self._ids) > _CELLS:
            del self._ids[next(iter(self._ids))]

    def get(self, index: int) -> str | None:
        """The id of the cell that the agent believes to be at an index, if it was shown one."""
        return self._ids.get(index)

    def insert(self, index: int, count: int) -> None:
        """Record that the agent has inserted cells at an index."""
        self._ids = {at + count if at >= index else at: known for at, known in self._ids.items()}

    def delete(self, indexes: Collection[int]) -> None:
        """Record that the agent has deleted the cells at some indexes."""
        gone, left, kept = set(indexes), 0, {}
        for at in sorted({*gone, *self._ids}):
            if at in gone:
                left += 1
            else:
                kept[at - left] = self._ids[at]
        self._ids = kept
