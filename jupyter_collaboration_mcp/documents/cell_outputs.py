"""The outputs of a run in its cell, written by the smallest change wherever the cell is by then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pycrdt import Array, Assoc, Map, Text

from .screen import Screen

#: Bytes that are rewritten while a run goes on because an output before them has changed.
_ANEW = 100_000


@dataclass(eq=False, slots=True)
class LogEntry:
    output: Mapping[str, Any]
    screen: Screen | None = None
    """What a stream shows; its output has no text then."""
    display_id: str | None = None
    size: int = 0
    """Of a result or a display in the document."""
    aside: bool = False
    """Whether the whole of it is kept elsewhere."""
    changed: bool = True
    """Whether the cell does not show it as it is."""
    spot: Placement | None = None
    """Where it is in the cell, if it has been shown there."""
    start: int = 0
    """Where in its text that begins: what came before was shown, and somebody removed it."""

    @property
    def shown_size(self) -> int:
        """Bytes in the cell, about."""
        return self.size + (0 if self.spot is None else self.spot.bytes)

    @property
    def stream(self) -> str | None:
        return str(self.output["name"]) if self.screen is not None else None


@dataclass(slots=True)
class Placement:
    """An output in a cell, found again by its identity wherever it is by then."""

    place: int
    identity: bytes
    content: Mapping[str, Any]
    """What it showed when it was last written; of a stream without its text."""
    bytes: int = 0
    """Of the text of a stream."""
    ending: str = ""
    """The last line of that text, if it is not a stream's own."""


