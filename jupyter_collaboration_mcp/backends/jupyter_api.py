"""One Jupyter server over the network: its REST API and its WebSockets, with its token.

Every path and id is percent-encoded, so that no request leaves the API that it belongs to.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import Request, getproxies, proxy_bypass

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    InvalidHandshake,
    InvalidMessage,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    ProxyError,
)
from websockets.typing import Subprotocol

from ..errors import NotJupyter, ServerUnreachable, TokenRefused

#: Seconds for a connection, and for an answer.
_CONNECT, _ANSWER = 10.0, 60.0

#: Seconds between two signs of life of a WebSocket, to wait for one, and then for its farewell:
#: a silent network is noticed when all are over.
_PING, _PONG, _FAREWELL = 10.0, 10.0, 2.0

#: Names in the contents API that a file or a folder may have as well: the server looks for its own
#: before it decodes a path.
_RESERVED = {"checkpoints": "%63heckpoints", "trust": "%74rust"}

#: Bytes of one message; jupyter-collaboration sends up to this.
_LARGEST = 1 << 30

#: Statuses by which something in front of a server says that it does not get through to it.
_AWAY = (502, 503, 504)

#: What may stand in a path as it is; the rest is percent-encoded.
_IN_PATH = "/%:@!$&'()*+,;=~"

#: Statuses by which a server says that it does not let us in.
_REFUSED = (401, 403)

_XSRF = "_xsrf"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a Jupyter server is, and how to be let in."""

    url: str
    """Of the server, with its base URL."""
    token: str | None = None
    verify: bool = True
    """Whether its certificate must be one that this machine trusts."""
    renew: Callable[[], str | None] | None = field(default=None, compare=False)
    """Asks where the token came from whether it is another one now; may take a moment."""

    @property
    def base(self) -> str:
        """The URL with a slash at the end, without a query and without a password."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{quote(parts.path.rstrip('/'), safe=_IN_PATH)}/"

    @property
    def credentials(self) -> dict[str, str]:
        """The header that lets us in: with the token, else with what stands before the host."""
        if self.token is not None:
            return {"Authorization": f"token {self.token}"}
        name, at, _ = urlsplit(self.url).netloc.rpartition("@")
        if not at:
            return {}
        return {"Authorization": f"Basic {base64.b64encode(unquote(name).encode()).decode()}"}


def is_address(url: str) -> bool:
    """Whether a server could be there at all."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class Refused(Exception):
    """The server answered with an error status that means something to the caller."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class JupyterApi:
    """Asks one server; everything that goes wrong is said in a line that an agent can act on."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self._proxy = _proxy(address)
        self._http = new_client(address)

    async def check(self) -> str | None:
        """See that a Jupyter server is there and lets us in.

        Returns:
            When it was started, to a microsecond: so it is known under any of its addresses.

        Raises:
            ServerError: What is wrong.
        """
        try:
            status = await self.get("api", "status")
        except Refused as refused:
            raise self.not_jupyter(f"it answers with status {refused.status}") from refused
        if not isinstance(status, dict) or "kernels" not in status:
            raise self.not_jupyter("it says nothing of kernels")
        started = status.get("started")
        return started if isinstance(started, str) else None

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
        return self._read(await self._ask(method, *path, query=query, body=body))

    async def dated(self, *path: str, **query: str) -> tuple[Any, datetime | None]:
        """Read something, and when the server says that was, to a second."""
        response = await self._ask("GET", *path, query=query)
        content = self._read(response)
        try:
            return content, parsedate_to_datetime(response.headers["date"])
        except (KeyError, ValueError):
            return content, None

    async def _ask(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> httpx2.Response:
        url, used = self._url(*path, query=query), self.address.token
        try:
            response = await self._send(method, url, body)
            if _wants_proof(response):
                # Whom it does not know by a token has to show that it has seen a page of it.
                await self._http.get(f"{self.address.base}login")
                response = await self._send(method, url, body)
            if response.status_code in _REFUSED and await self._renewed(used):
                response = await self._send(method, url, body)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise self._unreachable(error) from error
        return response

    async def websocket(
        self, *path: str, subprotocol: Subprotocol | None = None, **query: str
    ) -> ClientConnection:
        """Open a WebSocket, with a subprotocol if the server knows it.

        Raises:
            Refused: The server says no, for instance 404.
            ServerError: It cannot be reached, does not know the token, or is no Jupyter.
        """
        url = self._url(*path, query=query).replace("http", "ws", 1)
        used = self.address.token
        try:
            try:
                return await self._opened(url, subprotocol)
            except InvalidStatus as error:
                if error.response.status_code not in _REFUSED or not await self._renewed(used):
                    raise
                return await self._opened(url, subprotocol)
        except InvalidStatus as error:
            status = error.response.status_code
            if status in _REFUSED:
                raise self._token_refused(status, "") from error
            if status in _AWAY:
                raise self._unreachable(_away(status)) from error
            raise Refused(status, f"status {status}") from error
        except InvalidProxy as error:
            raise self._unreachable(ValueError(error.msg)) from error  # not its whole address
        except (InvalidMessage, ProxyError, ImportError) as error:
            # It hung up instead of answering, or the proxy cannot be used (SOCKS needs a package).
            raise self._unreachable(error) from error
        except (InvalidHandshake, InvalidURI) as error:
            raise self.not_jupyter(str(error)) from error
        except (OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def close(self) -> None:
        await self._http.aclose()

    # -- parts -------------------------------------------------------------------------------

    def _url(self, *path: str, query: Mapping[str, str] | None = None) -> str:
        # A colon stays: jupyter-collaboration takes a room id with %3A for another, empty room.
        quoted = "/".join(_RESERVED.get(segment) or quote(segment, safe=":") for segment in path)
        return f"{self.address.base}{quoted}" + (f"?{urlencode(query)}" if query else "")

    async def _opened(self, url: str, subprotocol: Subprotocol | None) -> ClientConnection:
        return await connect(
            url,
            additional_headers=self.address.credentials,
            ssl=_context(self.address) if url.startswith("wss") else None,
            max_size=_LARGEST,
            open_timeout=_CONNECT,
            ping_interval=_PING,
            ping_timeout=_PONG,
            close_timeout=_FAREWELL,
            compression=None,
            proxy=self._proxy,
            subprotocols=None if subprotocol is None else [subprotocol],
        )

    async def _renewed(self, used: str | None) -> bool:
        """Whether the server has another token by now than the one used: it was started again."""
        if self.address.renew is None:
            return False
        token = await asyncio.to_thread(self.address.renew)
        if token is None or token == used:
            return False
        self.address = replace(self.address, token=token)
        self._http.headers.update(self.address.credentials)
        return True

    async def _send(self, method: str, url: str, body: Any) -> httpx2.Response:
        proof = self._proof() if method != "GET" else None
        headers = {} if proof is None else {"X-XSRFToken": proof}
        return await self._http.request(method, url, json=body, headers=headers)

    def _proof(self) -> str | None:
        """What shows that we have seen a page of the server; what stands in front of it may have
        given us another one."""
        base = urlsplit(self.address.base).path
        fitting = [cookie for cookie in self._http.cookies.jar if base.startswith(cookie.path)]
        return max(fitting, key=lambda cookie: len(cookie.path)).value if fitting else None

    def _read(self, response: httpx2.Response) -> Any:
        status = response.status_code
        try:
            content, is_json = json.loads(response.content) if response.content else None, True
        except ValueError:
            content, is_json = None, False
        said = str(content.get("message") or "") if isinstance(content, dict) else ""
        if status == 403 and "Permission denied" in said:  # to the server itself
            raise Refused(status, "the server may not do that")
        if status in _REFUSED:
            raise self._token_refused(status, said)
        if 300 <= status < 400:
            where = response.headers.get("location", "")
            if "login" in where:
                raise self._token_refused(status, "")
            raise self.not_jupyter(f"it redirects to {where[:200]}")
        if status in _AWAY and not said:
            raise self._unreachable(_away(status))
        if status >= 400:
            raise Refused(status, said or response.reason_phrase)
        if not is_json:
            raise self.not_jupyter("its answer is not JSON")
        return content

    def not_jupyter(self, why: str) -> NotJupyter:
        """The error for something that answers as no Jupyter does."""
        return NotJupyter(
            f"What answers at {self.address.base} is not a Jupyter server: {why}.",
            "Give the address of a Jupyter server, with its base URL.",
            url=self.address.base,
        )

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        return _unreachable(self.address, self._proxy, error)

    def _token_refused(self, status: int, said: str) -> TokenRefused:
        base, next_step = self.address.base, _TOKEN_REMEDY
        if "not authorized" in said:  # so Jupyter's authorizer speaks of a user that it knows
            happened = f"The Jupyter server at {base} does not allow this: {said.rstrip('.')}."
            next_step = "Ask whoever runs that server for the permission."
        elif self.address.token is None:
            happened = f"The Jupyter server at {base} wants a token, and none is known ({status})."
        else:
            happened = f"The Jupyter server at {base} does not accept the token ({status})."
        return TokenRefused(happened, next_step, url=base)


_TOKEN_REMEDY = (
    "Ask the person to put the token that `jupyter server list` shows there into JUPYTER_TOKEN "
    "and to start this command again with --server and that address; a server that has only a "
    "password must be given a token."
)


def new_client(address: ServerAddress) -> httpx2.AsyncClient:
    """What asks one server over HTTP: with its token, and through its proxy if it has one.

    Raises:
        ServerUnreachable: The environment names a proxy that cannot be used.
    """
    proxy = _proxy(address)
    try:
        return httpx2.AsyncClient(
            headers=address.credentials,
            cookies=CookieJar(_OnlyProof()),
            # Certificates take a while to load, and nothing is to be verified over http.
            verify=address.base.startswith("https") and _context(address),
            timeout=httpx2.Timeout(_ANSWER, connect=_CONNECT),
            follow_redirects=False,
            proxy=proxy,
            trust_env=False,  # it has been looked at, in one way for HTTP and for WebSockets
        )
    except (ImportError, ValueError) as error:  # SOCKS needs a package; nonsense
        raise _unreachable(address, proxy, error) from error


class _OnlyProof(DefaultCookiePolicy):
    """Jupyter lets in whom it has once given a cookie, also after its token was revoked."""

    def set_ok(self, cookie: Cookie, request: Request) -> bool:
        return cookie.name == _XSRF and super().set_ok(cookie, request)


def _wants_proof(response: httpx2.Response) -> bool:
    request = response.request
    return (
        response.status_code == 403
        and request.method != "GET"
        and "X-XSRFToken" not in request.headers
        and _XSRF.encode() in response.content
    )


def _proxy(address: ServerAddress) -> str | None:
    """The proxy that the environment names for a server."""
    parts = urlsplit(address.base)
    # It leads out of this machine, not to a server on it.
    host = parts.hostname or ""
    if _is_loopback(host) or proxy_bypass(f"{host}:{parts.port}" if parts.port else host):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _context(address: ServerAddress) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not address.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _away(status: int) -> Exception:
    return ConnectionError(f"what stands in front of it answers with status {status}")


def _unreachable(address: ServerAddress, proxy: str | None, error: Exception) -> ServerUnreachable:
    said = (str(error) or type(error).__name__).rstrip(".")
    way, next_step = "", "See that it runs and that the address is right, http:// or https://."
    if "CERTIFICATE_VERIFY_FAILED" in said:
        next_step = (
            "Ask the person to let SSL_CERT_FILE name the certificate of that server or of its "
            "authority; the option --insecure accepts any."
        )
    elif "WRONG_VERSION_NUMBER" in said:
        next_step = "Say http:// instead of https://."
    elif proxy is not None:
        way = f" through the proxy {urlsplit(proxy).netloc.rpartition('@')[2]}"
        next_step = "Ask the person to set HTTP_PROXY right, or to name that host in NO_PROXY."
    return ServerUnreachable(
        f"The Jupyter server at {address.base} cannot be reached{way}: {said}.",
        next_step,
        url=address.base,
    )
