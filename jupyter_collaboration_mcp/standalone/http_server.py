"""Serving an application over HTTP until the command is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Literal

import uvicorn

from .shutdown import Shutdown

if TYPE_CHECKING:
    from starlette.types import ASGIApp

#: Seconds for answers that are on their way when it ends.
_FAREWELL = 3


class _Quiet(uvicorn.Server):
    # Its own would raise the signal again before we have left in good order.
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_until(
    shutdown: Shutdown,
    app: ASGIApp,
    listener: socket.socket,
    *,
    started: Callable[[], None] = lambda: None,
    ending: Callable[[], Awaitable[None]],
    lifespan: Literal["on", "off"] = "on",
) -> None:
    """Serve an application.

    Args:
        started: Called when it is served.
        ending: Called before the connections are closed.
        lifespan: Whether the application wants to know when it begins and ends.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan=lifespan,
        timeout_graceful_shutdown=_FAREWELL,
    )
    http = _Quiet(config)
    serving = asyncio.ensure_future(http.serve([listener]))
    while not http.started and not serving.done():
        await asyncio.sleep(0.01)
    if http.started:
        started()
    await shutdown.wait(serving)
    await ending()
    http.should_exit = True
    await serving
