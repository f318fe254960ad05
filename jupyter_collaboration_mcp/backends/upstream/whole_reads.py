"""A notebook is read whole, or not at all.

B23: Jupyter writes a notebook in place, with a copy beside it until that is done. Who asks for it
meanwhile finds half of it. Jupyter takes that for broken, moves the file aside and puts the copy in
its place, which may be removed by then: in the end there is no such file any more.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

from ...documents import well_formed
from ...errors import CorruptDocument

#: Seconds before somebody looks again at what may just have been half written.
_PAUSES = (0.1, 0.3, 1.0)


def keep_readers_from_writers(contents: Any) -> None:
    """Have nobody read a notebook of this server while it is written, nor the other way round."""
    read, save = (getattr(contents, name, None) for name in ("_read_notebook", "_save_notebook"))
    if not (inspect.iscoroutinefunction(read) and inspect.iscoroutinefunction(save)):
        return  # it does one thing after another, or has its files elsewhere
    turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
    reading: ContextVar[str | None] = ContextVar("reading", default=None)

    def turn(file: str) -> asyncio.Lock:
        return turns.setdefault(os.path.realpath(file), asyncio.Lock())

    async def read_whole(file: str, *arguments: Any, **options: Any) -> Any:
        if reading.get() == file:  # the copy, which it has just put in place
            return await read(file, *arguments, **options)
        async with turn(file):
            before = reading.set(file)
            try:
                return await read(file, *arguments, **options)
            finally:
                reading.reset(before)

    async def save_whole(file: str, *arguments: Any, **options: Any) -> Any:
        async with turn(file):
            return await save(file, *arguments, **options)

    contents._read_notebook, contents._save_notebook = read_whole, save_whole


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
