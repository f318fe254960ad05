"""What a person may mean by the beginning of a path, a cell or a version: for completion."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ..backends.protocols.files import Listing
from .open_document import OpenDocument, escaped
from .permits import Call
from .sites import Site, SiteDocument, Sites
from .survey import survey

#: Values that are looked for: one more than an answer has, so that it can say that there are more.
MOST = 101


async def file_paths(
    call: Call, sites: Sites, beginning: str, file_type: str, limit: int = MOST
) -> list[str]:
    """Paths of files of a type that the caller may see, whose path or name begins in some way;
    those that somebody has open come first.

    Args:
        beginning: With or without the alias of a server.

    Raises:
        CollaborationError: No server answers, or the caller may see no files.
    """
    named, local = sites.find(beginning)
    everywhere = local == beginning and len(sites) > 1

    async def ask(site: Site) -> Listing:
        permit = await call.permit_listing(site, "")
        return await site.workspace.filing.listings.beginning(permit, local, file_type, limit)

    said = await survey(sites if everywhere else [named], ask)
    found = [(site, entry) for site, listing in said.answers for entry in listing.entries]
    seen = [
        (site, entry) for site, entry in found if await call.may_see(site.workspace, entry.path)
    ]
    seen.sort(key=lambda each: not each[1].open)
    return [site.name(escaped(entry.path)) for site, entry in seen[:limit]]


def cell_ids(
    here: OpenDocument, beginning: str, among: Sequence[int] | None = None, limit: int = MOST
) -> list[str]:
    """Short ids of cells whose ids begin in some way, in the order of the notebook.

    Args:
        among: The cells in question; all if there are none.
    """
    notebook = here.peer.notebook
    indexes = range(len(notebook)) if among is None else among
    fitting = (index for index in indexes if notebook.id_at(index).startswith(beginning))
    return [notebook.short_id(index) for index in islice(fitting, limit)]


async def version_names(here: SiteDocument, beginning: str, limit: int = MOST) -> list[str]:
    """Names and ids of versions of a document that begin in some way: first names, then the ids,
    newest first.

    Raises:
        NeedsExtension: Its server keeps no history that we can read.
    """
    versions, room_id = here.site.workspace.versions, here.peer.link.room_id
    named = await versions.named(room_id)
    names = [name for name in named if name.casefold().startswith(beginning.casefold())]
    latest = await versions.list(room_id, limit)
    ids = [str(each.id) for each in latest.versions]
    return [*names, *(each for each in ids if each.startswith(beginning))][:limit]
