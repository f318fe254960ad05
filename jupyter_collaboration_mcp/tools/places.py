"""Where a call works: on which server, in which document, and whether it may."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..backends.protocols.files import FileEntry, Listing, Permit
from ..backends.protocols.room_ids import Kind
from ..documents.foreign_text import listed
from ..documents.handles import parse_path
from ..documents.notebook import Notebook
from ..documents.text import size
from ..errors import DocumentNotFound, InvalidArgument, ReadOnly
from ..workspace.call_limits import Limits
from ..workspace.open_document import OpenDocument
from ..workspace.permissions import Level, clean_path
from ..workspace.runs import Runs
from ..workspace.sites import Site, Sites
from ..workspace.survey import Survey, survey
from .registry import DEFAULT_LENGTH, Call

#: Lists some entries of a server: below a path, at most so many.
Ask = Callable[[Site, str, int], Awaitable[Listing]]


@dataclass(frozen=True, slots=True)
class Found:
    """What was found on one or several servers."""

    entries: list[tuple[Site, FileEntry]]
    start: int
    """How many come before these."""
    complete: bool
    """Whether these are all on the servers that were asked."""
    more: bool
    """Whether there are more, and it is known where to go on."""
    survey: Survey[Listing]
    """What each server has said."""

    def text(self, nothing: str) -> str:
        """A line for each; the first line says how to go on, if there are more."""
        lines = [_line(site, entry) for site, entry in self.entries] or [nothing]
        end = self.start + len(self.entries)
        if self.more:
            said = f"Entries {self.start} to {end - 1}; more follow, go on with start_index={end}"
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


def _fitting(entries: Sequence[tuple[Site, FileEntry]]) -> Iterator[tuple[Site, FileEntry]]:
    """As many as an answer has room for."""
    room = DEFAULT_LENGTH
    for site, entry in entries:
        room -= size(_line(site, entry)) + 1
        if room < 0:
            return
        yield site, entry


def _moment(time: object) -> str:
    """A time to the second, as servers write it."""
    return re.sub(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|\+00:00)$", r"\1Z", str(time))


def _line(site: Site, entry: FileEntry) -> str:
    size = "" if entry.size is None else f" {entry.size:,} bytes"
    kind = "/" if entry.type == "directory" else ""
    open_by = f", open by {listed(entry.people)}" if entry.people else ", open"
    read_only = "" if entry.writable else ", read-only"
    return (
        f"{site.label_of(entry.path)}{kind}{size}, changed {_moment(entry.last_modified)}"
        f"{open_by if entry.open else ''}{read_only}"
    )


async def authorize(call: Call, level: Level, site: Site, path: str) -> None:
    """Refuse what the caller may not do at a path, or at what it leads to."""
    for name in site.workspace.path_and_target(path):
        await call.authorize(level, name)


def permit(call: Call, level: Level) -> Permit | None:
    """How to ask whether the caller may do something at a path, if that depends on the path."""
    return partial(call.authorize, level) if call.by_path else None


async def visit(
    call: Call, level: Level, site: Site, path: str, kind: Kind | None = "notebook"
) -> OpenDocument:
    """Join a document, if the caller may touch what was opened and what is read until the end."""
    here = await site.open(call.agent, path, kind, permit(call, level))
    call.rechecks.append(lambda: site.workspace.recheck(here, permit(call, level)))
    return here


class PlacedTools:
    """Tools that work on the documents of one or several servers."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites

    async def _open(
        self, call: Call, level: Level, path: str, kind: Kind | None = "notebook"
    ) -> OpenDocument:
        """Join a document, if the caller may do what it wants to there."""
        site, local, revision = await self._named(call, level, path)
        try:
            here = await visit(call, level, site, local, kind)
        except DocumentNotFound as error:
            raise self._sites.unknown(path, error) from error
        if level is Level.write and not here.peer.link.writable:
            await here.peer.refresh()  # nor can a file be written that is gone
            here = await site.workspace.again(here, permit(call, level))  # or was just renamed
            if not here.peer.link.writable:
                # A server would take the edit and never save it.
                raise ReadOnly.at(here.name)
        if level is Level.read:
            await here.peer.refresh()
        if revision is not None and isinstance(here.peer.document, Notebook):
            raise InvalidArgument(
                f"{here.label} is a notebook. Its cells have revisions; the notebook has none.",
                "Leave @ and the revision out of the path, and name cells by their handles.",
            )
        return here if revision is None else replace(here, expected=revision)

    async def _named(self, call: Call, level: Level, path: str) -> tuple[Site, str, str | None]:
        """The server, the path there, and the revision if the path is a handle."""
        handle = parse_path(path)
        if handle.revision is None:
            return *await self._place(call, level, path), None
        named = await self._place(call, level, handle.name)
        site, local = self._sites.find(path)
        if await site.workspace.filing.exists(clean_path(local)):  # its name is like a handle
            return *await self._place(call, level, path), None
        return *named, handle.revision

    async def _place(self, call: Call, level: Level, path: str) -> tuple[Site, str]:
        """The server and the path there, if the caller may do what it wants to there."""
        site, local = self._sites.find(path)
        local = site.workspace.allowed_path(local)
        site.require(level)
        await authorize(call, level, site, local)
        return site, local

    async def _listed(self, call: Call, path: str, start: int, limit: int, ask: Ask) -> Found:
        """List what is below a path on the server that is named, or on all if none is.

        Args:
            start: How many to leave out, which the caller has seen.
        """
        self._sites.require_known(path)
        site, local = self._sites.find(path)
        everywhere = not path and len(self._sites) > 1

        async def listing(site: Site) -> Listing:
            folder = site.workspace.allowed_folder("" if everywhere else local)
            await authorize(call, Level.read, site, folder)
            return await ask(site, folder, start + limit)

        said = await survey(self._sites if everywhere else [site], listing)
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
        return Found(shown, start, complete, more, said)

    def _site(self, here: OpenDocument) -> Site:
        return self._sites.get(here.alias)

    def _limits(self, here: OpenDocument) -> Limits:
        return self._site(here).workspace.limits

    def _runs(self, here: OpenDocument) -> Runs:
        return self._site(here).runs
