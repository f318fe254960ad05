"""The MCP server of one Jupyter server: made when that is idle or asked, ended with the server.

Nothing of `mcp`, pydantic or starlette is imported while Jupyter starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import importlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ..backends.upstream.stream_watchers import end_watchers_quietly
from .open_requests import OpenRequests
from .resumption import make_resumable
from .sessions import bound_sessions, end_sessions

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import ASGIApp

#: A notebook cell with a large text or image must fit into one call; the SDK's 4 MiB are too few.
MAX_REQUEST_BODY_SIZE = 32 * 1024 * 1024

#: How long `stop` lets sessions wind down before it cancels them.
STOP_TIMEOUT = 5.0

#: Seconds for which Jupyter is watched, and the share of CPU time up to which it counts as idle.
_LOOK, _IDLE = 1.0, 0.05

#: What the first request needs: about 1.5 s of imports.
_MODULES = (
    "mcp.server.mcpserver",
    "mcp.server.streamable_http_manager",
    "mcp.server.auth.middleware.bearer_auth",
)


class EndpointStopped(Exception):
    """The server is going down and takes no more MCP requests."""


class MCPEndpoint:
    """Owns the MCP session manager: builds it once, runs it in one task, ends it.

    Args:
        build: Makes the MCP server. Called on the event loop at the first request, and again
            after a failure.
        log: Where the life of the endpoint is reported.
        max_request_body_size: Larger requests are answered with 413.
        preload: Modules that `build` will need, imported together with `mcp` off the event loop.
        event_store_size: Bytes that are kept for clients that lose their connection; 0: none.
    """

    def __init__(
        self,
        build: Callable[[], MCPServer],
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        max_request_body_size: int = MAX_REQUEST_BODY_SIZE,
        preload: Iterable[str] = (),
        event_store_size: int = 0,
    ) -> None:
        self._build = build
        self._log = log
        self._max_request_body_size = max_request_body_size
        self._event_store_size = event_store_size
        self._modules = (*_MODULES, *preload)
        self.requests = OpenRequests()
        """What is being answered."""
        self._manager: StreamableHTTPSessionManager | None = None
        self._application: ASGIApp | None = None
        self._ready: asyncio.Future[ASGIApp] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def application(self) -> ASGIApp:
        """The ASGI application, built by whoever asks first.

        Raises:
            EndpointStopped: After `stop`.
            Exception: What `build` raised; the next call tries again.
        """
        if self._application is not None:
            return self._application
        if self._stopping.is_set():
            raise EndpointStopped
        if self._ready is None:
            self._ready = self._start()
        # Shielded: a client that goes away must not cancel what the others wait for.
        return await asyncio.shield(self._ready)

    async def prepare_when_idle(self) -> None:
        """Be ready for the first request, once Jupyter has nothing else to do.

        It would have to wait for imports otherwise. They take a second, in which whoever opens
        JupyterLab just then would wait, too.
        """
        while self._ready is None and not self._stopping.is_set():
            spent = time.process_time()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._stopping.wait()
            if time.process_time() - spent < _IDLE * _LOOK and self._ready is None:
                with contextlib.suppress(Exception):  # the first request reports it
                    await self.application()
                return

    async def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """End all sessions and take no more requests; it returns even if a session will not end."""
        self._stopping.set()
        self._application = None
        if self._task is None or self._task.done():
            return
        await asyncio.wait({self._task}, timeout=timeout)
        if not self._task.done():
            self._log.warning("MCP sessions did not end within %g s and were cancelled", timeout)
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=1.0)

    def end(self, credential: str) -> None:
        """End the requests and sessions of a credential."""
        self.requests.end(credential)
        if self._manager is not None:
            end_sessions(self._manager, credential)

    def _start(self) -> asyncio.Future[ASGIApp]:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[ASGIApp] = loop.create_future()
        # A context of its own: the task outlives the request that starts it, and Jupyter keeps
        # that request's handler, token and all, in a context variable (CallContext).
        self._task = loop.create_task(
            self._run(ready), name="mcp-endpoint", context=contextvars.Context()
        )
        return ready

    async def _run(self, ready: asyncio.Future[ASGIApp]) -> None:
        """Build the manager and run it: its task group must end in the task it began in."""
        try:
            # In threads: imports take a second, and the schemas of all tools a tenth of one.
            await asyncio.to_thread(_import_all, self._modules)
            server = await asyncio.to_thread(self._build_quietly)
            if self._stopping.is_set():
                raise EndpointStopped
            manager = self._manager = self._make_manager(server)
            async with manager.run():
                self._application = manager.asgi_app
                ready.set_result(manager.asgi_app)
                await self._stopping.wait()
        except Exception as error:
            if ready.done():
                self._log.error(
                    "The MCP endpoint failed; the next request restarts it", exc_info=error
                )
            else:
                ready.set_exception(error)
        finally:
            self._application = None
            self._ready = None
            if not ready.done():  # cancelled while it was being built
                ready.set_exception(EndpointStopped())
            ready.exception()  # looked at: all who waited may have gone

    def _build_quietly(self) -> MCPServer:
        with _root_logger_untouched():
            server = self._build()
        # What was imported stays for ever. Python's collector looks at all of it each time that
        # somebody brings many objects, a large notebook say; everybody waits a tenth of a second.
        gc.freeze()
        return server

    def _make_manager(self, server: MCPServer) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        manager = StreamableHTTPSessionManager(
            server._lowlevel_server,
            # The SDK's own Host check knows localhost only and breaks behind JupyterHub and
            # proxies; the handler has made Jupyter's Host and Origin checks before.
            security_settings=None,
            max_request_body_size=self._max_request_body_size,
        )
        end_watchers_quietly()
        bound_sessions(manager)
        make_resumable(manager, self._event_store_size)
        return manager


def _import_all(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(module)


@contextlib.contextmanager
def _root_logger_untouched() -> Iterator[None]:
    """Keep `MCPServer()` from configuring the logging of the whole Jupyter process.

    It calls `logging.basicConfig`, which adds a handler and sets the level unless the root
    logger has a handler already.
    """
    root = logging.getLogger()
    placeholder = logging.NullHandler()
    root.addHandler(placeholder)
    try:
        yield
    finally:
        root.removeHandler(placeholder)
