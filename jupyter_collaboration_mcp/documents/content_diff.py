"""How two contents of a document differ, cell by cell, as text for a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .content import Content, NotebookContent, TextContent, longest_ascending
from .foreign_text import first_of, inline
from .handles import brief_id
from .outputs import kinds
from .render import fenced
from .text import clip, quantity
from .text_diff import unified

#: Characters of the diff of one cell.
_LONGEST_DIFF = 4_000

#: Keys of metadata that only say how a cell is shown, when it was run, and whether it is trusted.
_BOOKKEEPING = frozenset({"trusted", "execution", "ExecuteTime", "collapsed", "scrolled"})

_Cell = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PartDiff:
    """How one cell, or the text of a file, differs."""

    cell_id: str
    """Empty for the text of a file."""
    kinds: tuple[str, ...]
    """`added`, `deleted`, `moved`, `edited`, `type`, `metadata`, `outputs`, `attachments`."""
    index: int | None = None
    """Where the cell is in the later content; None if it is not there."""
    before: _Cell | None = None
    after: _Cell | None = None

    def text(self) -> str:
        """All of it, bounded; comparing long texts takes a while."""
        before, after = (cell or {} for cell in (self.before, self.after))
        lines = [self._head(before, after), *_details(self.kinds, before, after)]
        old, new = (str(cell.get("source", "")) for cell in (before, after))
        if self.before is None or self.after is None:
            lines.append(fenced(clip(_marked(old or new, "+" if new else "-"), _LONGEST_DIFF)))
        elif old != new:
            lines.append(fenced(unified(old, new, limit=_LONGEST_DIFF)))
        return "\n".join(lines)

    def _head(self, before: _Cell, after: _Cell) -> str:
        if not self.cell_id:
            return "text:"
        place = "" if self.index is None else f"[{self.index}] "
        kind = (after or before)["cell_type"]
        noun = "" if kind == "code" else f" {inline(kind, 40)}"
        return f"{place}{brief_id(self.cell_id)}{noun}: {', '.join(self.kinds)}"


def compare(
    before: Content, after: Content, cell_ids: Collection[str] | None = None
) -> list[PartDiff]:
    """What differs between two contents of one document, in the order of the later one; cells that
    are only in the earlier one stand after their neighbour.

    Args:
        cell_ids: The cells to compare; all if there are none.
    """
    if isinstance(before, TextContent) or isinstance(after, TextContent):
        assert isinstance(before, TextContent)
        assert isinstance(after, TextContent)
        if before.text == after.text:
            return []
        return [PartDiff("", ("edited",), None, {"source": before.text}, {"source": after.text})]
    found = list(_compare(before, after))
    return found if cell_ids is None else [each for each in found if each.cell_id in cell_ids]


def _compare(before: NotebookContent, after: NotebookContent) -> Iterator[PartDiff]:
    known, current = before.by_id, after.by_id
    places = {cell_id: index for index, cell_id in enumerate(known)}
    common = [cell_id for cell_id in current if cell_id in known]
    unmoved = longest_ascending(common, places)
    index = {cell_id: number for number, cell_id in enumerate(current)}
    for cell_id in _merged(list(known), list(current)):
        old, new = known.get(cell_id), current.get(cell_id)
        if old is None:
            yield PartDiff(cell_id, ("added",), index[cell_id], None, new)
        elif new is None:
            yield PartDiff(cell_id, ("deleted",), None, old, None)
        else:
            found = tuple(_kinds(old, new))
            if cell_id not in unmoved:
                found = ("moved", *found)
            if found:
                yield PartDiff(cell_id, found, index[cell_id], old, new)


def _merged(known: list[str], current: list[str]) -> Iterator[str]:
    """All cells: those that are gone follow the neighbour that is still there."""
    still = set(current)
    gone: dict[str | None, list[str]] = {}
    neighbour: str | None = None
    for cell_id in known:
        if cell_id in still:
            neighbour = cell_id
        else:
            gone.setdefault(neighbour, []).append(cell_id)
    yield from gone.get(None, ())
    for cell_id in current:
        yield cell_id
        yield from gone.get(cell_id, ())


def _kinds(old: _Cell, new: _Cell) -> Iterator[str]:
    if old["source"] != new["source"]:
        yield "edited"
    if old["cell_type"] != new["cell_type"]:
        yield "type"
    if any(_changed_keys(old, new)):
        yield "metadata"
    if _outputs(old) != _outputs(new):
        yield "outputs"
    if old.get("attachments") != new.get("attachments"):
        yield "attachments"


def _details(found: Collection[str], old: _Cell, new: _Cell) -> Iterator[str]:
    if "type" in found:
        yield f"type: {inline(old['cell_type'], 40)} -> {inline(new['cell_type'], 40)}"
    if "metadata" in found:
        yield f"metadata: {', '.join(first_of(inline(k, 60) for k in _changed_keys(old, new)))}"
    if "outputs" in found:
        yield f"outputs: {_outputs_line(old)} -> {_outputs_line(new)}"
    elif "added" in found or "deleted" in found:
        cell = new or old
        if cell.get("outputs"):
            yield f"outputs: {_outputs_line(cell)}"


def _marked(source: str, mark: str) -> str:
    """The lines of a cell that is only on one side."""
    return "\n".join(mark + line for line in source.split("\n"))


def _changed_keys(old: _Cell, new: _Cell) -> Iterator[str]:
    before, after = (cell.get("metadata") or {} for cell in (old, new))
    for key in {**before, **after}:
        if key not in _BOOKKEEPING and before.get(key) != after.get(key):
            yield str(key)


def _outputs(cell: _Cell) -> tuple[Any, Any]:
    return cell.get("outputs") or [], cell.get("execution_count")


def _outputs_line(cell: _Cell) -> str:
    outputs, count = _outputs(cell)
    run = "" if count is None else f" In[{int(count)}]"
    if not outputs:
        return f"none{run}"
    named = ", ".join(first_of(dict.fromkeys(kinds(outputs))))
    return f"{quantity(len(outputs), 'output')} ({named}){run}"
