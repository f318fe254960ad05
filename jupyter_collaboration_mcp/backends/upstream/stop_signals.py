"""Lets a server end that is asked to while it writes a line to its log."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from .workaround import Server, Workaround, changed_signature, unused_names


class StopSignals(Workaround):
    name = "stop_signals"
    package = "jupyter-server"
    fault = (
        "It logs in the handler of a signal. If the signal comes while a line is written to the "
        "log, Python refuses the second line, and the server does not hear that it is to end: "
        "whoever stops it waits, and then kills it."
    )
    patches = ("ServerApp._signal_stop", "signal.signal")
    without = "a server that is told to end while it logs something goes on until it is killed"

    def check(self, server: Server) -> list[str]:
        from jupyter_server.serverapp import ServerApp
        from tornado.platform.asyncio import BaseAsyncIOLoop

        return [
            *changed_signature(ServerApp, "_signal_stop", "sig", "frame", is_async=False),
            *unused_names(ServerApp, "init_signal", "_signal_stop"),
            *unused_names(BaseAsyncIOLoop, "start", "asyncio_loop"),
        ]

    def apply(self, server: Server) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            app = _app_that_ends_on(number)
            if app is not None:
                signal.signal(number, handler := _in_the_loop(app))
                app._signal_stop = handler  # Jupyter sets it later: the second Control-C


def _app_that_ends_on(number: int) -> Any:
    """The Jupyter server that handles a signal; whoever embeds one may have its own handler."""
    from jupyter_server.serverapp import ServerApp

    handler: Any = signal.getsignal(number)
    if getattr(handler, "__func__", None) is ServerApp._signal_stop:
        return handler.__self__
    return None


def _in_the_loop(app: Any) -> Callable[[int, FrameType | None], None]:
    """The handler to have instead. It does nothing that could write anything."""
    stop = type(app)._signal_stop

    def on_signal(number: int, frame: FrameType | None) -> None:
        app.io_loop.asyncio_loop.call_soon_threadsafe(stop, app, number, None)

    return on_signal
