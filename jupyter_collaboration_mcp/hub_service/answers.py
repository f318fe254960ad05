"""What the service itself answers, in place of a user's server: one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import (
    CollaborationError,
    HubRefused,
    NotJupyter,
    ServerStopped,
    ServerUnreachable,
    TokenRefused,
)

if TYPE_CHECKING:
    from starlette.types import Send

Headers = Iterable[tuple[bytes, bytes]]


class Refusal(Exception):
    """A request that goes no further.

    Args:
        said: What is wrong, and what to do.
    """

    def __init__(self, status: int, said: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(said)
        self.status = status
        self.said = said
        self.headers = headers

    @classmethod
    def of(cls, error: CollaborationError) -> Refusal:
        """The refusal for an error."""
        said = f"{error.happened} {error.remedy}"
        if isinstance(error, TokenRefused):
            return cls.unauthorized(said)
        if isinstance(error, HubRefused):
            return cls(403, said)
        if isinstance(error, ServerStopped | ServerUnreachable):
            return cls(503, said, (b"retry-after", b"5"))
        return cls(502 if isinstance(error, NotJupyter) else 400, said)

    @classmethod
    def unauthorized(cls, said: str) -> Refusal:
        return cls(401, said, (b"www-authenticate", b'Bearer realm="JupyterHub"'))

    async def send(self, send: Send) -> None:
        body = json.dumps({"error": self.said}).encode()
        headers = [(b"content-type", b"application/json"), *self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
