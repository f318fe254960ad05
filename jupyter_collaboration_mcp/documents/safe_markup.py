"""Outputs that a client may render: nothing in them runs, as in a notebook that is not trusted.

Markup is written anew from what is known to be harmless. What is left out is left out with its
content where that is code, and without its tags otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape, unescape
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

from .outputs import as_on_screen, data_of, joined

#: Characters of markup that is cleaned; more is shown as its source.
_LONGEST = 1_000_000

_ELEMENTS = """
a abbr b bdi bdo blockquote br caption cite code col colgroup dd del details dfn div dl dt em
figcaption figure h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q rp rt ruby s samp small span
strong sub summary sup table tbody td tfoot th thead time tr tt u ul var wbr"""
_TAGS = frozenset(_ELEMENTS.split())
_VOID = frozenset(("br", "col", "hr", "img", "wbr"))

#: Elements that are left out with everything in them.
_WITH_CONTENT = """
applet audio canvas frameset head iframe math noembed noframes noscript object plaintext portal
script style svg template textarea title video xmp"""
_CODE = frozenset(_WITH_CONTENT.split())

#: Those of them whose content is text to a browser, up to their end tag.
_RAW_ELEMENTS = "iframe noembed noframes plaintext script style textarea title xmp"
_RAW = frozenset(_RAW_ELEMENTS.split())

#: Elements in each other; deeper ones are left out, as browsers do not nest them either.
_DEEPEST = 500

#: The beginning of a tag; and of what is in one, an attribute or its end.
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
_ATTRIBUTE = re.compile(
    r"""[\s/]*+(?:>|([^\s/>][^\s/>=]*+)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+|(?=>)))?+)"""
)

_NAMES = """
align alt border class colspan datetime dir height lang open rowspan scope span start title type
valign value width"""
#: Neither `id` nor `name`: by these, markup can stand in for variables of the page that shows it.
_ATTRIBUTES = frozenset(_NAMES.split())

#: Schemes that links and images may have. What a picture has inside runs nowhere.
_LINK = re.compile(r"(?:https?:|mailto:|#)", re.IGNORECASE)
_IMAGE = re.compile(r"(?:https?:|data:image/(?:png|jpeg|gif|webp);base64,)", re.IGNORECASE)

#: What a browser drops from the beginning and the middle of a URL.
_IGNORED = re.compile(r"[\x00-\x20]+")

_SVG_ELEMENTS = """
svg g path rect circle ellipse line polyline polygon text tspan textPath defs clipPath mask pattern
marker symbol use linearGradient radialGradient stop title desc"""
_SVG_TAGS = frozenset(_SVG_ELEMENTS.split())
_SVG_REFERENCES = frozenset(("href", "xlink:href"))

#: What an attribute of SVG may not have: functions that load, what could be one, and a place
#: outside of the picture.
_SVG_CODE = re.compile(
    r"\\|@|/\*|javascript:|expression|\bposition\s*:|\b(?:image|image-set|src|cross-fade)\s*\(",
    re.IGNORECASE,
)
_SVG_URL = re.compile(r"url\s*\(\s*['\"]?\s*([^\s'\"]?)", re.IGNORECASE)

_MARKDOWN_TAG = re.compile(r"<(?=[a-zA-Z/!?])")
_MARKDOWN_CODE = re.compile(r"\b(?:javascript|vbscript)\s*:", re.IGNORECASE)

#: Where a link of Markdown leads to, perhaps in the next line of a quotation. It is only looked at:
#: what is no link after all may have one in it.
_MARKDOWN_LINK = re.compile(r"\][(:][\s>]*+(?=<([^<>\[\]\n]*+)|([^\s()<>\[\]]++))")
_ESCAPE = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_MARKDOWN_SCHEME = re.compile(r"(?:https?|mailto|attachment|unsafe):", re.IGNORECASE)

#: How often characters of a link are written as entities, of entities.
_ENCODINGS = 3


def safe_html(html: str) -> str:
    """HTML in which nothing runs and nothing is loaded but pictures."""
    return _Writer(html).written()


def safe_svg(svg: str) -> str | None:
    """SVG in which nothing runs and nothing is loaded; None if it is not well-formed."""
    try:
        return _SvgWriter().written(svg)
    except (ExpatError, ValueError):
        return None


def safe_markdown(markdown: str) -> str:
    """Markdown without HTML, and without links that run."""
    plain = _MARKDOWN_CODE.sub("unsafe:", _MARKDOWN_TAG.sub("&lt;", markdown))
    return _MARKDOWN_LINK.sub(_safe_link, plain)


def _safe_link(link: re.Match[str]) -> str:
    """A link whose scheme may be written in other ways than as it is."""
    said = link[1] or link[2] or ""
    for _ in range(_ENCODINGS):
        said = unescape(said)
    said = _IGNORED.sub("", _ESCAPE.sub("", said))
    known = _MARKDOWN_SCHEME.match(said) or _IMAGE.match(said) or not _SCHEME.match(said)
    return link[0] if known else f"{link[0]}unsafe:"


def safe_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """A mime bundle in which nothing runs."""
    safe: dict[str, Any] = {}
    for mime, value in data.items():
        kind, cleaned = _safe(mime.partition(";")[0].strip().lower(), mime, value)
        if kind not in safe or kind == mime:
            safe[kind] = cleaned
    return safe


def safe_output(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output of nbformat in which nothing runs, and whose text has no colours."""
    safe = dict(output)
    if "data" in safe:
        safe["data"] = safe_data(data_of(output))
    if "text" in safe:
        said = joined(safe["text"])
        safe["text"] = as_on_screen(said) + ("\n" if said.endswith("\n") else "")
    for name in ("ename", "evalue"):
        if name in safe:
            safe[name] = as_on_screen(joined(safe[name]))
    if isinstance(safe.get("traceback"), list):
        safe["traceback"] = [as_on_screen(str(line)) for line in safe["traceback"]]
    return safe


