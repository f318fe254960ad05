"""Taking over a file that was changed on disk, more carefully than jupyter-server-ydoc does.

It looks for a file that is newer than what it knows. An older one, which `mv` and `cp -p` leave,
it takes for what it knows, and the next save overwrites it. So does a save with any change, if it
comes after the look and before the content is loaded.
"""

from __future__ import annotations

import asyncio
from typing import Any

_MARK = "_takes_over_carefully"


def take_over_carefully(loader: Any) -> None:
    """Have the loader of a file tell its rooms of every change, and save none of them over."""
    from jupyter_server_ydoc.utils import OutOfBandChanges  # loaded by now, where there are rooms

    if getattr(loader, _MARK, False):
        return
    notify, save = loader.maybe_notify, loader.maybe_save_content
    turn = asyncio.Lock()
    changes = 0

    async def maybe_notify() -> None:
        nonlocal changes
        async with turn:
            known = loader.last_modified
            await notify()
            if known is None or loader.last_modified == known:
                return
            changes += 1
            if loader.last_modified < known:
                for take_over in list(loader._subscriptions.values()):
                    await take_over()

    async def maybe_save_content(model: dict[str, Any]) -> dict[str, Any] | None:
        before = changes
        async with turn:
            if changes > before:  # what is to be saved is what the room had before
                raise OutOfBandChanges
            saved: dict[str, Any] | None = await save(model)
            return saved

    loader.maybe_notify, loader.maybe_save_content = maybe_notify, maybe_save_content
    setattr(loader, _MARK, True)
