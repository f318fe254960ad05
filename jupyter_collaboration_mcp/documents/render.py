"""Cells as text for a model: compact, bounded, and never to be mistaken for our own words."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jupyter_collaboration_mcp.errors import InvalidArgument

from . import outputs, tables
from .foreign_text import NAME, words
from .json_values import flaw
from .text import clip


@dataclass(frozen=True, slots=True)
class CellView:
    """One cell as it was at one moment."""

    index: int
    id: str
    cell_type: str
    revision: str
    source: str
    execution_count: int | None
    execution_state: str | None
    outputs: list[dict[str, Any]]
    metadata: dict[str, Any]


class Rendered(NamedTuple):
    """Cells as text, and where to go on when not all of them fitted."""

    text: str
    """At most `max_length` characters, and a line that says what is missing."""
    shown: int
    """How many cells are in the text."""
    shortened: list[int]
    """The indexes of the shown cells of which only a part is there."""
    next_index: int | None
    """The index of the first cell that is not in the text."""
    facts: list[dict[str, Any]]
    """The shown cells for `structuredContent`."""


def outline(
    cells: Sequence[CellView], *, max_length: int, prefixes: Mapping[str, int] | None = None
) -> Rendered:
    """One line a cell: name, state, size, first line, kinds of output."""
    names = _names(cells, prefixes)

    def block(cell: CellView, room: int) -> _Block:
        facts = _facts(cell, lines=_line_count(cell.source), first_line=_first_line(cell.source))
        return _Block(clip(_outline_line(cell, names), room), facts)

    return _packed(cells, block, max_length, "\n")


def source(
    cells: Sequence[CellView],
    *,
    include_outputs: bool = False,
    max_length: int,
    output_limit: int = 2_000,
    prefixes: Mapping[str, int] | None = None,
) -> Rendered:
    """Each cell's name and its source as it is, with its outputs in few words if wanted."""
    names = _names(cells, prefixes)
    limit = output_limit if include_outputs else 0

    def block(cell: CellView, room: int) -> _Block:
        return _block(cell, _header(cell, names), room, limit, metadata=False)

    return _packed(cells, block, max_length, "\n\n")


def full(
    cells: Sequence[CellView],
    *,
    max_length: int,
    output_limit: int = 2_000,
    prefixes: Mapping[str, int] | None = None,
) -> Rendered:
    """Each cell's name and state, source, metadata and outputs."""
    names = _names(cells, prefixes)

    def block(cell: CellView, room: int) -> _Block:
        header = " ".join([_header(cell, names), *_state(cell)])
        return _block(cell, header, room, output_limit, metadata=True)

    return _packed(cells, block, max_length, "\n\n")


def matches(
    cells: Sequence[CellView],
    query: str,
    *,
    max_length: int,
    prefixes: Mapping[str, int] | None = None,
) -> Rendered:
    """The cells whose source or outputs contain `query`, whatever its case, with those lines.

    Raises:
        InvalidArgument: `query` is empty.
    """
    if not query:
        raise InvalidArgument("query is empty.", "Give the text to look for.")
    names = _names(cells, prefixes)
    pattern = re.compile(re.escape(query), re.IGNORECASE)
    found = {cell.index: _found(cell, pattern) for cell in cells}
    matching = [cell for cell in cells if found[cell.index]]

    def block(cell: CellView, room: int) -> _Block:
        lines = [line.strip() for line in found[cell.index]]
        content = "\n".join([_header(cell, names), *found[cell.index]])
        return _Block(clip(content, room), _facts(cell, matches=lines))

    return _packed(matching, block, max_length, "\n")


