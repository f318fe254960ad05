"""Cells as text for a model: compact, bounded, and never to be mistaken for our own words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from jupyter_collaboration_mcp.errors import InvalidArgument

from . import outputs, table_text, tables
from .cell_search import matching_lines
from .cell_view import CellView
from .foreign_text import words
from .json_values import flaw
from .text import beginning, clip, clip_bytes, quantity, size

NO_NOTES: Mapping[str, str] = MappingProxyType({})


class Rendering(NamedTuple):
    """Cells as text, and where to go on when not all of them fitted."""

    text: str
    """At most `max_length` bytes."""
    cell_count: int
    """How many cells are in the text."""
    next_index: int | None
    """The index of the first cell that is not in the text."""
    next_position: int | None
    """The first character that is not there of the only cell in the text, which is too long."""
    facts: Callable[[], list[dict[str, Any]]]
    """Makes the facts of the shown cells for `structuredContent`."""
    cells: Sequence[CellView] = ()
    """The shown cells."""
    blocks: Sequence[str] = ()
    """What is shown of each, without its name."""

    @property
    def is_all(self) -> bool:
        """Whether all cells are there, and whole."""
        return self.next_index is None and self.next_position is None


def outline(
    cells: Sequence[CellView], *, max_length: int, notes: Mapping[str, str] = NO_NOTES
) -> Rendering:
    """One line a cell: what is not usual about it, and its first line.

    Args:
        notes: What stands after the handles of cells, by id.
    """

    def block(cell: CellView, room: int) -> _Block:
        def facts() -> dict[str, Any]:
            lines = _line_count(cell.source)
            return _facts(cell, lines=lines, first_line=_first_line(cell.source))

        note = notes.get(cell.id, "")
        return _Block(clip_bytes(cell.handle + note + _outlined(cell), room), facts)

    return _packed(cells, block, max_length, "\n")


def source(
    cells: Sequence[CellView],
    *,
    include_outputs: bool = False,
    max_length: int,
    output_limit: int = 2_000,
    start: int = 0,
    notes: Mapping[str, str] = NO_NOTES,
) -> Rendering:
    """Each cell's name and its source as it is, with its outputs in few words if wanted.

    Args:
        start: The character of the only cell from which on to show it.
        notes: As above.
    """
    limit = output_limit if include_outputs else 0

    def block(cell: CellView, room: int) -> _Block:
        header = _header(cell) + notes.get(cell.id, "")
        return _block(cell, header, room, limit, None, start)

    return _packed(cells, block, max_length, "\n\n")


def full(
    cells: Sequence[CellView],
    *,
    max_length: int,
    output_limit: int = 2_000,
    start: int = 0,
    all_metadata: bool = False,
    notes: Mapping[str, str] = NO_NOTES,
) -> Rendering:
    """Each cell's name and state, source, metadata and outputs.

    Args:
        start: The character of the only cell from which on to show it.
        all_metadata: Also what programs keep for themselves there.
        notes: As above.
    """

    def block(cell: CellView, room: int) -> _Block:
        header = " ".join([_header(cell), *_state(cell)]) + notes.get(cell.id, "")
        metadata = cell.metadata if all_metadata else _telling(cell.metadata)
        return _block(cell, header, room, output_limit, metadata, start)

    return _packed(cells, block, max_length, "\n\n")


def matches(
    cells: Sequence[CellView], query: str, *, max_length: int, include_outputs: bool = False
) -> Rendering:
    """The cells whose source or outputs contain `query`, whatever its case, with those lines.

    Few cells that are short come whole: whoever looked for them reads them next.

    Raises:
        InvalidArgument: `query` is empty.
    """
    if not query:
        raise InvalidArgument("query is empty.", "Give the text to look for.")
    pattern = re.compile(re.escape(query), re.IGNORECASE)
    found = {cell.index: matching_lines(cell, pattern) for cell in cells}
    matching = [cell for cell in cells if found[cell.index]]

    def with_lines(facts: dict[str, Any]) -> dict[str, Any]:
        return {**facts, "matches": [line.strip() for line in found[facts["index"]]]}

    if len(matching) <= _FEW:
        in_outputs = any("  output " in line for cell in matching for line in found[cell.index])
        wanted = include_outputs or in_outputs
        whole = source(matching, include_outputs=wanted, max_length=min(max_length, _SHORT))
        if whole.is_all and all(pattern.search(text) for text in whole.blocks):
            return whole._replace(facts=lambda: [*map(with_lines, whole.facts())])

    def block(cell: CellView, room: int) -> _Block:
        content = "\n".join([_header(cell), *found[cell.index]])
        lines = [line.strip() for line in found[cell.index]]
        return _Block(clip_bytes(content, room), lambda: _facts(cell, matches=lines))

    return _packed(matching, block, max_length, "\n")


def fenced(content: str) -> str:
    """`content` between fences longer than any in it, so that its end cannot be forged."""
    longest = max((len(run) for run in re.findall(r"`{3,}", content)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{content}\n{fence}"


_FIRST_LINE = 60


#: Lines from which on an outline says how many a cell has.
_MANY_LINES = 5


_MOST_OUTPUTS = 12


_LONGEST_METADATA = 1_000


#: Keys of metadata in which programs keep how a cell is shown, and when it was run.
_BOOKKEEPING = frozenset(
    ("trusted", "execution", "ExecuteTime", "collapsed", "scrolled", "jupyter", "hidden")
)


#: What slideshows and editors write into metadata, and means nothing.
_DEFAULTS: Mapping[str, Sequence[Any]] = {
    "slideshow": ({}, {"slide_type": ""}, {"slide_type": "-"}, {"slide_type": None}),
    "editable": (True,),
    "deletable": (True,),
    "tags": ([],),
}


def _telling(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without what says nothing about a cell."""
    return {
        key: value
        for key, value in metadata.items()
        if key not in _BOOKKEEPING and value not in _DEFAULTS.get(key, ())
    }


