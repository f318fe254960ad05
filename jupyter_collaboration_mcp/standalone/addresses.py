"""The URL and the token of a Jupyter server: which token may be sent to which server."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from ..backends.remote.server_address import ServerAddress, is_address
from ..documents.foreign_text import without_secrets
from ..errors import InvalidArgument
from .discovery import owner_of, place_of, token_for


class Addresses:
    """Finds the token for a URL.

    Args:
        token: The person's own: for servers that they named, and no other.
        insist: Whether it goes before the token in Jupyter's own files.
        verify: Whether certificates are verified.
    """

    def __init__(
        self, token: str | None = None, *, insist: bool = False, verify: bool = True
    ) -> None:
        self._token = token
        self._insist = insist
        self._verify = verify
        self._trusted: set[tuple[str, str, int, str]] = set()
        """The servers that the person named."""

    def trust(self, url: str) -> ServerAddress:
        """The address of a server that the person named: it may be sent their token.

        Raises:
            InvalidArgument: No server can have this URL.
        """
        if is_address(url):
            self._trusted.add(owner_of(base_of(url)))
        return self.address(url)

    def of_hub(self, url: str) -> ServerAddress:
        """The address of a JupyterHub that the person named, with their token for it."""
        return ServerAddress(url, _real(self._token), self._verify)

    def address(self, url: str) -> ServerAddress:
        """The address of a server with the token that belongs to it.

        Raises:
            InvalidArgument: No server can have this URL.
        """
        if not is_address(url):
            raise InvalidArgument(
                f"{without_secrets(url)!r} is not the URL of a server.",
                "Give one like http://127.0.0.1:8888/.",
            )
        given = parse_qs(urlsplit(url).query, keep_blank_values=True).get("token")
        base = base_of(url)
        own = self._token if owner_of(base) in self._trusted else None
        if given:
            return ServerAddress(base, _real(given[0]), self._verify)
        if own and self._insist:
            return ServerAddress(base, _real(own), self._verify)
        filed = _real(token_for(url))
        if filed is None and own:
            return ServerAddress(base, _real(own), self._verify)
        # A server that is restarted has another token; its file then has the new one.
        return ServerAddress(base, filed, self._verify, lambda: _real(token_for(url)))


def base_of(url: str) -> str:
    """The URL of a server, given its own or that of one of its pages."""
    parts = urlsplit(url)
    found = re.match(r"(.*?)/(?:lab|tree|notebooks|doc|edit|api|mcp)(?:/|$)", parts.path)
    return f"{parts.scheme}://{parts.netloc}{found[1] if found else parts.path}"


def leads_to(url: str, server: str) -> bool:
    """Whether a URL, of a server or of one of its pages, is that of a server."""
    return is_address(url) and place_of(base_of(url)) == place_of(base_of(server))


def has_base(url: str, base: str) -> bool:
    """Whether a URL has the base URL of a server, which is its own behind a proxy or hub."""
    return (
        base.strip("/") != "" and is_address(url) and place_of(base_of(url))[2] == base.strip("/")
    )


def without_page(url: str) -> str:
    """The base URL of a server, without the page and the token that may follow."""
    return base_of(url).rstrip("/") + "/"


def _real(token: str | None) -> str | None:
    """A token, unless it is a placeholder that a client has passed on unfilled.

    Raises:
        InvalidArgument: It cannot be sent; the error does not show it.
    """
    token = (token or "").strip()
    if not (token.isascii() and token.isprintable()):
        raise InvalidArgument.for_person(
            "The token has characters that cannot be sent to a server.", "Correct JUPYTER_TOKEN."
        )
    return None if not token or re.fullmatch(r"\$\{.*\}|<.*>", token) else token
