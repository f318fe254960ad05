"""One output for a model, in as much room as there is: streams, errors, tables, images, others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from . import table_text, tables
from .excerpts import LONGEST_WHOLE, UNBOUNDED, Excerpt, LongText, without_base64
from .images import ImageLimits, Picture, dimensions, picture
from .markup import LONGEST_INLINE, SvgLabels, visible_text
from .outputs import (
    as_on_screen,
    compact,
    data_of,
    explain,
    joined,
    line_safe,
    says_something,
    size,
    traceback_text,
)
from .render import fenced
from .table_text import Table
from .text import clip, quantity


class Block(NamedTuple):
    """One output's part of the text, and the same facts for programs."""

    text: str
    facts: dict[str, Any]
    whole: bool


LEAST_OF_ERROR = 150


@dataclass(frozen=True, slots=True)
class OutputPart:
    """One output, to be shown in as much room as there will be."""

    title: str
    """A line of ours about it."""
    facts: dict[str, Any]
    fit: Callable[[int], Excerpt] | None = None
    """Its content; from the kernel, so it is only shown between fences or quoted."""
    inline: bool = False
    """Whether the content stands quoted in the line of the title."""
    lead: str = ""
    """The beginning of the content, for which the facts have names of their own."""
    whole: bool = True
    all: Excerpt | None = None
    """Everything, lead included, where that is known and not long."""
    uri: str | None = None

    def need(self) -> int:
        """How much room it can use."""
        if self.all is not None and self.block(UNBOUNDED).whole:
            return len(self.all.text())
        content = self.fit(UNBOUNDED).text() if self.fit else ""
        return len(self.lead) + len(_quoted(content) if self.inline else content)

    def block(self, room: int) -> Block:
        """As much as there is room for; all of it if leaving something out would save nothing."""
        lead = clip(self.lead, max(room, LEAST_OF_ERROR))
        fitted = self.fit(max(0, room - len(lead))) if self.fit else Excerpt("", whole=True)
        cut = self._block(lead, fitted, self.whole and fitted.whole and lead == self.lead)
        if cut.whole or self.all is None:
            return cut
        everything = self._block("", self.all, True)
        # An answer repeats the URI in a link of its own.
        repeated = len(self.uri or "") if len(self.all.text()) <= room else 0
        pays = len(everything.text) > len(cut.text) + repeated
        return cut if pays else everything

    def _block(self, lead: str, fitted: Excerpt, whole: bool) -> Block:
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
        return Block("\n".join(line for line in lines if line), facts, whole)


def _fenced(content: str) -> str:
    """Between fences that cannot be made longer than the content itself."""
    return fenced(re.sub(r"`{9,}", "`" * 8, content)) if content else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class OutputReader:
    """Turns outputs into parts, and collects the images on the way."""

    def __init__(self, link: Callable[[int], str | None], limits: ImageLimits | None) -> None:
        self.pictures: list[Picture] = []
        self._link = link
        self._limits = limits

    def part(self, number: int, output: Mapping[str, Any]) -> OutputPart:
        output = as_mapping(output)
        facts: dict[str, Any] = {"index": number, "type": type_of(output)}
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
                return OutputPart(title, facts | {"kind": "unknown"}, whole=False, uri=uri)

    def _data(self, data: Mapping[str, Any], facts: dict[str, Any], uri: str | None) -> OutputPart:
        if part := self._image(data, facts, uri):
            return part
        if found := tables.table(data):
            return _table(found, facts, uri)
        mime = _main_type(data)
        plain = joined(data.get("text/plain"))
        if mime is None:
            name = "result" if facts["type"] == "execute_result" else "display"
            if not plain.strip():
                return OutputPart(f"{name}, empty", facts | {"kind": "empty"})
            return _text(name, facts | {"kind": "text"}, LongText.of(plain), uri)
        facts = facts | {"kind": _kind(mime), "mime": line_safe(mime)}
        return _rich(mime, data, facts, uri)

    def _image(
        self, data: Mapping[str, Any], facts: dict[str, Any], uri: str | None
    ) -> OutputPart | None:
        found = [mime for mime in data if mime.startswith("image/") and not mime.endswith("+xml")]
        found.sort(key=lambda mime: _FORMATS.index(mime) if mime in _FORMATS else len(_FORMATS))
        if not found:
            return None
        fit = None
        if says_something(data):
            fit = LongText.of(joined(data["text/plain"])).fit
        limits = self._limits
        if limits and len(self.pictures) < limits.most:
            for mime in found:
                if drawn := picture(mime, joined(data[mime]), limits):
                    return self._picture(drawn, facts, fit, uri)
        reason = "not shown"
        if limits and len(self.pictures) >= limits.most:
            reason += f": {quantity(limits.most, 'image')} at most"
        elif limits:
            reason += ": it cannot be read"
        mime, content = found[0], joined(data[found[0]])
        facts = facts | {"kind": "image", "mime": line_safe(mime)}
        title = f"{facts['mime']} "
        if sides := dimensions(content):
            facts |= {"width": sides[0], "height": sides[1]}
            title += f"{sides[0]} x {sides[1]}, "
        title += f"{size(mime, content)}, {reason}"
        return OutputPart(title, facts | {"note": reason}, fit, whole=False, uri=uri)

    def _picture(
        self,
        drawn: Picture,
        facts: dict[str, Any],
        fit: Callable[[int], Excerpt] | None,
        uri: str | None,
    ) -> OutputPart:
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
        return OutputPart(title, facts, fit, uri=uri)


