"""Where a call works: on which server, at which path, in which document."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..backends.protocols.room_ids import Kind
from ..documents.handles import parse_path
from ..documents.notebook import Notebook
from ..errors import DocumentNotFound, InvalidArgument, ReadOnly
from ..workspace.permissions import Level, clean_path
from ..workspace.permits import Call, Permit
from ..workspace.sites import Site, SiteDocument
from .parts import Parts


class Place(NamedTuple):
    """A path that a call has named, on its server, and that it may use."""

    site: Site
    permit: Permit
    revision: str | None = None
    """The revision that the caller has read, if it gave a handle."""


class SiteTools:
    """Tools that work on the documents of one or several servers."""

    def __init__(self, parts: Parts) -> None:
        self._sites = parts.sites

    async def _open(
        self, call: Call, level: Level, path: str, kind: Kind | None = "notebook"
    ) -> SiteDocument:
        """Join a document, if the caller has permission."""
        site, permit, revision = await self._named(call, level, path)
        try:
            here = await site.open(permit, kind)
        except DocumentNotFound as error:
            raise self._sites.unknown(path, error) from error
        if level is Level.write and not here.peer.link.writable:
            await here.peer.refresh()  # a deleted file cannot be written either
            here = await site.workspace.again(here, permit)  # or was just renamed
            if not here.peer.link.writable:
                # A server would accept the edit and never save it.
                raise ReadOnly.at(here.name)
        if level is Level.read:
            await here.peer.refresh()
        if revision is not None and isinstance(here.peer.document, Notebook):
            raise InvalidArgument(
                f"{here.label} is a notebook. Its cells have revisions; the notebook has none.",
                "Leave @ and the revision out of the path, and name cells by their handles.",
            )
        return here if revision is None else replace(here, expected=revision)

    async def _named(self, call: Call, level: Level, path: str) -> Place:
        """A path that may be a handle."""
        handle = parse_path(path)
        if handle.revision is None:
            return await self._place(call, level, path)
        named = await self._place(call, level, handle.name)
        site, local = self._sites.find(path)
        if await site.workspace.filing.is_taken(clean_path(local)):  # its name is like a handle
            return await self._place(call, level, path)
        return named._replace(revision=handle.revision)

    async def _place(self, call: Call, level: Level, path: str) -> Place:
        """A path, if the caller has permission."""
        site, local = self._sites.find(path)
        return Place(site, await call.permit(site, level, local))
