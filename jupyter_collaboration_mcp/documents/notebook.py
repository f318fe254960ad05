"""A notebook inside a shared document: find cells, read them, change them by as little as needed.

Cells are kept in a mirror that follows the document's events, because asking a CRDT array for
its n-th element costs time in proportion to n, and asking for all of them its square.
"""

from __future__ import annotations

import copy
import sys
import uuid
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from pycrdt import Array, Assoc, Doc, Map, Subscription, Text, Transaction, TransactionEvent

from ..errors import AmbiguousCell, CellNotFound
from . import json_values, text
from .cell_view import CellView
from .differ import Differ
from .foreign_text import ID, listed
from .handles import brief_id, cell_handle, revision, short_id

CellType = Literal["code", "markdown", "raw"]

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


#: Cells that come or go at once, up to which the sorted ids are kept.
_FEW = 50

#: Characters of the views that are kept of one notebook, and of the largest one.
_KEPT_VIEWS, _LARGEST_VIEW = 5_000_000, 200_000


Mark = tuple[int, int]
"""A moment in the life of a document, for asking what has changed since."""

Parts = Mapping[str, Collection[str] | None]
"""Some cells by id, each with some of its keys ("source", "outputs", ...), or None for all."""


@dataclass(slots=True)
class _Cell:
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


