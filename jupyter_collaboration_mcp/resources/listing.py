"""The documents that are open: as resources that clients list, and as one resource of all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

from ..collaboration.peer import RoomPeer
from ..documents.addresses import Document, DocumentAs, NotebookList
from ..documents.awareness import people_in
from ..documents.srcmd import title_of
from ..errors import CollaborationError
from ..tools.parts import Parts
from ..workspace.permissions import Level
from ..workspace.permits import Call
from ..workspace.sites import Site, Sites
from .documents import Documents
from .kinds import Content, Kind, Listed, Watch
from .metadata import document_meta
from .watching import watch

#: Documents of one server that are listed.
_MOST = 500


class OpenDocument(NamedTuple):
    """A document that somebody has open."""

    site: Site
    peer: RoomPeer
    path: str
    meta: dict[str, Any]

    @property
    def is_notebook(self) -> bool:
        return self.peer.link.room_id.kind == "notebook"

    @property
    def title(self) -> str:
        """The first heading of a notebook, or the name of the file."""
        if not self.is_notebook:
            return self.path.rpartition("/")[2]
        notebook = self.peer.notebook
        return title_of(notebook.views(range(len(notebook)), outputs=False), self.path)

    @property
    def address(self) -> Document:
        return Document(self.meta["sessionId"], self.meta["notebookId"])


async def open_documents(sites: Sites, call: Call) -> AsyncIterator[OpenDocument]:
    """The documents that people or agents have open, of those that the caller may read."""
    for site in sites:
        try:
            paths = await site.workspace.open_paths()
        except CollaborationError:
            continue  # a server that does not answer has nothing to list
        for path in paths[:_MOST]:
            try:
                permit = await call.permit(site, Level.read, path, uses=False)
                peer = (await site.workspace.observed(permit)).peer
                entry = await site.workspace.filing.look(permit)
            except CollaborationError:
                continue  # it has just been closed, cannot be opened, or is nobody's business
            yield OpenDocument(site, peer, path, document_meta(peer, entry))


class NotebookLists(Kind):
    """`notebook://list`."""

    template = NotebookList.TEMPLATE
    description = "The notebooks and text files that people and agents have open."
    mime = "application/json"

    def __init__(self, parts: Parts) -> None:
        self._sites = parts.sites
        self._documents = Documents(parts.sites)

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        if NotebookList.parse(uri) is None:
            return None
        await call.authorize(Level.read)
        rows = [
            {
                "id": each.meta["notebookId"],
                "title": each.title,
                "uri": each.address.format(),
                "people": people_in(each.peer.link.states),
                **each.meta,
                "path": each.site.name(each.path),
            }
            async for each in open_documents(self._sites, call)
        ]
        return [Content(self.mime, json.dumps(rows, ensure_ascii=False, indent=1))]

    async def listed(self, call: Call) -> AsyncIterator[Listed]:
        name = "Open notebooks"
        yield Listed(self.template, name, self.description, self.mime, title=name)

    async def watch(self, call: Call, uri: str, tell: Callable[[], None]) -> Watch | None:
        return await watch(self._documents, call, uri, tell)


async def listed_documents(sites: Sites, call: Call) -> AsyncIterator[Listed]:
    """Each open document, and the cells of each open notebook, as clients list them."""
    async for each in open_documents(sites, call):
        path = each.site.label_of(each.path)
        modified = each.meta.get("lastModified")
        if not each.is_notebook:
            yield Listed(
                *(each.address.format(), each.title, f"Text file {path}", "text/plain"),
                title=each.title,
                meta=each.meta,
                last_modified=modified,
            )
            continue
        count = each.meta["cellCount"]
        said = f"Notebook {path}, {count} cell{'' if count == 1 else 's'}"
        yield Listed(
            *(each.address.format(), each.title, said, "text/markdown"),
            title=each.title,
            meta=each.meta,
            last_modified=modified,
        )
        cells = DocumentAs(each.address.session, each.address.notebook, "cells")
        name = f"{each.title} (cells)"
        yield Listed(
            *(cells.format(), name, f"The cells of {path}", "application/json"),
            title=name,
            meta=each.meta,
            last_modified=modified,
        )
