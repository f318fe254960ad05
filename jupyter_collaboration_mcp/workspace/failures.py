"""Cells whose last run failed."""

from __future__ import annotations

from ..documents.outputs import error_name
from . import cell_selection
from .cell_reading import read_cells
from .open_document import OpenDocument


async def failing_cells(here: OpenDocument) -> list[str]:
    """The ids of the cells that show an error, in the order of the notebook."""
    notebook = here.peer.notebook
    code = lambda: cell_selection.code_indexes(notebook, None, None, wanted=False)  # noqa: E731
    cells = await read_cells(notebook, code, True, None)
    return [cell.id for cell in cells if error_name(cell.outputs)]
