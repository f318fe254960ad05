"""Which cells a call means: by id, handle, index, range, or by text that only one cell has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from ..documents.handles import TEXT, Handle, parse_cell, parse_revision
from ..documents.notebook import Notebook
from ..errors import (
    AmbiguousCell,
    CellNotFound,
    InvalidArgument,
    NotCode,
    TextMismatch,
    TooLarge,
)
from ..remedies import Intent

CellRef = str | int
"""A cell's id or the beginning of it, its handle, or its index."""

_Ref = TypeVar("_Ref", CellRef, CellRef | None)

#: The most cells of a call that can be named by their text: searching for them takes time.
_MOST_TEXTS = 20


@dataclass(frozen=True, slots=True)
class Targets:
    """The cells that a call names, each with the revision its caller has read, if it gives one."""

    indexes: list[int]
    revisions: list[str | None]

    @classmethod
    def of(cls, named: Iterable[tuple[int, str | None]]) -> Targets:
        pairs = list(named)
        return cls([index for index, _ in pairs], [revision for _, revision in pairs])

    def expected_revisions(self, notebook: Notebook) -> dict[str, str]:
        """The expected revisions by cell id, for the cells that have one."""
        pairs = zip(self.indexes, self.revisions, strict=True)
        return {notebook.id_at(index): revision for index, revision in pairs if revision}


def targets(
    notebook: Notebook,
    start_index: int | None,
    end_index: int | None,
    cell_ids: Sequence[CellRef] | None,
    if_revision: str | Sequence[str] | None = None,
    count: int = 1,
) -> Targets:
    """The cells that a changing call names: by ids or handles, or by a half-open range.

    Args:
        if_revision: One for each cell.
        count: How many cells a range without an end means.
    """
    chosen = _with_ids(notebook, _chosen(notebook, start_index, end_index, cell_ids, count))
    if if_revision is None:
        revisions: Sequence[str | None] = [None] * len(chosen)
    else:
        revisions = [if_revision] if isinstance(if_revision, str) else if_revision
    if len(revisions) != len(chosen):
        raise InvalidArgument(
            f"{len(chosen)} cells but {len(revisions)} revisions.",
            "Give one revision for each cell, in the same order.",
        )
    return Targets.of(locate(notebook, *pair) for pair in zip(chosen, revisions, strict=True))


def _with_ids(notebook: Notebook, cells: Sequence[_Ref]) -> list[_Ref | str]:
    """The same cells, with ids in place of texts, so that each text is searched for only once."""
    texts = {
        cell: cell.removeprefix(TEXT)
        for cell in cells
        if isinstance(cell, str) and cell.startswith(TEXT) and not notebook.has(cell)
    }
    if not texts:
        return list(cells)
    found = with_texts(notebook, [said for said in texts.values() if said])
    ids = {
        cell: notebook.id_at(_only(notebook, said, found.get(said, [])))
        for cell, said in texts.items()
    }
    return [ids.get(cell, cell) if isinstance(cell, str) else cell for cell in cells]


def _chosen(
    notebook: Notebook,
    start_index: int | None,
    end_index: int | None,
    cell_ids: Sequence[CellRef] | None,
    count: int,
) -> Sequence[CellRef]:
    if (cell_ids is None) == (start_index is None):
        raise InvalidArgument(
            "Name the cells either by cell_ids or by start_index and end_index.",
            "Give exactly one of the two.",
        )
    if cell_ids is not None:
        if not cell_ids:
            raise InvalidArgument("cell_ids is empty.", "Name at least one cell.")
        return cell_ids
    assert start_index is not None
    start = notebook.position(start_index)
    if end_index is None:
        end = start + count
    else:
        end = end_index + len(notebook) if end_index < 0 else end_index
    if not start < end <= len(notebook):
        raise InvalidArgument(
            f"The range from {start_index} to {end} (excluded) is not one of existing cells; "
            f"the notebook has {len(notebook)}.",
            "Give start_index < end_index <= number of cells.",
        )
    return range(start, end)


