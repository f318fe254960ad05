"""Reloading a file that was changed on disk, more carefully than jupyter-server-ydoc does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from tornado.web import HTTPError

from ..disk.failed_saves import SaveFailed, reason
from .failed_saves import changed_save
from .workaround import (
    RoomObserver,
    Server,
    Workaround,
    changed_signature,
    missing_attributes,
    missing_fields,
    unused_names,
)

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom


class ExternalChanges(Workaround):
    name = "external_changes"
    package = "jupyter-server-ydoc"
    fault = (
        "It looks for a file that is newer than the one it knows. An older one, which `mv` and "
        "`cp -p` leave, it takes for the one it knows, and the next save overwrites it. So does a "
        "save that comes after the look and before the content is loaded, and so does every save "
        "when the content cannot be loaded at all, as with the marks of a conflict in git."
    )
    issue = "https://github.com/jupyterlab/jupyter-collaboration/issues/240"
    patches = (
        "FileLoader.load_content",
        "FileLoader.maybe_notify",
        "FileLoader.maybe_save_content",
        "FileLoader._save_content_at_path",
    )
    without = (
        "a save can overwrite what another program wrote into a file that is open, and where "
        "somebody types fast into a large document answers say late that it is saved"
    )

    def __init__(self) -> None:
        self._loaders: WeakKeyDictionary[Any, _Watched] = WeakKeyDictionary()

    def check(self, server: Server) -> list[str]:
        from jupyter_server_ydoc import utils
        from jupyter_server_ydoc.loaders import FileLoader
        from jupyter_server_ydoc.rooms import DocumentRoom

        return [
            *changed_signature(FileLoader, "load_content", "format", "file_type", is_async=True),
            *changed_signature(FileLoader, "maybe_notify", is_async=True),
            *changed_signature(FileLoader, "maybe_save_content", "model", is_async=True),
            *changed_save(),
            *missing_fields(FileLoader, "last_modified", "_subscriptions"),
            *unused_names(FileLoader, "_watch_file", "maybe_notify"),
            *unused_names(DocumentRoom, "_maybe_save_document", "maybe_save_content"),
            *unused_names(DocumentRoom, "_on_outofband_change", "load_content"),
            *missing_attributes(utils, "OutOfBandChanges"),
        ]

    def on_room(self, room: DocumentRoom, observer: RoomObserver) -> None:
        loader: Any = room._file
        if loader not in self._loaders:
            self._loaders[loader] = _Watched()
            _patch(loader, self._loaders[loader])
        self._loaders[loader].observers.add(observer)

    def unloadable(self, room: DocumentRoom) -> HTTPError | None:
        """Why the file of a room could not be loaded when it was last checked."""
        watched = self._loaders.get(room._file)
        return None if watched is None else watched.failures.get((room.file_format, room.file_type))


@dataclass(slots=True)
class _Watched:
    """What is known about the file of a loader."""

    failures: dict[tuple[str, str], HTTPError] = field(default_factory=dict)
    """Why it could not be loaded, by format and type."""
    observers: WeakSet[RoomObserver] = field(default_factory=WeakSet)


def _patch(loader: Any, watched: _Watched) -> None:
    """Make a file loader notify its rooms of every change, and never overwrite one."""
    from jupyter_server_ydoc.utils import OutOfBandChanges

    failures, observers = watched.failures, watched.observers
    notify, save, load = loader.maybe_notify, loader.maybe_save_content, loader.load_content
    write = loader._save_content_at_path
    turn = asyncio.Lock()
    changes = 0
    written: dict[str, Any] | None = None

    async def load_content(format: str, file_type: str) -> Any:  # noqa: A002
        try:
            model = await load(format, file_type)
        except HTTPError as error:
            if error.status_code != 404:  # others notice that it is gone
                failures[format, file_type] = error
            raise
        failures.pop((format, file_type), None)
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
                    await _reload(loader)
            elif await any_loads(broken):
                changes += 1
                await _reload(loader)

    async def any_loads(broken: list[tuple[str, str]]) -> bool:
        """Whether a file can be loaded again. Its time may be the same: it was half written."""
        loads = False
        for file_format, file_type in broken:
            try:
                await load_content(file_format, file_type)
                loads = True
            except HTTPError:
                continue  # as before; it has already been logged
        return loads

    async def save_content_at_path(model: dict[str, Any], path: str) -> Any:
        nonlocal written
        written = saved = await write(model, path)
        return saved

    async def maybe_save_content(model: dict[str, Any]) -> Any:
        nonlocal written
        before = changes
        async with turn:
            if changes > before:  # what would be saved is what the room had before
                raise OutOfBandChanges
            if (failure := failures.get((model["format"], model["type"]))) is not None:
                # Not as an out-of-band change: the room would only try to load it again.
                raise SaveFailed(f"the file on disk cannot be loaded ({reason(failure)})")
            known, written = loader.last_modified, None
            try:
                saved = await save(model)
            except OutOfBandChanges:
                # It counts as known once it has been loaded: a save that cancels the loading must
                # not count it as known.
                loader.last_modified = known
                raise
            if saved is None and written is not None:
                # Typing cancels the wait for a save, not the save itself. If somebody types faster
                # than a large file is written, no save would ever be known to be done.
                for observer in observers:
                    observer.on_written(written["hash"])
            return saved

    loader.load_content = load_content
    loader._save_content_at_path = save_content_at_path
    loader.maybe_notify, loader.maybe_save_content = maybe_notify, maybe_save_content


async def _reload(loader: Any) -> None:
    for reload in list(loader._subscriptions.values()):
        await reload()
