"""Errors of requests to a Jupyter server, in sentences that an agent can act on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from websockets.datastructures import Headers
from websockets.exceptions import (
    InvalidHandshake,
    InvalidMessage,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    ProxyError,
)

from ...documents.foreign_text import MESSAGE, quoted
from ...errors import AnswerTooLarge, NotJupyter, ServerError, ServerUnreachable, TokenRefused
from .answer_limits import Answer, parse_json
from .jupyterhub import Hub
from .server_address import ServerAddress

#: Statuses of a server that does not let us in.
REFUSED = (401, 403)

#: Statuses of a proxy that cannot reach the server behind it.
_AWAY = (502, 503, 504)

#: Errors on opening a WebSocket.
HANDSHAKE_ERRORS = (
    InvalidHandshake,
    InvalidProxy,
    InvalidURI,
    ImportError,
    OSError,
    TimeoutError,
)

_TOKEN_REMEDY = (
    "Put the token that `jupyter server list` shows there into JUPYTER_TOKEN, and start this "
    "command again with --server and that URL. If the server has only a password, start it with "
    "a token too: set JUPYTER_TOKEN in its environment."
)


class Refused(Exception):
    """The server answered with an error status that means something to the caller.

    Args:
        said: The reason, in the server's own words.
    """

    def __init__(self, status: int, said: str) -> None:
        super().__init__(quoted(said) if said else f"status {status}")
        self.status = status
        self.said = said


@dataclass(frozen=True, slots=True)
class ServerErrors:
    """The errors of requests to one server.

    Args:
        hub: The JupyterHub that the server belongs to, if known.
    """

    address: ServerAddress
    hub: Hub | None = None

    async def content_of(self, answer: Answer) -> Any:
        """The parsed JSON of an answer; None if it has none.

        Raises:
            Refused: The answer has an error status that means something to the caller.
            ServerError: It does not come from a Jupyter server that lets us in.
        """
        status = answer.status
        try:
            content, is_json = await parse_json(answer.body) if answer.body else None, True
        except ValueError:
            content, is_json = None, False
        if self.hub is not None:
            stopped = self.hub.in_its_place(status, answer.headers, is_json)
            if stopped is not None:
                raise stopped
        said = str(content.get("message") or "") if isinstance(content, dict) else ""
        if status == 403 and "Permission denied" in said:  # by the server itself
            raise Refused(status, "Permission denied")
        if status in REFUSED:
            raise self.token_refused(status, said)
        if 300 <= status < 400:
            where = answer.headers.get("location", "")
            if "login" in where:
                raise self.token_refused(status, "")
            raise self.not_jupyter(f"it redirects to {quoted(where)}")
        if status in _AWAY and not said:
            raise self._away(status)
        if status >= 400:
            raise Refused(status, said or answer.reason)
        if not is_json:
            raise self.not_jupyter("its answer is not JSON that can be read")
        return content

    def of_handshake(self, error: Exception) -> Exception:
        """The error for a WebSocket that could not be opened: `Refused` or a `ServerError`."""
        if isinstance(error, InvalidStatus):
            return self._of_status(error.response.status_code, error.response.headers)
        if isinstance(error, InvalidProxy):
            return self.unreachable(ValueError(error.msg))  # not its whole URL
        if isinstance(error, (InvalidHandshake, InvalidURI)) and not isinstance(
            error, (InvalidMessage, ProxyError)
        ):
            return self.not_jupyter(f"it opens no WebSocket ({quoted(error)})")
        # It hung up instead of answering, or the proxy cannot be used (SOCKS needs a package).
        return self.unreachable(error)

    def _of_status(self, status: int, headers: Headers) -> Exception:
        if self.hub is not None:
            kind = headers.get("content-type", "")
            # A server that refuses a WebSocket with 403 does not always send JSON.
            is_json = status == 403 or kind.startswith("application/json")
            stopped = self.hub.in_its_place(status, headers, is_json)
            if stopped is not None:
                return stopped
        if status in REFUSED:
            return self.token_refused(status, "")
        return self._away(status) if status in _AWAY else Refused(status, "")

    def not_jupyter(self, why: str) -> NotJupyter:
        """The error for something that does not answer like a Jupyter server."""
        return NotJupyter(
            f"What answers at {self.address.base} is not a Jupyter server: {why}.",
            "Give the URL of a Jupyter server, with its base URL.",
            url=self.address.base,
        )

    def too_large(self, limit: int) -> AnswerTooLarge:
        """The error for an answer with more bytes than the limit."""
        error = AnswerTooLarge(
            f"The answer of the Jupyter server at {self.address.base} has more than "
            f"{limit:,} bytes, and was dropped.",
            "Ask for less, or ask the person to raise --max-answer-size.",
            url=self.address.base,
        )
        error.remedy = "Raise --max-answer-size if you expect that much from this server."
        return error

    def token_refused(self, status: int, said: str) -> TokenRefused:
        """The error for a server that does not let us in.

        Args:
            said: The reason, in the server's own words.
        """
        base = self.address.base
        if "not authorized" in said:  # Jupyter's authorizer, about a user that it knows
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

    def _away(self, status: int) -> ServerError:
        return self.unreachable(
            ConnectionError(f"what stands in front of it answers with status {status}")
        )

    def unreachable(self, error: Exception) -> ServerUnreachable:
        """The error for a server that did not answer."""
        base, proxy = self.address.base, self.address.proxy
        said = (str(error) or type(error).__name__).rstrip(".")
        if len(said) > MESSAGE or isinstance(error, (httpx2.ProtocolError, InvalidHandshake)):
            said = quoted(said)  # it may contain the server's own words
        by_proxy = "" if proxy is None else urlsplit(proxy).netloc.rpartition("@")[2]
        happened = f"The Jupyter server at {base} cannot be reached"
        if "CERTIFICATE_VERIFY_FAILED" in said:
            return ServerUnreachable.for_person(
                f"{happened}: {said}.",
                "Set SSL_CERT_FILE to the certificate of that server or of its authority; the "
                "option --insecure accepts any.",
                url=base,
            )
        if "WRONG_VERSION_NUMBER" in said:
            next_step = "Use http:// instead of https://."
            return ServerUnreachable(f"{happened}: {said}.", next_step, url=base)
        if by_proxy:
            return ServerUnreachable.for_person(
                f"{happened} through the proxy {by_proxy}: {said}.",
                "Correct HTTP_PROXY, or name that host in NO_PROXY.",
                url=base,
            )
        return ServerUnreachable(
            f"{happened}: {said}.",
            "Check that it runs and that the URL is right, http:// or https://.",
            url=base,
        )
