"""Rooms that do not save while their file is moved, whoever moves it.

A save knows its path before it begins. One that is under way when the file gets another name brings
the old file back, and the room then takes over the one that lacks what was saved there.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom

_HELD: ContextVar[frozenset[str]] = ContextVar("held", default=frozenset())


@asynccontextmanager
async def held(rooms: Sequence[DocumentRoom]) -> AsyncIterator[None]:
    """Keep rooms from saving; who does so already may do it again."""
    mine = _HELD.get()
    loaders = {room._file.file_id: room._file for room in rooms if room._file.file_id not in mine}
    async with AsyncExitStack() as stack:
        for loader in loaders.values():
            await stack.enter_async_context(loader._lock)
        before = _HELD.set(mine | loaders.keys())
        try:
            yield
        finally:
            _HELD.reset(before)


def hold_saves_during_renames(
    contents: Any,
    holding: Callable[[str], AbstractAsyncContextManager[Sequence[DocumentRoom]]],
    moving: Callable[[str, str], AbstractAsyncContextManager[None]],
) -> None:
    """Keep rooms from saving while people, or a server's other extensions, rename their files.

    Args:
        contents: The server's contents manager.
        holding: Keeps the rooms at or below a path from saving, and returns them.
        moving: Entered before a file gets another path, and left before anybody may save again.
    """
    rename = getattr(contents, "rename", None)
    if not inspect.iscoroutinefunction(rename):
        return  # nothing comes in between

    async def rename_alone(old_path: str, new_path: str) -> None:
        async with holding(old_path.strip("/")) as rooms, AsyncExitStack() as stack:
            if rooms:
                await stack.enter_async_context(moving(old_path.strip("/"), new_path.strip("/")))
            await rename(old_path, new_path)

    contents.rename = rename_alone
