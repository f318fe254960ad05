"""What a link leads to, as the rooms of jupyter-server-ydoc should see it.

Jupyter gives a link its own time of change, which stays the same when somebody changes the file
behind it: a room that people opened through a link would never notice, and save over it.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from jupyter_server.utils import ensure_async

from .local_disk import LocalDisk

_CONTENTS = "contents_manager"


def look_behind_links(loaders: Any, contents: Any) -> None:
    """Have the files of all rooms that will be opened looked at where they really are."""
    if (disk := LocalDisk.below(contents)) is not None:
        linked = LinkedContents(contents, disk)
        loaders._settings = ChainMap({_CONTENTS: linked}, loaders._settings)


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
