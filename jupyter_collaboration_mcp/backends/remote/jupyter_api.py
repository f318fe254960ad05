"""One Jupyter server over the network: its REST API and its WebSockets, with its token.

Every path and id is percent-encoded, so that no request leaves the API that it belongs to.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import Request, getproxies, proxy_bypass

import httpx2
from websockets.asyncio.client import connect
from websockets.exceptions import (
    InvalidHandshake,
    InvalidMessage,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    ProxyError,
)
from websockets.typing import Subprotocol

from ...documents.foreign_text import MESSAGE, quoted
from ...errors import AnswerTooLarge, NotJupyter, ServerUnreachable, TokenRefused
from ..contents.models import require_model
from .answer_limits import (
    Answer,
    AnswerLimits,
    BodyTooLarge,
    deadline_for,
    parsed,
    read_answer,
)
from .jupyterhub import Hub
from .websocket import BoundedConnection, bounded_by

#: Seconds for a connection.
_CONNECT = 10.0

#: Seconds between two signs of life of a WebSocket, to wait for one, and then for its farewell:
#: a silent network is noticed when all are over.
_PING, _PONG, _FAREWELL = 10.0, 10.0, 2.0

#: Names in the contents API that a file or a folder may have as well: the server looks for its own
#: before it decodes a path.
_RESERVED = {"checkpoints": "%63heckpoints", "trust": "%74rust"}

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
    """The server answered with an error status that means something to the caller.

    Args:
        said: Why, in the server's own words.
    """

    def __init__(self, status: int, said: str) -> None:
        super().__init__(quoted(said) if said else f"status {status}")
        self.status = status
        self.said = said


class JupyterApi:
    """Asks one server; everything that goes wrong is said in a line that an agent can act on."""

    def __init__(self, address: ServerAddress, limits: AnswerLimits | None = None) -> None:
        self.address = address
        self.limits = AnswerLimits() if limits is None else limits
        self.hub: Hub | None = None
        """The JupyterHub that the server belongs to, once an answer has shown that."""
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
        return await self._read(await self.ask(method, *path, query=query, body=body))

    async def contents(self, path: str, **query: str) -> dict[str, Any]:
        """What the contents API says about a file or a folder.

        Raises:
            Refused: The server says no, for instance 404.
            ServerError: As above, and where the answer is not about a file.
        """
        return (await self.dated_contents(path, **query))[0]

    async def dated_contents(
        self, path: str, **query: str
    ) -> tuple[dict[str, Any], datetime | None]:
        """The same, and when the server says that was, to a second."""
        segments = path.split("/") if path else []
        answer = await self.ask("GET", "api", "contents", *segments, query=query)
        model = await self._read(answer)
        with self.understood("files"):
            wants_text = (query.get("content"), query.get("format")) == ("1", "text")
            require_model(model, wants_text)
        try:
            date = parsedate_to_datetime(answer.headers["date"])
        except (KeyError, ValueError):
            return model, None
        return model, date if date.tzinfo is not None else None

    async def ask(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Answer:
        """Ask for anything, and have the answer as it came.

        Raises:
            ServerError: There is none, or not within the limits.
        """
        url, used = self.url(*path, query=query), self.address.token
        deadline = deadline_for(self.limits, method, path, query)

        async def send(method: str, url: str) -> Answer:
            response = await self._send(method, url, body if method != "GET" else None)
            return await read_answer(response, self.limits.size, deadline)

        try:
            async with deadline:
                answer = await send(method, url)
                if _wants_proof(answer):
                    # Whom it does not know by a token has to show that it has seen a page of it.
                    await send("GET", f"{self.address.base}login")
                    answer = await send(method, url)
                if answer.status in _REFUSED and await self._renewed(used):
                    answer = await send(method, url)
        except TimeoutError as error:
            late = TimeoutError(f"no whole answer came within {round(deadline.passed, 1):g} s")
            raise self._unreachable(late) from error
        except BodyTooLarge as error:
            raise self._too_large() from error
        except httpx2.DecodingError as error:
            raise self.not_jupyter("its answer cannot be unpacked") from error
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise self._unreachable(error) from error
        self.hub = Hub.answering(self.address.base, answer.headers) or self.hub
        return answer

    async def websocket(
        self, *path: str, subprotocol: Subprotocol | None = None, **query: str
    ) -> BoundedConnection:
        """Open a WebSocket, with a subprotocol if the server knows it.

        Raises:
            Refused: The server says no, for instance 404.
            ServerError: It cannot be reached, does not know the token, or is no Jupyter.
        """
        url = self.url(*path, query=query).replace("http", "ws", 1)
        used = self.address.token
        try:
            try:
                return await self._opened(url, subprotocol)
            except InvalidStatus as error:
                if error.response.status_code not in _REFUSED or not await self._renewed(used):
                    raise
                return await self._opened(url, subprotocol)
        except InvalidStatus as error:
            status, headers = error.response.status_code, error.response.headers
            self.hub = Hub.answering(self.address.base, headers) or self.hub
            if self.hub is not None:
                stopped = self.hub.in_its_place(status, headers, is_json=True)
                if stopped is not None:
                    raise stopped from error
            if status in _REFUSED:
                raise self._token_refused(status, "") from error
            if status in _AWAY:
                raise self._unreachable(_away(status)) from error
            raise Refused(status, "") from error
        except InvalidProxy as error:
            raise self._unreachable(ValueError(error.msg)) from error  # not its whole address
        except (InvalidMessage, ProxyError, ImportError) as error:
            # It hung up instead of answering, or the proxy cannot be used (SOCKS needs a package).
            raise self._unreachable(error) from error
        except (InvalidHandshake, InvalidURI) as error:
            raise self.not_jupyter(f"it opens no WebSocket ({quoted(error)})") from error
        except (OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    def url(self, *path: str, query: Mapping[str, str] | None = None) -> str:
        """The URL of something on the server; path segments are given unquoted."""
        # A colon stays: jupyter-collaboration takes a room id with %3A for another, empty room.
        quoted = "/".join(_RESERVED.get(segment) or quote(segment, safe=":") for segment in path)
        return f"{self.address.base}{quoted}" + (f"?{urlencode(query)}" if query else "")

    async def close(self) -> None:
        await self._http.aclose()

    @contextmanager
    def understood(self, what: str) -> Iterator[None]:
        """While an answer is taken apart: one that is not as Jupyter's are is reported as such.

        Raises:
            NotJupyter: It has other types, or lacks something.
        """
        try:
            yield
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self.not_jupyter(f"unexpected answer about {what}") from error

    # -- parts -------------------------------------------------------------------------------

    async def _opened(self, url: str, subprotocol: Subprotocol | None) -> BoundedConnection:
        connection = await connect(
            url,
            additional_headers=self.address.credentials,
            ssl=_context(self.address) if url.startswith("wss") else None,
            max_size=self.limits.size,
            open_timeout=_CONNECT,
            ping_interval=_PING,
            ping_timeout=_PONG,
            close_timeout=_FAREWELL,
            compression=None,  # so nothing is unpacked that is larger than what was sent
            create_connection=bounded_by(self.limits),
            proxy=self._proxy,
            subprotocols=None if subprotocol is None else [subprotocol],
        )
        assert isinstance(connection, BoundedConnection)
        return connection

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
        request = self._http.build_request(method, url, json=body, headers=headers)
        return await self._http.send(request, stream=True)

    def _proof(self) -> str | None:
        """What shows that we have seen a page of the server; what stands in front of it may have
        given us another one."""
        base = urlsplit(self.address.base).path
        fitting = [cookie for cookie in self._http.cookies.jar if base.startswith(cookie.path)]
        return max(fitting, key=lambda cookie: len(cookie.path)).value if fitting else None

    async def _read(self, answer: Answer) -> Any:
        status = answer.status
        try:
            content, is_json = await parsed(answer.body) if answer.body else None, True
        except ValueError:
            content, is_json = None, False
        if self.hub is not None:
            stopped = self.hub.in_its_place(status, answer.headers, is_json)
            if stopped is not None:
                raise stopped
        said = str(content.get("message") or "") if isinstance(content, dict) else ""
        if status == 403 and "Permission denied" in said:  # to the server itself
            raise Refused(status, "Permission denied")
        if status in _REFUSED:
            raise self._token_refused(status, said)
        if 300 <= status < 400:
            where = answer.headers.get("location", "")
            if "login" in where:
                raise self._token_refused(status, "")
            raise self.not_jupyter(f"it redirects to {quoted(where)}")
        if status in _AWAY and not said:
            raise self._unreachable(_away(status))
        if status >= 400:
            raise Refused(status, said or answer.reason)
        if not is_json:
            raise self.not_jupyter("its answer is not JSON that can be read")
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

    def _too_large(self) -> AnswerTooLarge:
        error = AnswerTooLarge(
            f"The answer of the Jupyter server at {self.address.base} has more than "
            f"{self.limits.size:,} bytes, and was dropped.",
            "Ask for less, or ask the person to raise --max-answer-size.",
            url=self.address.base,
        )
        error.remedy = "Raise --max-answer-size if that much is to be expected of this server."
        return error

    def _token_refused(self, status: int, said: str) -> TokenRefused:
        base = self.address.base
        if "not authorized" in said:  # so Jupyter's authorizer speaks of a user that it knows
            return TokenRefused(
                f"The Jupyter server at {base} does not allow this: {quoted(said)}.",
                "Ask whoever runs that server for the permission.",
                url=base,
            )
        if self.address.token is None:
            happened = f"The Jupyter server at {base} wants a token, and none is known ({status})."
        else:
            happened = f"The Jupyter server at {base} does not accept the token ({status})."
        remedy = _TOKEN_REMEDY if self.hub is None else self.hub.token_remedy
        return TokenRefused.for_person(happened, remedy, url=base)


_TOKEN_REMEDY = (
    "Put the token that `jupyter server list` shows there into JUPYTER_TOKEN, and start this "
    "command again with --server and that URL. If the server has only a password, start it with "
    "a token too: set JUPYTER_TOKEN in its environment."
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
            timeout=httpx2.Timeout(None, connect=_CONNECT),  # each question has its deadline
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


def _wants_proof(answer: Answer) -> bool:
    request = answer.request
    return (
        answer.status == 403
        and request.method != "GET"
        and "X-XSRFToken" not in request.headers
        and _XSRF.encode() in answer.body
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
    if len(said) > MESSAGE or isinstance(error, (httpx2.ProtocolError, InvalidHandshake)):
        said = quoted(said)  # it may have the server's own words in it
    by_proxy = "" if proxy is None else urlsplit(proxy).netloc.rpartition("@")[2]
    happened = f"The Jupyter server at {address.base} cannot be reached"
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return ServerUnreachable.for_person(
            f"{happened}: {said}.",
            "Set SSL_CERT_FILE to the certificate of that server or of its authority; the option "
            "--insecure accepts any.",
            url=address.base,
        )
    if "WRONG_VERSION_NUMBER" in said:
        next_step = "Say http:// instead of https://."
        return ServerUnreachable(f"{happened}: {said}.", next_step, url=address.base)
    if by_proxy:
        return ServerUnreachable.for_person(
            f"{happened} through the proxy {by_proxy}: {said}.",
            "Correct HTTP_PROXY, or name that host in NO_PROXY.",
            url=address.base,
        )
    return ServerUnreachable(
        f"{happened}: {said}.",
        "See that it runs and that the URL is right, http:// or https://.",
        url=address.base,
    )
