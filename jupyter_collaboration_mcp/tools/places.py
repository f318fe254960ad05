"""Where a call works: on which server, at which path, in which document."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ..backends.protocols.forks import DESCRIPTION, PREFIX, TITLE, Fork
from ..backends.protocols.room_ids import Kind
from ..documents.handles import parse_path
from ..documents.notebook import Notebook
from ..documents.text import require_storable
from ..errors import (
    CollaborationError,
    DocumentNotFound,
    ForkNotFound,
    ForkRefused,
    InvalidArgument,
    ReadOnly,
)
from ..workspace.open_document import named
from ..workspace.permissions import Level, clean_path
from ..workspace.permits import Call, Permit
from ..workspace.sites import Site, SiteDocument, Sites
from .parts import Parts


class Place(NamedTuple):
    """A path that a call has named, on its server, and that it may use."""

    site: Site
    permit: Permit
    revision: str | None = None
    """The revision that the caller has read, if it gave a handle."""
    fork: Fork | None = None
    """The fork that it has named, whose root the permit is for."""

    @property
    def file_id(self) -> str | None:
        """The id of the document, if it is known: of its file, or of the fork."""
        if self.fork is not None:
            return self.fork.id
        return self.site.workspace.file_id(self.permit.path)


class SiteTools:
    """Tools that work on the documents of one or several servers."""

    #: How a proposal reaches the document, with the names of a toolset's tools.
    merging = "merge_document_fork shows it with preview=true, and {merges} it if they agree."

    def __init__(self, parts: Parts) -> None:
        self._sites = parts.sites

    async def _open(
        self,
        call: Call,
        level: Level,
        path: str,
        kind: Kind | None = "notebook",
        propose: str | None = None,
        edits: bool = True,
    ) -> SiteDocument:
        """Join a document, if the caller has permission.

        Args:
            propose: The title of a fork to open instead, in which edits are proposed.
            edits: Whether the call makes edits that begin a proposal. Without them it has nothing
                to act on before there is one.
        """
        place = await self._named(call, level, path, forks=True)
        site, permit, revision, fork = place
        if fork is not None and propose is not None:
            raise ForkRefused(
                f"{named(site.alias, fork.name)} is a fork already. Nothing was done.",
                "Leave propose out; edits of a fork stay in it until it is merged.",
            )
        try:
            proposes = call.proposes and not site.workspace.ephemeral.is_own(
                call.agent.key, permit.path
            )
            if fork is None and level > Level.read and (proposes or propose is not None):
                here = await self._proposal(call, place, kind, propose, edits)
            else:
                here = await site.open(permit, kind, fork)
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

    async def _open_with_history(self, call: Call, level: Level, path: str) -> SiteDocument:
        """Join a document whose versions the call is about.

        Raises:
            ForkRefused: The caller only proposes edits, and a version of the document is none of
                the fork that they would go to.
        """
        if level > Level.read and not names_fork(self._sites, path):
            refuse_proposing(call, "nothing was done")
        return await self._open(call, level, path, None)

    async def _proposal(
        self, call: Call, place: Place, kind: Kind | None, title: str | None, edits: bool
    ) -> SiteDocument:
        """The fork in which the caller proposes edits of a document.

        Raises:
            ForkRefused: There is none, and this call does not begin one.
        """
        site, permit, forking = place.site, place.permit, place.site.workspace.forking
        await call.permit(site, Level.write, permit.path)
        root = await site.workspace.open(permit, kind)
        if title is not None:
            title, _ = stated(title)
        if not edits and await forking.proposed(root, title, call.agent) is None:
            raise ForkRefused(
                f"This connection only proposes edits, and has not proposed any of {root.label} "
                "yet: there is no fork or kernel of yours to act on. Nothing was done.",
                "Edit or run cells first; that creates the fork.",
                path=root.name,
            )
        is_new = await forking.proposed(root, title, call.agent) is None
        fork = await forking.proposal(root, title, call.agent)
        here = await site.open(permit, kind, fork)
        if is_new:
            call.if_refused(partial(_discard_unused, call, here, fork, here.peer.version))
        merges = "an agent that is not in propose mode merges" if call.proposes else "merges"
        note = (
            f"Proposed in {here.label}; {root.label} is unchanged. Tell the person: "
            f"{self.merging.format(merges=merges)}"
        )
        if edits and note not in here.seat.notes:  # a call that failed has left it there
            here.seat.notes.append(note)
        return here

    async def _named(self, call: Call, level: Level, path: str, forks: bool = False) -> Place:
        """A path that may be a handle.

        Args:
            forks: Whether it may name a fork.
        """
        handle = parse_path(path)
        if handle.revision is None:
            return await self._place(call, level, path, forks)
        place = await self._place(call, level, handle.name, forks)
        if place.fork is not None:
            return place._replace(revision=handle.revision)
        site, local = self._sites.find(path)
        if await site.workspace.filing.is_taken(clean_path(local)):  # its name is like a handle
            return await self._place(call, level, path)
        return place._replace(revision=handle.revision)

    async def _place(self, call: Call, level: Level, path: str, forks: bool = False) -> Place:
        """A path, if the caller has permission.

        Raises:
            ForkRefused: It names a fork, and only a file will do.
        """
        site, local = self._sites.find(path)
        if not local.startswith(PREFIX):
            return Place(site, await call.permit(site, level, local))
        fork, root = await self._fork(call, site, local)
        if not forks:
            raise ForkRefused.no_file(named(site.alias, fork.name))
        return Place(site, await call.permit(site, level, root), fork=fork)

    async def _fork(self, call: Call, site: Site, name: str) -> tuple[Fork, str]:
        """A fork that the caller may know of, and the path of what it was forked from.

        Raises:
            ForkNotFound: There is none.
        """
        fork = await site.workspace.forking.get(name.removeprefix(PREFIX))
        root = await site.workspace.forking.path_of(fork)
        if not await call.may_see(site.workspace, root):
            raise ForkNotFound.unknown(fork.id)
        return fork, root

    async def _beside(self, call: Call, site: Site, new_path: str) -> Permit:
        """A new path on the server of the old one."""
        self._sites.require_known(new_path)
        # A new path without an alias is on the server of the old one.
        other, target = self._sites.find(new_path)
        if other is not site and new_path != target:
            raise InvalidArgument(
                "The two paths are on different servers.",
                "Read it there and create it here, or choose a path on the same server.",
            )
        return await call.permit(site, Level.write, target if other is site else new_path)


async def _discard_unused(call: Call, here: SiteDocument, fork: Fork, version: int) -> None:
    """End a fork that was made for edits of which there are none."""
    if here.peer.version == version:
        with suppress(CollaborationError):  # somebody else has ended it
            await here.site.workspace.forking.end(fork, "discarded", call.agent)


def names_fork(sites: Sites, path: str) -> bool:
    """Whether a path names a fork."""
    return sites.find(path)[1].startswith(PREFIX)


def stated(title: str, description: str = "") -> tuple[str, str]:
    """A title in one line and a description, as others will read them."""
    title = " ".join(title.split())
    for each in (title, description):
        require_storable(each)
    if not title:
        raise InvalidArgument("The title is empty.", "Say in a few words what the fork is for.")
    for said, most, what in ((title, TITLE, "title"), (description, DESCRIPTION, "description")):
        if len(said) > most:
            raise InvalidArgument(
                f"The {what} has {len(said):,} characters; at most {most:,} are allowed.",
                "Shorten it.",
            )
    return title, description


def refuse_proposing(call: Call, outcome: str) -> None:
    """Refuse what only a connection that edits may do.

    Args:
        outcome: What is true now, as a clause.

    Raises:
        ForkRefused: This connection proposes edits.
    """
    if call.proposes:
        raise ForkRefused(
            f"This connection only proposes edits, so {outcome}; a person decides.",
            "Tell the person what you propose; they can let another agent do it.",
        )
