"""Where a call works: on which server, in which document, and whether it may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..backends.base import Kind
from ..backends.files import FileEntry, Listing, Permit
from ..documents.foreign_text import listed
from ..errors import DocumentNotFound, ReadOnly
from ..workspace.permissions import Level
from ..workspace.runs import Runs
from ..workspace.sites import Site, Sites
from ..workspace.survey import Survey, survey
from ..workspace.workspace import Limits, OpenDocument
from .registry import Call

#: Lists some entries of a server: below a path, at most so many.
Ask = Callable[[Site, str, int], Awaitable[Listing]]


@dataclass(frozen=True, slots=True)
class Found:
    """What was found on one or several servers."""

    entries: list[tuple[Site, FileEntry]]
    complete: bool
    """Whether these are all that the servers have that were asked."""
    survey: Survey[Listing]
    """What each server has said."""

    def text(self, nothing: str, more: str) -> str:
        """A line for each."""
        lines = [_line(site, entry) for site, entry in self.entries] or [nothing]
        return "\n".join([*lines, *([] if self.complete else [more]), *self.survey.lines])

    @property
    def facts(self) -> dict[str, Any]:
        """Whether these are all, and what is wrong with servers that could not be asked."""
        complete = self.complete and not self.survey.troubles
        return {"complete": complete, **self.survey.facts}


def _line(site: Site, entry: FileEntry) -> str:
    size = "" if entry.size is None else f" {entry.size:,} bytes"
    kind = "/" if entry.type == "directory" else ""
    open_by = f", open by {listed(entry.people)}" if entry.people else ", open"
    read_only = "" if entry.writable else ", read-only"
    return (
        f"{site.show(entry.path)}{kind}{size}, changed {entry.last_modified}"
        f"{open_by if entry.open else ''}{read_only}"
    )


async def authorize(call: Call, level: Level, site: Site, path: str) -> None:
    """Refuse what the caller may not do at a path, or at what it leads to."""
    for name in site.workspace.names(path):
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
        site, local = await self._place(call, level, path)
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
        return here

    async def _place(self, call: Call, level: Level, path: str) -> tuple[Site, str]:
        """The server and the path there, if the caller may do what it wants to there."""
        site, local = self._sites.find(path)
        local = site.workspace.resolve(local)
        site.require(level)
        await authorize(call, level, site, local)
        return site, local

    async def _listed(self, call: Call, path: str, limit: int, ask: Ask) -> Found:
        """List what is below a path on the server that is named, or on all if none is."""
        self._sites.require_known(path)
        site, local = self._sites.find(path)
        everywhere = not path and len(self._sites) > 1

        async def listing(site: Site) -> Listing:
            folder = site.workspace.resolve_folder("" if everywhere else local)
            await authorize(call, Level.read, site, folder)
            return await ask(site, folder, limit)

        said = await survey(self._sites if everywhere else [site], listing)
        entries = [(site, entry) for site, found in said.answers for entry in found.entries]
        complete = len(entries) <= limit and all(found.complete for _, found in said.answers)
        return Found(entries[:limit], complete, said)

    def _site(self, here: OpenDocument) -> Site:
        return self._sites.get(here.alias)

    def _limits(self, here: OpenDocument) -> Limits:
        return self._site(here).workspace.limits

    def _runs(self, here: OpenDocument) -> Runs:
        return self._site(here).runs
