"""A notebook inside a shared document: read cells, change them by as little as needed."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pycrdt import Array, Assoc, Map, Text, Transaction

from . import json_values, text
from .cell_mirror import CellMirror
from .cell_view import CellView
from .differ import Differ
from .handles import cell_handle, revision
from .protection import MARK_KEYS, Mark, marks_in
from .shared_cells import (
    get_source,
    get_value,
    has_any,
    plain,
    reading,
    shared_cell,
    shared_output,
    with_id,
)

CellType = Literal["code", "markdown", "raw"]


class Notebook(CellMirror):
    """The cells of a shared notebook. All methods are synchronous; edits need a transaction."""

    # -- reading -----------------------------------------------------------------------------

    def handle(self, index: int) -> str:
        """How answers name a cell, and callers can: by index, id and revision."""
        return cell_handle(index, self.short_id(index), self.revision(index))

    def source(self, index: int) -> str:
        kept = self._cells[index].view
        return self._source(index) if kept is None else kept.source

    @reading
    def _source(self, transaction: Transaction, index: int) -> str:
        return get_source(transaction, self._cells[index].raw)

    def cell_type(self, index: int) -> str:
        kept = self._cells[index].view
        return self._cell_type(index) if kept is None else kept.cell_type

    @reading
    def _cell_type(self, transaction: Transaction, index: int) -> str:
        return str(get_value(transaction, self._cells[index].raw, "cell_type"))

    def revision(self, index: int) -> str:
        """A short hash of the cell's type and source."""
        kept = self._cells[index].view
        return self._revision(index) if kept is None else kept.revision

    @reading
    def _revision(self, transaction: Transaction, index: int) -> str:
        return revision(self.cell_type(index), self.source(index))

    @reading
    def shared_source(self, transaction: Transaction, index: int) -> Text:
        """The shared text of a cell, for placing a caret in it."""
        cell = self._cells[index]
        self._drop_view(cell)
        return Text(_doc=self.doc, _integrated=get_value(transaction, cell.raw, "source"))

    def last_character(self, index: int) -> tuple[int, int] | None:
        """The last character of a cell that has just been inserted, by client and clock."""
        shared = self.shared_source(index)
        source = str(shared)
        if not source:
            return None
        # Fresh text is one block, whose characters have consecutive clocks in UTF-16 units. Ask
        # pycrdt about the first character only; it gets the others wrong (see Presence).
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

    def _view(self, index: int, short: str, outputs: bool) -> CellView:
        cell = self._cells[index]
        with self.doc.transaction() as transaction:
            raw = cell.raw
            cell_type = str(get_value(transaction, raw, "cell_type"))
            source = get_source(transaction, raw)
            count = get_value(transaction, raw, "execution_count")
            state = get_value(transaction, raw, "execution_state")
            has_outputs = outputs and has_any(transaction, raw, "outputs")
            has_metadata = has_any(transaction, raw, "metadata")
            return CellView(
                index=index,
                id=self._cells[index].id,
                short_id=short,
                cell_type=cell_type,
                revision=revision(cell_type, source),
                source=source,
                execution_count=None if count is None else int(count),
                execution_state=None if state is None else str(state),
                outputs=plain(cell.shared.get("outputs")) or [] if has_outputs else [],
                metadata=plain(cell.shared.get("metadata")) or {} if has_metadata else {},
            )

    def views(
        self, indexes: Sequence[int], outputs: bool = True
    ) -> Generator[CellView, None, None]:
        """Several cells, in one transaction."""
        with self.doc.transaction():
            for index in indexes:
                yield self.view(index, outputs)

    def value(self, index: int) -> dict[str, Any]:
        """Everything a cell holds, to restore it later."""
        value: dict[str, Any] = self._cells[index].shared.to_py() or {}
        return value

    def metadata(self, index: int) -> dict[str, Any]:
        """A cell's metadata."""
        return dict(plain(self._cells[index].shared.get("metadata")) or {})

    @reading
    def marks(self, transaction: Transaction, index: int) -> tuple[Mark, ...]:
        """The marks that protect a cell; cheap enough to ask about thousands of cells."""
        metadata = get_value(transaction, self._cells[index].raw, "metadata")
        if metadata is None:
            return ()
        if not isinstance(metadata, dict):
            metadata = {key: get_value(transaction, metadata, key) for key in MARK_KEYS}
        if not isinstance(metadata.get("tags"), list | None):  # a shared list
            metadata = self.metadata(index)
        return marks_in(metadata)

    @reading
    def source_id(self, transaction: Transaction, index: int) -> tuple[int, int]:
        """The client and clock of a cell's shared text: positions in it refer to the text by them.

        The beginning is the one place that pycrdt names by its text, whatever the text contains
        (at the end it panics, B10).
        """
        source = get_value(transaction, self._cells[index].raw, "source")
        beginning = source.sticky_index(transaction._txn, 0, Assoc.BEFORE)
        text_id = json.loads(beginning.to_json_string())["type"]
        return int(text_id["client"]), int(text_id["clock"])

    def has_count(self, index: int, count: int | None) -> bool:
        """Whether a code cell shows this execution count."""
        return bool(self._cells[index].shared.get("execution_count") == count)

    def running(self) -> list[int]:
        """The cells that show a star."""
        with self.doc.transaction() as transaction:
            return [
                index
                for index, cell in enumerate(self._cells)
                if get_value(transaction, cell.raw, "execution_state") == "running"
            ]

    def was_run(self, index: int) -> bool:
        """Whether a code cell has outputs or a count."""
        shared = self._cells[index].shared
        return bool(len(shared["outputs"])) or shared.get("execution_count") is not None

    def never_run(self, index: int) -> bool:
        """Whether a code cell has no outputs, no count and no star."""
        shared = self._cells[index].shared
        return (
            shared["cell_type"] == "code"
            and not self.was_run(index)
            and shared.get("execution_state") != "running"
        )

    @property
    def notebook_metadata(self) -> dict[str, Any]:
        """The metadata of the notebook itself."""
        return dict(plain(self._meta.get("metadata")) or {})

    @property
    def kernelspec(self) -> dict[str, Any]:
        """The kernelspec in the notebook's metadata: name, display_name, language."""
        spec = self.notebook_metadata.get("kernelspec")
        return dict(spec) if isinstance(spec, Mapping) else {}

    def identity(self, index: int) -> bytes:
        """What a cell keeps until it is moved or replaced, and no other cell ever has."""
        return bytes(self._array.sticky_index(index, Assoc.AFTER).encode())

    # -- changing; the caller holds the transaction ------------------------------------------

    def _changing(self, index: int) -> Map[Any]:
        """A cell that is about to change. Its view is dropped now: the event only comes later."""
        cell = self._cells[index]
        self._drop_view(cell)
        return cell.shared

    def set_source(
        self, index: int, source: str, differ: Differ | None = None, old: str | None = None
    ) -> bool:
        """Change a cell's text by the smallest edits: carets and concurrent typing stay.

        Args:
            differ: Of a call that changes several, so that all together take bounded time.
            old: What it says, if the caller has just read it.

        Returns whether the last thing it did was to insert text.
        """
        shared = self.shared_source(index)
        old = str(shared) if old is None else old
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
            shared = cell["metadata"] = Map(plain(shared) or {})
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
            # Running a cell means trusting it; without this its HTML is sanitized at the next load.
            changes["trusted"] = True
        if changes:
            self.set_metadata(index, changes)

    def set_running(self, index: int, running: bool) -> None:
        """Show the star of a cell that waits for its turn, or take it away."""
        self._changing(index)["execution_state"] = "running" if running else "idle"

    def end_run(self, index: int, count: int | None, timings: Mapping[str, str]) -> None:
        """A code cell has ended. Count and state change together: JupyterLab draws them as one."""
        shared = self._changing(index)
        if timings:
            self.set_metadata(index, {"execution": json_values.storable(timings)})
        if count is not None:
            shared["execution_count"] = json_values.storable(count)
        shared["execution_state"] = "idle"

    def clear_outputs(self, index: int) -> None:
        """Leave a code cell as if it had never run."""
        shared = self._changing(index)
        if len(shared["outputs"]):
            shared["outputs"].clear()
        if shared.get("execution_count") is not None:
            shared["execution_count"] = None
        if "execution" in self.metadata(index):
            self.set_metadata(index, {"execution": None})

    def restore_outputs(self, index: int, value: Mapping[str, Any]) -> None:
        """Give a code cell back the outputs and the count that it had."""
        shared = self._changing(index)
        shared["outputs"].extend([shared_output(output) for output in value.get("outputs") or ()])
        shared["execution_count"] = value.get("execution_count")
        if execution := (value.get("metadata") or {}).get("execution"):
            self.set_metadata(index, {"execution": execution})

    def extras(self, index: int, keys: Iterable[str]) -> dict[str, Any]:
        """What a cell holds beside source and metadata; None for what it has not."""
        shared = self._cells[index].shared
        return {key: plain(shared.get(key)) for key in keys}

    def set_extras(self, index: int, values: Mapping[str, Any]) -> None:
        """Set outputs, the execution count or attachments; None removes attachments."""
        shared = self._changing(index)
        for key, value in values.items():
            if key == "outputs":
                if len(shared["outputs"]):
                    shared["outputs"].clear()
                shared["outputs"].extend([shared_output(output) for output in value or ()])
            elif value is None and key != "execution_count":
                if key in shared:
                    del shared[key]
            else:
                shared[key] = value

    def set_kernelspec(self, spec: Mapping[str, str]) -> None:
        """Set the kernelspec in the notebook's metadata."""
        metadata = self._meta.get("metadata")
        if not isinstance(metadata, Map):
            metadata = self._meta["metadata"] = Map(plain(metadata) or {})
        metadata["kernelspec"] = dict(spec)
        if "language_info" in metadata:  # of the kernel before; the next one says its own
            del metadata["language_info"]

    def set_notebook_metadata(self, key: str, value: Any) -> None:
        """Set a key of the notebook's metadata, or remove it if the value is None."""
        metadata = self._meta.get("metadata")
        if not isinstance(metadata, Map):
            metadata = self._meta["metadata"] = Map(plain(metadata) or {})
        if value is not None:
            metadata[key] = value
        elif key in metadata:
            del metadata[key]

    def insert(self, index: int, values: Sequence[Mapping[str, Any]]) -> list[str]:
        """Insert cells before an index; a cell without an id gets one."""
        named = [with_id(value) for value in values]
        new = [shared_cell(value) for value in named]
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
        """Replace a cell by another."""
        self.delete([index])
        self.insert(index, [value])

    def outputs(self, index: int) -> Array[Any]:
        """The shared outputs of a code cell."""
        outputs: Array[Any] = self._changing(index)["outputs"]
        return outputs


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
