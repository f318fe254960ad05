"""The line endings of a text file, which its live document does not have."""

from __future__ import annotations

from typing import Any

from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from ...documents import line_ends


async def with_line_endings(contents: Any, path: str, content: str) -> str:
    """A live text with the line endings of its file.

    Raises:
        HTTPError: The file exists but cannot be read.
    """
    return restore(content, await text_model(contents, path))


async def text_model(contents: Any, path: str) -> dict[str, Any] | None:
    """The text file at a path; None if there is none yet.

    Raises:
        HTTPError: It cannot be read, and so must not be overwritten.
    """
    try:
        model: dict[str, Any] = await ensure_async(contents.get(path, type="file", format="text"))
    except HTTPError as error:
        if error.status_code == 404:
            return None
        raise
    return model


def restore(content: str, there: dict[str, Any] | None) -> str:
    """A text with the line endings of an existing file, if there is one."""
    return content if there is None else line_ends.restore(content, there["content"])
