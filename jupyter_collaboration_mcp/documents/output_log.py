"""What a run has put out so far, and how much of it its cell shows already.

Messages change the log at once; the shared cell is brought up to date some times a second, by the
smallest change. What is too large for a document is handed out, to be kept elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pycrdt import Array, Map, Text

from .screen import Screen


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """How much of a run's output stays in the document."""

    stream: int = 1_000_000
    """Characters that were printed."""
    rich: int = 5_000_000
    """Bytes of results and displays, all together."""


#: Characters of the end of a printed text that are remembered when it is cut.
_TAIL = 4_000

#: What one more output costs at least, so that there cannot be a million small ones.
_LEAST = 500


@dataclass(frozen=True, slots=True)
class Overflow:
    """Output number `index` of the run was too large, or more of the printed text is."""

    index: int
    content: str
    """Printed text, or an output as JSON."""
    kind: Literal["text", "json"]


@dataclass(slots=True)
class _Entry:
    output: dict[str, Any]
    screen: Screen | None = None
    """What a stream shows; its output has no text then."""
    display_id: str | None = None
    shown: bool = False
    """Whether it is in the cell."""
    bytes: int = 0
    """Of the text that is in the cell."""
    changed: bool = True

    @property
    def stream(self) -> str | None:
        return str(self.output["name"]) if self.screen is not None else None


@dataclass(slots=True)
class _Cut:
    """The printed text is longer than the document may hold."""

    index: int
    length: int
    lines: int
    tail: str = ""
    rest: list[str] = field(default_factory=list)
    """What has not been handed out yet."""