def in_ranges(
    notebook: Notebook, ranges: Sequence[tuple[int, int | None]], reading: bool = False
) -> list[range]:
    """The cells of several half-open ranges, all of the notebook as it is now.

    Args:
        reading: Whether the ranges may exceed the notebook, and lead to its end if they have none.
            Otherwise one without an end is one cell, and no two may overlap.

    Raises:
        InvalidArgument: A range is turned round, empty or outside of the notebook.
    """
    if not ranges and not reading:
        raise InvalidArgument("No range is given. Nothing was changed.", "Give at least one.")
    found = [_in_range(notebook, start, end, reading) for start, end in ranges]
    for before, after in pairwise(sorted(found, key=lambda cells: cells.start)):
        if not reading and after.start < before.stop:
            raise InvalidArgument(
                f"Two ranges have the cell {after.start}. Nothing was changed.",
                "Give ranges that do not overlap.",
            )
    return found


def each_once(ranges: Iterable[range], count: int) -> list[int]:
    """The cells of ranges in their order, each once, among so many cells."""
    free, found = bytearray(b"+" * count), []
    for cells in ranges:
        index = free.find(b"+", cells.start, cells.stop)
        while index >= 0:
            found.append(index)
            free[index] = 0
            index = free.find(b"+", index + 1, cells.stop)
    return found


def _in_range(notebook: Notebook, start: int, end: int | None, reading: bool) -> range:
    count = len(notebook)
    first = start + count if start < 0 else start
    if end is None:
        last = count if reading else first + 1
    elif end < 0:
        last = end + count
    else:
        last = end
    if reading:  # `end` 0 is no cell, and not the end of the notebook
        inside = 0 <= first <= last and (first < count or not first)
    else:
        inside = 0 <= first < last <= count
    if not inside:
        raise InvalidArgument(
            f"The range from {start} to {'its end' if end is None else end} (excluded) is not one "
            f"of existing cells; the notebook has {count}. Nothing was done.",
            "Give start < end <= number of cells.",
            cell_count=count,
        )
    return range(first, min(last, count))


def code_indexes(
    notebook: Notebook, start_index: int | None, end_index: int | None, wanted: bool = True
) -> list[int]:
    """The code cells of a half-open range, or of the whole notebook.

    Raises:
        InvalidArgument: There are none, and the call needs some.
    """
    if start_index is None and end_index is None:
        indexes: Sequence[int] = range(len(notebook))
    elif start_index is None:
        raise InvalidArgument("end_index is given without start_index.", "Give both.")
    else:
        indexes = targets(notebook, start_index, end_index, None).indexes
    found = [index for index in indexes if notebook.cell_type(index) == "code"]
    if wanted and not found:
        raise NotCode("There is no code cell among these; nothing was run.", "Name code cells.")
    return found


def code_cells(notebook: Notebook, wanted: bool = True) -> list[str]:
    """The ids of all code cells.

    Raises:
        InvalidArgument: There are none, and the call needs some.
    """
    return [notebook.id_at(index) for index in code_indexes(notebook, None, None, wanted)]


def locate(
    notebook: Notebook, cell: CellRef | None, if_revision: str | None = None
) -> tuple[int, str | None]:
    """The index of a cell, and the revision that the caller has read."""
    if cell is None:
        raise InvalidArgument(
            "An update does not say which cell it is for.",
            "Give cell_id or index in each update, or cell_ids, or start_index; or old_text that "
            "only one cell has.",
        )
    given = parse_revision(if_revision) if if_revision is not None else None
    if isinstance(cell, int):
        return notebook.position(cell), given
    # Ids contain no at-sign and no colon, unless a careless program made them.
    if cell.startswith(TEXT) and not notebook.has(cell):
        return _only_with(notebook, cell.removeprefix(TEXT)), given
    handle = Handle(cell) if notebook.has(cell) else parse_cell(cell)
    if given and handle.revision and given != handle.revision:
        raise InvalidArgument(
            f"{cell[:80]!r} has another revision than if_revision={given}. Nothing was done.",
            "Give the revision once: the handle alone is enough.",
        )
    return notebook.find(handle.name), handle.revision or given


