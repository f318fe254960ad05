"""A notebook in other formats: what it says now, also what nobody has saved yet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from ..documents import srcmd
from ..documents.cell_view import CellView
from ..documents.languages import language_of
from ..documents.safe_markup import safe_output
from ..documents.safe_page import safe_page
from ..errors import FileFailed, InvalidArgument, NotANotebook, TooLarge
from .cell_reading import read_cells, render_in_thread
from .open_document import OpenDocument

#: Characters of a notebook with its outputs that are exported.
_MOST = 50_000_000

Format = Literal["srcmd", "ipynb", "script", "html"]


async def export(here: OpenDocument, form: Format, page: bool) -> str:
    """A notebook in a format.

    Args:
        page: Whether HTML is a whole page, with its style; otherwise it is only what is in it.

    Raises:
        TooLarge: There is too much of it.
        InvalidArgument: This needs a package that is not installed here.
        FileFailed: That package cannot do it.
    """
    cells = await all_cells(here, _MOST)
    if form == "srcmd":
        return await as_srcmd(here, cells)
    if form == "ipynb":
        return await as_ipynb(here, cells, safe=False)
    whole = _Whole(here.peer.notebook.notebook_metadata, _attachments(here, cells))
    return await asyncio.to_thread(_convert, here.path, cells, whole, form, page)


async def all_cells(here: OpenDocument, most: int) -> list[CellView]:
    """All cells of a notebook, with their outputs.

    Args:
        most: Characters that there may be.

    Raises:
        NotANotebook: It is a text file.
        TooLarge: There are more.
    """
    if here.peer.link.room_id.kind != "notebook":
        raise NotANotebook.at(here.path, "file")
    notebook = here.peer.notebook
    cells = await read_cells(notebook, lambda: range(len(notebook)), True, None)
    size = sum(cell.weight for cell in cells)
    if size > most:
        raise TooLarge(
            f"{here.label} has {size:,} characters with its outputs; at most {most:,} are allowed.",
            "Read single cells and outputs instead.",
        )
    return cells


async def as_srcmd(here: OpenDocument, cells: Sequence[CellView]) -> str:
    """Cells of a notebook as `.src.md`."""
    language = language_of(here.peer.notebook.notebook_metadata).name
    title = srcmd.title_of(cells, here.path)
    return await render_in_thread(
        cells, lambda: srcmd.export(cells, language=language, title=title)
    )


async def as_ipynb(here: OpenDocument, cells: Sequence[CellView], safe: bool) -> str:
    """Cells of a notebook as the JSON of nbformat.

    Args:
        safe: Whether a client may render it: nothing in the outputs runs.
    """
    whole = _Whole(here.peer.notebook.notebook_metadata, _attachments(here, cells))

    def make() -> str:
        return json.dumps(_notebook(cells, whole, safe), ensure_ascii=False, indent=1) + "\n"

    return await render_in_thread(cells, make)


class _Whole(NamedTuple):
    """What a notebook has beside its cells' views."""

    metadata: dict[str, Any]
    attachments: dict[str, dict[str, Any]]
    """By cell, under that name."""


def _attachments(here: OpenDocument, cells: Sequence[CellView]) -> dict[str, dict[str, Any]]:
    """The pictures that people have dropped into cells which show them."""
    notebook = here.peer.notebook
    return {
        cell.id: notebook.extras(notebook.find(cell.id), ("attachments",))
        for cell in cells
        if cell.cell_type != "code" and "attachment:" in cell.source and notebook.has(cell.id)
    }


def _notebook(cells: Sequence[CellView], whole: _Whole, safe: bool) -> dict[str, Any]:
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": whole.metadata,
        "cells": [{**_cell(cell, safe), **whole.attachments.get(cell.id, {})} for cell in cells],
    }


def _cell(cell: CellView, safe: bool) -> dict[str, Any]:
    value: dict[str, Any] = {
        "id": cell.id,
        "cell_type": cell.cell_type,
        "metadata": cell.metadata,
        "source": cell.source,
    }
    if cell.cell_type == "code":
        value["execution_count"] = cell.execution_count
        value["outputs"] = [safe_output(each) if safe else each for each in cell.outputs]
    return value


def _convert(path: str, cells: Sequence[CellView], whole: _Whole, form: str, page: bool) -> str:
    """What nbconvert makes of a notebook; nothing is run. Takes its time: not on the loop."""
    try:
        import nbformat
        from nbconvert import get_exporter
    except ImportError:
        raise InvalidArgument(
            f"{form} needs the package nbconvert where this server runs, and it is not installed.",
            "Use format=srcmd or ipynb, or ask the person to install nbconvert.",
        ) from None
    value = _notebook(cells, whole, safe=False)
    if form == "html":  # its scripts would run on the machine of whoever opens the page
        value = safe_page(value)
    notebook = nbformat.from_dict(value)  # type: ignore[no-untyped-call]
    options: dict[str, Any] = {}
    if form == "html":
        template = "lab" if page else "basic"
        options = {"sanitize_html": True, "template_name": template, "embed_images": False}
    resources = {"metadata": {"name": path.rpartition("/")[2].removesuffix(".ipynb")}}
    try:
        exporter = get_exporter(form)(**options)  # type: ignore[no-untyped-call]
        body, _ = exporter.from_notebook_node(notebook, resources=resources)
    except Exception as error:  # it has no base for all that it raises
        why = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        raise FileFailed.to("export", path, why) from error
    return str(body)
