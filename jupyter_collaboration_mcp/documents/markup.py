"""What somebody would read in rendered HTML or SVG."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser

LONGEST_INLINE = 300


def visible_text(html: str) -> str:
    parser = _VisibleText()
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


class _VisibleText(_Markup):
    """What somebody would read in the rendered HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._length = 0
        self._silent: str | None = None

    def has_enough(self) -> bool:
        return self._length > 2 * LONGEST_INLINE

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


class SvgLabels(_Markup):
    """The size of an SVG and the texts in it."""

    def __init__(self) -> None:
        super().__init__()
        self.size: tuple[int, int] | None = None
        self.labels: list[str] = []
        self.comments: list[str] = []
        """matplotlib draws letters as paths, and says in a comment which ones."""
        self._label: list[str] | None = None

    def has_enough(self) -> bool:
        return sum(map(len, self.labels)) > LONGEST_INLINE

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
