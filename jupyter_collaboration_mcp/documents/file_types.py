"""Which files a search means: by their type, by a part of their path or by a glob."""

from __future__ import annotations

import fnmatch
import mimetypes
from collections.abc import Callable

#: Whether a file is meant, by its path and its type (notebook, file, directory).
Match = Callable[[str, str], bool]

_GLOB = set("*?[")

#: Words for a type that are not an extension.
_WORDS = {
    "notebook": (".ipynb",),
    "markdown": (".md", ".markdown", ".mdx"),
    "python": (".py", ".pyi"),
    "javascript": (".js", ".mjs", ".cjs", ".jsx"),
    "typescript": (".ts", ".tsx"),
    "yaml": (".yaml", ".yml"),
    "data": (
        *(".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".feather", ".arrow"),
        *(".xlsx", ".xls", ".ods", ".h5", ".hdf5", ".nc", ".sqlite", ".db"),
    ),
    "image": (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".bmp", ".ico", ".tif", ".tiff"),
}

#: Text whatever the mimetype says, or although it says nothing.
_TEXT = (".toml", ".cfg", ".ini", ".env", ".lock", ".log", ".rst", ".json", ".jsonl", ".sql", ".sh")
_TEXT_NAMES = ("dockerfile", "makefile", "license", "readme")


def anything(path: str, kind: str) -> bool:
    return True


def of_type(wanted: str | None) -> Match:
    """Files of a type: notebook, file, directory, text, markdown, python, ..., or an extension."""
    if not wanted:
        return anything
    word = wanted.lower()
    if word in ("notebook", "file", "directory"):
        return lambda path, kind: kind == word
    if word == "folder":
        return lambda path, kind: kind == "directory"
    if word == "text":
        return lambda path, kind: kind == "file" and is_text(path)
    ends = endings(word)
    return lambda path, kind: kind != "directory" and path.lower().endswith(ends)


def endings(wanted: str | None) -> tuple[str, ...]:
    """How the names of all files of a type end, in lower case; empty if it is not by that."""
    word = (wanted or "").lower()
    if word in ("", "file", "directory", "folder", "text"):
        return ()
    return _WORDS.get(word, (f".{word.lstrip('*.')}",))


def part(wanted: str) -> str:
    """What a path has in it, in lower case; empty if a glob says it."""
    return "" if _GLOB & set(wanted) else wanted.lower()


def at_path(wanted: str) -> Match:
    """Files whose path has something in it, in upper or lower case; or that a glob fits."""
    if not wanted:
        return anything
    pattern = wanted.lower()
    if part(wanted):
        return lambda path, kind: pattern in path.lower()
    if pattern.startswith("**/"):  # in any folder, the first one too
        return lambda path, kind: fnmatch.fnmatchcase(f"/{path.lower()}", pattern)
    if "/" in pattern:
        return lambda path, kind: fnmatch.fnmatchcase(path.lower(), pattern)
    return lambda path, kind: fnmatch.fnmatchcase(path.lower().rpartition("/")[2], pattern)


def is_text(path: str) -> bool:
    """Whether a file is text, as far as its name tells."""
    lowered = path.lower()
    if lowered.endswith(_TEXT) or lowered.rpartition("/")[2] in _TEXT_NAMES:
        return True
    kind = mimetypes.guess_type(path)[0] or ""
    return kind.startswith("text/")
