"""Who wrote what: a credit names the author of what one client wrote, or of one deletion.

Credits are durable in the journal with the edit itself, and moved from there to the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ....documents.members import Member
from ....documents.updates import deletion_key, is_deletion
from ...protocols.history_messages import AuthorshipMessage
from ...protocols.versions import Source

#: Later than all that a client can write.
ALWAYS = 2**53

#: The client of what jupyter-server-ydoc loads from a file first.
_LOADER = 0


class Credit(NamedTuple):
    """The author of what a client wrote from one clock up to another, or of a deletion."""

    client: int
    clock_from: int
    clock_to: int
    deletion: bytes
    """What names the deletion (`deletion_key`); empty if this is about what was written."""
    source: Source
    member: str
    name: str
    call: str
    time: float

    @classmethod
    def of_client(cls, client: int, source: Source, member: Member | None, time: float) -> Credit:
        """Everything that a client writes."""
        who = member or Member("", "")
        return cls(client, 0, ALWAYS, b"", source, who.id, who.name, "", time)

    @classmethod
    def of_deletion(
        cls, key: bytes, source: Source, member: Member | None, time: float, call: str = ""
    ) -> Credit:
        """One deletion."""
        who = member or Member("", "")
        return cls(-1, 0, 0, key, source, who.id, who.name, call, time)


class Credits(Protocol):
    """The credits of one document."""

    def of_range(self, client: int, start: int, end: int) -> Sequence[Credit]:
        """The credits of what a client wrote, those of single calls first."""

    def of_deletion(self, key: bytes) -> Credit | None:
        """The credit of a deletion."""


class Author(NamedTuple):
    """Who made a change, and by which calls."""

    source: Source
    member: Member | None = None
    calls: tuple[str, ...] = ()
    moment: float = 0.0
    """When the first of these calls was made."""

    @property
    def who(self) -> tuple[str, str]:
        """The same for all changes of one author."""
        return self.source, self.member.id if self.member else ""


def author_of(
    update: bytes, written: Mapping[int, tuple[int, int]], known: Credits, first: bool
) -> Author:
    """The author of a row that has changed something.

    Args:
        written: What is new in it: clients, and from which clock up to which.
        first: Whether it is the first row of the document, which has what the file said.
    """
    if written:
        found = [
            each
            for client, clocks in written.items()
            for each in _authors_of(client, clocks, known)
        ]
        if first and all(author.source in ("unknown", "file") for author in found):
            return Author("file")
        return _together(found)
    if not is_deletion(update):
        return Author("file")  # a room was loaded, and stored its whole state
    credit = known.of_deletion(deletion_key(update))
    return Author("unknown") if credit is None else _author(credit)


def _authors_of(client: int, clocks: tuple[int, int], known: Credits) -> Iterable[Author]:
    if client == _LOADER:
        return [Author("file")]
    found = known.of_range(client, *clocks)
    if single := [credit for credit in found if credit.clock_to < ALWAYS]:
        found = single
    return [_author(credit) for credit in found] or [Author("unknown")]


def _author(credit: Credit) -> Author:
    member = Member(credit.member, credit.name, credit.source == "agent")
    calls = (credit.call,) if credit.call else ()
    return Author(credit.source, member if credit.member else None, calls, credit.time)


def _together(authors: Sequence[Author]) -> Author:
    """One author for all: what rooms add by themselves does not count beside people and agents."""
    counted = [author for author in authors if author.source != "file"] or authors
    calls = tuple(dict.fromkeys(call for author in counted for call in author.calls))
    moment = min(author.moment for author in counted)
    if len({author.who for author in counted}) > 1:
        return Author("several", None, calls, moment)
    return counted[0]._replace(calls=calls, moment=moment)


def credits_of(edits: Iterable[AuthorshipMessage]) -> Iterator[Credit]:
    """The credits for edits of another process."""
    for edit in edits:
        who = edit.author
        source: Source = "agent" if who.is_agent else "person"
        if edit.clock_from < edit.clock_to:
            clocks = edit.client, edit.clock_from, edit.clock_to
            yield Credit(*clocks, b"", source, who.id, who.name, edit.call, edit.time)
        for key in edit.deletions:
            yield Credit.of_deletion(key, source, who, edit.time, edit.call)


def credit_values(credit: Credit) -> tuple[Any, ...]:
    """A credit as a row of a database: names may contain half a surrogate pair."""
    return tuple(
        each.encode(errors="replace").decode() if isinstance(each, str) else each for each in credit
    )
