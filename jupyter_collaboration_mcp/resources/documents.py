"""Which document a URI means, and whether the caller may read it."""

from __future__ import annotations

from typing import NamedTuple

from ..backends.protocols.forks import Fork
from ..backends.protocols.room_ids import Kind
from ..errors import DocumentNotFound, SessionNotFound
from ..workspace.permissions import Level
from ..workspace.permits import Call, Permit
from ..workspace.sites import Site, SiteDocument, Sites


class Found(NamedTuple):
    """A document that the caller may read."""

    site: Site
    permit: Permit
    fork: Fork | None
    """The fork that the URI means; the permit is for the document that it was forked from."""

    async def open(self, kind: Kind | None = None) -> SiteDocument:
        """Join it.

        Args:
            kind: What it must be; None if it may be either.
        """
        return await self.site.open(self.permit, kind, self.fork)

    def id_of(self, notebook: str) -> str:
        """The file id, if it is known, of what a URI names by its id or its path."""
        if self.fork is not None or not _is_path(notebook):
            return notebook
        return self.site.workspace.file_id(self.permit.path) or notebook


class Documents:
    """Documents of some servers, by what their URIs say."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites

    async def find(self, call: Call, notebook: str) -> Found:
        """A document by its file id, the id of a fork, or its path.

        A path has a slash or an ending, and an id has neither.

        Raises:
            CollaborationError: There is none, or the caller may not read it.
        """
        if _is_path(notebook):
            site, path = self.sites.find(notebook)
            return Found(site, await call.permit(site, Level.read, path), None)
        found = await self.sites.document(notebook)
        if found is None or not call.knows(found[0].workspace, found[1]):
            raise DocumentNotFound(
                f"There is no notebook {notebook[:100]!r}.", "Use a link from an answer."
            )
        site, path = found
        path = await site.workspace.find(notebook, path)
        call.require_shown(site.workspace, path)
        permit = await call.permit(site, Level.read, path)
        return Found(site, permit, await site.workspace.forking.find(notebook))

    async def open(
        self, call: Call, session: str, notebook: str, kind: Kind | None = None
    ) -> SiteDocument:
        """Join a document.

        Args:
            session: The session of the server, or of the caller at this document.

        Raises:
            CollaborationError: There is none, or the caller may not read it.
        """
        here = await (await self.find(call, notebook)).open(kind)
        if session not in (here.peer.link.session_id, here.seat.session):
            raise SessionNotFound.of(session)
        return here


def _is_path(notebook: str) -> bool:
    """Whether a path is named, and not an id."""
    return "/" in notebook or "." in notebook