#: Types that are cleaned, and those that are only shown as their source: code, and markup that a
#: browser renders with its scripts.
_MARKUP = ("text/html", "image/svg+xml", "text/markdown")
_IS_CODE = re.compile(r"script|html|xsl|[/+]xml\b")


def _safe(kind: str, mime: str, value: Any) -> tuple[str, Any]:
    """A value of a mime bundle, and its type, which is plain text if it cannot be made safe."""
    if kind in _MARKUP or _IS_CODE.search(kind) is not None:
        text = joined(value)
        cleaned: str | None = None
        if len(text) <= _LONGEST:
            match kind:
                case "text/html":
                    cleaned = safe_html(text)
                case "image/svg+xml":
                    cleaned = safe_svg(text)
                case "text/markdown":
                    cleaned = safe_markdown(text)
        return ("text/plain", text) if cleaned is None else (mime, cleaned)
    if kind == "text/plain":
        return mime, as_on_screen(joined(value))
    return mime, value


class _Writer:
    """Writes HTML anew, without what could run.

    It reads in time proportional to the length, whatever it says: `html.parser` needs minutes for a
    hundred kilobytes of `<!--`.
    """

    def __init__(self, html: str) -> None:
        self._html = html
        self._at = 0
        self._parts: list[str] = []
        self._open: list[str] = []
        self._skipped: list[str] = []

    def written(self) -> str:
        while self._at < len(self._html):
            self._read()
        return "".join([*self._parts, *(f"</{tag}>" for tag in reversed(self._open))])

    def _read(self) -> None:
        """Read some text, or one tag."""
        start, html = self._at, self._html
        if html[start] != "<":
            self._at = self._find("<", start)
            self._write(html[start : self._at])
        elif html.startswith("<!--", start):
            self._at = self._find("-->", start + 4) + 3
        elif (tag := _TAG.match(html, start)) is not None:
            self._at = tag.end()
            given = self._attributes()
            if tag[1]:
                self._end(tag[2].lower())
            elif given is not None:
                self._begin(tag[2].lower(), given)
        elif html[start + 1 : start + 2] in ("!", "?", "/"):
            self._at = self._find(">", start) + 1
        else:
            self._at = start + 1
            self._write("<")

    def _find(self, wanted: str, start: int) -> int:
        """Where something is; the end if it is nowhere, as in a browser."""
        found = self._html.find(wanted, start)
        return len(self._html) if found < 0 else found

    def _attributes(self) -> dict[str, str] | None:
        """The attributes of a tag, up to its end; None if it has no end."""
        given: dict[str, str] = {}
        while (match := _ATTRIBUTE.match(self._html, self._at)) is not None:
            self._at = match.end()
            if match[1] is None:
                return given
            value = match[2] or ""
            if value[:1] in ("'", '"'):
                value = value[1:-1]
            given.setdefault(match[1].lower(), unescape(value))
        self._at = len(self._html)
        return None

    def _begin(self, tag: str, given: Mapping[str, str]) -> None:
        if tag in _RAW:  # nothing in it is a tag, but its own end
            end = re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE).search(self._html, self._at)
            self._at = len(self._html) if end is None else self._find(">", end.end()) + 1
        elif tag in _CODE:
            if not (tag in ("svg", "math") and self._html[self._at - 2] == "/"):
                self._skipped[_DEEPEST:] = [tag]
        elif tag in _TAGS and not self._skipped and len(self._open) < _DEEPEST:
            safe = "".join(
                f' {name}="{escape(value)}"'
                for name, value in given.items()
                if _is_safe(tag, name, value)
            )
            self._parts.append(f"<{tag}{safe}>")
            if tag not in _VOID:
                self._open.append(tag)

    def _end(self, tag: str) -> None:
        if self._skipped:
            if tag in self._skipped:
                while self._skipped.pop() != tag:
                    pass
        elif tag in self._open:
            while True:
                last = self._open.pop()
                self._parts.append(f"</{last}>")
                if last == tag:
                    break

    def _write(self, text: str) -> None:
        if not self._skipped:
            self._parts.append(escape(unescape(text), quote=False))


