"""One Jupyter server over the network: its REST API and its WebSockets, with its token.

Every path and id is percent-encoded, so that no request can leave its part of the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from ...errors import NotJupyter
from ..contents.models import require_model
from .answer_limits import Answer, AnswerLimits, BodyTooLarge, deadline_for, read_answer
from .http_client import new_client, send, wants_xsrf_token
from .jupyterhub import Hub
from .server_address import ServerAddress
from .server_errors import HANDSHAKE_ERRORS, REFUSED, Refused, ServerErrors
from .websocket import BoundedConnection, open_websocket

#: Names in the contents API that a file or a folder may also have: the server matches its own
#: before it decodes a path.
_RESERVED = {"checkpoints": "%63heckpoints", "trust": "%74rust"}


class JupyterApi:
    """The API of one server; every error is a sentence that an agent can act on.

    Args:
        counted: Whether requests count as activity of the server.
    """

    def __init__(
        self, address: ServerAddress, limits: AnswerLimits | None = None, *, counted: bool = True
    ) -> None:
        self.address = address
        self._counted = counted
        self.limits = AnswerLimits() if limits is None else limits
        self.hub: Hub | None = None
        """The JupyterHub that the server belongs to, once an answer has shown that."""
        self._proxy = address.proxy
        self._http = new_client(address)

    async def check(self) -> str | None:
        """Check that a Jupyter server responds and lets us in.

        Returns:
            When it was started, to a microsecond, which identifies it under any of its URLs.

        Raises:
            ServerError: It does not respond, or refuses us.
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
        """Read a resource; path segments are given unquoted.

        Raises:
            Refused: The server refuses, for example with 404.
            ServerError: It cannot be reached, does not accept the token, or is not Jupyter.
        """
        return await self.request("GET", *path, query=query)

    async def request(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Any:
        """Make any request; returns the parsed JSON of the answer, None if it has none."""
        return await self._content_of(await self.ask(method, *path, query=query, body=body))

    async def contents(self, path: str, **query: str) -> dict[str, Any]:
        """The contents API's model of a file or a folder.

        Raises:
            Refused: The server refuses, for example with 404.
            ServerError: As above, or the answer is not about a file.
        """
        return (await self.dated_contents(path, **query))[0]

    async def dated_contents(
        self, path: str, **query: str
    ) -> tuple[dict[str, Any], datetime | None]:
        """The same, with the server's time of the answer, to a second."""
        segments = path.split("/") if path else []
        answer = await self.ask("GET", "api", "contents", *segments, query=query)
        model = await self._content_of(answer)
        with self.expecting("files"):
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
        """Make any request, and return the raw answer.

        Raises:
            ServerError: No answer came, or none within the limits.
        """
        url, used = self.url(*path, query=query), self.address.token
        base, errors = self.address.base, self._errors
        deadline = deadline_for(self.limits, method, path, query)

        async def answer_to(method: str, url: str) -> Answer:
            response = await send(self._http, base, method, url, body if method != "GET" else None)
            return await read_answer(response, self.limits.size, deadline)

        try:
            async with deadline:
                answer = await answer_to(method, url)
                if wants_xsrf_token(answer):
                    # Any page sets the XSRF cookie for a client without a token.
                    await answer_to("GET", f"{base}login")
                    answer = await answer_to(method, url)
                if answer.status in REFUSED and await self._renewed(used):
                    answer = await answer_to(method, url)
        except TimeoutError as error:
            late = TimeoutError(f"no whole answer came within {round(deadline.elapsed, 1):g} s")
            raise errors.unreachable(late) from error
        except BodyTooLarge as error:
            raise errors.too_large(self.limits.size) from error
        except httpx2.DecodingError as error:
            raise errors.not_jupyter("its answer cannot be unpacked") from error
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise errors.unreachable(error) from error
        self._notice_hub(answer.headers)
        return answer

    @asynccontextmanager
    async def stream(self, method: str, *path: str) -> AsyncIterator[httpx2.Response]:
        """Make a request whose answer is read as it comes; the caller limits the time."""
        async with self._http.stream(method, self.url(*path)) as response:
            yield response

    async def websocket(
        self, *path: str, subprotocol: Subprotocol | None = None, **query: str
    ) -> BoundedConnection:
        """Open a WebSocket, with a subprotocol if the server knows it.

        Raises:
            Refused: The server refuses, for example with 404.
            ServerError: It cannot be reached, does not accept the token, or is not Jupyter.
        """
        url = self.url(*path, query=query).replace("http", "ws", 1)
        used = self.address.token

        async def connected() -> BoundedConnection:
            return await open_websocket(url, self.address, self._proxy, self.limits, subprotocol)

        try:
            try:
                return await connected()
            except InvalidStatus as error:
                if error.response.status_code not in REFUSED or not await self._renewed(used):
                    raise
                return await connected()
        except HANDSHAKE_ERRORS as error:
            if isinstance(error, InvalidStatus):
                self._notice_hub(error.response.headers)
            raise self._errors.of_handshake(error) from error

    def url(self, *path: str, query: Mapping[str, str] | None = None) -> str:
        """The URL of a resource on the server; path segments are given unquoted."""
        # Keep the colon: jupyter-collaboration treats a room id with %3A as another, empty room.
        quoted = "/".join(_RESERVED.get(segment) or quote(segment, safe=":") for segment in path)
        if not self._counted:
            query = {**(query or {}), "no_track_activity": "1"}
        return f"{self.address.base}{quoted}" + (f"?{urlencode(query)}" if query else "")

    async def close(self) -> None:
        await self._http.aclose()

    @contextmanager
    def expecting(self, what: str) -> Iterator[None]:
        """Wrap code that reads an answer, and report one that does not look like Jupyter's.

        Raises:
            NotJupyter: It has other types, or lacks something.
        """
        try:
            yield
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise self.not_jupyter(f"unexpected answer about {what}") from error

    def not_jupyter(self, why: str) -> NotJupyter:
        """The error for something that does not answer like a Jupyter server."""
        return self._errors.not_jupyter(why)

    @property
    def _errors(self) -> ServerErrors:
        return ServerErrors(self.address, self.hub)

    async def _content_of(self, answer: Answer) -> Any:
        return await self._errors.content_of(answer)

    def _notice_hub(self, headers: Mapping[str, str]) -> None:
        self.hub = Hub.answering(self.address.base, headers) or self.hub

    async def _renewed(self, used: str | None) -> bool:
        """Whether the server has another token now than the one used, because it was restarted."""
        if self.address.renew is None:
            return False
        token = await asyncio.to_thread(self.address.renew)
        if token is None or token == used:
            return False
        self.address = replace(self.address, token=token)
        self._http.headers.update(self.address.credentials)
        return True
