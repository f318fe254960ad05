"""Whose token a request brings, as the Hub says."""

from __future__ import annotations

import asyncio
import hashlib
from typing import NamedTuple

import httpx2

from ..backends.remote.answer_limits import Answer
from ..backends.remote.hub_api import HubUser, user_in

#: Seconds that the Hub has to answer.
_TIMEOUT = {"connect": 10.0, "read": 30.0, "write": 10.0, "pool": None}

#: Tokens that are remembered for that long, at most.
_MOST = 2_000


class _Known(NamedTuple):
    until: float
    owner: HubUser


class TokenOwners:
    """Asks the Hub about tokens.

    A burst of requests with one token is one question: an answer counts for a moment, for that very
    token. The token itself is not kept.

    Args:
        api: The Hub's API, the part before `hub/api`.
        hub: The URL of the Hub that people know, for errors.
        seconds: How long an answer counts; 0: each request asks.
    """

    def __init__(self, http: httpx2.AsyncBaseTransport, api: str, hub: str, seconds: float) -> None:
        self._http = http
        self._api = api
        self._hub = hub
        self._seconds = seconds
        self._known: dict[bytes, _Known] = {}
        """By the hash of the token, the oldest first."""

    async def find(self, token: str) -> HubUser:
        """The owner of a token.

        Raises:
            ServerError: The Hub does not know it, or does not answer.
        """
        key, now = hash_of(token), asyncio.get_running_loop().time()
        known = self._known.pop(key, None)
        if known is not None and known.until > now:
            self._known[key] = known
            return known.owner
        asked = httpx2.Request(
            "GET",
            f"{self._api}hub/api/user",
            headers={"authorization": f"token {token}"},
            extensions={"timeout": _TIMEOUT},
        )
        response = await self._http.handle_async_request(asked)
        try:
            content = await response.aread()
        finally:
            await response.aclose()
        answer = Answer(
            response.status_code, response.reason_phrase, response.headers, content, asked
        )
        owner = await user_in(answer, self._hub)
        if self._seconds:
            self._remember(key, _Known(now + self._seconds, owner))
        return owner

    def forget(self, token: str) -> None:
        """Ask again: a server of the owner was started."""
        self._known.pop(hash_of(token), None)

    def _remember(self, key: bytes, known: _Known) -> None:
        self._known[key] = known
        for oldest, each in list(self._known.items()):
            if len(self._known) <= _MOST and each.until > known.until - self._seconds:
                break
            del self._known[oldest]


def hash_of(token: str) -> bytes:
    """What stands for a token where it must not be kept."""
    return hashlib.sha256(token.encode()).digest()
