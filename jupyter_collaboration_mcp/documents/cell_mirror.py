"""The cells of a shared notebook in order, and what has changed in them.

Cells are kept in a mirror that follows the document's events, because asking a CRDT array for
its n-th element costs time in proportion to n, and asking for all of them its square.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from pycrdt import Array, Doc, Map, Subscription, TransactionEvent

from ..errors import AmbiguousCell, CellNotFound
from ..remedies import Intent
from .cell_view import CellView
from .foreign_text import ID, listed
from .handles import brief_id, short_id

ChangeKind = Literal["inserted", "deleted", "moved", "edited", "outputs", "metadata"]

_KIND_OF_KEY: Mapping[str, ChangeKind] = {
    "source": "edited",
    "cell_type": "edited",
    "outputs": "outputs",
    "execution_count": "outputs",
    "metadata": "metadata",
    "attachments": "metadata",
}


@dataclass(frozen=True, slots=True)
class CellChange:
    """Something that happened to a cell in one transaction."""

    kind: ChangeKind
    cell_id: str


#: In place of a cell's id: the notebook's own metadata.
NOTEBOOK = ""

#: Cells that come or go at once, up to which the sorted ids are kept.
_FEW = 50

#: Characters of the views that are kept of one notebook, and of the largest one.
_KEPT_VIEWS, _LARGEST_VIEW = 5_000_000, 200_000


Mark = tuple[int, int]
"""A moment in the life of a document, for asking what has changed since."""

Parts = Mapping[str, Collection[str] | None]
"""Some cells by id, each with some of its keys ("source", "outputs", ...), or None for all."""


@dataclass(slots=True)
class MirroredCell:
    """A cell of the mirror.

    It has what is below pycrdt's wrappers. A wrapper is six objects: those of thousands of cells
    would keep Python's collector of garbage busy, and everybody waits for that.
    """

    id: str
    doc: Doc[Any]
    raw: Any
    events: Subscription | None = None
    view: CellView | None = None
    """As it was last read, as long as nothing has changed in it."""
    has_outputs: bool = False
    """Whether the view has the outputs."""
    short_id: tuple[int, str] = (-1, "")
    """As much of the id as named it, when the notebook had that structure."""

    @property
    def shared(self) -> Map[Any]:
        return Map(_doc=self.doc, _integrated=self.raw)


class CellMirror:
    """Finds the cells of a shared notebook, and follows what happens to them.

    Each cell is observed by itself. Observing everything below the array makes yrs count the cells
    before each event: a change in thousands of cells would take seconds.

    Args:
        follows: Whether to observe what others do in the cells. A private copy need not.
    """

    def __init__(self, doc: Doc[Any], follows: bool = True) -> None:
        self.doc = doc
        self.on_change: Callable[[list[CellChange]], None] | None = None
        self.on_text: Callable[[Any], None] | None = None
        """Called with each change of a source, before `on_change`, as pycrdt reports it."""
        self._on_touch: Callable[[Collection[str]], None] | None = None
        self._touched: set[str] = set()  # cells, if somebody wants to know
        self._meta_events: Any = None
        self.structure = 0
        """Grows whenever cells come, go or are renamed."""
        self._changes = 0  # inside of cells
        self._changed: dict[str, dict[str, int]] = {}  # by cell, then key; the latest last
        self._follows = follows
        self._array: Array[Any] = doc.get("cells", type=Array)
        self._meta: Map[Any] = doc.get("meta", type=Map)
        self._cells: list[MirroredCell] = []
        self._count: Counter[str] = Counter()
        self._hints: dict[str, int] = {}
        self._sorted: list[str] | None = None
        self._kept = 0  # characters of the views that are kept
        self.outline: tuple[Mark, Hashable, Any] | None = None
        """The last outline: when it was made, for which arguments, and the outline."""
        self._own: list[CellChange] = []  # structural changes of ours, already in the mirror
        self._heard: list[CellChange] = []  # ... of this transaction
        self._splice(0, 0, [self._mirrored(str(cell["id"]), cell) for cell in self._array])
        self._events = self._array.integrated.observe(self._on_cells)
        self._transactions = [doc.observe(self._on_transaction)] if follows else []

    def __len__(self) -> int:
        return len(self._cells)

    def close(self) -> None:
        """Stop observing the Doc. One that is observed is never freed (B28)."""
        self.watch(None)
        self._events.drop()
        for cell in self._cells:
            if cell.events is not None:
                cell.events.drop()
        for subscription in self._transactions:
            self.doc.unobserve(subscription)

    def watch(self, tell: Callable[[Collection[str]], None] | None) -> None:
        """Call a function with the ids of cells that anything has changed in, came or went, once
        for each transaction; with `NOTEBOOK` among them if the notebook's metadata changed.

        `on_change` leaves out what no agent needs to be told, such as that a cell is running.
        """
        self._on_touch = tell
        self._touched.clear()
        if tell is None and self._meta_events is not None:
            self._meta.unobserve(self._meta_events)
            self._meta_events = None
        elif tell is not None and self._meta_events is None:
            self._meta_events = self._meta.observe_deep(self._on_meta)

    def _on_meta(self, events: Any) -> None:
        self._touched.add(NOTEBOOK)

    # -- finding -----------------------------------------------------------------------------

    @property
    def ids(self) -> list[str]:
        """All cell ids in order."""
        return [cell.id for cell in self._cells]

    def id_at(self, index: int) -> str:
        """The id of the cell at a position that `find` or `position` gave."""
        return self._cells[index].id

    def is_at(self, cell_id: str, index: int) -> bool:
        """Whether a cell is at an index."""
        return index < len(self._cells) and self._cells[index].id == cell_id

    def has(self, cell_id: str) -> bool:
        """Whether a cell with exactly this id exists."""
        return self._count.get(cell_id, 0) > 0

    def find(self, wanted: str) -> int:
        """The index of a cell, named by its id or by the beginning of it.

        Raises:
            CellNotFound: No cell has such an id.
            AmbiguousCell: The prefix fits several cells.
        """
        count = self._count.get(wanted, 0)
        if count == 1:
            return self._index_of(wanted)
        if count > 1:
            raise AmbiguousCell(
                f"{count} cells have the id {wanted!r}; the notebook is damaged.",
                "Ask the person to close and reopen the notebook, which renames duplicates.",
                cell_id=wanted,
            )
        found = self._beginning_with(wanted) if wanted else []
        if not found:
            raise CellNotFound(
                f"No cell has the id {wanted!r}; the notebook has {len(self)} cells.",
                Intent.SEE_CELLS,
                cell_id=wanted,
            )
        if len(found) > 1:
            ids = found[:5]
            raise AmbiguousCell(
                f"{len(found)} cells have an id that begins with {wanted!r}: {listed(ids, ID)}.",
                "Repeat with more characters of the id.",
                cell_id=wanted,
                candidates=ids,
            )
        return self._index_of(found[0])

    def position(self, index: int) -> int:
        """A valid cell index for one that may count from the end.

        Raises:
            CellNotFound: It is out of range.
        """
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise CellNotFound(
                f"There is no cell at index {index}; the notebook has {len(self)} cells.",
                Intent.SEE_CELLS,
                index=index,
            )
        return position

    def _beginning_with(self, prefix: str) -> list[str]:
        """The ids that begin alike. They are sorted once: a call may name a thousand cells."""
        ordered = self._ordered()
        start = bisect_left(ordered, prefix)
        end = bisect_left(ordered, prefix + chr(sys.maxunicode), start)
        return ordered[start:end]

    def _ordered(self) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(cell.id for cell in self._cells)
        return self._sorted

    def _index_of(self, cell_id: str) -> int:
        hint = self._hints.get(cell_id)
        if hint is None or hint >= len(self._cells) or self._cells[hint].id != cell_id:
            # All at once: a call may name a thousand cells.
            self._hints = {cell.id: index for index, cell in enumerate(self._cells)}
            hint = self._hints[cell_id]
        return hint

    def short_id(self, index: int) -> str:
        """As much of a cell's id as names it."""
        cell = self._cells[index]
        structure, short = cell.short_id
        if structure != self.structure:
            short = short_id(cell.id, self._ordered())
            cell.short_id = (self.structure, short)
        return short

    def label(self, cell_id: str) -> str:
        """A cell without its revision: index and id, or the id alone if the cell is gone."""
        if not self.has(cell_id):
            return brief_id(cell_id)
        index = self.find(cell_id)
        return f"[{index}] {self.short_id(index)}"

    # -- what has changed --------------------------------------------------------------------

    def mark(self) -> Mark:
        """This moment, for `is_unchanged` and `changed_since`."""
        return self.structure, self._changes

    def changed_since(self, mark: Mark) -> set[str] | None:
        """The cells in which something has changed since a moment; None if cells came or went.

        Only a notebook that follows its document knows.
        """
        structure, number = mark
        return (
            {cell_id for cell_id, _ in self._later(number)} if structure == self.structure else None
        )

    def is_unchanged(self, since: Mark, parts: Parts) -> bool:
        """Whether the cells are the same as at a moment, in the same order, and parts of them too.

        Only a notebook that follows its document knows.
        """
        structure, number = since
        return structure == self.structure and not any(
            changed > number and ((wanted := parts[cell_id]) is None or key in wanted)
            for cell_id, keys in self._later(number)
            if cell_id in parts
            for key, changed in keys.items()
        )

    def _later(self, number: int) -> Iterator[tuple[str, dict[str, int]]]:
        """The cells that have changed since a change with that number, the latest first."""
        for cell_id, keys in reversed(self._changed.items()):
            if max(keys.values(), default=0) <= number:
                return
            yield cell_id, keys

    # -- views of cells that have not changed ------------------------------------------------

    def _keep(self, cell: MirroredCell, view: CellView, outputs: bool) -> None:
        self._drop_view(cell)
        if view.weight > _LARGEST_VIEW:
            return
        if self._kept + view.weight > _KEPT_VIEWS:
            for other in self._cells:
                self._drop_view(other)
        cell.view, cell.has_outputs = view, outputs
        self._kept += view.weight

    def _drop_view(self, cell: MirroredCell) -> None:
        if cell.view is not None:
            self._kept -= cell.view.weight
            cell.view = None

    # -- following the document --------------------------------------------------------------

    def _on_cells(self, event: Any) -> None:
        """Cells came or went. This event comes before those from inside of cells."""
        changes, self._own = self._own, []
        self._heard += changes or self._follow(event)

    def _on_cell(self, cell: MirroredCell, events: Sequence[Any]) -> None:
        for event in events:
            self._heard += self._read(cell, event)

    def _on_transaction(self, event: TransactionEvent) -> None:
        changes, self._heard = self._heard, []
        if self.on_change is not None and changes:
            self.on_change(_with_moves(changes))
        if self._touched and self._on_touch is not None:
            touched, self._touched = self._touched, set()
            self._on_touch(touched)

    def _follow(self, event: Any) -> Iterator[CellChange]:
        at, inside = 0, event.transaction
        for operation in event.delta:
            if "retain" in operation:
                at += int(operation["retain"])
            elif "insert" in operation:
                cells = [
                    MirroredCell(str(raw.get(inside, "id")), self.doc, raw)
                    for raw in operation["insert"]
                ]
                yield from self._splice(at, at, cells)
                at += len(cells)
            else:
                yield from self._splice(at, at + int(operation["delete"]), [])

    def _mirrored(self, cell_id: str, shared: Map[Any]) -> MirroredCell:
        return MirroredCell(cell_id, self.doc, shared.integrated)

    def _splice(self, start: int, stop: int, cells: list[MirroredCell]) -> list[CellChange]:
        """Replace a range of the mirror, and return the changes that this means."""
        deleted = self._cells[start:stop]
        self._cells[start:stop] = cells
        self._sort(deleted, cells)
        self.structure += 1
        for cell in deleted:
            self._count[cell.id] -= 1
            if not self._count[cell.id]:
                del self._count[cell.id]
                self._hints.pop(cell.id, None)
                self._changed.pop(cell.id, None)
            self._drop_view(cell)
            if cell.events is not None:
                cell.events.drop()
        self._count.update(cell.id for cell in cells)
        if self._on_touch is not None:
            self._touched.update(cell.id for cell in (*deleted, *cells))
        if self._follows:
            for cell in cells:
                # Below pycrdt's wrappers, which inspect the signature of each callback and read
                # each event as a whole.
                cell.events = cell.raw.observe_deep(partial(self._on_cell, cell))
        self._hints.update((cell.id, start + place) for place, cell in enumerate(cells))
        return [
            *(CellChange("deleted", cell.id) for cell in deleted),
            *(CellChange("inserted", cell.id) for cell in cells),
        ]

    def _sort(self, deleted: Sequence[MirroredCell], new: Sequence[MirroredCell]) -> None:
        """Keep the ids sorted, if they were and few cells have changed; else sort them later."""
        if self._sorted is None or len(deleted) + len(new) > _FEW:
            self._sorted = None
            return
        for cell in deleted:
            del self._sorted[bisect_left(self._sorted, cell.id)]
        for cell in new:
            insort(self._sorted, cell.id)

    def _read(self, cell: MirroredCell, event: Any) -> Iterator[CellChange]:
        self._changes += 1
        self._drop_view(cell)
        if self._on_touch is not None:
            self._touched.add(cell.id)
        changed = self._changed[cell.id] = self._changed.pop(cell.id, {})
        if path := event.path:
            changed[str(path[0])] = self._changes
            if self.on_text is not None and path[0] == "source":
                self.on_text(event)
            if (kind := _KIND_OF_KEY.get(str(path[0]))) is not None:
                yield CellChange(kind, cell.id)
        else:
            keys = event.keys
            changed.update(dict.fromkeys(keys, self._changes))
            if "id" in keys:  # jupyter_ydoc renames duplicates
                self._count[cell.id] -= 1
                cell.id = str(keys["id"]["newValue"])
                self._sorted = None
                self.structure += 1
                self._count[cell.id] += 1
                if self._on_touch is not None:
                    self._touched.add(cell.id)
            for key in keys:
                if (kind := _KIND_OF_KEY.get(key)) is not None:
                    yield CellChange(kind, cell.id)


def _with_moves(changes: Sequence[CellChange]) -> list[CellChange]:
    """Each change once; a cell that went and came back has moved."""
    deleted = {change.cell_id for change in changes if change.kind == "deleted"}
    moved = deleted & {change.cell_id for change in changes if change.kind == "inserted"}
    told: dict[CellChange, None] = {}
    for change in changes:
        if change.kind in ("deleted", "inserted") and change.cell_id in moved:
            told[CellChange("moved", change.cell_id)] = None
        else:
            told[change] = None
    return list(told)