class Notebook:
    """The cells of a shared notebook. All methods are synchronous; edits need a transaction.

    Each cell is observed by itself. Who observes all below the array makes yrs count, for each
    event, the cells before it: a change in thousands of cells would take seconds.

    Args:
        follows: Whether it hears of what others do in the cells. A copy that nobody else has need
            not.
    """

    def __init__(self, doc: Doc[Any], follows: bool = True) -> None:
        self.doc = doc
        self.on_change: Callable[[list[CellChange]], None] | None = None
        self.structure = 0
        """Grows whenever cells come, go or are renamed."""
        self._changes = 0  # inside of cells
        self._changed: dict[str, dict[str, int]] = {}  # by cell, then key; the latest last
        self._follows = follows
        self._array: Array[Any] = doc.get("cells", type=Array)
        self._meta: Map[Any] = doc.get("meta", type=Map)
        self._cells: list[_Cell] = []
        self._count: Counter[str] = Counter()
        self._hints: dict[str, int] = {}
        self._sorted: list[str] | None = None
        self._kept = 0  # characters of the views that are kept
        self.outline: tuple[Mark, Hashable, Any] | None = None
        """What was last made of many cells: when, for what wish, and that."""
        self._own: list[CellChange] = []  # structural changes of ours, already in the mirror
        self._heard: list[CellChange] = []  # ... of this transaction
        self._splice(0, 0, [self._mirrored(str(cell["id"]), cell) for cell in self._array])
        self._events = self._array.integrated.observe(self._on_cells)
        self._transactions = [doc.observe(self._on_transaction)] if follows else []

    def __len__(self) -> int:
        return len(self._cells)

    def close(self) -> None:
        """Follow the Doc no longer. One that is followed is never freed (B28)."""
        self._events.drop()
        for cell in self._cells:
            if cell.events is not None:
                cell.events.drop()
        for subscription in self._transactions:
            self.doc.unobserve(subscription)

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
                "Call get_notebook with format=outline to see the ids.",
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

    def position(self, index: int) -> int:
        """A valid cell index for one that may count from the end.

        Raises:
            CellNotFound: It is out of range.
        """
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise CellNotFound(
                f"There is no cell at index {index}; the notebook has {len(self)} cells.",
                "Call get_notebook with format=outline to see the indexes.",
                index=index,
            )
        return position

    def has(self, cell_id: str) -> bool:
        """Whether a cell with exactly this id exists."""
        return self._count.get(cell_id, 0) > 0

    def _index_of(self, cell_id: str) -> int:
        hint = self._hints.get(cell_id)
        if hint is None or hint >= len(self._cells) or self._cells[hint].id != cell_id:
            # All at once: a call may name a thousand cells.
            self._hints = {cell.id: index for index, cell in enumerate(self._cells)}
            hint = self._hints[cell_id]
        return hint

    # -- reading -----------------------------------------------------------------------------

    def short_id(self, index: int) -> str:
        """As much of a cell's id as names it."""
        cell = self._cells[index]
        structure, short = cell.short_id
        if structure != self.structure:
            short = short_id(cell.id, self._ordered())
            cell.short_id = (self.structure, short)
        return short

    def label(self, cell_id: str) -> str:
        """A cell whose text the reader may not know: index and id, as far as it is there."""
        if not self.has(cell_id):
            return brief_id(cell_id)
        index = self.find(cell_id)
        return f"[{index}] {self.short_id(index)}"

    def handle(self, index: int) -> str:
        """How answers name a cell, and callers can: by index, id and revision."""
        return cell_handle(index, self.short_id(index), self.revision(index))

    def source(self, index: int) -> str:
        with self.doc.transaction() as transaction:
            return _source(transaction, self._cells[index].raw)

    def size(self, index: int) -> int:
        """How long a cell's source is, in bytes."""
        source: Text = self._cells[index].shared["source"]
        return len(source)

    def cell_type(self, index: int) -> str:
        with self.doc.transaction() as transaction:
            return str(_get(transaction, self._cells[index].raw, "cell_type"))

    def revision(self, index: int) -> str:
        """A short hash of what the cell says; it changes whenever that does."""
        if (kept := self._cells[index].view) is not None:
            return kept.revision
        with self.doc.transaction():
            return revision(self.cell_type(index), self.source(index))

    def shared_source(self, index: int) -> Text:
        """The shared text of a cell, for placing a caret in it."""
        shared: Text = self._changing(index)["source"]
        return shared

    def last_character(self, index: int) -> tuple[int, int] | None:
        """The last character of a cell that has just been inserted, by client and clock."""
        shared = self.shared_source(index)
        source = str(shared)
        if not source:
            return None
        # Fresh text is one block, whose characters have consecutive clocks in UTF-16 units. Only
        # of its first character pycrdt is asked, for it is wrong about others (see Presence).
        first = shared.sticky_index(0, Assoc.AFTER).to_json()["item"]
        length = len(source.encode("utf-16-le")) // 2
        return int(first["client"]), int(first["clock"]) + length - 1

    def view(self, index: int, outputs: bool = True) -> CellView:
        """A cell as plain values.

        To convert what is shared takes most of the time of a read, so a view is kept until there
        is news of its cell, or somebody here is about to change it.
        """
        cell = self._cells[index]
        kept, short = cell.view, self.short_id(index)
        if kept is not None and (cell.has_outputs or not outputs):
            if kept.index != index or kept.short_id is not short:
                kept = cell.view = replace(kept, index=index, short_id=short)
            return kept
        view = self._view(index, short, outputs)
        if self._follows:
            self._keep(cell, view, outputs)
        return view

    def _changing(self, index: int) -> Map[Any]:
        """A cell for whoever may change it; news of that only comes with the transaction's end."""
        cell = self._cells[index]
        self._drop_view(cell)
        return cell.shared

    def _keep(self, cell: _Cell, view: CellView, outputs: bool) -> None:
        self._drop_view(cell)
        if view.weight > _LARGEST_VIEW:
            return
        if self._kept + view.weight > _KEPT_VIEWS:
            for other in self._cells:
                self._drop_view(other)
        cell.view, cell.has_outputs = view, outputs
        self._kept += view.weight

    def _drop_view(self, cell: _Cell) -> None:
        if cell.view is not None:
            self._kept -= cell.view.weight
            cell.view = None

    def _view(self, index: int, short: str, outputs: bool) -> CellView:
        cell = self._cells[index]
        with self.doc.transaction() as transaction:
            raw = cell.raw
            cell_type = str(_get(transaction, raw, "cell_type"))
            source = _source(transaction, raw)
            count = _get(transaction, raw, "execution_count")
            state = _get(transaction, raw, "execution_state")
            has_outputs = outputs and _has_any(transaction, raw, "outputs")
            has_metadata = _has_any(transaction, raw, "metadata")
            return CellView(
                index=index,
                id=self._cells[index].id,
                short_id=short,
                cell_type=cell_type,
                revision=revision(cell_type, source),
                source=source,
                execution_count=None if count is None else int(count),
                execution_state=None if state is None else str(state),
                outputs=_plain(cell.shared.get("outputs")) or [] if has_outputs else [],
                metadata=_plain(cell.shared.get("metadata")) or {} if has_metadata else {},
            )

    def views(
        self, indexes: Sequence[int], outputs: bool = True
    ) -> Generator[CellView, None, None]:
        """Several cells, in one transaction."""
        with self.doc.transaction():
            for index in indexes:
                yield self.view(index, outputs)

    def value(self, index: int) -> dict[str, Any]:
        """Everything a cell holds, so that it can be put back as it was."""
        value: dict[str, Any] = self._cells[index].shared.to_py() or {}
        return value

    def metadata(self, index: int) -> dict[str, Any]:
        """A cell's metadata."""
        return dict(_plain(self._cells[index].shared.get("metadata")) or {})

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
        """The cells that have changed after a change, the latest first."""
        for cell_id, keys in reversed(self._changed.items()):
            if max(keys.values(), default=0) <= number:
                return
            yield cell_id, keys

    # -- changing; the caller holds the transaction -------------------------------------------

    def set_source(self, index: int, source: str, differ: Differ | None = None) -> bool:
        """Change a cell's text by the smallest edits: carets and concurrent typing stay.

        Args:
            differ: Of a call that changes several, so that all together take bounded time.

        Returns whether the last thing it did was to insert text.
        """
        shared = self.shared_source(index)
        old = str(shared)
        changes = (differ or Differ()).edits(old, source)
        text.apply(shared, changes, old)
        return bool(changes and changes[-1].text)

    def set_type(self, index: int, cell_type: CellType) -> None:
        """Give a cell another type. JupyterLab only draws it anew if the cell is replaced."""
        value = self.value(index)
        value["cell_type"] = cell_type
        if cell_type != "code":
            for key in ("outputs", "execution_count", "execution_state"):
                value.pop(key, None)
        if cell_type == "code":
            value.pop("attachments", None)
        self.replace(index, value)

    def set_metadata(self, index: int, changes: Mapping[str, Any]) -> None:
        """Set some keys of a cell's metadata; None removes a key."""
        cell = self._changing(index)
        shared = cell.get("metadata")
        if not isinstance(shared, Map):
            shared = cell["metadata"] = Map(_plain(shared) or {})
        for key, value in changes.items():
            if value is None:
                if key in shared:
                    del shared[key]
            else:
                shared[key] = value

    def begin_run(self, index: int) -> None:
        """A code cell starts: no outputs, no count, a star, as JupyterLab has it."""
        shared = self._changing(index)
        if len(shared["outputs"]):
            shared["outputs"].clear()
        if shared.get("execution_count") is not None:
            shared["execution_count"] = None
        shared["execution_state"] = "running"
        metadata = self.metadata(index)
        changes: dict[str, Any] = {}
        if "execution" in metadata:
            changes["execution"] = None
        if metadata.get("trusted") is not True:
            # Who runs a cell trusts it; without this its HTML is taken apart at the next load.
            changes["trusted"] = True
        if changes:
            self.set_metadata(index, changes)

    def set_running(self, index: int, running: bool) -> None:
        """Show the star of a cell that waits for its turn, or take it away."""
        self._changing(index)["execution_state"] = "running" if running else "idle"

    def end_run(self, index: int, count: int | None, timings: Mapping[str, str]) -> None:
        """A code cell has ended. Count and state together: JupyterLab shows one by the other."""
        shared = self._changing(index)
        if timings:
            self.set_metadata(index, {"execution": json_values.storable(timings)})
        if count is not None:
            shared["execution_count"] = json_values.storable(count)
        shared["execution_state"] = "idle"

    def identity(self, index: int) -> bytes:
        """What a cell keeps until it is moved or replaced, and no other cell ever has."""
        return bytes(self._array.sticky_index(index, Assoc.AFTER).encode())

    def has_count(self, index: int, count: int | None) -> bool:
        """Whether a code cell shows this execution count."""
        return bool(self._cells[index].shared.get("execution_count") == count)

    def running(self) -> list[int]:
        """The cells that show a star."""
        with self.doc.transaction() as transaction:
            return [
                index
                for index, cell in enumerate(self._cells)
                if _get(transaction, cell.raw, "execution_state") == "running"
            ]

    def outputs(self, index: int) -> Array[Any]:
        """The shared outputs of a code cell."""
        outputs: Array[Any] = self._changing(index)["outputs"]
        return outputs

    def was_run(self, index: int) -> bool:
        """Whether a code cell has outputs or a count."""
        shared = self._cells[index].shared
        return bool(len(shared["outputs"])) or shared.get("execution_count") is not None

    def clear_outputs(self, index: int) -> None:
        """Leave a code cell as if it had never run."""
        shared = self._changing(index)
        if len(shared["outputs"]):
            shared["outputs"].clear()
        if shared.get("execution_count") is not None:
            shared["execution_count"] = None
        if "execution" in self.metadata(index):
            self.set_metadata(index, {"execution": None})

    def never_run(self, index: int) -> bool:
        """Whether a code cell has no outputs, no count and no star."""
        shared = self._cells[index].shared
        return (
            shared["cell_type"] == "code"
            and not self.was_run(index)
            and shared.get("execution_state") != "running"
        )

    def restore_outputs(self, index: int, value: Mapping[str, Any]) -> None:
        """Give a code cell back the outputs and the count that it had."""
        shared = self._changing(index)
        shared["outputs"].extend([_shared_output(output) for output in value.get("outputs") or ()])
        shared["execution_count"] = value.get("execution_count")
        if execution := (value.get("metadata") or {}).get("execution"):
            self.set_metadata(index, {"execution": execution})

    @property
    def kernelspec(self) -> dict[str, Any]:
        """What the notebook says of its kernel: name, display_name, language."""
        metadata = _plain(self._meta.get("metadata")) or {}
        spec = metadata.get("kernelspec")
        return dict(spec) if isinstance(spec, Mapping) else {}

    def set_kernelspec(self, spec: Mapping[str, str]) -> None:
        """Say which kernel the notebook is for."""
        metadata = self._meta.get("metadata")
        if not isinstance(metadata, Map):
            metadata = self._meta["metadata"] = Map(_plain(metadata) or {})
        metadata["kernelspec"] = dict(spec)
        if "language_info" in metadata:  # of the kernel before; the next one says its own
            del metadata["language_info"]

    def insert(self, index: int, values: Sequence[Mapping[str, Any]]) -> list[str]:
        """Insert cells before an index; a cell without an id gets one."""
        named = [_with_id(value) for value in values]
        new = [_shared_cell(value) for value in named]
        self._array[index:index] = new
        ids = [str(value["id"]) for value in named]
        self._own += self._splice(index, index, list(map(self._mirrored, ids, new)))
        return ids

    def delete(self, indexes: Sequence[int]) -> None:
        """Delete cells; the indexes are those before the call."""
        for start, stop in _runs_from_the_end(indexes):
            del self._array[start:stop]
            self._own += self._splice(start, stop, [])

    def move(self, indexes: Sequence[int], to: int) -> None:
        """Move cells, in the order given, to stand before what is at index `to` now.

        yjs 13 has no move operation that pycrdt could produce, so a moved cell is written anew.
        """
        values = [self.value(index) for index in indexes]
        target = to - sum(1 for index in indexes if index < to)
        self.delete(indexes)
        self.insert(target, values)

    def replace(self, index: int, value: Mapping[str, Any]) -> None:
        """Put another cell in the place of one."""
        self.delete([index])
        self.insert(index, [value])

    # -- following the document --------------------------------------------------------------

    def _on_cells(self, event: Any) -> None:
        """Cells came or went. This is told before what happened inside of cells."""
        changes, self._own = self._own, []
        self._heard += changes or self._follow(event)

    def _on_cell(self, cell: _Cell, events: Sequence[Any]) -> None:
        for event in events:
            self._heard += self._read(cell, event)

    def _on_transaction(self, event: TransactionEvent) -> None:
        changes, self._heard = self._heard, []
        if self.on_change is not None and changes:
            self.on_change(_with_moves(changes))

    def _follow(self, event: Any) -> Iterator[CellChange]:
        at, inside = 0, event.transaction
        for operation in event.delta:
            if "retain" in operation:
                at += int(operation["retain"])
            elif "insert" in operation:
                cells = [
                    _Cell(str(raw.get(inside, "id")), self.doc, raw) for raw in operation["insert"]
                ]
                yield from self._splice(at, at, cells)
                at += len(cells)
            else:
                yield from self._splice(at, at + int(operation["delete"]), [])

    def _mirrored(self, cell_id: str, shared: Map[Any]) -> _Cell:
        return _Cell(cell_id, self.doc, shared.integrated)

    def _splice(self, start: int, stop: int, cells: list[_Cell]) -> list[CellChange]:
        """Replace a range of the mirror and say what that means."""
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
        if self._follows:
            for cell in cells:
                # Straight from what is below pycrdt's wrappers: they look at the signature of each
                # callback, and read all of each event.
                cell.events = cell.raw.observe_deep(partial(self._on_cell, cell))
        self._hints.update((cell.id, start + place) for place, cell in enumerate(cells))
        return [
            *(CellChange("deleted", cell.id) for cell in deleted),
            *(CellChange("inserted", cell.id) for cell in cells),
        ]

    def _sort(self, deleted: Sequence[_Cell], new: Sequence[_Cell]) -> None:
        """Have the ids sorted again, if they were and this takes less than to sort them all."""
        if self._sorted is None or len(deleted) + len(new) > _FEW:
            self._sorted = None
            return
        for cell in deleted:
            del self._sorted[bisect_left(self._sorted, cell.id)]
        for cell in new:
            insort(self._sorted, cell.id)

    def _read(self, cell: _Cell, event: Any) -> Iterator[CellChange]:
        self._changes += 1
        self._drop_view(cell)
        changed = self._changed[cell.id] = self._changed.pop(cell.id, {})
        if path := event.path:
            changed[str(path[0])] = self._changes
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
            for key in keys:
                if (kind := _KIND_OF_KEY.get(key)) is not None:
                    yield CellChange(kind, cell.id)


