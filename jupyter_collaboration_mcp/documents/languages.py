"""The language of a notebook's code: its name, MIME type and the ending of its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

#: By name in lower case: MIME type and ending, where the notebook itself does not say.
_KNOWN = {
    "python": ("text/x-python", ".py"),
    "r": ("text/x-r-source", ".r"),
    "julia": ("text/x-julia", ".jl"),
    "javascript": ("text/javascript", ".js"),
    "typescript": ("text/typescript", ".ts"),
    "bash": ("text/x-sh", ".sh"),
    "sql": ("text/x-sql", ".sql"),
    "c++": ("text/x-c++src", ".cpp"),
    "rust": ("text/rust", ".rs"),
    "scala": ("text/x-scala", ".scala"),
    "ruby": ("text/x-ruby", ".rb"),
}

_MIME = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


class Language(NamedTuple):
    """A programming language."""

    name: str
    mime: str


def language_in(metadata: Mapping[str, Any]) -> str | None:
    """The language that a notebook's metadata names, if any."""
    info, spec = metadata.get("language_info"), metadata.get("kernelspec")
    for said in (
        info.get("name") if isinstance(info, Mapping) else None,
        spec.get("language") if isinstance(spec, Mapping) else None,
    ):
        if isinstance(said, str) and said.strip():
            return " ".join(said.split())[:40]
    return None


def language_of(metadata: Mapping[str, Any]) -> Language:
    """The language of a notebook's code, from the notebook's metadata."""
    name, info = language_in(metadata) or "python", metadata.get("language_info")
    said = str(info.get("mimetype")) if isinstance(info, Mapping) else ""
    known, _ = _KNOWN.get(name.lower(), ("text/plain", ""))
    return Language(name, said if _MIME.fullmatch(said) else known)


def ending_of(name: str) -> str:
    """The ending of files in a language, with the dot."""
    return _KNOWN.get(name.lower(), ("", ".src"))[1]


def name_by_ending(file_name: str) -> str | None:
    """The language of a file, in lower case."""
    ending = "." + file_name.rpartition(".")[2].lower()
    return next((name for name, (_, known) in _KNOWN.items() if known == ending), None)