def fenced(content: str) -> str:
    """`content` between fences longer than any in it, so that its end cannot be forged."""
    longest = max((len(run) for run in re.findall(r"`{3,}", content)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{content}\n{fence}"


def id_prefixes(ids: Iterable[str]) -> Counter[str]:
    """How many ids begin alike; made of all the ids of a notebook, not only the shown ones."""
    return Counter(cell_id[:_SHORT_ID] for cell_id in ids)


def short_id(cell_id: str, prefixes: Mapping[str, int]) -> str:
    """The id as it is shown: its beginning where that is enough to name the cell."""
    if len(cell_id) > _LONGEST_WHOLE_ID and prefixes.get(cell_id[:_SHORT_ID], 0) <= 1:
        cell_id = cell_id[:_SHORT_ID]
    return _word(cell_id)


def people(states: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Who is in an awareness, by the names that JupyterLab shows."""
    users = [state.get("user") for state in states.values() if state]
    names = [
        user.get("display_name") or user.get("name") for user in users if isinstance(user, Mapping)
    ]
    return sorted({str(name)[:NAME] for name in names if name})[:_MOST_PEOPLE]


# Parts of a cell

_MOST_PEOPLE = 200
_SHORT_ID = 8
_LONGEST_WHOLE_ID = 12
_FIRST_LINE = 60
_MOST_OUTPUTS = 12
_LONGEST_METADATA = 1_000


def _names(cells: Sequence[CellView], prefixes: Mapping[str, int] | None) -> Mapping[str, int]:
    return id_prefixes(cell.id for cell in cells) if prefixes is None else prefixes


def _header(cell: CellView, names: Mapping[str, int]) -> str:
    name = short_id(cell.id, names)
    return f"[{cell.index}] {name} r:{cell.revision} {_word(cell.cell_type)}"


def _word(name: str) -> str:
    """A name from the document as one word: it must not look like a line of ours."""
    return name if re.fullmatch(r"[\w.+-]{1,64}", name) else json.dumps(name[:64])


def _outline_line(cell: CellView, names: Mapping[str, int]) -> str:
    kinds = ", ".join(outputs.kinds(cell.outputs))
    parts = [
        _header(cell, names),
        *_state(cell),
        _count(_line_count(cell.source), "line"),
        _json(_first_line(cell.source)) if cell.source.strip() else "",
        f"-> {kinds}" if kinds else "",
    ]
    return " ".join(part for part in parts if part)


def _state(cell: CellView) -> Iterator[str]:
    if cell.cell_type != "code":
        return
    running = cell.execution_state == "running"
    if cell.execution_count is not None:
        # Numbers from a shared document are floats.
        yield f"In[{int(cell.execution_count)}]"
    elif not running and not cell.outputs:
        yield "never run"
    if running:
        yield "running"
    if name := outputs.error_name(cell.outputs):
        yield f"ERROR {_word(name)}"


def _json(value: Any) -> str:
    """A value in one line, without characters that hide, turn or break it."""
    said = json.dumps(value, ensure_ascii=False)
    return said if said.isprintable() else json.dumps(value)


def _first_line(content: str) -> str:
    line = content.lstrip().partition("\n")[0].strip()
    return line if len(line) <= _FIRST_LINE else line[: _FIRST_LINE - 3] + "..."


def _line_count(content: str) -> int:
    return content.count("\n") + 1 if content else 0


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _block(cell: CellView, header: str, room: int, output_limit: int, metadata: bool) -> _Block:
    """Header, fenced source, and what else is wanted, in `room` characters."""
    tail = ""
    more: dict[str, Any] = {}
    if metadata and cell.metadata:
        content, more["metadata"] = _metadata(cell.metadata)
        tail += f"\nmetadata: {clip(content, min(_LONGEST_METADATA, room // 4))}"
    if output_limit and cell.outputs:
        described = _outputs(cell, output_limit, room // 3)
        tail += f"\n{_count(len(cell.outputs), 'output')}:\n{fenced(described)}"
        more["output_text"] = described
    frame = len(header) + len(fenced(cell.source)) - len(cell.source) + 1
    shown = clip(cell.source, max(0, room - frame - len(tail)))
    return _Block(f"{header}\n{fenced(shown)}{tail}", _facts(cell, source=shown, **more))


def _metadata(metadata: Mapping[str, Any]) -> tuple[str, Any]:
    """Metadata as a text and as a fact; people's programs may write there what is no JSON."""
    if (found := flaw(metadata, math.inf, None)) is not None:
        said = f"cannot be shown: {words(found.said('metadata'))}"
        return said, said
    content = _json(metadata)
    return content, metadata if len(content) <= _LONGEST_METADATA else "too long"


def _outputs(cell: CellView, limit: int, room: int) -> str:
    """The first outputs and the last one (where errors stand), in few words."""
    shown = cell.outputs
    left_out = len(shown) - _MOST_OUTPUTS
    if left_out > 0:
        shown = [*shown[: _MOST_OUTPUTS - 1], shown[-1]]
    described = [_described(output, limit) for output in shown]
    if left_out > 0:
        described.insert(-1, f"... {_count(left_out, 'output')} cut ...")
    return clip("\n".join(described), room)


def _described(output: Mapping[str, Any], limit: int) -> str:
    """One output; of a table that is too long, rows and columns are left out, not characters."""
    data = outputs.data_of(output)
    if len(outputs.joined(data.get("text/plain"))) <= limit or not (found := tables.table(data)):
        return outputs.describe(output, limit)
    made = tables.entire(found)
    if made is None or len(made.body) > limit:
        made = tables.described(found, limit)
    return f"{made.title}\n{made.body}"


# Looking for text

_MOST_LINES = 20
#: Characters that are searched in one go: a millisecond or two.
_LARGEST_PIECE = 100_000
_AROUND = 80


def _found(cell: CellView, pattern: re.Pattern[str]) -> list[str]:
    lines = [f"  {line}" for line in _matching_lines(cell.source, pattern)]
    for number, output in enumerate(cell.outputs):
        content = outputs.readable(output)
        lines += [f"  output {number} line {line}" for line in _matching_lines(content, pattern)]
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"  ... {_count(more, 'more line')}"]


def _matching_lines(content: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """Each line where a match begins, once, with its number; long ones only around the match."""
    number, position, end = 1, 0, -1
    for match in _matches(content, pattern):
        if match.start() < end:
            continue
        number += content.count("\n", position, match.start())
        position = match.start()
        start = content.rfind("\n", 0, position) + 1
        end = content.find("\n", position)
        end = len(content) if end < 0 else end
        yield f"{number}: {_around(content, start, end, match)}"


def _matches(content: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Look for a text that is written literally, in pieces: nothing else runs while `re` does."""
    longest, place = len(pattern.pattern), 0
    while place < len(content):
        match = pattern.search(content, place, place + _LARGEST_PIECE + longest)
        if match is not None:
            yield match
        place = place + _LARGEST_PIECE if match is None else match.end()


def _around(content: str, start: int, end: int, match: re.Match[str]) -> str:
    low = max(start, match.start() - _AROUND)
    high = min(end, max(match.end(), match.start() + 1) + _AROUND, low + 3 * _AROUND)
    line = re.sub(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]", " ", content[low:high]).rstrip()
    return f"{'...' if low > start else ''}{line}{'...' if high < end else ''}"


# As many cells as fit

_UNBOUNDED = 1 << 40


class _Block(NamedTuple):
    """One cell's part of the text, and the same facts for programs."""

    text: str
    facts: dict[str, Any]


def _packed(
    cells: Sequence[CellView],
    block: Callable[[CellView, int], _Block],
    max_length: int,
    separator: str,
) -> Rendered:
    """Whole cells as long as they fit; only a first one that is too long alone is shortened."""
    blocks: list[_Block] = []
    shortened: list[int] = []
    room = max_length
    for cell in cells:
        made = block(cell, _UNBOUNDED)
        if not blocks and len(made.text) > room:
            made = block(cell, room)
            shortened.append(cell.index)
        if len(made.text) > room:
            break
        blocks.append(made)
        room -= len(made.text) + len(separator)
    return Rendered(
        text=separator.join(made.text for made in blocks),
        shown=len(blocks),
        shortened=shortened[: len(blocks)],
        next_index=cells[len(blocks)].index if len(blocks) < len(cells) else None,
        facts=[made.facts for made in blocks],
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