def _get(transaction: Transaction, cell: Any, key: str) -> Any:
    """A value of a cell, or None; ten times as fast as through pycrdt's wrapper."""
    inside = transaction._txn
    return cell.get(inside, key) if cell.has(inside, key) else None


def _has_any(transaction: Transaction, cell: Any, key: str) -> bool:
    """Whether there is anything in the list or the map that a cell has under a key."""
    value = _get(transaction, cell, key)
    if value is None or isinstance(value, dict | list):
        return bool(value)
    return bool(value.len(transaction._txn))


def _source(transaction: Transaction, cell: Any) -> str:
    return str(_get(transaction, cell, "source").get_string(transaction._txn))


def new_cell(cell_type: str, source: str) -> dict[str, Any]:
    """A fresh cell, as JupyterLab would make it."""
    cell: dict[str, Any] = {"cell_type": cell_type, "source": source, "metadata": {}}
    if cell_type == "code":
        # Nothing has run, so there is nothing that one could distrust.
        cell |= {"outputs": [], "execution_count": None, "metadata": {"trusted": True}}
    return cell


def _with_id(value: Mapping[str, Any]) -> dict[str, Any]:
    cell = copy.deepcopy(dict(value))
    cell.setdefault("id", str(uuid.uuid4()))
    return cell


