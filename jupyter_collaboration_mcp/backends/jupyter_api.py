"""One Jupyter server over the network: its REST API and its WebSockets, with its token.

Every path and id is percent-encoded, so that no request leaves the API that it belongs to.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from ..errors import NotJupyter, ServerUnreachable, TokenRefused

#: Seconds for a connection, and for an answer.
_CONNECT, _ANSWER = 10.0, 60.0

#: Seconds between two signs of life of a WebSocket, to wait for one, and then for its farewell:
#: a silent network is noticed when all are over.
_PING, _PONG, _FAREWELL = 10.0, 10.0, 2.0

#: Bytes of one message; jupyter-collaboration sends up to this.
_LARGEST = 1 << 30


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a Jupyter server is, and how to be let in."""

    url: str
    """Of the server, with its base URL."""
    token: str | None = None
    verify: bool = True
    """Whether its certificate must be one that this machine trusts."""

    @property
    def base(self) -> str:
        """The URL with a slash at the end and without a query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/"


class Refused(Exception):
    """The server answered with an error status that means something to the caller."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class JupyterApi:
    """Asks one server; everything that goes wrong is said in a line that an agent can act on."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self._http = httpx2.AsyncClient(
            headers=self._credentials(),
            verify=_context(address) if address.base.startswith("https") else True,
            timeout=httpx2.Timeout(_ANSWER, connect=_CONNECT),
            follow_redirects=False,
            # A proxy of the environment leads out of this machine, not to a server on it.
            trust_env=not _is_loopback(address),
        )

    async def get(self, *path: str, **query: str) -> Any:
        """Read something; path segments are given unquoted.

        Raises:
            Refused: The server says no, for instance 404.
            ServerError: It cannot be reached, does not know the token, or is no Jupyter.
        """
        return await self.request("GET", *path, query=query)

    async def request(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Any:
        """Ask for anything; the answer is what its JSON says, None if it has none."""
        url = self._url(*path, query=query)
        try:
            if method != "GET" and self.address.token is None:
                await self._ask_for_xsrf()
            response = await self._http.request(
                method, url, json=body, headers=self._xsrf() if method != "GET" else {}
            )
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error
        return self._read(response)

    async def websocket(
        self, *path: str, subprotocol: Subprotocol | None = None, **query: str
    ) -> ClientConnection:
        """Open a WebSocket, with a subprotocol if the server knows it.

        Raises:
            Refused: The server says no, for instance 404.
            ServerError: It cannot be reached, does not know the token, or is no Jupyter.
        """
        url = self._url(*path, query=query).replace("http", "ws", 1)
        headers = self._credentials()
        if self._http.cookies:
            headers["Cookie"] = "; ".join(f"{k}={v}" for k, v in self._http.cookies.items())
        try:
            return await connect(
                url,
                additional_headers=headers,
                ssl=_context(self.address) if url.startswith("wss") else None,
                max_size=_LARGEST,
                open_timeout=_CONNECT,
                ping_interval=_PING,
                ping_timeout=_PONG,
                close_timeout=_FAREWELL,
                compression=None,
                proxy=None if _is_loopback(self.address) else True,
                subprotocols=None if subprotocol is None else [subprotocol],
            )
        except InvalidStatus as error:
            status = error.response.status_code
            if status in (401, 403):
                raise self._token_refused(status) from error
            raise Refused(status, f"status {status}") from error
        except InvalidMessage as error:  # it hung up instead of answering
            raise self._unreachable(error) from error
        except (InvalidHandshake, InvalidURI) as error:
            raise self._not_jupyter(str(error)) from error
        except (OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def close(self) -> None:
        await self._http.aclose()

    # -- parts -------------------------------------------------------------------------------

    def _url(self, *path: str, query: Mapping[str, str] | None = None) -> str:
        # A colon stays: jupyter-collaboration takes a room id with %3A for another, empty room.
        quoted = "/".join(quote(segment, safe=":") for segment in path)
        return f"{self.address.base}{quoted}" + (f"?{urlencode(query)}" if query else "")

    def _credentials(self) -> dict[str, str]:
        token = self.address.token
        return {} if token is None else {"Authorization": f"token {token}"}

    def _xsrf(self) -> dict[str, str]:
        token = self._http.cookies.get("_xsrf")
        return {} if token is None else {"X-XSRFToken": token}

    async def _ask_for_xsrf(self) -> None:
        """Without a token, Jupyter wants the proof that a page of its own is asking."""
        if "_xsrf" not in self._http.cookies:
            await self._http.get(f"{self.address.base}login")

    def _read(self, response: httpx2.Response) -> Any:
        status = response.status_code
        if status in (401, 403):
            raise self._token_refused(status)
        if 300 <= status < 400:
            where = response.headers.get("location", "")
            if "login" in where:
                raise self._token_refused(status)
            raise self._not_jupyter(f"it redirects to {where[:200]}")
        try:
            content = json.loads(response.content) if response.content else None
        except ValueError as error:
            if status >= 400:
                raise Refused(status, response.reason_phrase) from error
            raise self._not_jupyter("its answer is not JSON") from error
        if status >= 400:
            said = content.get("message") if isinstance(content, dict) else None
            raise Refused(status, str(said or response.reason_phrase))
        return content

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        said = str(error) or type(error).__name__
        return ServerUnreachable(
            f"The Jupyter server at {self.address.base} cannot be reached: {said}.",
            "See that it runs and that the address is right; `jupyter server list` shows it.",
            url=self.address.base,
        )

    def _token_refused(self, status: int) -> TokenRefused:
        return TokenRefused(
            f"The Jupyter server at {self.address.base} does not accept the token ({status}).",
            "Ask the person for the token that `jupyter server list` shows.",
            url=self.address.base,
        )

    def _not_jupyter(self, why: str) -> NotJupyter:
        return NotJupyter(
            f"What answers at {self.address.base} is not a Jupyter server: {why}.",
            "Give the address of a Jupyter server, with its base URL.",
            url=self.address.base,
        )


def _is_loopback(address: ServerAddress) -> bool:
    return urlsplit(address.base).hostname in ("localhost", "127.0.0.1", "::1")


def _context(address: ServerAddress) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not address.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
