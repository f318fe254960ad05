"""Authorizers for tests: some decide by path, for requests to `/mcp` and to Jupyter's own API."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import unquote

from jupyter_server.auth import Authorizer, User
from jupyter_server.base.handlers import JupyterHandler


class KeepsPrivate(Authorizer):
    """Lets nobody touch what is `private`, read what is `unreadable`, or write what is `locked`,
    nor put something `sealed` on a `shelf`."""

    def is_authorized(
        self, handler: JupyterHandler, user: User, action: str, resource: str
    ) -> bool:
        path = getattr(handler, "collaboration_mcp_path", None)
        if path is None:
            path = unquote(handler.request.path).partition("/api/contents/")[2]
        names = {part.partition(".")[0] for part in path.split("/")}
        if "private" in names or {"sealed", "shelf"} <= names:
            return False
        return ("unreadable" if action == "read" else "locked") not in names


class Switched(Authorizer):
    """Lets whoever sends the header `X-Deny` in at `/mcp`, and do nothing there; says in the log
    what it is asked for a request with the header `X-Ask`; and waits for the file that `X-Wait`
    names."""

    async def is_authorized(
        self, handler: JupyterHandler, user: User, action: str, resource: str
    ) -> bool:
        headers = handler.request.headers
        if (file := headers.get("X-Wait")) is not None:
            handler.log.warning("waiting for %s", file)
            while not Path(file).exists():
                await asyncio.sleep(0.01)
        if (asked := headers.get("X-Ask")) is not None:
            path = getattr(handler, "collaboration_mcp_path", None)
            handler.log.warning("asked %s: %s %s %s", asked, action, resource, path)
        return "X-Deny" not in headers or (action, resource) == ("read", "mcp")


class AsHeaderSays(Authorizer):
    """Whoever sends `X-Only` may do nothing else in the panel, and may not see `secret.ipynb`."""

    def is_authorized(
        self, handler: JupyterHandler, user: User, action: str, resource: str
    ) -> bool:
        only = handler.request.headers.get("X-Only")
        if resource == "mcp_panel" and only not in (None, action):
            return False
        path = getattr(handler, "collaboration_mcp_path", None)
        return only is None or path != "secret.ipynb"