def _header(cell: CellView) -> str:
    return cell.handle if cell.cell_type == "code" else f"{cell.handle} {_word(cell.cell_type)}"


def _word(name: str) -> str:
    """A name from the document as one word: it must not look like a line of ours."""
    return name if re.fullmatch(r"[\w.+-]{1,64}", name) else json.dumps(name[:64])


def _outlined(cell: CellView) -> str:
    """What follows a cell's name in an outline; a cell of one line that never ran has little."""
    made = cell.made.get("outline")
    if made is None:
        made = cell.made["outline"] = _make_outlined(cell)
    return made


def _make_outlined(cell: CellView) -> str:
    lines = _line_count(cell.source)
    kinds = ", ".join(kind for kind in outputs.kinds(cell.outputs) if kind != "text")
    parts = [
        "" if cell.cell_type == "code" else _word(cell.cell_type),
        *_state(cell),
        f"{lines:,}L" if lines >= _MANY_LINES else "",
        f"-> {kinds}" if kinds else "",
        "" if cell.source.strip() else "empty",
    ]
    said = "".join(f" {part}" for part in parts if part)
    return f"{said}: {_plain(_first_line(cell.source))}" if cell.source.strip() else said


def _state(cell: CellView) -> Iterator[str]:
    if cell.cell_type != "code":
        return
    running = cell.execution_state == "running"
    if cell.execution_count is not None:
        # Numbers from a shared document are floats.
        yield f"In[{int(cell.execution_count)}]"
    if running:
        yield "running"
    if name := outputs.error_name(cell.outputs):
        yield f"ERROR {_word(name)}"


def _json(value: Any) -> str:
    """A value in one line, without characters that hide, turn or break it."""
    said = json.dumps(value, ensure_ascii=False)
    return said if said.isprintable() else json.dumps(value)


def _plain(line: str) -> str:
    """A line as it is, unless it has characters that hide, turn or break it."""
    return line if line.isprintable() else _json(line)


def _first_line(content: str) -> str:
    line = content.lstrip().partition("\n")[0].strip()
    return line if len(line) <= _FIRST_LINE else line[: _FIRST_LINE - 3] + "..."


def _line_count(content: str) -> int:
    return content.count("\n") + 1 if content else 0


