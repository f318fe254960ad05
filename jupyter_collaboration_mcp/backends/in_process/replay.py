"""Replays the history of a document to find out whether it ever had some content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jupyter_ydoc import ydocs
from pycrdt import Doc

from ...documents.notebook import Notebook


class Replay:
    """Replays the history of a document to find out whether it ever had some content."""

    def __init__(self, file_type: str, content: Any, fits: Callable[[Any], bool]) -> None:
        self._fits = fits
        self._doc: Doc[Any] = Doc()
        self._document = document_of(file_type, self._doc)
        self._content = content
        self._notebook = Notebook(self._doc) if file_type == "notebook" else None
        # The cell that differed last is most likely to differ again.
        self._suspect: int | None = None

    async def passes(self, rows: Sequence[tuple[float, bytes]], since: float) -> bool:
        try:
            return await self._passes(rows, since)
        finally:
            if self._notebook is not None:
                self._notebook.close()

    async def _passes(self, rows: Sequence[tuple[float, bytes]], since: float) -> bool:
        for stamp, update in rows:
            self._doc.apply_update(update)
            if stamp < since or not self._may_be_equal():
                continue
            if self._fits(without_trust(await self._document.aget())):
                return True
        return False

    def _may_be_equal(self) -> bool:
        """Compare sources only; reading the whole content of a large notebook is slow."""
        if self._notebook is None:
            return True
        cells = self._content["cells"]
        if len(self._notebook) != len(cells):
            return False
        for index in sorted(range(len(cells)), key=lambda index: index != self._suspect):
            if self._notebook.source(index) != cells[index]["source"]:
                self._suspect = index
                return False
        return True


def without_trust(content: Any) -> Any:
    """Content without the marks of trust, which no file has: a reader derives them from the
    signature, and trusts no cell of an unsigned notebook, whatever its room says."""
    if not isinstance(content, dict):
        return content
    cells = []
    for cell in content["cells"]:
        metadata = {
            key: value for key, value in cell.get("metadata", {}).items() if key != "trusted"
        }
        cells.append({**cell, "metadata": metadata})
    return {**content, "cells": cells}


def document_of(file_type: str, doc: Doc[Any]) -> Any:
    return ydocs.get(file_type, ydocs["file"])(doc)
