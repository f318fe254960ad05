"""What a run put out, for a model: short texts whole, long ones in part, images to look at.

Whatever is not shown whole is named with the address where all of it can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from .excerpts import UNBOUNDED
from .images import ImageLimits, Picture
from .output_parts import LEAST_OF_ERROR, Block, OutputPart, OutputReader, as_mapping, type_of
from .outputs import (
    data_of,
    joined,
    kinds,
    line_safe,
)
from .text import quantity


@dataclass(frozen=True, slots=True)
class OutputSummary:
    """The outputs of a run as text, as images, and as facts for programs."""

    text: str
    """At most `max_length` characters, or a few lines if that is less."""
    pictures: list[Picture]
    facts: list[dict[str, Any]]
    """One for each output that is shown and one for each gap between them."""
    cut: bool
    """Whether anything was left out of the text."""


def summarize(
    outputs: Sequence[Mapping[str, Any]],
    *,
    link: Callable[[int], str | None],
    max_length: int = 8_000,
    images: ImageLimits | None = ImageLimits(),  # noqa: B008
) -> OutputSummary:
    """The outputs in few words; `link` says how to read an output in full.

    A stream of which only the beginning is there says so in `cut`: the end of what was printed
    (`tail`), and how many characters and lines it had (`length`, `lines`).
    """
    numbers = _shown(outputs, min(_MOST_OUTPUTS, max(1, max_length // _ROOM_OF_ONE)))
    gaps: dict[int, Block] = {}
    for before, after in pairwise([-1, *numbers, len(outputs)]):
        if after > before + 1:
            gap = _gap(outputs, before + 1, after, link(before + 1))
            if _is_shorter(outputs[before + 1 : after], len(gap.text)):
                numbers += range(before + 1, after)
            else:
                gaps[before + 1] = gap
    numbers.sort()
    reader = OutputReader(link, images)
    parts = [reader.part(number, outputs[number]) for number in numbers]
    rooms = _rooms(parts, max_length - sum(len(gap.text) + 1 for gap in gaps.values()))
    shown = {n: part.block(room) for n, part, room in zip(numbers, parts, rooms, strict=True)}
    blocks = [block for _, block in sorted([*gaps.items(), *shown.items()])]
    return OutputSummary(
        text=_encodable("\n".join(block.text for block in blocks)),
        pictures=reader.pictures,
        facts=[
            {name: _encodable(value) for name, value in block.facts.items()} for block in blocks
        ],
        cut=not all(block.whole for block in blocks),
    )


# Which outputs, and how much of each

_MOST_OUTPUTS = 12


_ROOM_OF_ONE = 400


def _shown(outputs: Sequence[Mapping[str, Any]], wanted: int) -> list[int]:
    """The first outputs, the last one and the last error: the reader looks for that first."""
    last = len(outputs) - 1
    errors = (n for n in range(last, -1, -1) if type_of(outputs[n]) == "error")
    order = dict.fromkeys([*islice(errors, 1), last, *range(len(outputs))])
    return sorted(islice((number for number in order if number >= 0), wanted))


def _rooms(parts: Sequence[OutputPart], max_length: int) -> list[int]:
    """How many characters of content each part may show, so that all of them fit."""
    separators = len(parts)
    natural = [len(part.block(UNBOUNDED).text) for part in parts]
    if sum(natural) + separators <= max_length:
        return [UNBOUNDED] * len(parts)
    frames = [len(part.block(0).text) + _ROOM_OF_FENCES for part in parts]
    needs = [part.need() for part in parts]
    left = max(0, max_length - sum(frames) - separators)
    rooms = [0] * len(parts)
    errors = [number for number, part in enumerate(parts) if part.facts["type"] == "error"]
    waiting = sorted(range(len(parts)), key=lambda number: needs[number])
    if errors:
        # The last error may have half of the room, the others share what is left.
        last = errors[-1]
        rooms[last] = max(min(needs[last], left // 2), LEAST_OF_ERROR)
        left = max(0, left - rooms[last])
        waiting.remove(last)
    while waiting:
        number = waiting.pop(0)
        rooms[number] = min(needs[number], left // (len(waiting) + 1))
        left -= rooms[number]
    return rooms


_ROOM_OF_FENCES = 40


def _gap(outputs: Sequence[Mapping[str, Any]], start: int, end: int, uri: str | None) -> Block:
    found = Counter(kinds([as_mapping(output)])[0] for output in outputs[start:end])
    named = [f"{count:,} {line_safe(kind)[:30]}" for kind, count in found.most_common(3)]
    if len(found) > 3:
        named.append("others")
    count = end - start
    text = f"... {quantity(count, 'output')} left out ({', '.join(named)})"
    facts = {"type": "left_out", "index": start, "count": count}
    if uri:
        text += f"; the first of them: {uri}"
        facts["uri"] = uri
    return Block(f"{text} ...", facts, False)


def _is_shorter(outputs: Sequence[Mapping[str, Any]], length: int) -> bool:
    """Whether outputs take fewer characters than to say that they are left out."""
    for output in map(as_mapping, outputs):
        data = data_of(output)
        if type_of(output) != "stream" and set(data) != {"text/plain"}:
            return False
        text = joined(output.get("text") if type_of(output) == "stream" else data["text/plain"])
        length -= len(text) + _ROOM_OF_TITLE
        if length < 0:
            return False
    return True


_ROOM_OF_TITLE = 20


def _encodable(value: Any) -> Any:
    """Without halves of surrogate pairs, which no client could be sent."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