def _block(
    cell: CellView,
    header: str,
    room: int,
    output_limit: int,
    metadata: Mapping[str, Any] | None,
    start: int,
) -> _Block:
    """Header, fenced source, and what else is wanted, in `room` characters."""
    tail, described = "", ""
    if metadata:
        content = clip(_metadata(metadata), min(_LONGEST_METADATA, room // 4))
        tail += f"\nmetadata: {content}"
    if output_limit and cell.outputs:
        described = _outputs(cell, output_limit, room // 3)
        tail += f"\n{quantity(len(cell.outputs), 'output')}:\n{fenced(described)}"
    frame = size(header) + len(fenced(cell.source)) - len(cell.source) + 1
    left = max(1, room - frame - size(tail))
    shown = beginning(cell.source[start : start + left], left)
    end = start + len(shown)

    def facts() -> dict[str, Any]:
        more: dict[str, Any] = {"source": shown}
        if metadata is not None and cell.metadata:
            made = _metadata(cell.metadata)
            fits = len(made) <= _LONGEST_METADATA and flaw(cell.metadata, math.inf, None) is None
            more["metadata"] = cell.metadata if fits else _unfit(made)
        if described:
            more["output_text"] = described
        return _facts(cell, **more)

    next_position = end if end < len(cell.source) else None
    return _Block(f"{header}\n{fenced(shown)}{tail}", facts, next_position)


def _metadata(metadata: Mapping[str, Any]) -> str:
    """Metadata as a text; people's programs may write there what is no JSON."""
    if (found := flaw(metadata, math.inf, None)) is not None:
        return f"cannot be shown: {words(found.describe('metadata'))}"
    return _json(metadata)


def _unfit(made: str) -> str:
    return made if made.startswith("cannot be shown") else "too long"


def _outputs(cell: CellView, limit: int, room: int) -> str:
    """The first outputs and the last one (where errors stand), in few words."""
    shown = cell.outputs
    left_out = len(shown) - _MOST_OUTPUTS
    if left_out > 0:
        shown = [*shown[: _MOST_OUTPUTS - 1], shown[-1]]
    described = [_described(output, limit) for output in shown]
    if left_out > 0:
        described.insert(-1, f"... {quantity(left_out, 'output')} cut ...")
    return clip_bytes("\n".join(described), room)


def _described(output: Mapping[str, Any], limit: int) -> str:
    """One output; of a table that is too long, rows and columns are left out, not characters."""
    data = outputs.data_of(output)
    if len(outputs.joined(data.get("text/plain"))) <= limit or not (found := tables.table(data)):
        return outputs.describe(output, limit)
    made = table_text.entire(found)
    if made is None or len(made.body) > limit:
        made = table_text.describe(found, limit)
    return f"{made.title}\n{made.body}"


#: Matching cells up to which they come whole, if they have no more than so many characters.
_FEW, _SHORT = 3, 3_000


# As many cells as fit

_UNBOUNDED = 1 << 40


class _Block(NamedTuple):
    """One cell's part of the text, and what makes the same facts for programs."""

    text: str
    facts: Callable[[], dict[str, Any]]
    next_position: int | None = None


def _packed(
    cells: Sequence[CellView],
    block: Callable[[CellView, int], _Block],
    max_length: int,
    separator: str,
) -> Rendering:
    """Whole cells as long as they fit; only a first one that is too long alone is shortened."""
    blocks: list[_Block] = []
    room = max_length
    for cell in cells:
        made = block(cell, _UNBOUNDED)
        if not blocks and size(made.text) > room:
            made = block(cell, room)
            if size(made.text) > room:  # there has to be progress
                made = made._replace(text=beginning(made.text, room))
        if size(made.text) > room:
            break
        blocks.append(made)
        room -= size(made.text) + len(separator)
    return Rendering(
        text=separator.join(made.text for made in blocks),
        cell_count=len(blocks),
        next_index=cells[len(blocks)].index if len(blocks) < len(cells) else None,
        next_position=blocks[0].next_position if blocks else None,
        facts=lambda: [made.facts() for made in blocks],
        cells=cells[: len(blocks)],
        blocks=[made.text.partition("\n")[2] for made in blocks],
    )


def _facts(cell: CellView, **more: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "index": cell.index,
        "id": cell.id,
        "revision": cell.revision,
        "cell_type": cell.cell_type,
    }
    if cell.cell_type == "code":
        count = cell.execution_count
        facts["execution_count"] = None if count is None else int(count)
        facts["running"] = cell.execution_state == "running"
        facts["outputs"] = outputs.kinds(cell.outputs)
        facts["error"] = outputs.error_name(cell.outputs)
    return facts | more
