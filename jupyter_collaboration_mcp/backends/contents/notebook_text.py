"""A notebook of another server, read as a text: Jupyter never moves that aside as broken."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from ...documents import well_formed
from ...errors import CorruptDocument

#: Seconds before somebody looks again at what may just have been half written.
_PAUSES = (0.1, 0.3, 1.0)


async def read_notebook(path: str, ask: Callable[[], Awaitable[Any]]) -> Any:
    """A notebook of another server, which is asked for it as a text: that is never moved aside.

    Args:
        ask: Gives the model of the text.

    Raises:
        CorruptDocument: It is no notebook, also a moment later.
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
        except Exception as error:  # nbformat has no base for all that it raises
            said = str(error).partition("\n")[0] or type(error).__name__
            raise CorruptDocument.notebook(path, said) from error


def _parsed(text: str) -> Any:
    from nbformat import converter, reader  # take their time, and are seldom needed

    json.loads(text)  # else nbformat says that it is not JSON, whatever is wrong with it
    notebook = converter.convert(reader.reads(text), 4)  # type: ignore[no-untyped-call]
    well_formed.require_stock(notebook)
    return notebook
