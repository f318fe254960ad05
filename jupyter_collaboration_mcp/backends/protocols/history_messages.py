"""The history of documents as our extension sends it over REST, and as the command reads it.

The command and the extension may be of different versions: what is not known is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

from ...documents.foreign_text import NAME, words
from ...documents.members import Member, is_agent
from .versions import CellAuthor, ChangeCounts, Source, Version, VersionList

#: Below the path of the extension's own API: `history/ROOM/...`.
HISTORY = "history"

#: What the extension says of a document that is gone; a server without it says something else.
NO_DOCUMENT = "There is no such document."

#: The most edits whose authors are sent at once.
MOST_AUTHORSHIPS = 500

#: The largest integer that every program reads exactly.
_LARGEST = 2**53 - 1

_SOURCES: tuple[Source, ...] = get_args(Source)


@dataclass(frozen=True, slots=True)
class AuthorshipMessage:
    """An edit through an agent: what was written, and what was deleted."""

    client: int
    clock_from: int
    clock_to: int
    deletions: Sequence[bytes]
    """What names the deletions that it made; see `deletion_key`."""
    author: Member
    call: str
    time: float

    def dump(self) -> dict[str, Any]:
        return {
            "client": self.client,
            "clock_from": self.clock_from,
            "clock_to": self.clock_to,
            "deletions": [key.hex() for key in self.deletions],
            "id": self.author.id,
            "name": self.author.name,
            "is_agent": self.author.is_agent,
            "call": self.call,
            "time": self.time,
        }

    @classmethod
    def load(cls, value: Any) -> AuthorshipMessage:
        """The inverse of `dump`.

        Raises:
            KeyError, TypeError, ValueError: It is something else, or nobody's.
        """
        deletions = [bytes.fromhex(key) for key in value["deletions"]]
        if len(deletions) > MOST_AUTHORSHIPS or any(len(key) != 12 for key in deletions):
            raise ValueError("deletions")
        author = Member(str(value["id"])[:NAME], str(value["name"])[:NAME], bool(value["is_agent"]))
        if not author.id or is_agent(author.id) != author.is_agent:
            raise ValueError("id")
        return cls(
            _number(value["client"]),
            _number(value["clock_from"]),
            _number(value["clock_to"]),
            deletions,
            author,
            str(value["call"])[:NAME],
            float(value["time"]),
        )


def dump_versions(found: VersionList) -> dict[str, Any]:
    """Some versions as JSON."""
    return {"versions": [_dump_version(each) for each in found.versions], "more": found.more}


def load_versions(value: Any) -> VersionList:
    """The inverse of `dump_versions`.

    Raises:
        KeyError, TypeError, ValueError: It is something else.
    """
    return VersionList([_load_version(each) for each in value["versions"]], bool(value["more"]))


def dump_authors(authors: Mapping[str, CellAuthor]) -> dict[str, Any]:
    """The authors of cells as JSON."""
    return {
        cell: {"source": each.source, "author": _dump_member(each.author), "time": each.time}
        for cell, each in authors.items()
    }


def load_authors(value: Any) -> dict[str, CellAuthor]:
    """The inverse of `dump_authors`.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: It is something else.
    """
    return {
        str(cell): CellAuthor(
            _source(each["source"]), _load_member(each["author"]), float(each["time"])
        )
        for cell, each in value.items()
    }


def load_names(value: Any) -> dict[str, int]:
    """The named versions.

    Raises:
        TypeError, ValueError, AttributeError: It is something else.
    """
    return {words(str(name), NAME): _number(version) for name, version in value.items()}


def _dump_version(version: Version) -> dict[str, Any]:
    return {
        "id": version.id,
        "began": version.began,
        "source": version.source,
        "author": _dump_member(version.author),
        "calls": list(version.calls),
        "counts": asdict(version.counts),
        "name": version.name,
        "kept": version.kept,
    }


def _load_version(value: Any) -> Version:
    counts = {
        each.name: _number(value["counts"].get(each.name, 0)) for each in fields(ChangeCounts)
    }
    name, kept = value.get("name"), value.get("kept")
    return Version(
        _number(value["id"]),
        float(value["began"]),
        _source(value["source"]),
        _load_member(value["author"]),
        tuple(words(str(call), NAME) for call in value["calls"][:100]),
        ChangeCounts(**counts),
        None if name is None else words(str(name), NAME),
        None if kept is None else words(str(kept), 2 * NAME),
    )


def _dump_member(member: Member | None) -> dict[str, Any] | None:
    return None if member is None else member._asdict()


def _load_member(value: Any) -> Member | None:
    if value is None:
        return None
    return Member(str(value["id"])[:NAME], words(str(value["name"]), NAME), bool(value["is_agent"]))


def _source(value: Any) -> Source:
    return next((each for each in _SOURCES if each == value), "unknown")


def _number(value: Any) -> int:
    number = int(value)
    if not 0 <= number <= _LARGEST:
        raise ValueError(value)
    return number
