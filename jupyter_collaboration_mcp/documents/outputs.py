"""Cell outputs in few words: what a model needs of them, and never a base64 image."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .text import clip


def describe(output: Mapping[str, Any], limit: int) -> str:
    """One nbformat output as compact text of about `limit` characters at most."""
    match output.get("output_type"):
        case "stream":
            mark = "stderr:\n" if output.get("name") == "stderr" else ""
            return mark + clip(readable(output), limit)
        case "error":
            return clip(_described_error(output), limit)
        case "execute_result" | "display_data" | "update_display_data":
            return _described_data(output, limit)
        case other:
            return f"output of unknown type {clip(json.dumps(str(other)), 80)}"


def readable(output: Mapping[str, Any]) -> str:
    """All that can be read as text in one output, uncut; what a search looks into."""
    match output.get("output_type"):
        case "stream":
            return _as_on_screen(joined(output.get("text")))
        case "error":
            lines = [_headline(output), _as_on_screen("\n".join(_traceback(output)))]
            return "\n".join(line for line in lines if line)
        case _:
            data = _data(output)
            return next((_as_on_screen(joined(data[mime])) for mime in _said_in(data)), "")


def kinds(outputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Short names of what the outputs are, each once, in order: `text`, `error`, `image/png`."""
    return list(dict.fromkeys(map(_kind, outputs)))


def error_name(outputs: Iterable[Mapping[str, Any]]) -> str | None:
    """The name of the first error among the outputs, such as `NameError`."""
    for output in outputs:
        if output.get("output_type") == "error":
            return joined(output.get("ename")) or "error"
    return None


def joined(value: Any) -> str:
    """A multi-line text as nbformat allows it: a string or a list of strings."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return "".join(map(str, value))
    return str(value)


# Text as it would stand on a screen

# CSI with its parameters, OSC up to its end (links, titles), and the two-character ones.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_=>])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def _as_on_screen(text: str) -> str:
    """Without colours, and with each progress bar as it was last drawn."""
    text = _ESCAPE.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(map(_last_drawn, text.split("\n")))
    return _CONTROL.sub("", text).rstrip("\n")


def _last_drawn(line: str) -> str:
    drawn = [state for state in line.split("\r") if state.strip()]
    return drawn[-1].rstrip() if drawn else ""


# Errors

_FRAME = re.compile(r"\s*(?:Cell In|Input In|File )")
_USER_FRAME = re.compile(r"\s*(?:Cell In|Input In|File \"?<ipython-input|File \"?/tmp/ipykernel)")
_ARROW = re.compile(r"-+> ?\d+")


def _described_error(output: Mapping[str, Any]) -> str:
    headline = _headline(output)
    frames = [entry for entry in map(_as_on_screen, _frames(output)) if entry.strip()]
    own = [frame for frame in frames if _USER_FRAME.match(frame)]
    if not frames:
        return headline
    lines = _frame_lines((own or frames)[-1], headline)
    if own and frames[-1] != own[-1]:
        lines.append(f"raised in {frames[-1].strip().splitlines()[0]}")
    return "\n".join([headline, *lines])


def _headline(output: Mapping[str, Any]) -> str:
    name, value = joined(output.get("ename")), _as_on_screen(joined(output.get("evalue")))
    return f"{name or 'error'}: {value}" if value else name or "error"


def _traceback(output: Mapping[str, Any]) -> list[str]:
    traceback = output.get("traceback")
    if isinstance(traceback, str):
        return traceback.splitlines()
    return [joined(entry) for entry in traceback or ()]


def _frames(output: Mapping[str, Any]) -> Iterator[str]:
    """The frames of a traceback: IPython sends one an entry, other kernels one long text."""
    lines: list[str] = []
    for line in _as_on_screen("\n".join(_traceback(output))).split("\n"):
        if _FRAME.match(line):
            yield "\n".join(lines)
            lines = [line]
        elif lines:
            lines.append(line)
    yield "\n".join(lines)


def _frame_lines(frame: str, headline: str) -> list[str]:
    """Where it happened and the line that failed with one line before it."""
    lines = [line.rstrip() for line in frame.split("\n") if line.strip()]
    arrows = [number for number, line in enumerate(lines) if _ARROW.match(line.strip())]
    if arrows:
        return [lines[0].strip(), *lines[max(1, arrows[0] - 1) : arrows[0] + 1]]
    # A SyntaxError or a plain traceback: the source line, perhaps a caret, then the headline.
    name = headline.partition(":")[0]
    return [lines[0].strip(), *(line for line in lines[1:4] if not line.startswith(name))]


# Results and displays

_WIDGET = "application/vnd.jupyter.widget-view+json"
#: What IPython says of an object that only a browser can show.
_MERE_NAME = re.compile(r"<(?:IPython|ipywidgets)\.[\w.]+ object>")
_TABLE = "application/vnd.dataresource+json"
_NAMED_KINDS = (
    (_WIDGET, "widget"),
    (_TABLE, "table"),
    ("application/vnd.plotly", "plotly"),
    ("application/vnd.vegalite", "vega"),
    ("application/vnd.vega", "vega"),
    ("application/geo+json", "map"),
    ("image/", None),
    ("audio/", None),
    ("video/", None),
    ("application/pdf", None),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("text/latex", "latex"),
    ("application/javascript", "javascript"),
    ("application/json", "json"),
    ("text/plain", "text"),
)


def _described_data(output: Mapping[str, Any], limit: int) -> str:
    data = _data(output)
    said = _said_in(data)
    parts = [clip(readable(output), limit)] if said else []
    parts += [
        f"{_line_safe(mime)} {_size(mime, value)}"
        for mime, value in data.items()
        if mime not in said and mime != "text/plain"
    ]
    if not parts:
        parts = [readable(output) or "empty output"]
    return clip("\n".join(parts), limit + 200)


def _data(output: Mapping[str, Any]) -> Mapping[str, Any]:
    data = output.get("data")
    return data if isinstance(data, Mapping) else {}


def _said_in(data: Mapping[str, Any]) -> list[str]:
    """The one type whose text is shown; the others are only named."""
    plain = joined(data.get("text/plain")).strip()
    if plain and not (_MERE_NAME.fullmatch(plain) and len(data) > 1):
        return ["text/plain"]
    return [mime for mime in ("text/markdown",) if joined(data.get(mime)).strip()]


def _kind(output: Mapping[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            return "stderr" if output.get("name") == "stderr" else "text"
        case "error":
            return "error"
    data = _data(output)
    for prefix, name in _NAMED_KINDS:
        for mime, value in data.items():
            if mime.startswith(prefix):
                table = name == "html" and "<table" in joined(value)
                return "table" if table else name or _line_safe(mime)
    return next((_line_safe(mime) for mime in data), "empty")


def _line_safe(mime: str) -> str:
    """A type name comes from the kernel: no line of ours may be made of it."""
    return re.sub(r"[^\w.+/;=-]+", "_", mime)[:80]


def _size(mime: str, value: Any) -> str:
    content = joined(value) if isinstance(value, (str, list, tuple)) else json.dumps(value)
    binary = mime.startswith(("image/", "audio/", "video/")) or mime == "application/pdf"
    if binary and not mime.endswith("+xml"):
        letters = len(content) - content.count("\n")
        return _bytes(letters * 3 // 4 - content.rstrip("\n")[-2:].count("="))
    return _bytes(len(content.encode(errors="replace")))


def _bytes(count: int) -> str:
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
