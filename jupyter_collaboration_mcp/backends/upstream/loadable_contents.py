"""Notebooks as the rooms of jupyter-server-ydoc can load them.

B24: a room panics over an integer of 64 bits or more, fails over much else that a notebook should
not have, and leaves whoever opened it waiting for ever.
"""

from __future__ import annotations

import asyncio
from collections import ChainMap
from typing import Any

from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from ...documents import well_formed

_CONTENTS = "contents_manager"


def load_carefully(loaders: Any) -> LoadableContents:
    """Have all rooms that will be opened, by people too, load only what they can hold."""
    contents = LoadableContents(loaders._settings[_CONTENTS])
    loaders._settings = ChainMap({_CONTENTS: contents}, loaders._settings)
    return contents


class LoadableContents:
    """A contents manager that gives notebooks as a room can hold them, or says why it cannot."""

    def __init__(self, contents: Any) -> None:
        self._contents = contents
        self._rounded: dict[str, list[str]] = {}  # by path

    async def get(self, path: str, **options: Any) -> dict[str, Any]:
        wanted = options.get("content", True) and options.get("type") == "notebook"
        try:
            model: dict[str, Any] = await ensure_async(self._contents.get(path, **options))
            if wanted:
                rounded = await asyncio.to_thread(well_formed.prepare, model["content"])
                self._rounded.pop(path, None)
                if rounded:
                    self._rounded[path] = rounded
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if not wanted:
                raise
            # As the contents manager itself refuses most of what is no notebook.
            said = f"{error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"
            raise HTTPError(400, f"Unreadable Notebook: {path} {said}") from error
        return model

    def rounded(self, path: str) -> list[str]:
        """Where a notebook has numbers that its room can only hold rounded."""
        return self._rounded.get(path, [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._contents, name)