def _shared_cell(cell: dict[str, Any]) -> Map[Any]:
    """A cell in the shape that jupyter_ydoc and JupyterLab share."""
    shared = dict(cell)
    shared["source"] = Text(cell["source"])
    shared["metadata"] = Map(cell.get("metadata") or {})
    if cell["cell_type"] == "code":
        shared["outputs"] = Array([_shared_output(output) for output in cell.get("outputs") or []])
        shared.setdefault("execution_count", None)
        shared.setdefault("execution_state", "idle")
    return Map(shared)


def _shared_output(output: Mapping[str, Any]) -> Map[Any]:
    shared = dict(output)
    if shared.get("output_type") == "stream":
        streamed = shared.get("text", "")
        shared["text"] = Text(streamed if isinstance(streamed, str) else "".join(streamed))
    return Map(shared)


def _plain(value: Any) -> Any:
    return value.to_py() if isinstance(value, Array | Map | Text) else value


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


def _runs_from_the_end(indexes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Half-open runs of neighbouring indexes, last first."""
    run: tuple[int, int] | None = None
    for index in sorted(set(indexes), reverse=True):
        if run is not None and index == run[0] - 1:
            run = (index, run[1])
        else:
            if run is not None:
                yield run
            run = (index, index + 1)
    if run is not None:
        yield run
