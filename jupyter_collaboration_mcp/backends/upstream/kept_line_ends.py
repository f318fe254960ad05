"""Saving text files with the line ends that they have, which jupyter-server-ydoc does not."""

from __future__ import annotations

from typing import Any

from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from ...documents import line_ends
from ..disk.failed_saves import SaveFailed, as_before_if_it_fails, reason
from ..disk.local_disk import LocalDisk

_MARK = "_keeps_line_ends"


def keep_line_ends(loader: Any, disk: LocalDisk | None) -> None:
    """Have the loader of a file save it so, whoever edits it."""
    from jupyter_server_ydoc.utils import OutOfBandChanges  # loaded by now, where there are rooms

    if getattr(loader, _MARK, False):
        return
    save = loader._save_content_at_path

    async def save_restored(model: dict[str, Any], path: str) -> dict[str, Any]:
        try:
            if model["type"] == "file" and model["format"] == "text":
                there = await _there(loader._contents_manager, path)
                if there is not None and there["last_modified"] != loader.last_modified:
                    raise OutOfBandChanges  # since the loader looked
                model = {**model, "content": _restored(model["content"], there)}
            with as_before_if_it_fails(disk, path):
                saved: dict[str, Any] = await save(model, path)
        except HTTPError as error:
            raise SaveFailed(reason(error)) from error
        return saved

    loader._save_content_at_path = save_restored
    setattr(loader, _MARK, True)


async def with_line_ends(contents: Any, path: str, content: str) -> str:
    """A live text as its file would have it."""
    return _restored(content, await _there(contents, path))


async def _there(contents: Any, path: str) -> dict[str, Any] | None:
    try:
        model: dict[str, Any] = await ensure_async(contents.get(path, type="file", format="text"))
    except HTTPError as error:
        if error.status_code == 404:
            return None  # there is no file yet
        raise  # what cannot be read must not be written over
    return model


def _restored(content: str, there: dict[str, Any] | None) -> str:
    return content if there is None else line_ends.restored(content, there["content"])
