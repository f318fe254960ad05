"""Lets go of what belongs to an answer as soon as it has left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from .mcp_sdk import SdkWorkaround
from .workaround import changed_signature, missing_attributes, unused_names

_log = logging.getLogger(__name__)

_RESPONSE = "EventSourceResponse"
_PING, _EXIT = "_ping", "_listen_for_exit_signal_with_grace"


class StreamWatchers(SdkWorkaround):
    name = "stream_watchers"
    package = "anyio"
    fault = (
        "A task group that cancels a task makes a cycle of the cancellation and the frame that "
        "looks at it, which keeps all that the task had until Python's garbage collector comes. "
        "sse-starlette ends two tasks of each answer in this way: 15 KB each, with the request."
    )
    patches = (
        f"mcp.server.streamable_http.{_RESPONSE}",
        f"{_RESPONSE}.{_PING}",
        f"{_RESPONSE}.{_EXIT}",
    )
    without = "the memory of hundreds of requests is freed late, and some of it never"

    def mismatches(self) -> list[str]:
        from mcp.server import streamable_http
        from mcp.server.streamable_http import StreamableHTTPServerTransport
        from sse_starlette import EventSourceResponse

        if found := missing_attributes(streamable_http, _RESPONSE):
            return found
        return [
            *unused_names(StreamableHTTPServerTransport, "_handle_post_request", _RESPONSE),
            *unused_names(EventSourceResponse, "__call__", _EXIT),
            *changed_signature(EventSourceResponse, _EXIT, is_async=True),
            *changed_signature(EventSourceResponse, _PING, "send", is_async=True),
        ]


def end_watchers_quietly() -> None:
    """Make the tasks beside an answer return when they are cancelled.

    What cancels them is that the answer is complete, or that it is given up; the response itself
    sees to that. It cancels all its tasks once one of them has returned.
    """
    if differences := StreamWatchers().mismatches():
        _log.warning("Requests are freed late: %s", "; ".join(differences))
        return
    from mcp.server import streamable_http
    from sse_starlette import EventSourceResponse

    class QuietResponse(EventSourceResponse):
        async def _ping(self, send: Any) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await super()._ping(send)

        async def _listen_for_exit_signal_with_grace(self) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await super()._listen_for_exit_signal_with_grace()

    if getattr(streamable_http, _RESPONSE) is EventSourceResponse:  # once in a process
        setattr(streamable_http, _RESPONSE, QuietResponse)
