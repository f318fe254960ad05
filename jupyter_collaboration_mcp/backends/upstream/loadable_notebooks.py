"""Makes notebooks loadable by the rooms of jupyter-server-ydoc."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from typing import Any

from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from ...documents import well_formed
from .linked_files import changed_mapping
from .workaround import Server, Workaround

_CONTENTS = "contents_manager"


class LoadableNotebooks(Workaround):
    name = "loadable_notebooks"
    trap = "B24"
    package = "jupyter-server-ydoc"
    fault = (
        "A room panics over an integer of 64 bits or more, fails over much else that a notebook "
        "should not have, and leaves whoever opened it waiting for ever."
    )
    patches = ("FileLoaderMapping._settings",)
    without = (
        "a malformed notebook or one with very large integers hangs for whoever opens it, and "
        "answers do not report numbers that were rounded"
    )

    def __init__(self) -> None:
        self._contents: LoadableContents | None = None

    def check(self, server: Server) -> list[str]:
        return changed_mapping(server)

    def apply(self, server: Server) -> None:
        if server.ydoc is None:
            return
        loaders = server.ydoc.file_loaders
        self._contents = LoadableContents(loaders._settings[_CONTENTS])
        loaders._settings = ChainMap({_CONTENTS: self._contents}, loaders._settings)

    def rounded(self, path: str) -> list[str]:
        """Where a notebook has numbers that its room can only hold rounded."""
        return [] if self._contents is None else self._contents.rounded(path)


class LoadableContents:
    """A contents manager that returns notebooks as a room can hold them, or reports why not."""

    def __init__(self, contents: Any) -> None:
        self._contents = contents
        self._rounded: dict[str, list[str]] = {}  # by path

    async def get(self, path: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        is_notebook = options.get("content", True) and options.get("type") == "notebook"
        try:
            model: dict[str, Any] = await ensure_async(
                self._contents.get(path, *arguments, **options)
            )
            if is_notebook:
                rounded = await asyncio.to_thread(well_formed.prepare, model["content"])
                self._rounded.pop(path, None)
                if rounded:
                    self._rounded[path] = rounded
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if not is_notebook:
                raise
            # As the contents manager itself refuses most files that are not notebooks.
            said = f"{error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"
            raise HTTPError(400, f"Unreadable Notebook: {path} {said}") from error
        return model

    def rounded(self, path: str) -> list[str]:
        """Where a notebook has numbers that its room can only hold rounded."""
        return self._rounded.get(path, [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._contents, name)
