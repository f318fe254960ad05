"""What a run put out, for a model: short texts whole, long ones in part, images to look at.

Whatever is not shown whole is named with the address where all of it can be read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from itertools import islice, pairwise
from typing import Any, NamedTuple

from . import tables
from .images import ImageLimits, Picture, dimensions, picture
from .outputs import (
    as_on_screen,
    compact,
    data_of,
    explained,
    joined,
    kinds,
    line_safe,
    says_something,
    size,
    traceback_text,
)
from .render import fenced
from .text import clip


@dataclass(frozen=True, slots=True)
class Digest:
    """The outputs of a run as text, as images, and as facts for programs."""

    text: str
    """At most `max_length` characters, or a few lines if that is less."""
    pictures: list[Picture]
    facts: list[dict[str, Any]]
    """One for each output that is shown and one for each gap between them."""
    cut: bool
    """Whether anything was left out of the text."""


def digest(
    outputs: Sequence[Mapping[str, Any]],
    *,
    link: Callable[[int], str | None],
    max_length: int = 8_000,
    images: ImageLimits | None = ImageLimits(),  # noqa: B008
) -> Digest:
    """The outputs in few words; `link` says how to read an output in full.

    A stream of which only the beginning is there says so in `cut`: the end of what was printed
    (`tail`), and how many characters and lines it had (`length`, `lines`).
    """
    numbers = _shown(outputs, min(_MOST_OUTPUTS, max(1, max_length // _ROOM_OF_ONE)))
    gaps: dict[int, _Block] = {}
    for before, after in pairwise([-1, *numbers, len(outputs)]):
        if after > before + 1:
            gap = _gap(outputs, before + 1, after, link(before + 1))
            if _is_shorter(outputs[before + 1 : after], len(gap.text)):
                numbers += range(before + 1, after)
            else:
                gaps[before + 1] = gap
    numbers.sort()
    reader = _Reader(link, images)
    parts = [reader.part(number, outputs[number]) for number in numbers]
    rooms = _rooms(parts, max_length - sum(len(gap.text) + 1 for gap in gaps.values()))
    shown = {n: part.block(room) for n, part, room in zip(numbers, parts, rooms, strict=True)}
    blocks = [block for _, block in sorted([*gaps.items(), *shown.items()])]
    return Digest(
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
_UNBOUNDED = 1 << 40


class _Block(NamedTuple):
    """One output's part of the text, and the same facts for programs."""

    text: str
    facts: dict[str, Any]
    whole: bool


def _shown(outputs: Sequence[Mapping[str, Any]], wanted: int) -> list[int]:
    """The first outputs, the last one and the last error: the reader looks for that first."""
    last = len(outputs) - 1
    errors = (n for n in range(last, -1, -1) if _type(outputs[n]) == "error")
    order = dict.fromkeys([*islice(errors, 1), last, *range(len(outputs))])
    return sorted(islice((number for number in order if number >= 0), wanted))