class CellWriter:
    """Brings the outputs of a cell up to date with the entries of a log.

    Args:
        entries: Of the log, which changes them.
        ending: What follows the text of the stream with a number, if that is not all of it.
    """

    def __init__(self, entries: Sequence[LogEntry], ending: Callable[[int], str]) -> None:
        self._entries = entries
        self._ending = ending
        self._clear_cell = False
        self._written_to_the_end = False

    def clear(self) -> None:
        """Remove all outputs from the cell when it is written next."""
        self._clear_cell = True

    def shows_any(self, shared: Array[Any], moved: bool) -> bool:
        """Whether a cell still shows what was written to it.

        Args:
            moved: Whether it is a copy by now, where outputs are known by what they say.
        """
        if moved:
            self._follow_move(shared)
        spots = [entry.spot for entry in self._entries if entry.spot is not None]
        return not spots or any(_find(shared, spot) is not None for spot in spots)

    def write(self, shared: Array[Any], ended: bool) -> None:
        """Bring a cell's outputs up to date; the caller holds the transaction."""
        if self._clear_cell:
            self._clear_cell = False
            if len(shared):
                shared.clear()
        elif not self._written_to_the_end:
            self._follow_move(shared)
        held = self._make_way(shared, ended)
        for index, entry in enumerate(self._entries):
            if entry.changed and index not in held:
                self._write_entry(shared, index)
        self._written_to_the_end = ended

    def _make_way(self, shared: Array[Any], ended: bool) -> Sequence[int]:
        """Rewrite an output that has changed, with all that follow it, if it is not the last.

        JupyterLab can only change the last output of a cell: what replaces another one it draws at
        the end, and any change of a text it makes in the last one; if that has no text, it throws
        and the cell keeps its star. Returns entries that have to wait for the end of the run,
        because too much follows them.
        """
        last = len(shared) - 1
        spots = [entry.spot for entry in self._entries if entry.changed and entry.spot is not None]
        places = [place for spot in spots if (place := _find(shared, spot)) is not None]
        first = min(places, default=last)
        if first >= last:
            return ()
        ours = {
            place: index
            for index, entry in enumerate(self._entries)
            if entry.spot is not None and (place := _find(shared, entry.spot)) is not None
        }
        rest = [ours[place] for place in range(first, last + 1) if place in ours]
        if not ended and sum(self._entries[index].shown_size for index in rest) > _ANEW:
            return [i for i in rest if self._entries[i].changed and ours.get(last) != i]
        outputs = [_plain(shared[place]) for place in range(first, last + 1)]
        del shared[first : last + 1]
        for place, output in enumerate(outputs, first):
            if place in ours:
                self._entries[ours[place]].spot = None
                self._write_entry(shared, ours[place])
            else:  # somebody else's
                _appended(shared, _with_text(output))
        return ()

    def _write_entry(self, shared: Array[Any], index: int) -> None:
        entry = self._entries[index]
        entry.changed = False
        if entry.screen is None:
            self._write_rich(shared, entry)
        else:
            self._write_stream(shared, entry, entry.screen, self._ending(index))

    def _write_rich(self, shared: Array[Any], entry: LogEntry) -> None:
        if entry.spot is None:
            entry.spot = _appended(shared, entry.output)
        elif (place := _find(shared, entry.spot)) is not None:
            shared[place] = Map(dict(entry.output))
            entry.spot = Placement(place, _identity(shared, place), entry.output)

    def _write_stream(
        self, shared: Array[Any], entry: LogEntry, screen: Screen, ending: str
    ) -> None:
        line, end = screen.taken_line
        unchanged, new = screen.take()
        redrawn = unchanged < end
        spot = entry.spot
        if spot is not None and not new and not redrawn and ending == spot.ending:
            return
        text = None if spot is None else _text(shared, spot)
        if spot is None or text is None:
            if spot is not None:
                entry.start = line if redrawn else unchanged
            content = screen.text[entry.start :] + ending
            entry.spot = _appended(shared, {**entry.output, "text": Text(content)}, entry.output)
            entry.spot.bytes, entry.spot.ending = len(content.encode()), ending
            return
        if redrawn and line < entry.start:
            entry.start, unchanged, new = line, line, screen.text[line:]
        keep = len(screen.text[entry.start : unchanged].encode())
        if keep < spot.bytes:
            del text[keep : spot.bytes]
        text += new + ending
        spot.bytes, spot.ending = keep + len((new + ending).encode()), ending

    def _follow_move(self, shared: Array[Any]) -> None:
        """Find the outputs again if somebody moved the cell: what is there now is a copy."""
        spots = {entry.spot.identity: entry.spot for entry in self._entries if entry.spot}
        if not spots or any(_identity(shared, place) in spots for place in range(len(shared))):
            return
        for entry in self._entries:
            spot = entry.spot
            if spot is not None and spot.place < len(shared):
                content = dict(spot.content)
                if entry.screen is not None:
                    content["text"] = entry.screen.taken[entry.start :] + spot.ending
                if _plain(shared[spot.place]) == content:
                    spot.identity = _identity(shared, spot.place)


def _appended(
    shared: Array[Any], output: Mapping[str, Any], content: Mapping[str, Any] | None = None
) -> Placement:
    shared.append(Map(dict(output)))
    place = len(shared) - 1
    return Placement(place, _identity(shared, place), output if content is None else content)


def _identity(shared: Array[Any], place: int) -> bytes:
    """What an output keeps as long as it is there, and no other output ever has."""
    return shared.sticky_index(place, Assoc.AFTER).encode()


def _with_text(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output as a document holds it: the text of a stream can be added to."""
    if output.get("output_type") != "stream":
        return dict(output)
    return {**output, "text": Text(str(output.get("text", "")))}


def _plain(output: Any) -> Any:
    """An output as a value; JupyterLab writes maps, other programs may write what they like."""
    return output.to_py() if isinstance(output, Map) else output


def _find(shared: Array[Any], spot: Placement) -> int | None:
    """Where an output is now, unless somebody removed it."""
    places = range(len(shared))
    if spot.place not in places or _identity(shared, spot.place) != spot.identity:
        found = (place for place in places if _identity(shared, place) == spot.identity)
        place = next(found, None)
        if place is None:
            return None
        spot.place = place
    return spot.place


def _text(shared: Array[Any], spot: Placement) -> Text | None:
    """The shared text of a stream, if nobody has removed or changed it."""
    place = _find(shared, spot)
    text = None if place is None else shared[place].get("text")
    return text if isinstance(text, Text) and len(text) == spot.bytes else None
