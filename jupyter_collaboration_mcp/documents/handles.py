"""Handles: how answers name a cell or a text file, and how that name comes back as a guard.

An answer shows `[3] 8f2c41d0@9ab1c2`: index, the beginning of the id, revision. Whoever sends
`8f2c41d0@9ab1c2` back in place of an id has read the cell at that revision, and wants nothing to
happen if it has changed since. For a text file the handle is its path and its revision.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2s
from typing import NamedTuple

from ..errors import InvalidArgument

#: Characters of an id that are shown at least, and up to which it is shown whole.
_SHORTEST, _WHOLE = 8, 12

_REVISION = re.compile(r"[0-9a-f]{6}")

#: What stands before a handle, if it is copied with all that an answer shows.
_INDEX = re.compile(r"^\[-?\d{1,9}\]\s+")

#: An id that cannot look like anything else.
_PLAIN = re.compile(r"[\w.+-]{1,64}")

#: Stands before what a cell says, where a cell is named by that. Ids have no colon.
TEXT = "text:"

_EXAMPLE = "8f2c41d0@9ab1c2"


class Handle(NamedTuple):
    """A cell or a text file, as a caller names it."""

    name: str
    """The id or the beginning of it; the path."""
    revision: str | None = None
    """At which the caller has read it."""


def revision(cell_type: str, source: str) -> str:
    """Six hexadecimal characters for the type and source of a cell; outputs do not count."""
    # Half a surrogate pair cannot be stored, but a caller's wish may have one.
    content = f"{cell_type}\0{source}".encode(errors="surrogatepass")
    return blake2s(content, digest_size=3).hexdigest()


def parse_cell(given: str) -> Handle:
    """A cell as a caller names it: its id, with or without a revision.

    Raises:
        InvalidArgument: It is neither.
    """
    text = _INDEX.sub("", given.strip(), count=1)
    cell_id, rest = _unquoted(text)
    if not rest:
        return Handle(cell_id)
    revision = rest[1:]
    if not cell_id or not revision or "@" in revision:
        wrong = "two @ signs" if "@" in revision else f"no {'revision' if cell_id else 'id'}"
        raise InvalidArgument(
            f"{given[:80]!r} is not a valid cell handle: it has {wrong}. Nothing was done.",
            f"Copy the handle from an answer, such as {_EXAMPLE}, or give the id alone.",
        )
    return Handle(cell_id, parse_revision(revision))


def parse_path(given: str) -> Handle:
    """A path that may have a revision at its end. A file's own name may look like that, too."""
    path, at, revision = given.rpartition("@")
    if at and path and _REVISION.fullmatch(revision):
        return Handle(path, revision)
    return Handle(given)


def parse_revision(given: str) -> str:
    """A revision as a caller writes it: alone, or with what stands around it in an answer.

    Raises:
        InvalidArgument: It is none.
    """
    revision = given.strip().rpartition("@")[2].removeprefix("r:")
    if not _REVISION.fullmatch(revision):
        raise InvalidArgument(
            f"{given[:80]!r} is not a revision, which is six hexadecimal digits. Nothing was done.",
            f"Copy it from an answer: in {_EXAMPLE} it is the part after the @.",
        )
    return revision


def _unquoted(text: str) -> tuple[str, str]:
    """An id and what follows it, from the at-sign on. An odd id is shown in quotes."""
    if text.startswith('"'):
        try:
            cell_id, end = json.JSONDecoder().raw_decode(text)
            return str(cell_id), text[end:]
        except ValueError:
            pass
    cell_id, at, revision = text.partition("@")
    return cell_id, at + revision


def cell_handle(index: int, short_id: str, revision: str) -> str:
    """A cell, as answers show it."""
    return f"[{index}] {short_id}@{revision}"


def brief_id(cell_id: str) -> str:
    """The beginning of the id of a cell that may not be there any more."""
    shown = cell_id if len(cell_id) <= _WHOLE else cell_id[:_SHORTEST]
    return shown if _PLAIN.fullmatch(shown) else json.dumps(shown)


def short_id(cell_id: str, ordered: Sequence[str]) -> str:
    """The beginning of an id that no other cell has, as a word that cannot look like ours.

    Args:
        ordered: The ids of all cells, sorted: those that begin alike stand beside each other.
    """
    at = bisect_left(ordered, cell_id)
    length = _SHORTEST
    for other in (*ordered[max(0, at - 1) : at], *ordered[at + 1 : at + 2]):
        while length < len(cell_id) and other.startswith(cell_id[:length]):
            length += 1
    shown = cell_id[:length]
    return shown if _PLAIN.fullmatch(shown) else json.dumps(shown[:64])
