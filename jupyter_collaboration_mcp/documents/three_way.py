"""Merging what two sides made of the same document: a fork, and the document it was forked from.

Notebooks are merged cell by cell, and the parts of a cell one by one: its source, its type, the
keys of its metadata. Text files are merged by lines. What both sides changed in different ways is a
conflict, which is never mixed: one side wins, or nothing is merged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .content import Content, NotebookContent, TextContent, longest_ascending
from .differ import Gap, gaps
from .text_document import WHOLE

Side = Literal["fork", "document"]
"""Which side wins where both changed the same."""

Deed = Literal["added", "deleted", "edited", "moved", "outputs"]
"""What a merge does to a cell of the document; `outputs`: it gets other outputs, and no more."""

#: What a run leaves in a cell.
_RUN = ("outputs", "execution_count")

#: Keys of a cell's metadata that come with a run, or say something about a session only.
_RUN_METADATA = ("execution",)
_SESSION = ("trusted",)


@dataclass(frozen=True, slots=True)
class Conflict:
    """What both sides changed in different ways."""

    cell_id: str
    """`WHOLE` in a text file."""
    why: str
    """What both did, as a clause."""
    fork: str | None
    """What the cell says in the fork; None if it is not there."""
    document: str | None


@dataclass(frozen=True, slots=True)
class Merged:
    """A document with what a fork changed."""

    content: Content
    deeds: Sequence[tuple[str, Deed]]
    """What becomes different in the document, by cell, in the order of the result."""
    conflicts: Sequence[Conflict]
    """What the preferred side has won, or nobody if there is none."""


def merge(
    base: Content | None, fork: Content, document: Content, prefer: Side | None = None
) -> Merged:
    """Merge what a fork changed into its document.

    Args:
        base: What both were once; None if it is not known: whatever differs is a conflict then,
            except for cells that only one side has, which are kept.
        prefer: Which side wins where both changed the same; without it, the document.
    """
    if isinstance(fork, TextContent):
        assert isinstance(document, TextContent)
        before = base.text if isinstance(base, TextContent) else None
        return _merge_text(before, fork.text, document.text, prefer)
    assert isinstance(document, NotebookContent)
    known = base if isinstance(base, NotebookContent) else None
    return _NotebookMerge(known, fork, document, prefer).make()


def restricted(merged: Merged, document: Content, cells: Collection[str]) -> Merged:
    """Of a merge, only what it does to some cells of the document."""
    if isinstance(document, TextContent):
        return merged if WHOLE in cells else Merged(document, (), ())
    assert isinstance(merged.content, NotebookContent)
    new, now = merged.content.by_id, document.by_id
    order = [cell_id for cell_id in now if not (cell_id in cells and cell_id not in new)]
    for cell_id in cells:  # what is moved leaves its place
        if cell_id in now and (cell_id, "moved") in merged.deeds:
            order.remove(cell_id)
    before: str | None = None
    for cell_id in new:  # each new one after its neighbour in the merge that is here
        if cell_id not in order:
            if cell_id not in cells:
                continue
            order.insert(0 if before is None else order.index(before) + 1, cell_id)
        before = cell_id
    chosen = [new[each] if each in cells and each in new else now[each] for each in order]
    return Merged(
        NotebookContent(chosen, document.metadata),
        [deed for deed in merged.deeds if deed[0] in cells],
        [each for each in merged.conflicts if each.cell_id in cells],
    )


# -- text ------------------------------------------------------------------------------------


def _merge_text(base: str | None, fork: str, document: str, prefer: Side | None) -> Merged:
    if base is None or fork == document:
        differs = fork != document
        conflict = Conflict(WHOLE, "they differ, and it is not known what it was", fork, document)
        text = fork if prefer == "fork" else document
        return _merged_text(text, document, [conflict] if differs else [])
    old, ours, theirs = (text.splitlines(keepends=True) for text in (base, fork, document))
    pieces: list[str] = []
    conflicts: list[Conflict] = []
    place = 0
    for lines, mine, yours in _clusters(gaps(old, ours), gaps(old, theirs)):
        pieces += old[place : lines.start]
        place = lines.stop
        before = old[lines.start : lines.stop]
        new, now = ours[mine.start : mine.stop], theirs[yours.start : yours.stop]
        if now in (before, new):
            pieces += new
        elif new == before:
            pieces += now
        else:
            pieces += new if prefer == "fork" else now
            first, last = yours.start + 1, max(yours.start + 1, yours.stop)
            where = f"line {first}" if first == last else f"lines {first} to {last}"
            why = f"both changed {where} of the document"
            conflicts.append(Conflict(WHOLE, why, "".join(new), "".join(now)))
    pieces += old[place:]
    return _merged_text("".join(pieces), document, conflicts)


def _merged_text(text: str, document: str, conflicts: Sequence[Conflict]) -> Merged:
    deeds: list[tuple[str, Deed]] = [(WHOLE, "edited")] if text != document else []
    return Merged(TextContent(text), deeds, conflicts)


def _clusters(ours: Sequence[Gap], theirs: Sequence[Gap]) -> list[tuple[range, range, range]]:
    """Lines that a side changed, with what touches them on the other side: in the old text, and
    what became of them on both sides."""
    found: list[tuple[range, range, range]] = []
    left, right = list(ours), list(theirs)
    shift_left = shift_right = 0  # how many lines a side has more so far
    while left or right:
        start = min(each[0].old_start for each in (left, right) if each)
        end, grows_left, grows_right = start, 0, 0
        while True:
            if left and left[0].old_start <= end:
                gap = left.pop(0)
                grows_left += _growth(gap)
            elif right and right[0].old_start <= end:
                gap = right.pop(0)
                grows_right += _growth(gap)
            else:
                break
            end = max(end, gap.old_end)
        found.append(
            (
                range(start, end),
                range(start + shift_left, end + shift_left + grows_left),
                range(start + shift_right, end + shift_right + grows_right),
            )
        )
        shift_left += grows_left
        shift_right += grows_right
    return found


def _growth(gap: Gap) -> int:
    return (gap.new_end - gap.new_start) - (gap.old_end - gap.old_start)


# -- notebooks -------------------------------------------------------------------------------

_Cell = Mapping[str, Any]


@dataclass(slots=True)
class _NotebookMerge:
    base: NotebookContent | None
    fork: NotebookContent
    document: NotebookContent
    prefer: Side | None
    conflicts: list[Conflict] = field(default_factory=list)

    def make(self) -> Merged:
        cells: dict[str, _Cell] = {}
        for cell_id in {**self.document.by_id, **self.fork.by_id}:
            if (cell := self._cell(cell_id)) is not None:
                cells[cell_id] = cell
        order = self._order(cells)
        content = NotebookContent([cells[cell_id] for cell_id in order], self.document.metadata)
        return Merged(content, self._deeds(cells, order), self.conflicts)

    def _cell(self, cell_id: str) -> _Cell | None:
        """What becomes of a cell; None if it is gone."""
        was = None if self.base is None else self.base.by_id.get(cell_id)
        ours, theirs = self.fork.by_id.get(cell_id), self.document.by_id.get(cell_id)
        if ours is None:
            if was is None or theirs is None:
                return theirs
            if _says_same(was, theirs):
                return None
            return self._choose(cell_id, "it was deleted in the fork and edited", ours, theirs)
        if theirs is None:
            if was is None:
                return ours
            if _says_same(was, ours):
                return None
            return self._choose(cell_id, "it was edited in the fork and deleted", ours, theirs)
        return self._both(cell_id, was, ours, theirs)

    def _choose(
        self, cell_id: str, why: str, ours: _Cell | None, theirs: _Cell | None
    ) -> _Cell | None:
        said = [None if cell is None else str(cell["source"]) for cell in (ours, theirs)]
        self.conflicts.append(Conflict(cell_id, why, *said))
        return ours if self.prefer == "fork" else theirs

    def _both(self, cell_id: str, was: _Cell | None, ours: _Cell, theirs: _Cell) -> _Cell:
        mine, yours = _parts(ours), _parts(theirs)
        before = dict.fromkeys({**mine, **yours}, _UNKNOWN) if was is None else _parts(was)
        result, disputed = dict(yours), []
        for key in {**mine, **yours, **before}:
            new, now, old = mine.get(key), yours.get(key), before.get(key)
            if new in (now, old):
                continue
            if now != old:
                disputed.append(key)
                if self.prefer != "fork":
                    continue
            result[key] = new
        if disputed:
            self._choose(cell_id, f"both changed its {_named(disputed)}", ours, theirs)
        says_ours = result.get("source") == mine.get("source") and (
            result.get("cell_type") == mine.get("cell_type")
        )
        return _assembled(result, self._run(was, ours, theirs, says_ours), theirs)

    def _run(self, was: _Cell | None, ours: _Cell, theirs: _Cell, says_ours: bool) -> _Cell:
        """The side whose outputs the cell gets: that of the source that it has."""
        same_source = ours["source"] == theirs["source"]
        if not same_source:
            return ours if says_ours else theirs
        if was is not None and _ran(was) == _ran(theirs):
            return ours
        return theirs

    # -- order -----------------------------------------------------------------------------

    def _order(self, cells: Mapping[str, _Cell]) -> list[str]:
        """The document's order, with what the fork added or moved after its neighbour there."""
        moved = self._moved(self.fork) - self._moved(self.document)
        if self.prefer == "fork":
            moved = self._moved(self.fork)
        order = [
            cell_id for cell_id in self.document.by_id if cell_id in cells and cell_id not in moved
        ]
        placed = set(order)
        after: dict[str | None, list[str]] = {}
        neighbour: str | None = None
        for cell_id in self.fork.by_id:
            if cell_id in placed:
                neighbour = cell_id
            elif cell_id in cells:
                after.setdefault(neighbour, []).append(cell_id)
        found = after.pop(None, [])
        for cell_id in order:
            found += [cell_id, *after.pop(cell_id, ())]
        return found

    def _moved(self, side: NotebookContent) -> set[str]:
        """The cells that a side has moved."""
        if self.base is None:
            return set()
        index = {cell_id: number for number, cell_id in enumerate(self.base.by_id)}
        common = [cell_id for cell_id in side.by_id if cell_id in index]
        return set(common) - longest_ascending(common, index)

    def _deeds(self, cells: Mapping[str, _Cell], order: Sequence[str]) -> list[tuple[str, Deed]]:
        deeds: list[tuple[str, Deed]] = []
        now = self.document.by_id
        index = {cell_id: number for number, cell_id in enumerate(now)}
        common = [cell_id for cell_id in order if cell_id in index]
        staying = longest_ascending(common, index)
        for cell_id in order:
            if cell_id not in now:
                deeds.append((cell_id, "added"))
            elif not _says_same(now[cell_id], cells[cell_id]):
                deeds.append((cell_id, "edited"))
            elif cell_id not in staying:
                deeds.append((cell_id, "moved"))
            elif _ran(now[cell_id]) != _ran(cells[cell_id]):
                deeds.append((cell_id, "outputs"))
        deeds += [(cell_id, "deleted") for cell_id in now if cell_id not in cells]
        return deeds


