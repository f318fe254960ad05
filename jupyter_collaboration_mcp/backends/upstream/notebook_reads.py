"""Makes sure that a notebook is read completely, or not at all."""

from __future__ import annotations

import asyncio
import inspect
import os
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

from .workaround import Server, Workaround, changed_signature


class NotebookReads(Workaround):
    name = "notebook_reads"
    trap = "B23"
    package = "jupyter-server"
    fault = (
        "It writes a notebook in place, with a copy beside it until that is done. Whoever asks for "
        "the notebook meanwhile gets half of it. Jupyter takes that for broken, moves the file "
        "aside and puts the copy in its place, which may be removed by then."
    )
    patches = (
        "AsyncFileManagerMixin._read_notebook",
        "AsyncFileManagerMixin._save_notebook",
    )
    without = "a notebook that is read while it is saved may end up deleted"

    def check(self, server: Server) -> list[str]:
        contents = server.contents
        if not _is_concurrent(contents):
            return []
        return [
            *changed_signature(
                contents,
                "_read_notebook",
                "os_path",
                "as_version",
                "capture_validation_error",
                "raw",
            ),
            *changed_signature(
                contents, "_save_notebook", "os_path", "nb", "capture_validation_error"
            ),
        ]

    def apply(self, server: Server) -> None:
        keep_readers_from_writers(server.contents)


def keep_readers_from_writers(contents: Any) -> None:
    """Prevent a notebook of this server from being read while it is written, and vice versa."""
    if not _is_concurrent(contents):
        return
    read, save = contents._read_notebook, contents._save_notebook
    turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
    reading: ContextVar[str | None] = ContextVar("reading", default=None)

    def turn(file: str) -> asyncio.Lock:
        return turns.setdefault(os.path.realpath(file), asyncio.Lock())

    async def read_whole(file: str, *arguments: Any, **options: Any) -> Any:
        if reading.get() == file:  # the copy, which it has just restored
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


def _is_concurrent(contents: Any) -> bool:
    """Whether it has local files and reads one notebook while it writes another."""
    read, save = (getattr(contents, name, None) for name in ("_read_notebook", "_save_notebook"))
    return inspect.iscoroutinefunction(read) and inspect.iscoroutinefunction(save)