def _is_safe(tag: str, name: str, value: str) -> bool:
    url = _IGNORED.sub("", value)
    if name == "href":
        return tag == "a" and _LINK.match(url) is not None
    if name == "src":
        return tag == "img" and _IMAGE.match(url) is not None
    return name in _ATTRIBUTES


class _SvgWriter:
    """Writes SVG anew while it is read, without what could run or load.

    It builds no document of it: one of a megabyte would take hundreds, and time that grows with the
    square of what is left out.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._open = self._skipped = 0
        """Elements that are written and have not ended, and those in one that is left out."""
        self._is_begun = False
        """Whether the last tag can still become that of an empty element."""

    def written(self, svg: str) -> str:
        """The same without what could run.

        Raises:
            ExpatError, ValueError: It is not well-formed, or no SVG.
        """
        parser = ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._write
        parser.EntityDeclHandler = self._refuse  # a few can stand for a hundred megabytes
        parser.Parse(svg, True)
        return "".join(self._parts)

    def _begin(self, tag: str, given: dict[str, str]) -> None:
        if not self._parts and tag != "svg":
            raise ValueError("no SVG")
        if self._skipped or tag not in _SVG_TAGS:
            self._skipped += 1
            return
        self._open += 1
        if self._open > _DEEPEST:
            raise ValueError("nested without end")
        self._close_tag()
        safe = "".join(
            f' {name}="{_as_attribute(value)}"'
            for name, value in given.items()
            if _is_safe_in_svg(name, value)
        )
        self._parts.append(f"<{tag}{safe}")
        self._is_begun = True

    def _end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
            return
        self._open -= 1
        self._parts.append("/>" if self._is_begun else f"</{tag}>")
        self._is_begun = False

    def _write(self, text: str) -> None:
        if not self._skipped:
            self._close_tag()
            self._parts.append(escape(text, quote=False))

    def _close_tag(self) -> None:
        if self._is_begun:
            self._parts.append(">")
            self._is_begun = False

    def _refuse(self, *declaration: object) -> None:
        raise ValueError("it declares entities")


def _as_attribute(value: str) -> str:
    """A value as XML has it: line ends and tabs would become spaces."""
    said = escape(value)
    return said.replace("\n", "&#10;").replace("\t", "&#9;").replace("\r", "&#13;")


def _is_safe_in_svg(name: str, value: str) -> bool:
    if name.lower().startswith("on"):
        return False
    if name.lower() in _SVG_REFERENCES:
        return value.strip().startswith("#")
    if name.startswith("xmlns"):
        return value in ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink")
    value = _IGNORED.sub(" ", value)
    loads = any(found != "#" for found in _SVG_URL.findall(value))
    return ":" not in name and not loads and _SVG_CODE.search(value) is None