#: What nobody knows, and so differs from everything.
_UNKNOWN: Any = object()


def _parts(cell: _Cell) -> dict[str, Any]:
    """What a cell says, part by part; without what a run leaves in it."""
    parts = {key: value for key, value in cell.items() if key not in (*_RUN, "id", "metadata")}
    for key, value in (cell.get("metadata") or {}).items():
        if key not in (*_RUN_METADATA, *_SESSION):
            parts[f"metadata.{key}"] = value
    return parts


def _says_same(one: _Cell, other: _Cell) -> bool:
    return _parts(one) == _parts(other)


def _ran(cell: _Cell) -> tuple[Any, ...]:
    """What a run has left in a cell."""
    return cell.get("outputs") or [], cell.get("execution_count")


def _assembled(parts: Mapping[str, Any], run: _Cell, document: _Cell) -> _Cell:
    """A cell of its parts, and of what a run has left in one of the sides."""
    metadata = {
        key.removeprefix("metadata."): value
        for key, value in parts.items()
        if key.startswith("metadata.") and value is not None
    }
    sources = ((_SESSION, document), (_RUN_METADATA, run))
    for keys, cell in sources:
        held = cell.get("metadata") or {}
        metadata |= {key: held[key] for key in keys if key in held}
    cell = {
        key: value
        for key, value in parts.items()
        if not key.startswith("metadata.") and value is not None
    }
    cell |= {"id": document["id"], "metadata": metadata}
    if cell["cell_type"] == "code":
        cell |= {"outputs": run.get("outputs") or [], "execution_count": run.get("execution_count")}
    return cell


def _named(parts: Sequence[str]) -> str:
    words = {"cell_type": "type"}
    return ", ".join(words.get(part, part.replace("metadata.", "metadata ")) for part in parts)
