"""Taking over a file that was changed on disk, more carefully than jupyter-server-ydoc does.

It looks for a file that is newer than what it knows. An older one, which `mv` and `cp -p` leave,
it takes for what it knows, and the next save overwrites it. So does a save with any change, if it
comes after the look and before the content is loaded; and so does every save when the content
cannot be loaded at all, as with the marks of a conflict in git.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, cast
from weakref import WeakSet

from tornado.web import HTTPError

from ..disk.failed_saves import SaveFailed, reason

_FAILURES = "_unloadable_as"
_WRITTEN = "_tells_of_writes"


class Watching(Protocol):
    """Who wants to know what has been written."""

    def on_written(self, file_hash: str) -> None:
        """What this task was to save is in the file, although it was cancelled meanwhile."""


def take_over_carefully(loader: Any) -> None:
    """Have the loader of a file tell its rooms of every change, and save none of them over."""
    from jupyter_server_ydoc.utils import OutOfBandChanges  # loaded by now, where there are rooms

    if hasattr(loader, _FAILURES):
        return
    notify, save, load = loader.maybe_notify, loader.maybe_save_content, loader.load_content
    write = loader._save_content_at_path
    failures: dict[tuple[str, str], HTTPError] = {}
    watching: WeakSet[Watching] = WeakSet()
    turn = asyncio.Lock()
    changes = 0
    written: dict[str, Any] | None = None

    async def load_content(file_format: str, file_type: str) -> dict[str, Any]:
        try:
            model: dict[str, Any] = await load(file_format, file_type)
        except HTTPError as error:
            if error.status_code != 404:  # that it is gone, others notice
                failures[file_format, file_type] = error
            raise
        failures.pop((file_format, file_type), None)
        return model

    async def maybe_notify() -> None:
        nonlocal changes
        async with turn:
            broken = list(failures)
            known = loader.last_modified
            await notify()
            if known is not None and loader.last_modified != known:
                changes += 1
                if loader.last_modified < known:
                    await _take_over(loader)
            elif await _any_loads(broken):
                changes += 1
                await _take_over(loader)

    async def _any_loads(broken: list[tuple[str, str]]) -> bool:
        """Whether a file can be loaded again. It may say the same time: it was half written."""
        loads = False
        for file_format, file_type in broken:
            try:
                await load_content(file_format, file_type)
                loads = True
            except HTTPError:
                continue  # as before; whoever looked first has told the log
        return loads

    async def save_content_at_path(model: dict[str, Any], path: str) -> dict[str, Any]:
        nonlocal written
        written = saved = await write(model, path)
        return cast("dict[str, Any]", saved)

    async def maybe_save_content(model: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal written
        before = changes
        async with turn:
            if changes > before:  # what is to be saved is what the room had before
                raise OutOfBandChanges
            if (failure := failures.get((model["format"], model["type"]))) is not None:
                # Not as an out-of-band change: the room would only try to load it again.
                raise SaveFailed(f"the file on disk cannot be loaded ({reason(failure)})")
            known, written = loader.last_modified, None
            try:
                saved: dict[str, Any] | None = await save(model)
            except OutOfBandChanges:
                # It is known when it has been loaded: a save that cancels the loading must not
                # take it for known.
                loader.last_modified = known
                raise
            if saved is None and written is not None:
                # Typing cancels the waiting for a save, and not the save. Where somebody types
                # faster than a large file is written, no save would ever be known to be done.
                for watch in watching:
                    watch.on_written(written["hash"])
            return saved

    loader.load_content = load_content
    loader._save_content_at_path = save_content_at_path
    loader.maybe_notify, loader.maybe_save_content = maybe_notify, maybe_save_content
    setattr(loader, _FAILURES, failures)
    setattr(loader, _WRITTEN, watching)


def tell_of_writes(loader: Any, watch: Watching) -> None:
    """Have somebody told of what is written although it was cancelled, as long as they live."""
    getattr(loader, _WRITTEN).add(watch)


def unloadable(loader: Any, file_format: str, file_type: str) -> HTTPError | None:
    """Why a file cannot be loaded as what its room is of, when it was last looked at."""
    failures: dict[tuple[str, str], HTTPError] = getattr(loader, _FAILURES, {})
    return failures.get((file_format, file_type))


async def _take_over(loader: Any) -> None:
    for take_over in list(loader._subscriptions.values()):
        await take_over()
