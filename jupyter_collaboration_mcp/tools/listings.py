"""Files of one or several servers as an answer: which, how many, and how to continue."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..backends.protocols.files import FileEntry, Listing
from ..documents.foreign_text import listed
from ..documents.text import size
from ..errors import InvalidArgument
from ..workspace.permits import Call, Permit
from ..workspace.sites import Site, Sites
from ..workspace.survey import Survey, survey
from .registry import DEFAULT_LENGTH

#: Lists some entries of a server: below a permitted path, at most so many.
Ask = Callable[[Site, Permit, int], Awaitable[Listing]]


@dataclass(frozen=True, slots=True)
class FileListing:
    """Some files of one or several servers."""

    entries: list[tuple[Site, FileEntry]]
    start: int
    """How many come before these entries."""
    complete: bool
    """Whether these are all on the servers that were asked."""
    more: bool
    """Whether there are more, and it is known where to continue."""
    survey: Survey[Listing]
    """What each server answered."""

    def text(self, nothing: str) -> str:
        """A line for each; the first line says how to continue, if there are more."""
        lines = [_line(site, entry) for site, entry in self.entries] or [nothing]
        end = self.start + len(self.entries)
        if self.more:
            said = (
                f"Entries {self.start} to {end - 1}; more follow, continue with start_index={end}"
            )
            lines.insert(0, said)
        elif not self.complete:
            lines.insert(0, "Not all folders were searched; narrow the path.")
        return "\n".join([*lines, *self.survey.lines])

    @property
    def facts(self) -> dict[str, Any]:
        """Whether these are all, and what is wrong with servers that could not be asked."""
        complete = self.complete and not self.survey.troubles
        more = {"next_index": self.start + len(self.entries)} if self.more else {}
        return {"complete": complete, **more, **self.survey.facts}


async def list_files(
    call: Call, sites: Sites, path: str, start: int, limit: int, ask: Ask
) -> FileListing:
    """List what is below a path on the server that is named, or on all if none is.

    Args:
        start: How many to leave out, which the caller has seen.
    """
    sites.require_known(path)
    site, local = sites.find(path)
    everywhere = not path and len(sites) > 1

    async def listing(site: Site) -> Listing:
        permit = await call.permit_listing(site, "" if everywhere else local)
        return await ask(site, permit, start + limit)

    said = await survey(sites if everywhere else [site], listing)
    entries = [(site, entry) for site, found in said.answers for entry in found.entries]
    if start and start >= len(entries) and not said.troubles:
        raise InvalidArgument(
            f"start_index is {start}, but there are only {len(entries)} entries.",
            "Start from an earlier entry; the first is 0.",
        )
    shown = list(_fitting(entries[start : start + limit]))
    end = start + len(shown)
    stopped = any(
        not found.complete and len(found.entries) >= start + limit for _, found in said.answers
    )
    more = bool(shown) and (end < len(entries) or stopped)
    complete = not more and all(found.complete for _, found in said.answers)
    return FileListing(shown, start, complete, more, said)


def file_facts(site: Site, entry: FileEntry) -> dict[str, Any]:
    """A file as the answers describe it."""
    return {
        "name": entry.name,
        "path": site.name(entry.path),
        "type": entry.type,
        "created": entry.created,
        "last_modified": entry.last_modified,
        "size": entry.size,
        "writable": entry.writable,
        "open": entry.open,
        "people": list(entry.people),
    }


def _fitting(entries: Sequence[tuple[Site, FileEntry]]) -> Iterator[tuple[Site, FileEntry]]:
    """As many entries as fit into an answer."""
    room = DEFAULT_LENGTH
    for site, entry in entries:
        room -= size(_line(site, entry)) + 1
        if room < 0:
            return
        yield site, entry


def _line(site: Site, entry: FileEntry) -> str:
    size = "" if entry.size is None else f" {entry.size:,} bytes"
    kind = "/" if entry.type == "directory" else ""
    open_by = f", open by {listed(entry.people)}" if entry.people else ", open"
    read_only = "" if entry.writable else ", read-only"
    return (
        f"{site.label_of(entry.path)}{kind}{size}, changed {_moment(entry.last_modified)}"
        f"{open_by if entry.open else ''}{read_only}"
    )


def _moment(time: object) -> str:
    """A time to the second, as servers write it."""
    return re.sub(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|\+00:00)$", r"\1Z", str(time))
