"""What our extension tells about itself: whether it is in a server, and where it serves MCP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...documents.foreign_text import words

if TYPE_CHECKING:
    from .jupyter_api import JupyterApi

#: Below a server's base URL, and always there: where the endpoint is can be configured.
INFO_PATH = "api/collaboration-mcp"


@dataclass(frozen=True, slots=True)
class ExtensionInfo:
    """Our extension in a Jupyter server."""

    url: str
    """Where it serves MCP."""
    warnings: Sequence[str]
    """What is wrong there, each in a line."""


async def extension_info(api: JupyterApi) -> ExtensionInfo | None:
    """Ask a server for our extension; None if it has none.

    Raises:
        Refused: The server says no.
        ServerError: It cannot be reached, does not know the token, or is no Jupyter.
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
        if {"", ".", ".."} & set(segments):  # it would lead elsewhere
            raise ValueError(segments)
        return ExtensionInfo(api.url(*segments), [words(one, 2_000) for one in info["warnings"]])
