"""The outputs of a run so far, and how much of them its cell shows already.

Messages change the log at once; the shared cell is brought up to date some times a second, by the
smallest change. What is too large for a document is handed out, to be kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pycrdt import Array

from . import json_values
from .cell_outputs import CellWriter, LogEntry
from .outputs import byte_count, line_safe
from .screen import Screen


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """How much of a run's output stays in the document."""

    stream: int = 1_000_000
    """Characters that were printed."""
    rich: int = 5_000_000
    """Bytes of results and displays, all together; errors may have a little more."""
    count: int = 1_000
    """Outputs of any kind."""


#: Characters of the end of a printed text that are remembered when it is cut.
_TAIL = 4_000

#: Bytes beyond the limit that errors may have: what went wrong is always worth its place.
_FOR_ERRORS = 100_000

#: Characters of what an error says that stay when the error itself is too large.
_MESSAGE = 1_000


@dataclass(frozen=True, slots=True)
class Overflow:
    """Output number `index` of the run was too large, or more of the printed text is."""

    index: int
    content: str | Mapping[str, Any]
    """Printed text, or all of an output."""
    begins: bool = True
    """Whether it replaces what was kept under this number; otherwise it follows it."""


@dataclass(slots=True)
class _Truncation:
    """The printed text is longer than the document may hold."""

    index: int
    length: int
    lines: int
    tail: str
    rest: list[str]
    """What has not been handed out yet."""
    begins: bool = True
    """Whether nothing has been handed out yet."""


@dataclass(slots=True)
class _Omission:
    """There were more outputs than the document may hold."""

    entry: LogEntry
    """What says so."""
    count: int = 0


