"""Single cells as resources: their source, under both schemes."""

from __future__ import annotations

from collections.abc import Sequence

from ..documents import srcmd
from ..documents.addresses import Cell, CellFile
from ..documents.languages import Language, ending_of, language_of
from ..workspace.cell_reading import read_cells
from ..workspace.permits import Call
from ..workspace.sites import SiteDocument
from .kinds import Content
from .metadata import cell_meta
from .of_documents import OfDocuments

#: What the source of a cell is that has no code.
_MIMES = {"markdown": "text/markdown", "raw": "text/plain"}


class Cells(OfDocuments):
    """`notebook://{session}/{notebook}/cells/{cell}`."""

    template = Cell.TEMPLATE
    description = "The source of a cell; cell: its id, or the beginning of it."

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        address = Cell.parse(uri)
        if address is None:
            return None
        here = await self._documents.open(call, address.session, address.notebook, "notebook")
        return [_content(here, here.peer.notebook.find(address.cell))]


class CellFiles(OfDocuments):
    """`file:///notebooks/{session}/{notebook}/cells/{name}`."""

    template = CellFile.TEMPLATE
    description = "The same as a virtual file; name: id, id.py, or its name in the .src.md."

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        address = CellFile.parse(uri)
        if address is None:
            return None
        here = await self._documents.open(call, address.session, address.notebook, "notebook")
        return [_content(here, await _find(here, address.name))]


async def _find(here: SiteDocument, name: str) -> int:
    """The index of a cell by its id, its id with an ending, or its name in the source file."""
    notebook = here.peer.notebook
    for wanted in (name, name.rpartition(".")[0]):
        if wanted and notebook.has(wanted):
            return notebook.find(wanted)
    ending = ending_of(_language(here).name)
    views = await read_cells(notebook, lambda: range(len(notebook)), False, None)
    for view, named in zip(views, srcmd.file_names(views, ending), strict=True):
        if named == name:
            return notebook.find(view.id)
    return notebook.find(name)


def _content(here: SiteDocument, index: int) -> Content:
    cell, language = here.peer.notebook.view(index), _language(here)
    mime = _MIMES.get(cell.cell_type, language.mime)
    return Content(mime, cell.source, cell_meta(here.peer, cell, language))


def _language(here: SiteDocument) -> Language:
    return language_of(here.peer.notebook.notebook_metadata)
