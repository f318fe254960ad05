"""Lets a server end that is asked to while it writes a line to its log."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from .workaround import Server, Workaround, changed_signature, missing_attributes, unused_names


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
        from tornado.ioloop import IOLoop

        return [
            *changed_signature(ServerApp, "_signal_stop", "sig", "frame", is_async=False),
            *unused_names(ServerApp, "init_signal", "_signal_stop"),
            *missing_attributes(IOLoop, "add_callback_from_signal"),
        ]

    def apply(self, server: Server) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            app = _app_that_ends_on(number)
            if app is not None:
                signal.signal(number, _in_the_loop(app))


def _app_that_ends_on(number: int) -> Any:
    """The Jupyter server that handles a signal; whoever embeds one may have its own handler."""
    from jupyter_server.serverapp import ServerApp

    handler: Any = signal.getsignal(number)
    if getattr(handler, "__func__", None) is ServerApp._signal_stop:
        return handler.__self__
    return None


def _in_the_loop(app: Any) -> Callable[[int, FrameType | None], None]:
    """The handler to have instead, also where Jupyter sets it later (the second Control-C)."""
    stop = type(app)._signal_stop

    def on_signal(number: int, frame: FrameType | None) -> None:
        app.io_loop.add_callback_from_signal(stop, app, number, None)

    app._signal_stop = on_signal
    return on_signal
