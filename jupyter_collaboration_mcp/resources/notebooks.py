"""Documents as resources: a notebook as Markdown, as JSON or as its cells, and a text file."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ..documents.addresses import FORMATS, CurrentDocument, Document, DocumentAs, SourceFile
from ..documents.cell_view import CellView
from ..documents.languages import language_of
from ..errors import DocumentNotFound
from ..remedies import Intent
from ..workspace.cell_reading import render_in_thread
from ..workspace.exporting import all_cells, as_ipynb, as_srcmd
from ..workspace.permits import Call
from ..workspace.sites import SiteDocument, Sites
from .documents import Documents
from .kinds import Content, Listed
from .listing import listed_documents
from .metadata import cell_meta, document_meta, executions_meta
from .of_documents import OfDocuments
from .watching import require_form

#: Characters of a document that are served as one resource.
_MOST = 8_000_000

MARKDOWN, JSON = "text/markdown", "application/json"


class Notebooks(OfDocuments):
    """`notebook://{session}/{notebook}`; that of a text file is its text."""

    template = Document.TEMPLATE
    description = (
        "A notebook as Markdown (.src.md), or a text file. session: of the server, or yours; "
        "notebook: file id or path."
    )

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        address = Document.parse(uri)
        if address is None:
            return None
        return await read_document(
            await self._documents.open(call, address.session, address.notebook)
        )

    def listed(self, call: Call) -> AsyncIterator[Listed]:
        return listed_documents(self._sites, call)


class CurrentDocuments(OfDocuments):
    """`notebook://current`."""

    template = CurrentDocument.TEMPLATE
    description = "The document that you used last: a notebook as Markdown, or a text file."
    mime = MARKDOWN

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        if CurrentDocument.parse(uri) is None:
            return None
        return await read_document(await current_document(self._sites, self._documents, call))

    async def listed(self, call: Call) -> AsyncIterator[Listed]:
        name = "Current document"
        yield Listed(self.template, name, self.description, self.mime, title=name)


class NotebookFormats(OfDocuments):
    """`notebook://{session}/{notebook}/{format}`."""

    template = DocumentAs.TEMPLATE
    description = "A notebook in a format: srcmd (Markdown), json (nbformat) or cells (JSON)."

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        address = DocumentAs.parse(uri)
        if address is None:
            return None
        require_form(address.form)
        here = await self._documents.open(call, address.session, address.notebook, "notebook")
        return await _FORMATS[address.form](here)


class SourceFiles(OfDocuments):
    """`file:///notebooks/...src.md`."""

    template = SourceFile.TEMPLATE
    description = "The same as notebook://{session}/{notebook}, as a virtual file."
    mime = MARKDOWN

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        address = SourceFile.parse(uri)
        if address is None:
            return None
        here = await self._documents.open(call, address.session, address.notebook, "notebook")
        return await _as_markdown(here)


async def current_document(sites: Sites, documents: Documents, call: Call) -> SiteDocument:
    """The document that the caller used last.

    Raises:
        DocumentNotFound: It has used none, or that is gone.
    """
    last = sites.current(call.agent.key)
    if last is None:
        raise DocumentNotFound("You have not used any document yet.", Intent.LIST_NOTEBOOKS)
    _, room_id = last
    return await (await documents.find(call, room_id.file_id)).open()


async def read_document(here: SiteDocument) -> list[Content]:
    """A notebook as Markdown, or the text of a file."""
    if here.peer.link.room_id.kind == "notebook":
        return await _as_markdown(here)
    mime = mimetypes.guess_type(here.path)[0] or "text/plain"
    return [Content(mime, str(here.peer.text), await _meta(here))]


async def _as_markdown(here: SiteDocument) -> list[Content]:
    cells = await all_cells(here, _MOST)
    return [Content(MARKDOWN, await as_srcmd(here, cells), await _meta(here, cells))]


async def _as_json(here: SiteDocument) -> list[Content]:
    cells = await all_cells(here, _MOST)
    return [Content(JSON, await as_ipynb(here, cells, safe=True), await _meta(here, cells))]


async def _as_cells(here: SiteDocument) -> list[Content]:
    cells = await all_cells(here, _MOST)
    language = language_of(here.peer.notebook.notebook_metadata)

    def make() -> str:
        rows = [
            {
                "id": cell.id,
                "type": cell.cell_type,
                "source": cell.source,
                **cell_meta(here.peer, cell, language),
            }
            for cell in cells
        ]
        return json.dumps(rows, ensure_ascii=False, indent=1)

    return [Content(JSON, await render_in_thread(cells, make), await _meta(here, cells))]


#: By name, how to read a notebook.
_FORMATS = dict(zip(FORMATS, (_as_markdown, _as_json, _as_cells), strict=True))


async def _meta(here: SiteDocument, cells: Sequence[CellView] = ()) -> dict[str, Any]:
    entry = await here.site.workspace.entry(here)
    known = document_meta(here.peer, entry)
    return {**known, **executions_meta(cells)} if "cellCount" in known else known
