"""Cell outputs in few words: what a model needs of them, and never a base64 image."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
            return as_on_screen(joined(output.get("text")))
        case "error":
            lines = [headline(output), traceback_text(output)]
            return "\n".join(line for line in lines if line)
        case _:
            data = data_of(output)
            return next((as_on_screen(joined(data[mime])) for mime in _said_in(data)), "")


def kinds(outputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Short names of what the outputs are, each once, in order: `text`, `error`, `image/png`."""
    return list(dict.fromkeys(map(_kind, outputs)))


def explain(output: Mapping[str, Any]) -> tuple[str, bool]:
    """What follows the headline of an error, and whether that is all of the traceback.

    The user's own frames come with the lines around the failing one; those of libraries are
    counted, and so are the errors before the last one.
    """
    text = traceback_text(output)
    *before, last = _CHAIN.split(text[-_LONGEST_TRACEBACK:])
    said = headline(output)
    frames = _frames(last)
    if frames:
        lines, whole = _explained_frames(frames, joined(output.get("ename")), said.count("\n") + 1)
    else:
        lines, whole = _other_lines(last, said), True
    lines += _causes(before)
    return "\n".join(lines), whole and not before and len(text) <= _LONGEST_TRACEBACK


def says_something(data: Mapping[str, Any]) -> bool:
    """Whether the plain text of a mime bundle is more than the name of what is beside it."""
    plain = joined(data.get("text/plain")).strip()
    return bool(plain) and not (len(data) > 1 and _NAME_OF_OBJECT.fullmatch(plain))


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

# CSI with its parameters, OSC up to its end (links, titles), and the two-character ones; CSI and
# OSC can also begin with one character.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[@-Z\\-_=>]"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f]")


def as_on_screen(text: str) -> str:
    """Without colours, and with each progress bar as it was last drawn."""
    text = _ESCAPE.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(map(_last_drawn, text.split("\n")))
    return _CONTROL.sub("", text).rstrip("\n")


def _last_drawn(line: str) -> str:
    drawn = [state for state in line.split("\r") if state.strip()]
    return drawn[-1].rstrip() if drawn else ""


# Errors

# The last two are how IPython wrote them before version 8, still found in notebooks.
_FRAME = re.compile(
    r"\s*(?:Cell In|Input In|File |<ipython-input-\S+ in |(?:~|/|\w:\\)\S*\.py in )"
)
_USER_FRAME = re.compile(
    r"\s*(?:Cell In|Input In|<ipython-input|File \"?<ipython-input|File \"?/tmp/ipykernel)"
)
_LIBRARY_FRAME = re.compile(
    r"(?:site|dist)-packages|[/\\]lib(?:64)?[/\\]python\d|[/\\]Lib[/\\]|\.(?:pyx|pxi)\b"
    r"|<(?:frozen|string|magic|__array)"
)
_ARROW = re.compile(r"-+> ?\d+")
_CHAIN = re.compile(
    r"^(The above exception was the direct cause of the following exception:"
    r"|During handling of the above exception, another exception occurred:)$",
    re.MULTILINE,
)
_NAMED_TRACEBACK = re.compile(r"^([\w.]+) +Traceback \(most recent call last\)", re.MULTILINE)
_LONGEST_TRACEBACK = 100_000
_MOST_FRAMES = 3
_MOST_CAUSES = 2


def _described_error(output: Mapping[str, Any]) -> str:
    said = headline(output)
    frames = _frames(traceback_text(output))
    own = [frame for frame in frames if _USER_FRAME.match(frame)]
    if not frames:
        return said
    lines = _frame_lines((own or frames)[-1], said)
    if own and frames[-1] != own[-1]:
        lines.append(f"raised in {frames[-1].strip().splitlines()[0]}")
    return "\n".join([said, *lines])


def headline(output: Mapping[str, Any]) -> str:
    """`NameError: name 'x' is not defined`."""
    name, value = joined(output.get("ename")), as_on_screen(joined(output.get("evalue")))
    return f"{name or 'error'}: {value}" if value else name or "error"


def traceback_text(output: Mapping[str, Any]) -> str:
    """A traceback without colours, whether it came as one text or in pieces."""
    traceback = output.get("traceback")
    if not isinstance(traceback, (list, tuple)):
        return as_on_screen(joined(traceback))
    return as_on_screen("\n".join(map(joined, traceback)))


def _frames(text: str) -> list[str]:
    """The frames of a traceback: IPython sends one an entry, other kernels one long text."""
    frames: list[list[str]] = []
    for line in text.split("\n"):
        if _FRAME.match(line):
            frames.append([line])
        elif frames:
            frames[-1].append(line)
    return ["\n".join(lines) for lines in frames]


def _frame_lines(frame: str, said: str) -> list[str]:
    """Where it happened and the line that failed with one line before it."""
    lines = [line.rstrip() for line in frame.split("\n") if line.strip()]
    arrows = [number for number, line in enumerate(lines) if _ARROW.match(line.strip())]
    if arrows:
        return [lines[0].strip(), *lines[max(1, arrows[0] - 1) : arrows[0] + 1]]
    # A SyntaxError or a plain traceback: the source line, perhaps a caret, then the headline.
    name = said.partition(":")[0]
    return [lines[0].strip(), *(line for line in lines[1:4] if not line.startswith(name))]


