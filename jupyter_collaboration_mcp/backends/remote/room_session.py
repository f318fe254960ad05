"""Requests the room of a document from a Jupyter server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...documents.foreign_text import inline
from ...errors import DocumentNotFound, NoCollaboration, RoomUnavailable
from ..protocols.room_ids import Kind
from .jupyter_api import JupyterApi
from .server_errors import Refused

_ID = re.compile(r"[\w.:-]{1,200}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Session:
    """A server's answer to a request for the room of a document."""

    file_id: str
    id: str
    """Identifies the server's process, in effect: it changes with a restart."""


async def open_session(api: JupyterApi, path: str, kind: Kind) -> Session:
    """Request the room of a document from a server.

    Raises:
        DocumentNotFound: The server knows no such file.
        NoCollaboration: It has no rooms at all.
        RoomUnavailable: It has rooms, but no API that we know to find them.
        Refused: It cannot answer now.
    """
    try:
        answer = await api.request(
            "PUT",
            *("api", "collaboration", "session", *path.split("/")),
            body={"format": "json" if kind == "notebook" else "text", "type": kind},
        )
    except Refused as refused:
        if refused.status != 404:
            raise
        if "does not exist" in refused.said:
            raise DocumentNotFound.at(path) from refused
        if await _has_rooms(api):
            raise RoomUnavailable(
                f"The Jupyter server at {api.address.base} shares notebooks live, but does not say "
                f"in which room {inline(path)} is. It was not touched: somebody may have it open.",
                "Ask the person to use `jupyter-collaboration>=5` there, and to let its addresses "
                "through (api/collaboration/).",
                path=path,
            ) from refused
        raise NoCollaboration(
            f"The Jupyter server at {api.address.base} has no real-time collaboration.",
            "Ask the person to `pip install 'jupyter-collaboration>=5'` there and to restart "
            "the server.",
            url=api.address.base,
        ) from refused
    with api.expecting("the room of a document"):
        return Session(_id(answer["fileId"]), _id(answer["sessionId"]))


def _id(said: Any) -> str:
    if not isinstance(said, str) or not _ID.fullmatch(said):
        raise ValueError("no id")
    return said


async def _has_rooms(api: JupyterApi) -> bool:
    """Whether there are any, even if their names cannot be requested (jupyter-server-documents)."""
    try:
        # A server that knows this URL refuses it, because we do not ask for a WebSocket.
        await api.get("api", "collaboration", "room", "JupyterLab:globalAwareness")
    except Refused as refused:
        return refused.status != 404
    return True
