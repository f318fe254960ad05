"""A JupyterHub in front of a server: what it answers in the server's place, and what to do then.

A Hub routes `/user/NAME/` to the server of that user while it runs. Otherwise it answers itself:
GET and WebSockets are redirected to `/hub/user/NAME/`, which says 424 to a known token; all else is
a 403 with a page of HTML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from ...errors import NotJupyter, ServerError, ServerUnreachable

#: In every answer of a Hub, and of a server that it has started.
_VERSION = "x-jupyterhub-version"

_USER = re.compile(r"(?P<prefix>.*?)/user/(?P<name>[^/]+)(?:/(?P<server>[^/]+))?/")


@dataclass(frozen=True, slots=True)
class Hub:
    """The Hub of one server, by the URL of the server."""

    base: str
    """With a slash at the end."""

    @classmethod
    def answering(cls, base: str, headers: Mapping[str, str]) -> Hub | None:
        """The Hub that an answer comes from, or through; None if there is none."""
        return cls(base) if _VERSION in headers else None

    @property
    def token_page(self) -> str:
        """Where a token is made, and what it has to be for."""
        user = self._user
        scope = f"access:servers!user={user['name']}" if user else "access:servers"
        return f"{self._page('token')} (scope {scope})"

    @property
    def token_remedy(self) -> str:
        """What a person can do about a token that is refused."""
        return (
            f"Create a token at {self.token_page}, put it into JUPYTER_TOKEN, and start this "
            "command again with --server and that URL."
        )

    def in_its_place(
        self, status: int, headers: Mapping[str, str], is_json: bool
    ) -> ServerError | None:
        """What is wrong, if the Hub has answered because there is no server to do so."""
        user, beneath = self._user, urlsplit(self.base).path[len(self._prefix) :]
        where = urlsplit(headers.get("location", "")).path
        redirected = where.startswith(f"{self._prefix}/hub{beneath}") and "/login" not in where
        refused = status == 403 and not is_json  # of the server itself, that would be JSON
        nowhere = status == 404 and beneath == "/hub/"
        if not (redirected or refused or nowhere or status in (424, 503)):
            return None
        if user is None:
            return NotJupyter(
                f"What answers at {self.base} is JupyterHub itself, not the server of a user.",
                f"Give the URL of a server, {self._root}/user/NAME/.",
                url=self.base,
            )
        named = "/".join(filter(None, (user["name"], user["server"])))
        return ServerUnreachable(
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