def _rooms(parts: Sequence[_Part], max_length: int) -> list[int]:
    """How many characters of content each part may show, so that all of them fit."""
    separators = len(parts)
    natural = [len(part.block(_UNBOUNDED).text) for part in parts]
    if sum(natural) + separators <= max_length:
        return [_UNBOUNDED] * len(parts)
    frames = [len(part.block(0).text) + _ROOM_OF_FENCES for part in parts]
    needs = [part.need() for part in parts]
    left = max(0, max_length - sum(frames) - separators)
    rooms = [0] * len(parts)
    errors = [number for number, part in enumerate(parts) if part.facts["type"] == "error"]
    waiting = sorted(range(len(parts)), key=lambda number: needs[number])
    if errors:
        # The last error may have half of the room, the others share what is left.
        last = errors[-1]
        rooms[last] = max(min(needs[last], left // 2), _LEAST_OF_ERROR)
        left = max(0, left - rooms[last])
        waiting.remove(last)
    while waiting:
        number = waiting.pop(0)
        rooms[number] = min(needs[number], left // (len(waiting) + 1))
        left -= rooms[number]
    return rooms


_ROOM_OF_FENCES = 40
_LEAST_OF_ERROR = 150


def _gap(outputs: Sequence[Mapping[str, Any]], start: int, end: int, uri: str | None) -> _Block:
    found = Counter(kinds([_mapping(output)])[0] for output in outputs[start:end])
    named = [f"{count:,} {line_safe(kind)[:30]}" for kind, count in found.most_common(3)]
    if len(found) > 3:
        named.append("others")
    count = end - start
    text = f"... {_count(count, 'output')} left out ({', '.join(named)})"
    facts = {"type": "left_out", "index": start, "count": count}
    if uri:
        text += f"; the first of them: {uri}"
        facts["uri"] = uri
    return _Block(f"{text} ...", facts, False)


def _is_shorter(outputs: Sequence[Mapping[str, Any]], length: int) -> bool:
    """Whether outputs take fewer characters than to say that they are left out."""
    for output in map(_mapping, outputs):
        data = data_of(output)
        if _type(output) != "stream" and set(data) != {"text/plain"}:
            return False
        text = joined(output.get("text") if _type(output) == "stream" else data["text/plain"])
        length -= len(text) + _ROOM_OF_TITLE
        if length < 0:
            return False
    return True


_ROOM_OF_TITLE = 20


# One output


class _Fitted(NamedTuple):
    """As much of a content as there was room for."""

    head: str
    whole: bool
    gap: str = ""
    """What is left out between head and tail, in our words."""
    tail: str = ""
    title: str = ""
    """Another title, if that depends on the room."""

    def text(self) -> str:
        return "\n".join(part for part in (self.head, self.gap, self.tail) if part)


@dataclass(frozen=True, slots=True)
class _Part:
    """One output, to be shown in as much room as there will be."""

    title: str
    """A line of ours about it."""
    facts: dict[str, Any]
    fit: Callable[[int], _Fitted] | None = None
    """Its content; from the kernel, so it is only shown between fences or quoted."""
    inline: bool = False
    """Whether the content stands quoted in the line of the title."""
    lead: str = ""
    """The beginning of the content, for which the facts have names of their own."""
    whole: bool = True
    all: _Fitted | None = None
    """Everything, lead included, where that is known and not long."""
    uri: str | None = None

    def need(self) -> int:
        """How much room it can use."""
        if self.all is not None and self.block(_UNBOUNDED).whole:
            return len(self.all.text())
        content = self.fit(_UNBOUNDED).text() if self.fit else ""
        return len(self.lead) + len(_quoted(content) if self.inline else content)

    def block(self, room: int) -> _Block:
        """As much as there is room for; all of it if to leave something out would not pay."""
        lead = clip(self.lead, max(room, _LEAST_OF_ERROR))
        fitted = self.fit(max(0, room - len(lead))) if self.fit else _Fitted("", whole=True)
        cut = self._block(lead, fitted, self.whole and fitted.whole and lead == self.lead)
        if cut.whole or self.all is None:
            return cut
        everything = self._block("", self.all, True)
        # An answer repeats the URI in a link of its own.
        repeated = len(self.uri or "") if len(self.all.text()) <= room else 0
        pays = len(everything.text) > len(cut.text) + repeated
        return cut if pays else everything

    def _block(self, lead: str, fitted: _Fitted, whole: bool) -> _Block:
        facts = dict(self.facts)
        title = fitted.title or self.title
        if self.inline and fitted.head:
            title += f": {_quoted(fitted.head)}"
        if text := fitted.text():
            facts["text"] = text
        if self.uri and not whole:
            title += f"; full: {self.uri}"
            facts["uri"] = self.uri
        lines = [title]
        if not self.inline:
            head = "\n".join(part for part in (lead, fitted.head) if part)
            lines += [_fenced(head), fitted.gap, _fenced(fitted.tail)]
        return _Block("\n".join(line for line in lines if line), facts, whole)


def _fenced(content: str) -> str:
    """Between fences that cannot be made longer than the content itself."""
    return fenced(re.sub(r"`{9,}", "`" * 8, content)) if content else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class _Reader:
    """Turns outputs into parts, and collects the images on the way."""

    def __init__(self, link: Callable[[int], str | None], limits: ImageLimits | None) -> None:
        self.pictures: list[Picture] = []
        self._link = link
        self._limits = limits

    def part(self, number: int, output: Mapping[str, Any]) -> _Part:
        output = _mapping(output)
        facts: dict[str, Any] = {"index": number, "type": _type(output)}
        uri = self._link(number)
        match facts["type"]:
            case "stream":
                return _stream(output, facts, uri)
            case "error":
                return _error(output, facts, uri)
            case "execute_result" | "display_data" | "update_display_data":
                return self._data(data_of(output), facts, uri)
            case other:
                title = f"output of unknown type {_quoted(other)}"
                return _Part(title, facts | {"kind": "unknown"}, whole=False, uri=uri)

    def _data(self, data: Mapping[str, Any], facts: dict[str, Any], uri: str | None) -> _Part:
        if part := self._image(data, facts, uri):
            return part
        if found := tables.table(data):
            return _table(found, facts, uri)
        mime = _main_type(data)
        plain = joined(data.get("text/plain"))
        if mime is None:
            name = "result" if facts["type"] == "execute_result" else "display"
            if not plain.strip():
                return _Part(f"{name}, empty", facts | {"kind": "empty"})
            return _text(name, facts | {"kind": "text"}, _Content.of(plain), uri)
        facts = facts | {"kind": _kind(mime), "mime": line_safe(mime)}
        return _rich(mime, data, facts, uri)

    def _image(
        self, data: Mapping[str, Any], facts: dict[str, Any], uri: str | None
    ) -> _Part | None:
        found = [mime for mime in data if mime.startswith("image/") and not mime.endswith("+xml")]
        found.sort(key=lambda mime: _FORMATS.index(mime) if mime in _FORMATS else len(_FORMATS))
        if not found:
            return None
        fit = None
        if says_something(data):
            fit = _Content.of(joined(data["text/plain"])).fit
        limits = self._limits
        if limits and len(self.pictures) < limits.most:
            for mime in found:
                if drawn := picture(mime, joined(data[mime]), limits):
                    return self._picture(drawn, facts, fit, uri)
        reason = "not shown"
        if limits and len(self.pictures) >= limits.most:
            reason += f": {_count(limits.most, 'image')} at most"
        elif limits:
            reason += ": it cannot be read"
        mime, content = found[0], joined(data[found[0]])
        facts = facts | {"kind": "image", "mime": line_safe(mime)}
        title = f"{facts['mime']} "
        if sides := dimensions(content):
            facts |= {"width": sides[0], "height": sides[1]}
            title += f"{sides[0]} x {sides[1]}, "
        title += f"{size(mime, content)}, {reason}"
        return _Part(title, facts | {"note": reason}, fit, whole=False, uri=uri)

    def _picture(
        self,
        drawn: Picture,
        facts: dict[str, Any],
        fit: Callable[[int], _Fitted] | None,
        uri: str | None,
    ) -> _Part:
        self.pictures.append(drawn)
        number = len(self.pictures)
        facts = facts | {
            "kind": "image", "mime": drawn.mime,
            "width": drawn.width, "height": drawn.height, "image": number,
        }  # fmt: skip
        title = f"{drawn.mime} {drawn.width} x {drawn.height} (image {number})"
        if drawn.note:
            facts["note"] = drawn.note
            title += f", {drawn.note}"
        # One that was scaled down is all that a model can look at.
        return _Part(title, facts, fit, uri=uri)


_FORMATS = ("image/png", "image/jpeg", "image/webp", "image/gif")


def _stream(output: Mapping[str, Any], facts: dict[str, Any], uri: str | None) -> _Part:
    name = "stderr" if output.get("name") == "stderr" else "stdout"
    content = _Content.of(joined(output.get("text")), output.get("cut"))
    facts = facts | {
        "kind": "stderr" if name == "stderr" else "text",
        "length": content.length,
        "lines": content.lines,
    }
    if not content.length:
        return _Part(f"{name}, empty", facts)
    return _text(name, facts, content, uri)


def _text(title: str, facts: dict[str, Any], content: _Content, uri: str | None) -> _Part:
    return _Part(title, facts, content.fit, all=content.all, uri=uri)


def _error(output: Mapping[str, Any], facts: dict[str, Any], uri: str | None) -> _Part:
    name = _clean(joined(output.get("ename")))[:100]
    said = _clean(as_on_screen(joined(output.get("evalue"))))
    value = clip(said, _LONGEST_MESSAGE)
    where, whole = explained(output)
    traceback = re.sub(r"^-+\n", "", traceback_text(output))
    facts = facts | {"kind": "error", "ename": name, "evalue": value}
    return _Part(
        "error",
        facts,
        _Content.of(where).fit if where else None,
        lead=f"{name or 'error'}: {value}" if value else name or "error",
        whole=whole and value == said,
        all=_Fitted(traceback, whole=True) if 0 < len(traceback) <= _LONGEST_WHOLE else None,
        uri=uri,
    )


_LONGEST_MESSAGE = 1_000


def _table(table: tables.Table, facts: dict[str, Any], uri: str | None) -> _Part:
    def fit(room: int) -> _Fitted:
        shown = tables.described(table, min(room, _LONGEST_WHOLE))
        return _Fitted(shown.body, shown.whole, title=shown.title)

    everything = None
    shown = tables.entire(table)
    if shown is not None and len(shown.body) <= _LONGEST_WHOLE:
        everything = _Fitted(shown.body, whole=True, title=shown.title)
    facts = facts | {"kind": "table", "shape": [table.rows, table.columns]}
    return _Part("table", facts, fit, all=everything, uri=uri)


# Other rich outputs


def _main_type(data: Mapping[str, Any]) -> str | None:
    """The type that says most of a bundle without an image or a table, but for plain text."""
    found = [mime for mime in data if mime != "text/plain"]
    if not found:
        return None
    return min(found, key=_rank)


_KINDS = (
    ("application/vnd.jupyter.widget-view+json", "widget"),
    ("application/vnd.plotly", "plotly"),
    ("application/vnd.vega", "vega"),
    ("application/geo+json", "map"),
    ("image/", "image"),
    ("audio/", "audio"),
    ("video/", "video"),
    ("application/pdf", "pdf"),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("text/latex", "latex"),
    ("application/javascript", "javascript"),
    ("application/json", "json"),
)


def _rank(mime: str) -> int:
    found = (rank for rank, (prefix, _) in enumerate(_KINDS) if mime.startswith(prefix))
    return next(found, len(_KINDS))


def _kind(mime: str) -> str:
    rank = _rank(mime)
    return _KINDS[rank][1] if rank < len(_KINDS) else "other"


def _rich(mime: str, data: Mapping[str, Any], facts: dict[str, Any], uri: str | None) -> _Part:
    value, kind = data[mime], facts["kind"]
    text = joined(value)
    name = facts["mime"]
    title = f"{name} {size(mime, value)}"
    if kind == "markdown" or (kind == "latex" and len(text) <= _LONGEST_LATEX):
        return _text(name, facts, _Content.of(text), uri)
    if kind == "json":
        return _text(title, facts, _json(value), uri)
    if mime.endswith("svg+xml"):
        return _svg(text, title, facts, uri)
    if says_something(data):
        plain = _Content.of(joined(data["text/plain"]))
        return _Part(f"{title}, as text", facts, plain.fit, whole=False, uri=uri)
    if kind == "html":
        visible = _without_base64(_visible_text(text))
        return _Part(title, facts, _inline(visible), inline=True, whole=False, uri=uri)
    return _Part(title, facts, whole=False, uri=uri)


_LONGEST_LATEX = 1_000
_LONGEST_INLINE = 300


def _inline(text: str) -> Callable[[int], _Fitted]:
    """Content that has to stand in one line of ours."""
    text = _clean(text)

    def fit(room: int) -> _Fitted:
        length = min(room, _LONGEST_INLINE, len(text))
        # Quoting makes some characters two.
        while len(_quoted(text[:length])) > room:
            length = length * 3 // 4
            if length < 20:
                return _Fitted("", whole=False)
        shown = text[:length]
        return _Fitted(shown if shown == text else f"{shown[:-4]} ...", whole=shown == text)

    return fit


def _json(value: Any) -> _Content:
    """Compact, and without strings that are images or the like."""
    text = compact(value)
    shown = _ENCODED.sub('"..."', text)
    content = replace(_Content.of(shown), length=len(text), lines=1)
    if len(shown) > _LONGEST_JSON:
        content = replace(content, most=_LONGEST_JSON)
    return content if shown == text else replace(content, whole=False)


_LONGEST_JSON = 800
_ENCODED = re.compile(r'"(?:[A-Za-z0-9+/=_-]|\\n){200,}"')


def _svg(text: str, title: str, facts: dict[str, Any], uri: str | None) -> _Part:
    parser = _Labels()
    parser.read(text)
    name, _, length = title.partition(" ")
    if parser.size:
        width, height = parser.size
        facts = facts | {"width": width, "height": height}
        length = f"{width} x {height}, {length}"
    labels = parser.labels or parser.comments
    title = f"{name} {length}"
    if not labels:
        return _Part(title, facts, whole=False, uri=uri)
    content = _inline(" | ".join(labels))
    return _Part(f"{title}; its texts", facts, content, inline=True, whole=False, uri=uri)


def _visible_text(html: str) -> str:
    parser = _Visible()
    parser.read(html)
    return " ".join("".join(parser.pieces).split())


_LONGEST_PARSED = 200_000
_CHUNK = 8_000


class _Markup(HTMLParser):
    """Reads markup until it has enough."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def read(self, markup: str) -> None:
        try:
            for place in range(0, min(len(markup), _LONGEST_PARSED), _CHUNK):
                self.feed(markup[place : place + _CHUNK])
                if self.has_enough():
                    return
            if len(markup) <= _CHUNK:
                # Text at the end is only given away when no more can follow.
                self.close()
        except AssertionError:
            # html.parser gives up on malformed declarations; what was read so far is kept.
            pass

    def has_enough(self) -> bool:
        raise NotImplementedError


class _Visible(_Markup):
    """What somebody would read in the rendered HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._length = 0
        self._silent: str | None = None

    def has_enough(self) -> bool:
        return self._length > 2 * _LONGEST_INLINE

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style", "template", "title") and not self._silent:
            self._silent = tag
        if tag == "img" and not self._silent:
            alternative = " ".join((dict(attrs).get("alt") or "").split())[:60]
            self._add(f" [image{': ' if alternative else ''}{alternative}] ")
        elif tag not in _WITHIN_A_LINE:
            self._add(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._silent:
            self._silent = None
        if tag not in _WITHIN_A_LINE:
            self._add(" ")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._add(re.sub(r"\s+", " ", data[:20_000]))

    def _add(self, text: str) -> None:
        if not self.has_enough():
            self.pieces.append(text)
            self._length += len(text.strip())


_WITHIN_A_LINE = ("a", "b", "code", "em", "font", "i", "small", "span", "strong", "sub", "sup", "u")


class _Labels(_Markup):
    """The size of an SVG and the texts in it."""

    def __init__(self) -> None:
        super().__init__()
        self.size: tuple[int, int] | None = None
        self.labels: list[str] = []
        self.comments: list[str] = []
        """matplotlib draws letters as paths, and says in a comment which ones."""
        self._label: list[str] | None = None

    def has_enough(self) -> bool:
        return sum(map(len, self.labels)) > _LONGEST_INLINE

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "svg" and not self.size:
            self.size = _svg_size(dict(attrs))
        if tag in ("text", "title"):
            self._label = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("text", "title") and self._label is not None:
            text, self._label = " ".join("".join(self._label).split()), None
            if text and not self.has_enough():
                self.labels.append(text)

    def handle_data(self, data: str) -> None:
        if self._label is not None and len(self._label) < 50:
            self._label.append(data[:200])

    def handle_comment(self, data: str) -> None:
        text = " ".join(data[:200].split())
        if text and len(self.comments) < 40 and not text.startswith("Created with"):
            self.comments.append(text)


def _svg_size(attrs: Mapping[str, str | None]) -> tuple[int, int] | None:
    number = r"\s*(\d{1,6}(?:\.\d{0,20})?)"
    found = [
        re.fullmatch(rf"{number}\s*(?:px|pt)?\s*", attrs.get(name) or "")
        for name in ("width", "height")
    ]
    if all(found):
        width, height = (match[1] for match in found if match)
        return round(float(width)), round(float(height))
    box = re.match(rf"[-\d.]+[\s,]+[-\d.]+[\s,]{number}[\s,]{number}", attrs.get("viewbox") or "")
    return (round(float(box[1])), round(float(box[2]))) if box else None


# Long texts

#: A text up to this length is shown whole, ...
_LONGEST_WHOLE = 3_000
#: ... of a longer one as much as this, two thirds of it from its beginning.
_LONGEST_PART = 1_200
_LEAST = 60


@dataclass(frozen=True, slots=True)
class _Content:
    """A text as it stands on a screen, or its beginning and end if it is long."""

    head: str
    tail: str | None
    """None if the head is all there is."""
    lines: int
    length: int
    whole: bool = True
    """False if something is missing even where head and tail are all shown."""
    most: int = _UNBOUNDED

    @classmethod
    def of(cls, text: str, cut: Any = None) -> _Content:
        """Takes time for what will be shown of `text`, not for all of it."""
        lines, length, end = _line_count(text), len(text), text
        missing = isinstance(cut, Mapping) and _number(cut.get("length"), 0) > length
        if missing:
            end = joined(cut.get("tail"))
            length = _number(cut.get("length"), 0)
            lines = max(lines, _number(cut.get("lines"), 0))
        shown = _without_base64(text)
        head, complete = _beginning(shown, _LONGEST_WHOLE)
        if complete and not missing:
            return cls(head, None, lines, length, whole=shown is text)
        return cls(head, _end(_without_base64(end), _LONGEST_PART), lines, length, whole=False)

    @property
    def all(self) -> _Fitted | None:
        """Everything, if that is known and not long."""
        known = self.tail is None and self.whole
        return _Fitted(self.head, whole=True) if known else None

    def fit(self, room: int) -> _Fitted:
        room = min(room, self.most)
        if self.tail is None and len(self.head) <= min(room, _LONGEST_WHOLE):
            return _Fitted(self.head, self.whole)
        room = min(room, _LONGEST_PART) if room >= _LEAST else 0
        head = _first_lines(self.head, room * 2 // 3)
        tail = _last_lines(self.head if self.tail is None else self.tail, room // 3)
        characters = max(0, self.length - len(head) - len(tail))
        lines = self.lines - _line_count(head) - _line_count(tail)
        if not characters:
            return _Fitted(head, whole=False, tail=tail)
        left_out = _count(characters, "character")
        if lines > 0:
            left_out = f"{lines:,} of {_count(self.lines, 'line')} ({left_out})"
        return _Fitted(head, whole=False, gap=f"... {left_out} left out ...", tail=tail)


def _beginning(text: str, room: int) -> tuple[str, bool]:
    """At least `room` characters as on a screen, and whether they are all."""
    lines: list[str] = []
    length = start = 0
    while length <= room:
        newline = text.find("\n", start)
        line = text[start : len(text) if newline < 0 else newline].removesuffix("\r")
        if "\r" not in line and len(line) > 4 * room:
            return "\n".join([*lines, as_on_screen(line[: 4 * room])]), False
        lines.append(_drawn(line))
        length += len(lines[-1]) + 1
        if newline < 0:
            return "\n".join(lines).rstrip("\n"), True
        start = newline + 1
    # A last line end is no more to be shown.
    rest = text[start:] if len(text) - start < room else "more"
    return "\n".join(lines).rstrip("\n"), not rest.strip("\r\n")


def _end(text: str, room: int) -> str:
    """The last `room` characters or more, as on a screen."""
    text = text.rstrip("\r\n")
    lines: list[str] = []
    length, stop = 0, len(text)
    while length <= room and stop >= 0:
        newline = text.rfind("\n", 0, stop)
        line = text[newline + 1 : stop].removesuffix("\r")
        if "\r" not in line:
            line = line[-4 * room :]
        lines.append(_drawn(line))
        length += len(lines[-1]) + 1
        stop = newline
    return "\n".join(reversed(lines))


#: Of a line that is drawn again and again this is more than its last state.
_LONGEST_REDRAWN = 20_000


def _drawn(line: str) -> str:
    if len(line) > _LONGEST_REDRAWN:
        line = line[-_LONGEST_REDRAWN:]
        line = line.partition("\r")[2] or line
    return as_on_screen(line) if line else ""


def _first_lines(text: str, room: int) -> str:
    """The beginning, in whole lines where that costs little."""
    if len(text) <= room:
        return text
    newline = text.rfind("\n", 0, room + 1)
    return text[: newline if newline > room // 2 else room]


def _last_lines(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    start = len(text) - room
    newline = text.find("\n", max(0, start - 1))
    return text[newline + 1 if 0 <= newline < start + room // 2 else start :]


_BASE64 = re.compile(r";base64,[A-Za-z0-9+/=]{40,}")


def _without_base64(text: str) -> str:
    """An image written into a text is nothing to read, and half of it is no image."""
    return _BASE64.sub(";base64,...", text) if ";base64," in text else text


# Small things


def _mapping(output: Any) -> Mapping[str, Any]:
    return output if isinstance(output, Mapping) else {}


def _type(output: Any) -> str:
    return _clean(str(_mapping(output).get("output_type"))[:40])


def _clean(text: str) -> str:
    return as_on_screen(text)


def _encodable(value: Any) -> Any:
    """Without halves of surrogate pairs, which no client could be sent."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _number(value: Any, otherwise: int) -> int:
    """Numbers from a shared document are floats."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise


def _line_count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
