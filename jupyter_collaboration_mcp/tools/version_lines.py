"""Versions and their authors in an answer: one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ..backends.protocols.versions import CellAuthor, ChangeCounts, Source, Version
from ..documents.content_diff import PartDiff
from ..documents.foreign_text import inline, quoted
from ..documents.members import Member
from ..documents.text import size
from ..workspace.replacing import Replaced
from .answers import how_many
from .registry import DEFAULT_LENGTH

#: Bytes that the first lines of an answer and what others did may take.
_FRAME = 2_000

_WORDS: Mapping[Source, str] = {
    "agent": "an agent",
    "person": "a person",
    "file": "the file on disk",
    "document": "its document",
    "several": "several authors",
    "unknown": "unknown",
}


def moment(seconds: float) -> str:
    """A time in ISO form, in UTC like all times in answers."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # another server may send any number
        return "unknown time"


def author_name(source: Source, author: Member | None) -> str:
    """Who it was, as a line says it."""
    if author is None or not author.name:
        return _WORDS[source]
    is_marked = author.name.endswith("(agent)")
    return inline(author.name) + (" (agent)" if source == "agent" and not is_marked else "")


def version_line(version: Version) -> str:
    """Id, time, author, what changed, and why it is kept."""
    who = author_name(version.source, version.author)
    line = f"{version.id} {moment(version.id / 1000)} {who}: {counts_line(version.counts)}"
    if version.name is not None:
        return f"{line}, named {quoted(version.name)}"
    return f"{line} (kept: {version.kept})" if version.kept else line


def version_facts(version: Version) -> dict[str, Any]:
    """The same as facts."""
    counts = version.counts
    facts: dict[str, Any] = {
        "version": version.id,
        "time": moment(version.id / 1000),
        "began": moment(version.began),
        "source": version.source,
        "author": None if version.author is None else version.author.name,
        "calls": list(version.calls),
        "changes": {key: value for key, value in _counted(counts).items() if value},
    }
    if version.name is not None:
        facts["name"] = version.name
    if version.kept is not None:
        facts["kept"] = version.kept
    return facts


def counts_line(counts: ChangeCounts) -> str:
    """What changed, in words."""
    numbers = {
        "added": counts.added,
        "edited": counts.edited,
        "deleted": counts.deleted,
        "moved": counts.moved,
        "given new outputs": counts.outputs,
    }
    said = _cells(numbers)
    if counts.lines_added or counts.lines_removed:
        said.append(f"+{counts.lines_added:,} -{counts.lines_removed:,} lines")
    return ", ".join(said) or "no change of the content"


def replaced_line(done: Replaced) -> str:
    """What a restore or a merge did, in words."""
    if done.edited == [""]:
        return "the text was changed"
    numbers = {
        "inserted": len(done.inserted),
        "deleted": len(done.deleted),
        "moved": len(done.moved),
        "edited": len(done.edited),
        "given other outputs": len(done.outputs),
    }
    return ", ".join(_cells(numbers)) or "nothing was different"


def author_notes(authors: Mapping[str, CellAuthor]) -> dict[str, str]:
    """By cell, who wrote it last and when, as a word beside its handle."""
    return {
        cell_id: f" by {author_name(each.source, each.author)} {moment(each.time)}"
        for cell_id, each in authors.items()
    }


def author_facts(
    cell_ids: Iterable[str], authors: Mapping[str, CellAuthor]
) -> dict[str, dict[str, Any]]:
    """The same as facts, of some cells."""
    return {
        cell_id: {
            "source": each.source,
            "author": None if each.author is None else each.author.name,
            "time": moment(each.time),
        }
        for cell_id in cell_ids
        if (each := authors.get(cell_id)) is not None
    }


def _cells(numbers: Mapping[str, int]) -> list[str]:
    """`2 cells added, 1 edited`: only the first says what is counted."""
    said: list[str] = []
    for verb, count in numbers.items():
        if count:
            said.append(f"{count:,} {verb}" if said else f"{how_many(count)} {verb}")
    return said


def _counted(counts: ChangeCounts) -> dict[str, int]:
    return {name: getattr(counts, name) for name in ChangeCounts.__slots__}


def fitting(parts: Sequence[PartDiff], room: int = DEFAULT_LENGTH - _FRAME) -> list[str]:
    """The text of as many differences as fit into an answer; at least of one.

    Args:
        room: Bytes that they may take.
    """
    shown: list[str] = []
    for part in parts:
        text = part.text()
        room -= size(text) + 1
        if shown and room < 0:
            break
        shown.append(text)
    return shown
