"""Reads a notebook of another server as text: then Jupyter never moves it aside as broken."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from ...documents import well_formed
from ...errors import CorruptDocument

#: Seconds before another look at what may have been half written.
_PAUSES = (0.1, 0.3, 1.0)


async def read_notebook(path: str, ask: Callable[[], Awaitable[Any]]) -> Any:
    """Read a notebook of another server, requesting it as text so that it is never moved aside.

    Args:
        ask: Requests the model of the text.

    Raises:
        CorruptDocument: It is not a notebook, not even a moment later.
    """
    pauses = list(_PAUSES)
    while True:
        text = str((await ask())["content"])
        try:
            return await asyncio.to_thread(_parsed, text)
        except json.JSONDecodeError as error:  # it may be half written
            if not pauses:
                raise CorruptDocument.notebook(path, "it is not JSON") from error
            await asyncio.sleep(pauses.pop(0))
        except Exception as error:  # nbformat's errors have no common base
            said = str(error).partition("\n")[0] or type(error).__name__
            raise CorruptDocument.notebook(path, said) from error


def _parsed(text: str) -> Any:
    from nbformat import converter, reader  # slow to import, and seldom needed

    json.loads(text)  # otherwise nbformat reports every problem as invalid JSON
    notebook = converter.convert(reader.reads(text), 4)  # type: ignore[no-untyped-call]
    well_formed.require_stock(notebook)
    return notebook