class OutputLog:
    """The outputs of one run, in order.

    Args:
        limits: How much stays in the document.
        notice: A line that stands for what is left out: of output number `index`, `size` in all.
    """

    def __init__(self, limits: OutputLimits, notice: Callable[[int, str], str]) -> None:
        self._limits = limits
        self._notice = notice
        self._entries: list[LogEntry] = []
        self._writer = CellWriter(self._entries, self._ending)
        self._printed = 0
        self._rich = 0
        self._cut: _Truncation | None = None
        self._dropped: _Omission | None = None
        self._large: dict[int, Overflow] = {}
        self._clear_later = False
        self._ended = False
        self._displays: set[str] = set()
        self._grows = False
        self.changed = False
        """Whether the cell does not show all of this."""

    # -- fed by messages ---------------------------------------------------------------------

    def print(self, name: str, text: str) -> None:
        """Something was printed to stdout or stderr."""
        self._clear_if_due()
        if not text:
            return
        self.changed = True
        text = json_values.storable_text(text)
        if self._cut is None:
            text = self._show_printed(name, text)
        if text:
            self._put_aside(text)

    def add(self, output: Mapping[str, Any], size: int, display_id: str | None = None) -> None:
        """A result, a display or an error.

        Args:
            size: Of what it holds, in bytes or about.
        """
        self._clear_if_due()
        self.changed = True
        if self._dropped is not None or len(self._entries) >= self._limits.count:
            self._drop()
            return
        entry = LogEntry({}, display_id=display_id)
        if display_id is not None:
            self._displays.add(display_id)
        self._entries.append(entry)
        self._set(len(self._entries) - 1, entry, output, size)

    def clear(self, wait: bool) -> None:
        """Forget all outputs, at once or when the next one comes."""
        if wait:
            self._clear_later = True
        else:
            self._clear()

    def update(self, display_id: str, data: Any, metadata: Any, size: int) -> bool:
        """Change the content of displays; returns whether there are any with this id."""
        if display_id not in self._displays:  # most logs are asked for the displays of others
            return False
        found = False
        for index, entry in enumerate(self._entries):
            if entry.display_id == display_id:
                output = {**entry.output, "data": data, "metadata": metadata}
                self._set(index, entry, output, size)
                found = self.changed = True
        return found

    def end(self) -> None:
        """The run is over, so the notices can say how much was left out.

        More may still come from a thread or a task.
        """
        self._ended = True
        if self._cut is not None:
            self._entries[self._cut.index].changed = self.changed = True
        if self._dropped is not None:
            self._dropped.entry.output = _omission_notice(f"{self._dropped.count:,} more were")
            self._dropped.entry.changed = self.changed = True

    def _clear_if_due(self) -> None:
        if self._clear_later:
            self._clear()

    def _clear(self) -> None:
        self._entries.clear()
        self._displays.clear()
        self._large.clear()
        self._grows = False
        self._cut = self._dropped = None
        self._printed = self._rich = 0
        self._clear_later = False
        self.changed = True
        self._writer.clear()

    def _show_printed(self, name: str, text: str) -> str:
        """Print as much as there is room for, and return the rest."""
        last = self._entries[-1] if self._entries else None
        if last is None or last.stream != name:
            if self._last_stream() is not None and len(self._entries) >= self._limits.count:
                return text
            last = LogEntry({"output_type": "stream", "name": name}, Screen())
            self._entries.append(last)
        screen = last.screen
        assert screen is not None
        last.changed = True
        before = len(screen)
        room = self._limits.stream - self._printed
        goes_back = "\r" in text or "\b" in text
        fits = len(text) if goes_back else room
        screen.print(text[:fits])
        text = text[fits:]
        grown = len(screen) - before
        if grown > room:  # it went back and forth on its line, and was longer in the end
            text = screen.cut(before + room) + text
            grown = room
        self._printed += grown
        return text

    def _put_aside(self, text: str) -> None:
        """Add printed text to what is kept elsewhere; that begins with what the document has."""
        if self._cut is None:
            index = self._last_stream()
            assert index is not None
            shown = "".join(entry.screen.text for entry in self._entries if entry.screen)
            self._cut = _Truncation(index, len(shown), shown.count("\n"), shown[-_TAIL:], [shown])
            self._entries[index].aside = self._entries[index].changed = True
        cut = self._cut
        cut.length += len(text)
        cut.lines += text.count("\n")
        cut.tail = (cut.tail + text[-_TAIL:])[-_TAIL:]
        cut.rest.append(text)
        if self._ended and not self._grows:
            # Not how much there is: that would be a change of the document each time.
            self._grows = self._entries[cut.index].changed = True

    def _last_stream(self) -> int | None:
        indexes = range(len(self._entries) - 1, -1, -1)
        return next((index for index in indexes if self._entries[index].screen is not None), None)

    def _set(self, index: int, entry: LogEntry, output: Mapping[str, Any], size: int) -> None:
        """Set the content of an entry, or a notice in its place if that is too large."""
        output = _storable(output)
        limit = self._limits.rich
        if output["output_type"] == "error":
            limit += _FOR_ERRORS
        self._rich -= entry.size
        entry.aside = self._rich + size > limit
        entry.size = 0 if entry.aside else size
        entry.output = self._stand_in(index, output, size) if entry.aside else output
        entry.changed = True
        self._rich += entry.size
        self._large.pop(index, None)
        if entry.aside:
            self._large[index] = Overflow(index, output)

    def _stand_in(self, index: int, output: Mapping[str, Any], size: int) -> dict[str, Any]:
        if output["output_type"] == "error":
            notice = self._notice(index, f"an error, {byte_count(size)}")
            said = {name: str(output.get(name, ""))[:_MESSAGE] for name in ("ename", "evalue")}
            return {**output, **said, "traceback": [notice]}
        data = output.get("data")
        kinds = ", ".join(map(line_safe, data)) if isinstance(data, Mapping) else "output"
        notice = self._notice(index, f"{kinds[:200]}, {byte_count(size)}")
        return {**output, "data": {"text/plain": notice}, "metadata": {}}

    def _drop(self) -> None:
        if self._dropped is None:
            self._dropped = _Omission(LogEntry(_omission_notice("more are")))
            self._entries.append(self._dropped.entry)
        self._dropped.count += 1
        said = _omission_notice("more are")
        if self._ended and self._dropped.entry.output != said:
            self._dropped.entry.output = said
            self._dropped.entry.changed = True

    # -- read --------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def length(self) -> int:
        """Characters that were printed."""
        return self._printed if self._cut is None else self._cut.length

    @property
    def size(self) -> int:
        """About how much is kept in memory, in characters or bytes."""
        return self._printed + self._rich

    def outputs(self) -> list[dict[str, Any]]:
        """The outputs as nbformat has them; a truncated stream has a `cut` in addition."""
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

    def is_aside(self, index: int) -> bool:
        """Whether only a part of an output is here, and the whole of it elsewhere."""
        return 0 <= index < len(self._entries) and self._entries[index].aside

    def overflow(self) -> list[Overflow]:
        """What has to be kept elsewhere; each part is returned once."""
        parts = list(self._large.values())
        self._large.clear()
        cut = self._cut
        if cut is not None and cut.rest:
            parts.append(Overflow(cut.index, "".join(cut.rest), cut.begins))
            cut.rest.clear()
            cut.begins = False
        return parts

    def is_still_in(self, shared: Array[Any], moved: bool) -> bool:
        """Whether a cell still shows what was written to it.

        Args:
            moved: Whether it is a copy by now, where outputs are known by what they say.
        """
        return self._writer.shows_any(shared, moved)

    # -- write; the caller holds the transaction ----------------------------------------------

    def write(self, shared: Array[Any]) -> None:
        """Bring a cell's outputs up to date.

        What other people did to them stays: an output that they removed does not come back, and
        what was printed since then is shown at the end.
        """
        self.changed = False
        self._writer.write(shared, self._ended)

    def _ending(self, index: int) -> str:
        """The notice at the end of a stream that there is more of it elsewhere."""
        screen = self._entries[index].screen
        if screen is None or self._cut is None or self._cut.index != index:
            return ""
        begin = "" if screen.on_new_line else "\n"
        said = f"{byte_count(self._cut.length)} in all" if self._ended else "still running"
        if self._grows:
            said = "more came after the end of the run"
        return f"{begin}{self._notice(index, said)}\n"


def _omission_notice(how_many: str) -> dict[str, Any]:
    said = f"[There were more outputs than a notebook can hold; {how_many} left out.]"
    return {"output_type": "display_data", "data": {"text/plain": said}, "metadata": {}}


def _storable(output: Mapping[str, Any]) -> dict[str, Any]:
    """The same as a document can hold it, and as JavaScript would have read it."""
    try:
        return dict(json_values.storable(output))
    except RecursionError:
        said = "[an output that the notebook cannot hold: it is nested too deeply]"
        return {**_omission_notice(""), "data": {"text/plain": said}}
