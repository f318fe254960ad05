"""What the SDK keeps of a request, without Tornado's handler of it.

A session of the older era keeps its first and its last request for as long as it lasts, and a
handler with its request, headers and connection is larger than all else that a session has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..server.caller import allow_all
from ..workspace.permits import Authorizer
from .agent_tokens import AgentToken

if TYPE_CHECKING:
    from starlette.types import Message

_log = logging.getLogger(__name__)


class Incoming:
    """A request as the application receives it: its body, and then that the client has gone."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self._body: bytes | None = None

    def begin(self, body: bytes) -> None:
        self._body = body

    async def receive(self) -> Message:
        if (body := self._body) is not None:
            self._body = None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}


class Afterwards:
    """What is to be done when the answer to a request has left."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._left = False
        self._works: list[Callable[[], None]] = []

    def do(self, work: Callable[[], None]) -> None:
        """Do something when the answer has left; at once if it has."""
        if self._left:
            work()
        else:
            self._works.append(work)

    def finish(self) -> None:
        """The answer has left."""
        self._left = True
        works, self._works = self._works, []
        for work in works:
            try:
                work()
            except Exception:  # nobody is there to be told
                _log.exception("Could not finish a request to %s", self._path)


def authorizer_for_all(token: AgentToken | None) -> Authorizer:
    """Jupyter's authorizer where it allows everything: only an agent's own token may expire."""
    return allow_all if token is None else partial(_while_good, token)


async def _while_good(token: AgentToken, action: str, resource: str, path: str | None) -> bool:
    return not token.expired