def by_old_text(
    notebook: Notebook, cells: Sequence[CellRef | None], old_texts: Sequence[str | None]
) -> list[CellRef | None]:
    """The cells of updates, some of which are named only by their text.

    Raises:
        TextMismatch: No cell has such a text.
        AmbiguousCell: Several have it.
    """
    if None not in cells:
        return list(_with_ids(notebook, cells))
    pairs = list(zip(cells, old_texts, strict=True))
    found = with_texts(notebook, [old for cell, old in pairs if cell is None and old])
    named: list[CellRef | None] = []
    for cell, old in pairs:
        if cell is not None or not old:
            named.append(cell)
        elif places := found[old]:
            named.append(notebook.id_at(_only(notebook, old, places)))
        else:
            raise TextMismatch(
                f"old_text {old[:80]!r} is in no cell. Nothing was changed.",
                "Read the cell again, and quote its text as it is.",
                matches=0,
            )
    return list(_with_ids(notebook, named))


def _only_with(notebook: Notebook, wanted: str) -> int:
    """The one cell whose source contains a text."""
    return _only(notebook, wanted, with_texts(notebook, [wanted])[wanted] if wanted else [])


def _only(notebook: Notebook, wanted: str, found: Sequence[int]) -> int:
    if len(found) == 1:
        return found[0]
    if not found:
        raise CellNotFound(
            f"No cell has the text {wanted[:80]!r}.",
            Intent.SEE_CELLS,
            cell_id=wanted,
        )
    handles = ", ".join(map(notebook.handle, found[:5]))
    raise AmbiguousCell(
        f"{len(found)} cells have the text {wanted[:80]!r}: {handles}.",
        "Repeat with the handle of the one you mean, or with more of its text.",
        cell_id=wanted,
        candidates=[notebook.id_at(index) for index in found[:5]],
    )


def with_texts(notebook: Notebook, wanted: Sequence[str]) -> dict[str, list[int]]:
    """The cells whose source contains each of some texts, literally.

    Raises:
        TooLarge: There are too many to search for while everybody waits.
    """
    if len(wanted) > _MOST_TEXTS:
        raise TooLarge(
            f"{len(wanted)} cells are named by their text; at most {_MOST_TEXTS} can be.",
            "Name the others by their handles.",
        )
    found: dict[str, list[int]] = {text: [] for text in wanted}
    with notebook.doc.transaction():  # one for all of them
        for index in range(len(notebook) if wanted else 0):
            source = notebook.source(index)
            for text, places in found.items():
                if text in source:
                    places.append(index)
    return found


def index_of(notebook: Notebook, cell: CellRef | None) -> int:
    return locate(notebook, cell)[0]


def insertion_points(
    notebook: Notebook,
    count: int,
    positions: Sequence[int] | None,
    start_position: int | None,
    after_cell: CellRef | None,
) -> list[int]:
    if sum(given is not None for given in (positions, start_position, after_cell)) > 1:
        raise InvalidArgument(
            "More than one of positions, start_position and after_cell_id is given.",
            "Say where to insert in one way only.",
        )
    if positions is not None:
        if len(positions) != count:
            raise InvalidArgument(
                f"{count} cells but {len(positions)} positions.", "Give one position for each cell."
            )
        return [insertion_point(notebook, position, None) for position in positions]
    if start_position is None and after_cell is None:
        start_position = len(notebook)
    return [insertion_point(notebook, start_position, after_cell)] * count


def insertion_point(notebook: Notebook, position: int | None, after_cell: CellRef | None) -> int:
    """Where to insert; -1 is the end."""
    if after_cell is not None:
        return index_of(notebook, after_cell) + 1
    assert position is not None
    place = position + len(notebook) + 1 if position < 0 else position
    if not 0 <= place <= len(notebook):
        raise InvalidArgument(
            f"Position {position} is outside of the notebook, which has {len(notebook)} cells.",
            f"Give 0 (the top) to {len(notebook)} (the end), or -1 for the end.",
        )
    return place


def cell_before(notebook: Notebook, index: int) -> str | None:
    return notebook.id_at(index - 1) if index else None
