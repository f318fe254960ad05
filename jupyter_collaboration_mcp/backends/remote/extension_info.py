"""What our extension reports about itself: whether a server has it, and where it serves MCP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...documents.foreign_text import words

if TYPE_CHECKING:
    from .jupyter_api import JupyterApi

#: Relative to a server's base URL, and always there; the URL of the endpoint is configurable.
INFO_PATH = "api/collaboration-mcp"


@dataclass(frozen=True, slots=True)
class ExtensionInfo:
    """Our extension in a Jupyter server."""

    url: str
    """The URL of its MCP endpoint."""
    warnings: Sequence[str]
    """What is wrong there, one line each."""


async def extension_info(api: JupyterApi) -> ExtensionInfo | None:
    """Query a server for our extension; None if it has none.

    Raises:
        Refused: The server refuses.
        ServerError: It cannot be reached, does not accept the token, or is not Jupyter.
    """
    from .server_errors import Refused

    try:
        info = await api.get(*INFO_PATH.split("/"))
    except Refused as error:
        if error.status != 404:
            raise
        return None
    with api.expecting("its MCP endpoint"):
        segments = str(info["url_path"]).split("/")
        if {"", ".", ".."} & set(segments):  # the URL would lead elsewhere
            raise ValueError(segments)
        return ExtensionInfo(api.url(*segments), [words(one, 2_000) for one in info["warnings"]])
