"""Keeps rooms from saving while their file is moved, whoever moves it.

A save knows its path before it starts. One that is under way when the file is renamed recreates the
old file, and the room then reloads the new one, which lacks what was saved there.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from .workaround import Server, Workaround, changed_signature, missing_fields

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom

_HELD: ContextVar[frozenset[str]] = ContextVar("held", default=frozenset())


class Renames(Workaround):
    name = "renames"
    package = "jupyter-server-ydoc"
    fault = (
        "A save that is under way when its file gets another name brings the old file back, and "
        "what was saved there is missing from the new one."
    )
    issue = "https://github.com/jupyterlab/jupyter-collaboration/issues/518"
    patches = ("AsyncContentsManager.rename", "FileLoader._lock")
    without = (
        "a file that people rename while it is saved comes back under its old name, and a crash in "
        "that moment can leave unsaved edits at the old path"
    )

    def check(self, server: Server) -> list[str]:
        from jupyter_server_ydoc.loaders import FileLoader

        found = missing_fields(FileLoader, "_lock")
        if inspect.iscoroutinefunction(getattr(server.contents, "rename", None)):
            found += changed_signature(server.contents, "rename", "old_path", "new_path")
        return found

    def apply(self, server: Server) -> None:
        contents, hooks = server.contents, server.renames
        rename = getattr(contents, "rename", None)
        if server.ydoc is None or not inspect.iscoroutinefunction(rename):
            return  # nothing can come in between

        async def rename_alone(old_path: str, new_path: str) -> None:
            old, new = old_path.strip("/"), new_path.strip("/")
            async with hooks.hold_saves(old) as rooms, AsyncExitStack() as stack:
                if rooms:
                    await stack.enter_async_context(hooks.moving(old, new))
                await rename(old_path, new_path)

        contents.rename = rename_alone


@asynccontextmanager
async def saves_held(rooms: Sequence[DocumentRoom]) -> AsyncIterator[None]:
    """Keep rooms from saving; may be nested."""
    mine = _HELD.get()
    loaders = {room._file.file_id: room._file for room in rooms if room._file.file_id not in mine}
    async with AsyncExitStack() as stack:
        for loader in loaders.values():
            if (lock := getattr(loader, "_lock", None)) is not None:
                await stack.enter_async_context(lock)
        before = _HELD.set(mine | loaders.keys())
        try:
            yield
        finally:
            _HELD.reset(before)