class OutputLog:
    """The outputs of one run, in order.

    Args:
        limits: How much stays in the document.
        notice: A line that stands for what is left out: of output number `index`, `size` in all.
    """

    def __init__(self, limits: OutputLimits, notice: Callable[[int, str], str]) -> None:
        self._limits = limits
        self._notice = notice
        self._entries: list[_Entry] = []
        self._first = 0  # the first entry that is, or will be, in the cell
        self._place = 0  # where in the cell's outputs that one is
        self._clear_first = False
        self._clear_later = False
        self._cut: _Cut | None = None
        self._printed = 0
        self._rich = 0
        self._large: list[Overflow] = []
        self._ended = False
        self.changed = False
        """Whether the cell does not show all of this."""

    # -- fed by messages ---------------------------------------------------------------------

    def print(self, name: str, text: str) -> None:
        """Something was printed to stdout or stderr."""
        self._clear_if_due()
        self.changed = True
        text = _storable(text)
        if self._cut is not None:
            self._overflow(text)
            return
        last = self._entries[-1] if self._entries else None
        if last is None or last.stream != name:
            last = _Entry({"output_type": "stream", "name": name}, Screen())
            self._entries.append(last)
        assert last.screen is not None
        last.changed = True
        before = len(last.screen)
        room = self._limits.stream - self._printed
        if len(text) <= room or "\r" in text or "\b" in text:
            last.screen.print(text)
            text = ""
        else:
            last.screen.print(text[:room])
            text = text[room:]
        self._printed += len(last.screen) - before
        over = self._printed - self._limits.stream
        if over > 0:  # it went back and forth on the line, and grew in the end
            text = last.screen.text[-over:] + text
            last.screen.cut(len(last.screen) - over)
            self._printed -= over
        if text:
            self._begin_cut()
            self._overflow(text)

    def add(self, output: dict[str, Any], size: int, display_id: str | None = None) -> None:
        """A result, a display or an error.

        Args:
            size: Of what it holds, in bytes or about.
        """
        self._clear_if_due()
        self.changed = True
        cost = max(size, _LEAST)
        index = len(self._entries)
        if output["output_type"] != "error" and self._rich + cost > self._limits.rich:
            self._large.append(Overflow(index, json.dumps(output), "json"))
            output = self._stand_in(index, output, size)
        else:
            self._rich += cost
        self._entries.append(_Entry(_storable(output), display_id=display_id))

    def clear(self, wait: bool) -> None:
        """Forget all outputs, at once or when the next one comes."""
        if wait:
            self._clear_later = True
        else:
            self._clear()

    def update(self, display_id: str, data: Any, metadata: Any, size: int) -> bool:
        """Give displays another content; says whether there are any of this id."""
        found = [entry for entry in self._entries if entry.display_id == display_id]
        for entry in found:
            index = self._entries.index(entry)
            output = {**entry.output, "data": data, "metadata": metadata}
            if size > self._limits.rich:
                self._large.append(Overflow(index, json.dumps(output), "json"))
                output = self._stand_in(index, output, size)
            entry.output = _storable(output)
            entry.changed = self.changed = True
        return bool(found)

    def end(self) -> None:
        """Nothing more will come: what is left out can be said for good."""
        self._ended = True
        if self._cut is not None:
            self._entries[self._cut.index].changed = self.changed = True

    def _clear_if_due(self) -> None:
        if self._clear_later:
            self._clear_later = False
            self._clear()

    def _clear(self) -> None:
        self._entries.clear()
        self._cut = None
        self._printed = self._rich = 0
        self._first = 0
        self._clear_first = self.changed = True

    def _begin_cut(self) -> None:
        # The whole text is kept elsewhere, so it begins with what the document has.
        texts = [entry.screen.text for entry in self._entries if entry.screen is not None]
        index = max(i for i, entry in enumerate(self._entries) if entry.screen is not None)
        length, lines = sum(map(len, texts)), sum(text.count("\n") for text in texts)
        self._cut = _Cut(index, length, lines, "".join(texts)[-_TAIL:], texts)

    def _overflow(self, text: str) -> None:
        cut = self._cut
        assert cut is not None
        cut.length += len(text)
        cut.lines += text.count("\n")
        cut.tail = (cut.tail + text[-_TAIL:])[-_TAIL:]
        cut.rest.append(text)

    def _stand_in(self, index: int, output: Mapping[str, Any], size: int) -> dict[str, Any]:
        data = output.get("data")
        kinds = ", ".join(data) if isinstance(data, Mapping) else "output"
        notice = self._notice(index, f"{kinds[:200]}, {_size(size)}")
        return {**output, "data": {"text/plain": notice}, "metadata": {}}

    # -- read --------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def length(self) -> int:
        """Characters that were printed."""
        return self._printed if self._cut is None else self._cut.length

    def outputs(self) -> list[dict[str, Any]]:
        """The outputs as nbformat has them; a stream of which only the head is here says so."""
        found = []
        for index, entry in enumerate(self._entries):
            output = dict(entry.output)
            if entry.screen is not None:
                output["text"] = entry.screen.text
            if self._cut is not None and self._cut.index == index:
                output["cut"] = {
                    "tail": self._cut.tail,
                    "length": self._cut.length,
                    "lines": self._cut.lines,
                }
            found.append(output)
        return found

    def overflow(self) -> Iterator[Overflow]:
        """What has to be kept elsewhere, once."""
        large, self._large = self._large, []
        yield from large
        if self._cut is not None and self._cut.rest:
            rest, self._cut.rest = self._cut.rest, []
            yield Overflow(self._cut.index, "".join(rest), "text")

    # -- write; the caller holds the transaction ----------------------------------------------

    def write(self, shared: Array[Any]) -> None:
        """Bring a cell's outputs up to date."""
        self.changed = False
        if self._clear_first:
            self._clear_first = False
            if len(shared):
                shared.clear()
            self._place = 0
        elif not self._in_place(shared):
            self._go_on_at_the_end(len(shared))
        for index in range(self._first, len(self._entries)):
            entry = self._entries[index]
            if not entry.shown:
                shared.append(self._new(index, entry))
            elif entry.changed:
                self._bring_up_to_date(shared, index, entry)
            entry.shown, entry.changed = True, False

    def restart(self) -> None:
        """The cell's outputs have been cleared and nothing is shown."""
        self._first = self._place = 0
        for entry in self._entries:
            entry.shown, entry.changed = False, True

    def _in_place(self, shared: Array[Any]) -> bool:
        """Whether the cell has what was written, and nothing else."""
        shown = sum(entry.shown for entry in self._entries[self._first :])
        if len(shared) != self._place + shown:
            return False
        for index in range(self._first, self._first + shown):
            entry = self._entries[index]
            if entry.changed and entry.screen is not None:
                text = shared[self._place + index - self._first].get("text")
                if not isinstance(text, Text) or len(text) != entry.bytes:
                    return False
        return True

    def _go_on_at_the_end(self, place: int) -> None:
        """Somebody cleared or changed the outputs: leave them, and add what comes from now on."""
        entries = self._entries
        shown = [index for index, entry in enumerate(entries) if entry.shown]
        self._first = shown[-1] + 1 if shown else 0
        self._place = place
        last = entries[-1] if entries else None
        if last is not None and last.screen is not None and last.shown and self._cut is None:
            unchanged, new = last.screen.take()
            if new:
                rest = _Entry(dict(last.output), Screen())
                assert rest.screen is not None
                rest.screen.print(new)
                last.screen.cut(unchanged)
                last.screen.take()
                entries.append(rest)

    def _new(self, index: int, entry: _Entry) -> Map[Any]:
        if entry.screen is None:
            return _shared(entry.output)
        entry.screen.take()
        text = entry.screen.text + self._ending(index, entry)
        entry.bytes = len(text.encode())
        return Map({**entry.output, "text": Text(text)})

    def _bring_up_to_date(self, shared: Array[Any], index: int, entry: _Entry) -> None:
        place = self._place + index - self._first
        if entry.screen is None:
            shared[place] = _shared(entry.output)
            return
        text: Text = shared[place]["text"]
        unchanged, new = entry.screen.take()
        ending = self._ending(index, entry)
        keep = len(entry.screen.text[:unchanged].encode())
        if keep < entry.bytes:
            del text[keep : entry.bytes]
        if new or ending:
            text += new + ending
        entry.bytes = keep + len((new + ending).encode())

    def _ending(self, index: int, entry: _Entry) -> str:
        if self._cut is None or self._cut.index != index:
            return ""
        assert entry.screen is not None
        begin = "" if entry.screen.text.endswith("\n") else "\n"
        said = f"{_size(self._cut.length)} in all" if self._ended else "still running"
        return f"{begin}{self._notice(index, said)}\n"


def _shared(output: Mapping[str, Any]) -> Map[Any]:
    try:
        json.dumps(output)
        return Map(dict(output))
    except (TypeError, ValueError, OverflowError) as error:
        said = f"[an output that the notebook cannot hold: {error}]"
        return Map({"output_type": "display_data", "data": {"text/plain": said}, "metadata": {}})


def _storable(value: Any) -> Any:
    """The same without halves of characters, which no document can hold."""
    if isinstance(value, str):
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode(errors="replace").decode()
        return value
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return value


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 100_000 else f"{count / 1_000:.1f} kB"
