"""A JupyterHub in front of a server: how it answers in the server's place, and what to do then.

A Hub routes `/user/NAME/` to the server of that user while it runs. Otherwise it answers itself: it
redirects GET and WebSockets to `/hub/user/NAME/`, which answers a known token with 424; everything
else gets a 403 with an HTML page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from ...errors import NotJupyter, ServerError, ServerStopped

#: A header in every answer of a Hub, and of a server that it has started.
VERSION_HEADER = "x-jupyterhub-version"

_USER = re.compile(r"(?P<prefix>.*?)/user/(?P<name>[^/]+)(?:/(?P<server>[^/]+))?/")


@dataclass(frozen=True, slots=True)
class Hub:
    """The Hub of one server, by the URL of the server."""

    base: str
    """The server's URL with a slash at the end."""

    @classmethod
    def answering(cls, base: str, headers: Mapping[str, str]) -> Hub | None:
        """The Hub that sent or forwarded an answer; None if there is none."""
        return cls(base) if VERSION_HEADER in headers else None

    @property
    def token_page(self) -> str:
        """The page that creates tokens, and the scope that a token needs."""
        user = self._user
        scope = f"access:servers!user={user['name']}" if user else "access:servers"
        return f"{self._page('token')} (scope {scope})"

    @property
    def token_remedy(self) -> str:
        """What a person can do about a refused token."""
        return (
            f"Create a token at {self.token_page}, put it into JUPYTER_TOKEN, and start this "
            "command again with --server and that URL."
        )

    def in_its_place(
        self, status: int, headers: Mapping[str, str], is_json: bool
    ) -> ServerError | None:
        """The error if the Hub has answered because the server is not running."""
        user, beneath = self._user, urlsplit(self.base).path[len(self._prefix) :]
        where = urlsplit(headers.get("location", "")).path
        redirected = where.startswith(f"{self._prefix}/hub{beneath}") and "/login" not in where
        # The server itself would send JSON, and it runs if it does.
        refused = status in (403, 503) and not is_json
        nowhere = status == 404 and beneath == "/hub/"
        if not (redirected or refused or nowhere or status == 424):
            return None
        if user is None:
            return NotJupyter(
                f"What answers at {self.base} is JupyterHub itself, not the server of a user.",
                f"Give the URL of a server, {self._root}/user/NAME/.",
                url=self.base,
            )
        named = "/".join(filter(None, (user["name"], user["server"])))
        return ServerStopped(
            f"The Jupyter server at {self.base} is not running: JupyterHub answers in its place "
            f"({status}).",
            f"Have it started at {self._page('spawn', named)}; nothing here can do that.",
            url=self.base,
        )

    @property
    def _user(self) -> re.Match[str] | None:
        return _USER.match(urlsplit(self.base).path)

    @property
    def _prefix(self) -> str:
        """The base URL of the Hub, without a slash at the end."""
        user = self._user
        return user["prefix"] if user else urlsplit(self.base).path.rstrip("/").removesuffix("/hub")

    @property
    def _root(self) -> str:
        parts = urlsplit(self.base)
        return f"{parts.scheme}://{parts.netloc}{self._prefix}"

    def _page(self, *names: str) -> str:
        return f"{self._root}/hub/{'/'.join(quote(name, safe='/%@') for name in names)}"
