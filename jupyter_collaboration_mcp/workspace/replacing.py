"""Make a live document say what given content says, by the smallest changes, as one edit.

Cells are matched by their ids. Those that are the same on both sides are not touched, so that
carets and concurrent typing stay. Everything is recorded, so the whole is one step to undo.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast

from ..collaboration import changes
from ..collaboration.edits import CallRecord, Edit, Work
from ..documents.content import Content, NotebookContent, TextContent, longest_ascending
from ..documents.differ import WORK, Differ
from ..documents.notebook import CellType, Notebook
from ..documents.protection import CellAction, metadata_actions
from ..documents.text_document import WHOLE, Document, TextDocument
from .open_document import OpenDocument

#: Cells that one slice deletes; the other changes of a cell take longer.
_DELETED_AT_ONCE = 200

#: Places where cells come or go that are slices of their own. If one update deletes cells in one
#: place and inserts some in another, JupyterLab loses the focus, and a person who types goes on in
#: command mode.
_SEPARATE = 50

#: What a cell has beside its extras.
_PARTS = frozenset({"id", "cell_type", "source", "metadata", "execution_state"})

#: What only code cells have.
_CODE = ("outputs", "execution_count")

#: Said by Jupyter about this session, not by the notebook.
_TRUST = "trusted"


@dataclass(frozen=True, slots=True)
class Replaced:
    """What became different: ids of cells, in the order of the notebook they are in."""

    inserted: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    """With another source, type or metadata; the text of a file has the id ""."""
    outputs: list[str] = field(default_factory=list)
    """With other outputs, and nothing else."""
    running: list[str] = field(default_factory=list)
    """With outputs that were left alone, because the cell is running."""
    people: dict[str, list[str]] = field(default_factory=dict)
    """By cell among these: people who changed it meanwhile. What they typed is still there."""

    def __bool__(self) -> bool:
        return any((self.inserted, self.deleted, self.moved, self.edited, self.outputs))


def replace_content(
    here: OpenDocument, content: Content, cell_ids: Sequence[str] | None = None
) -> Edit[Replaced]:
    """Make a document say what some content says.

    Args:
        cell_ids: The only cells that may become different, by their whole ids; each is in the
            content. One that the document lacks is inserted after its neighbour.
    """

    def work(document: Document, record: CallRecord) -> Replaced:
        if isinstance(document, TextDocument):
            assert isinstance(content, TextContent)
            return _replace_text(here, document, record, content.text)
        assert isinstance(content, NotebookContent)
        return _Replacement(here, document, record, content, cell_ids).make()

    def begin() -> Work[Replaced]:
        since = here.peer.version

        def watched(document: Document, record: CallRecord) -> Replaced:
            done = work(document, record)
            check = record.recheck

            def recheck(live: Document, changed: Collection[str]) -> None:
                if check is not None:
                    check(live, changed)
                note_people(here, since, done)

            record.recheck = recheck
            return done

        return watched

    return Edit(begin, large=True, merges=True, alone=True)


def note_people(here: OpenDocument, since: int, done: Replaced) -> None:
    """Note who has changed the same cells since a version, as far as the change log goes back."""
    touched = {*done.inserted, *done.deleted, *done.moved, *done.edited, *done.outputs}
    is_text = here.peer.link.room_id.kind != "notebook"
    for entry in here.peer.changes.by_others(since, here.seat.member.id):
        part = entry.change.cell_id
        if is_text or part in touched:
            names = done.people.setdefault(part, [])
            name = "somebody" if entry.author is None else entry.author.name
            if name not in names:
                names.append(name)


def _replace_text(
    here: OpenDocument, document: TextDocument, record: CallRecord, new: str
) -> Replaced:
    old = str(document)
    if new == old:
        return Replaced()
    edits = Differ().edits(old, new)
    here.check_text(document, record, old, edits)
    inserted = document.change(edits, old)
    record(changes.SourceChange(WHOLE, old, new), inserted)
    return Replaced(edited=[WHOLE])


@dataclass(frozen=True, slots=True)
class _Difference:
    """What is different in one cell."""

    source: str | None
    cell_type: str | None
    metadata: dict[str, Any]
    """The keys to set; None removes a key."""
    extras: dict[str, Any]
    """Outputs, execution count, attachments; the same."""

    @classmethod
    def between(cls, now: Mapping[str, Any], wanted: Mapping[str, Any]) -> _Difference:
        cell_type = str(wanted["cell_type"])
        known, target = now.get("metadata") or {}, wanted.get("metadata") or {}
        metadata = {
            key: target.get(key)
            for key in {**known, **target}
            if key != _TRUST and known.get(key) != target.get(key)
        }
        is_retyped = cell_type != now["cell_type"]
        held, given = (_extras(cell, cell_type) for cell in (now, wanted))
        extras = {
            key: given.get(key) for key in {**held, **given} if held.get(key) != given.get(key)
        }
        if now.get("execution_state") == "running":
            for key in _CODE:
                extras.pop(key, None)
        return cls(
            source=None if wanted["source"] == now["source"] else str(wanted["source"]),
            cell_type=cell_type if is_retyped else None,
            metadata=metadata,
            extras=extras,
        )

    def __bool__(self) -> bool:
        return bool(self.is_edit or self.extras)

    @property
    def is_edit(self) -> bool:
        """Whether it is about more than outputs."""
        parts = (self.source is not None, self.cell_type, self.metadata)
        return any(parts) or any(key not in _CODE for key in self.extras)

    def actions(self, now: Mapping[str, Any]) -> set[CellAction]:
        """What it does to the cell, for whoever decides whether it may."""
        done = metadata_actions(now.get("metadata") or {}, self.metadata)
        if self.source is not None or any(key not in _CODE for key in self.extras):
            done.add(CellAction.EDIT)
        if self.cell_type is not None:
            done.add(CellAction.RETYPE)
        if any(key in _CODE for key in self.extras):
            done.add(CellAction.CLEAR)
        return done

    def record(self, record: CallRecord, now: Mapping[str, Any], wrote: bool) -> None:
        """Record it as changes, in the order in which they are made."""
        cell_id = str(now["id"])
        if self.cell_type is not None:
            record(changes.TypeChange(cell_id, dict(now), self.cell_type))
        if self.metadata:
            known = now.get("metadata") or {}
            before = {key: known.get(key) for key in self.metadata}
            record(changes.MetadataChange(cell_id, before, self.metadata))
        if self.extras:
            held = _extras(now, self.cell_type or str(now["cell_type"]))
            before = {key: held.get(key) for key in self.extras}
            record(changes.ExtrasChange(cell_id, before, self.extras))
        if self.source is not None:
            record(changes.SourceChange(cell_id, str(now["source"]), self.source), wrote)

    def make(self, notebook: Notebook, index: int, differ: Differ) -> bool:
        """Make it in a cell; returns whether the last thing it did was to insert text."""
        if self.cell_type is not None:
            notebook.set_type(index, cast("CellType", self.cell_type))
        if self.metadata:
            notebook.set_metadata(index, self.metadata)
        if self.extras:
            notebook.set_extras(index, self.extras)
        return self.source is not None and notebook.set_source(index, self.source, differ)

    def made_in(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """The cell with it, as a new value."""
        cell_type = self.cell_type or str(now["cell_type"])
        metadata = {**(now.get("metadata") or {}), **self.metadata}
        parts = {
            "id": now["id"],
            "cell_type": cell_type,
            "source": now["source"] if self.source is None else self.source,
            "metadata": {key: value for key, value in metadata.items() if value is not None},
        }
        if cell_type == "code" and "execution_state" in now:
            parts["execution_state"] = now["execution_state"]
        extras = {**_extras(now, cell_type), **self.extras}
        counted = {"execution_count": extras.pop("execution_count", None)}
        extras = {key: value for key, value in extras.items() if value is not None}
        return {**parts, **extras, **(counted if cell_type == "code" else {})}


class _Replacement:
    """The replacement of a notebook's content; nothing is changed before everything is checked."""

    def __init__(
        self,
        here: OpenDocument,
        notebook: Notebook,
        record: CallRecord,
        content: NotebookContent,
        cell_ids: Sequence[str] | None,
    ) -> None:
        self._here, self._notebook, self._record = here, notebook, record
        self._differ = Differ(3 * WORK)
        self._now: dict[str, dict[str, Any]] = {}
        self._places = 0
        self._ids = notebook.ids
        self._index = {cell_id: index for index, cell_id in reversed([*enumerate(self._ids)])}
        self._wanted = dict(content.by_id)
        if cell_ids is None:
            self._order = list(self._wanted)
        else:
            self._wanted = {cell_id: self._wanted[cell_id] for cell_id in cell_ids}
            self._order = _with_missing(self._ids, list(content.by_id), self._wanted)
        common = [cell_id for cell_id in self._order if cell_id in self._index]
        self._kept = longest_ascending(common, self._index)
        self._moved = [cell_id for cell_id in common if cell_id not in self._kept]
        staying = {self._index[cell_id] for cell_id in common}
        # A damaged notebook has an id twice: the first cell with it stays.
        self._gone = [index for index in range(len(self._ids)) if index not in staying]
        self._differences = self._compare(common)

    def _compare(self, common: Sequence[str]) -> dict[str, _Difference]:
        found: dict[str, _Difference] = {}
        for cell_id in common:
            if (wanted := self._wanted.get(cell_id)) is not None:
                now = self._now[cell_id] = self._notebook.value(self._index[cell_id])
                if difference := _Difference.between(now, wanted):
                    found[cell_id] = difference
        return found

    def make(self) -> Replaced:
        running = self._running()
        self._check()
        self._delete()
        self._arrange()
        self._change()
        edited = {cell_id for cell_id, found in self._differences.items() if found.is_edit}
        return Replaced(
            inserted=[cell_id for cell_id in self._order if cell_id not in self._index],
            deleted=[self._ids[index] for index in self._gone],
            moved=self._moved,
            edited=[cell_id for cell_id in self._differences if cell_id in edited],
            outputs=[cell_id for cell_id in self._differences if cell_id not in edited],
            running=running,
        )

    def _running(self) -> list[str]:
        cells = ((cell_id, self._now.get(cell_id, {})) for cell_id in self._order)
        return [
            cell_id
            for cell_id, now in cells
            if now.get("execution_state") == "running"
            and (now.get("outputs") or []) != (self._wanted[cell_id].get("outputs") or [])
        ]

    def _check(self) -> None:
        touched: dict[int, set[CellAction]] = {index: {CellAction.DELETE} for index in self._gone}
        for cell_id, difference in self._differences.items():
            touched[self._index[cell_id]] = difference.actions(self._now[cell_id])
        for cell_id in self._moved:
            touched.setdefault(self._index[cell_id], set()).add(CellAction.MOVE)
        note = "Agents can set marks, but not remove them."
        self._here.check_cells(self._notebook, self._record, touched, note)

    def _delete(self) -> None:
        # Last first: when this is undone in reverse, each cell finds its predecessor in place.
        for index in reversed(self._gone):
            value = self._notebook.value(index)
            if "execution_state" in value:
                value["execution_state"] = "idle"  # a run may be over when it is restored
            follows = self._ids[index - 1] if index else None
            self._record(changes.CellDeletion(self._ids[index], value, follows))
        left = list(self._gone)
        while left:
            left, last = left[:-_DELETED_AT_ONCE], left[-_DELETED_AT_ONCE:]
            self._notebook.delete(last)
            self._record.end_slice()  # also the last time: see `_SEPARATE`

    def _arrange(self) -> None:
        """Move and insert cells, from the top down, each behind its neighbour."""
        gone = set(self._gone)
        left = [cell_id for index, cell_id in enumerate(self._ids) if index not in gone]
        before = dict(zip(left, [None, *left], strict=False))
        moving = set(self._moved)
        for cell_id in reversed(left):
            if cell_id in moving:
                self._record(changes.CellMove(cell_id, before[cell_id]))
        run: list[str] = []
        for place, cell_id in enumerate(self._order):
            if cell_id in self._kept:
                self._place(run, place, moving)
                run = []
                continue
            run.append(cell_id)
            if self._record.did(_weight(self._wanted[cell_id])):
                self._place(run, place + 1, moving)
                self._record.end_slice()
                run = []
        self._place(run, len(self._order), moving)

    def _place(self, run: Sequence[str], end: int, moving: set[str]) -> None:
        """Put neighbours into their place, which ends before an index of the new order."""
        if not run:
            return
        notebook, start = self._notebook, end - len(run)
        previous = self._order[start - 1] if start else None
        if moved := [cell_id for cell_id in run if cell_id in moving]:
            notebook.delete([notebook.find(cell_id) for cell_id in moved])
            moving.difference_update(moved)
        # As long as others wait to be moved, they stand somewhere in between.
        at = start if not moving else 0 if previous is None else notebook.find(previous) + 1
        for _, same in groupby(run, self._record.writers.get):
            cells = list(same)
            notebook.insert(at, [self._value(cell_id) for cell_id in cells])
            self._record.credit(cells[0])
            at += len(cells)
        for place, cell_id in enumerate(run, start):
            if cell_id not in self._index:
                cell = dict(self._wanted[cell_id])
                follows = self._order[place - 1] if place else None
                source, cell_type = str(cell["source"]), str(cell["cell_type"])
                self._record(changes.CellInsertion(cell_id, source, cell_type, follows, cell))
        self._places += 1
        if self._places <= _SEPARATE:
            self._record.end_slice()

    def _value(self, cell_id: str) -> Mapping[str, Any]:
        if cell_id not in self._index:
            return self._wanted[cell_id]
        difference = self._differences.get(cell_id)
        now = self._now[cell_id]
        return now if difference is None else difference.made_in(now)

    def _change(self) -> None:
        """Change what is different in cells; those that were moved have it already."""
        place = {cell_id: index for index, cell_id in enumerate(self._order)}
        for cell_id, difference in self._differences.items():
            now, wrote = self._now[cell_id], False
            if cell_id in self._kept:
                wrote = difference.make(self._notebook, place[cell_id], self._differ)
                if self._record.did(_weight(self._wanted[cell_id])):
                    self._record.end_slice()
            difference.record(self._record, now, wrote)