_FORMATS = ("image/png", "image/jpeg", "image/webp", "image/gif")


def _stream(output: Mapping[str, Any], facts: dict[str, Any], uri: str | None) -> OutputPart:
    name = "stderr" if output.get("name") == "stderr" else "stdout"
    content = LongText.of(joined(output.get("text")), output.get("cut"))
    facts = facts | {
        "kind": "stderr" if name == "stderr" else "text",
        "length": content.length,
        "lines": content.lines,
    }
    if not content.length:
        return OutputPart(f"{name}, empty", facts)
    return _text(name, facts, content, uri)


def _text(title: str, facts: dict[str, Any], content: LongText, uri: str | None) -> OutputPart:
    return OutputPart(title, facts, content.fit, all=content.all, uri=uri)


def _error(output: Mapping[str, Any], facts: dict[str, Any], uri: str | None) -> OutputPart:
    name = _clean(joined(output.get("ename")))[:100]
    said = _clean(as_on_screen(joined(output.get("evalue"))))
    value = clip(said, _LONGEST_MESSAGE)
    where, whole = explain(output)
    traceback = re.sub(r"^-+\n", "", traceback_text(output))
    facts = facts | {"kind": "error", "ename": name, "evalue": value}
    return OutputPart(
        "error",
        facts,
        LongText.of(where).fit if where else None,
        lead=f"{name or 'error'}: {value}" if value else name or "error",
        whole=whole and value == said,
        all=Excerpt(traceback, whole=True) if 0 < len(traceback) <= LONGEST_WHOLE else None,
        uri=uri,
    )


_LONGEST_MESSAGE = 1_000


def _table(table: Table, facts: dict[str, Any], uri: str | None) -> OutputPart:
    def fit(room: int) -> Excerpt:
        shown = table_text.describe(table, min(room, LONGEST_WHOLE))
        return Excerpt(shown.body, shown.whole, title=shown.title)

    everything = None
    shown = table_text.entire(table)
    if shown is not None and len(shown.body) <= LONGEST_WHOLE:
        everything = Excerpt(shown.body, whole=True, title=shown.title)
    facts = facts | {"kind": "table", "shape": [table.rows, table.columns]}
    return OutputPart("table", facts, fit, all=everything, uri=uri)


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


def _rich(mime: str, data: Mapping[str, Any], facts: dict[str, Any], uri: str | None) -> OutputPart:
    value, kind = data[mime], facts["kind"]
    text = joined(value)
    name = facts["mime"]
    title = f"{name} {size(mime, value)}"
    if kind == "markdown" or (kind == "latex" and len(text) <= _LONGEST_LATEX):
        return _text(name, facts, LongText.of(text), uri)
    if kind == "json":
        return _text(title, facts, _json(value), uri)
    if mime.endswith("svg+xml"):
        return _svg(text, title, facts, uri)
    if says_something(data):
        plain = LongText.of(joined(data["text/plain"]))
        return OutputPart(f"{title}, as text", facts, plain.fit, whole=False, uri=uri)
    if kind == "html":
        visible = without_base64(visible_text(text))
        return OutputPart(title, facts, _inline(visible), inline=True, whole=False, uri=uri)
    return OutputPart(title, facts, whole=False, uri=uri)


_LONGEST_LATEX = 1_000


def _inline(text: str) -> Callable[[int], Excerpt]:
    """Content that has to stand in one line of ours."""
    text = _clean(text)

    def fit(room: int) -> Excerpt:
        length = min(room, LONGEST_INLINE, len(text))
        # Quoting makes some characters two.
        while len(_quoted(text[:length])) > room:
            length = length * 3 // 4
            if length < 20:
                return Excerpt("", whole=False)
        shown = text[:length]
        return Excerpt(shown if shown == text else f"{shown[:-4]} ...", whole=shown == text)

    return fit


def _json(value: Any) -> LongText:
    """Compact, and without strings that are images or the like."""
    text = compact(value)
    shown = _ENCODED.sub('"..."', text)
    content = replace(LongText.of(shown), length=len(text), lines=1)
    if len(shown) > _LONGEST_JSON:
        content = replace(content, most=_LONGEST_JSON)
    return content if shown == text else replace(content, whole=False)


_LONGEST_JSON = 800


_ENCODED = re.compile(r'"(?:[A-Za-z0-9+/=_-]|\\n){200,}"')


def _svg(text: str, title: str, facts: dict[str, Any], uri: str | None) -> OutputPart:
    parser = SvgLabels()
    parser.read(text)
    name, _, length = title.partition(" ")
    if parser.size:
        width, height = parser.size
        facts = facts | {"width": width, "height": height}
        length = f"{width} x {height}, {length}"
    labels = parser.labels or parser.comments
    title = f"{name} {length}"
    if not labels:
        return OutputPart(title, facts, whole=False, uri=uri)
    content = _inline(" | ".join(labels))
    return OutputPart(f"{title}; its texts", facts, content, inline=True, whole=False, uri=uri)


# Small things


def as_mapping(output: Any) -> Mapping[str, Any]:
    return output if isinstance(output, Mapping) else {}


def type_of(output: Any) -> str:
    return _clean(str(as_mapping(output).get("output_type"))[:40])


def _clean(text: str) -> str:
    return as_on_screen(text)
