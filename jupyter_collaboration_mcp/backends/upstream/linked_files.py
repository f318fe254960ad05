"""What a link leads to, as the rooms of jupyter-server-ydoc should see it.

Jupyter gives a link its own time of change, which stays the same when somebody changes the file
behind it: a room that people opened through a link would never notice, and save over it. And which
file a room has loaded, it does not say: a link may lead elsewhere by then.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from jupyter_server.utils import ensure_async

from ..disk.local_disk import LocalDisk
from ..disk.open_files import Load, Loads, opened_files

_CONTENTS = "contents_manager"
_LOADS = "_loads"


def look_behind_links(loaders: Any, contents: Any) -> None:
    """Have the files of all rooms that will be opened looked at where they really are."""
    if (disk := LocalDisk.below(contents)) is not None:
        linked = LinkedContents(contents, disk)
        loaders._settings = ChainMap({_CONTENTS: linked}, loaders._settings)


def remember_loads(loader: Any, contents: Any) -> None:
    """Have the loader of a file remember which file it has really loaded."""
    disk = LocalDisk.below(contents)
    if disk is None or hasattr(loader, _LOADS):
        return
    load = loader.load_content
    loads = Loads()

    async def load_content(file_format: str, file_type: str) -> dict[str, Any]:
        path = loader.path
        with opened_files() as opened:
            model: dict[str, Any] = await load(file_format, file_type)
        if opened:
            loads.add(Load(opened[-1], linked=disk.path_of(opened[-1]) != path))
        return model

    loader.load_content = load_content
    setattr(loader, _LOADS, loads)


def loads_of(loader: Any) -> Loads:
    """What the loader of a file remembers."""
    loads: Loads = getattr(loader, _LOADS, None) or Loads()
    return loads


class LinkedContents:
    """A contents manager that gives a link the time of what it leads to."""

    def __init__(self, contents: Any, disk: LocalDisk) -> None:
        self._contents = contents
        self._disk = disk

    async def get(self, path: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        # Before it is read: a change that comes in between must not be taken for known.
        modified = self._disk.modified(path)
        model = await ensure_async(self._contents.get(path, *arguments, **options))
        return model if modified is None else {**model, "last_modified": modified}

    async def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        saved = await ensure_async(self._contents.save(model, path))
        modified = self._disk.modified(path)
        return saved if modified is None else {**saved, "last_modified": modified}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._contents, name)