def _explained_frames(
    frames: Sequence[str], name: str, headline_lines: int
) -> tuple[list[str], bool]:
    own = [frame for frame in frames if not _LIBRARY_FRAME.search(_place(frame))]
    library = len(frames) - len(own)
    shown = own or frames[-1:]
    left_out = max(0, len(shown) - _MOST_FRAMES)
    if left_out:
        shown = [shown[0], *shown[1 - _MOST_FRAMES :]]
    parts = ["\n".join(_with_context(frame, name)) for frame in shown]
    if left_out:
        parts.insert(1, f"... {left_out:,} frame{'s'[: left_out > 1]} left out ...")
    if not own:
        library -= 1
    elif frames[-1] != own[-1]:
        library -= 1
        parts.append(f"raised in {_place(frames[-1])}")
    if library:
        parts.append(f"... {library:,} library frame{'s'[: library > 1]} left out ...")
    last = frames[-1].split("\n")
    # What was added to an exception by add_note() stands below its headline.
    notes = [line for line in last[_headline_at(last, name) + headline_lines :] if line.strip()]
    whole = len(shown) == len(frames) and len(notes) <= _MOST_CONTEXT
    return [*parts, *notes[:_MOST_CONTEXT]], whole


def _place(frame: str) -> str:
    """The first line of a frame, which says where it is."""
    return frame.lstrip().partition("\n")[0].strip()


def _headline_at(lines: Sequence[str], name: str) -> int:
    pattern = re.compile(rf"(?:[\w.]+\.)?{re.escape(name)}(?::|$)")
    found = (number for number, line in enumerate(lines) if name and pattern.match(line))
    return next(found, len(lines))


def _with_context(frame: str, name: str) -> Iterator[str]:
    """Where it is, the failing line and those around it."""
    lines = frame.split("\n")
    lines = [line.rstrip() for line in lines[: _headline_at(lines, name)] if line.strip()]
    yield lines[0].strip()
    arrow = next((n for n, line in enumerate(lines) if _ARROW.match(line.strip())), 1)
    first = max(1, min(arrow - 3, len(lines) - _MOST_CONTEXT))
    yield from lines[first : first + _MOST_CONTEXT]


_MOST_CONTEXT = 8


def _other_lines(text: str, said: str) -> list[str]:
    """The traceback of another kernel, as it is but for the headline."""
    lines = [line for line in text.split("\n") if line.strip("- ")]
    if lines and lines[-1].strip() == said:
        lines.pop()
    if lines and lines[0].strip() == said:
        lines.pop(0)
    return lines


def _causes(before: Sequence[str]) -> Iterator[str]:
    """The errors that led to the last one, latest first, a line each."""
    told = list(zip(before[::2], before[1::2], strict=True))[::-1]
    for text, link in told[:_MOST_CAUSES]:
        lines = [line for line in text.split("\n") if line.strip()] or ["an error"]
        named = _NAMED_TRACEBACK.search(text)
        starts = [line for line in lines if named and line.startswith(f"{named[1]}:")]
        own = [_place(frame) for frame in _frames(text)]
        own = [place for place in own if not _LIBRARY_FRAME.search(place)]
        how = "caused by" if link.startswith("The above") else "while handling"
        where = f" ({own[-1]})" if own else ""
        yield f"{how} {clip((starts or lines)[-1].strip(), 300)}{where}"
    if len(told) > _MOST_CAUSES:
        yield f"... {len(told) - _MOST_CAUSES:,} earlier ones left out ..."


# Results and displays

_WIDGET = "application/vnd.jupyter.widget-view+json"
#: What IPython says of an object that only a browser can show.
_MERE_NAME = re.compile(r"<(?:IPython|ipywidgets)\.[\w.]+ object>")
#: What objects without a text of their own say: an image is beside `<Figure with 1 Axes>`.
_NAME_OF_OBJECT = re.compile(r"<[^\n]{1,200}>")
TABLE = "application/vnd.dataresource+json"
_NAMED_KINDS = (
    (_WIDGET, "widget"),
    (TABLE, "table"),
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
    data = data_of(output)
    said = _said_in(data)
    parts = [clip(readable(output), limit)] if said else []
    parts += [
        f"{line_safe(mime)} {size(mime, value)}"
        for mime, value in data.items()
        if mime not in said and mime != "text/plain"
    ]
    if not parts:
        parts = [readable(output) or "empty output"]
    return clip("\n".join(parts), limit + 200)


def data_of(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """Its mime bundle; keys that are no strings cannot be types."""
    data = output.get("data")
    if not isinstance(data, Mapping):
        return {}
    return {mime: value for mime, value in data.items() if isinstance(mime, str)}


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
    data = data_of(output)
    for prefix, name in _NAMED_KINDS:
        for mime, value in data.items():
            if mime.startswith(prefix):
                table = name == "html" and "<table" in joined(value)
                return "table" if table else name or line_safe(mime)
    return next((line_safe(mime) for mime in data), "empty")


def line_safe(mime: str) -> str:
    """A type name comes from the kernel: no line of ours may be made of it."""
    return re.sub(r"[^\w.+/;=-]+", "_", mime)[:80]


def size(mime: str, value: Any) -> str:
    """How large one value of a mime bundle is: the image itself, not its base64."""
    content = joined(value) if isinstance(value, (str, list, tuple)) else compact(value)
    binary = mime.startswith(("image/", "audio/", "video/")) or mime == "application/pdf"
    if binary and not mime.endswith("+xml"):
        letters = len(content) - content.count("\n")
        return byte_count(max(0, letters * 3 // 4 - content.rstrip("\n")[-2:].count("=")))
    return byte_count(len(content.encode(errors="replace")))


def compact(value: Any) -> str:
    """JSON on one line, whatever the value is made of."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    except (ValueError, RecursionError):
        return str(type(value))


def byte_count(count: int) -> str:
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