def _extras(cell: Mapping[str, Any], cell_type: str) -> dict[str, Any]:
    """What a cell holds beside source and metadata, as far as a type can hold it."""
    extras = {key: value for key, value in cell.items() if key not in _PARTS}
    if cell_type != "code":
        for key in _CODE:
            extras.pop(key, None)
        return extras
    extras.pop("attachments", None)
    if cell["cell_type"] != "code":
        for key in _CODE:
            extras.pop(key, None)
    return {"outputs": [], "execution_count": None, **extras}


def _weight(cell: Mapping[str, Any]) -> int:
    """About how many characters a cell has; of its outputs, those of the usual kinds."""
    outputs = cell.get("outputs") or ()
    return len(cell["source"]) + sum(len(str(output)) for output in outputs)


def _with_missing(ids: Sequence[str], order: Sequence[str], wanted: Mapping[str, Any]) -> list[str]:
    """The ids of a notebook with those that it lacks, each after its neighbour in another order."""
    known = set(ids)
    after: dict[str | None, list[str]] = {}
    neighbour: str | None = None
    for cell_id in order:
        if cell_id in known:
            neighbour = cell_id
        elif cell_id in wanted:
            after.setdefault(neighbour, []).append(cell_id)
    found = after.pop(None, [])
    for cell_id in ids:
        found += [cell_id, *after.pop(cell_id, ())]
    return found
