"""A Jupyter extension that knows for how long the event loop served nobody else.

It measures what each callback of the loop takes in CPU time of its thread. Unlike the time on a
clock, that does not grow because others use the machine; but two threads that share a core slow
each other down. So with each answer comes what a fixed piece of work takes right now.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import tornado.web
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join

#: The extension's name, to be enabled by.
NAME = __name__


class StallMeter:
    """The longest callback since it was last asked."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.callback = ""

    def start(self) -> None:
        run = asyncio.Handle._run

        def measured(handle: Any) -> None:
            start = time.thread_time()
            run(handle)
            took = time.thread_time() - start
            if took > self.longest:
                self.longest, self.callback = took, repr(handle)

        asyncio.Handle._run = measured  # type: ignore[assignment]

    def take(self) -> dict[str, Any]:
        taken = {
            "milliseconds": self.longest * 1000,
            "callback": self.callback,
            "unit": _unit() * 1000,
        }
        self.longest, self.callback = 0.0, ""
        return taken


def _unit() -> float:
    """Seconds of CPU time that a fixed piece of work takes: the kinds of work that callbacks do."""
    start = time.thread_time()
    text = json.dumps([{"source": f"step = {n}", "n": n} for n in range(2_000)])
    assert len(json.loads(text)) == len(bytes(text, "utf-8").split(b"}, {"))
    return time.thread_time() - start


class _Handler(JupyterHandler):
    def initialize(self, meter: StallMeter) -> None:
        self._meter = meter

    @tornado.web.authenticated
    def get(self) -> None:
        self.finish(json.dumps(self._meter.take()))


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": NAME}]


def _load_jupyter_server_extension(serverapp: ServerApp) -> None:
    meter = StallMeter()
    meter.start()
    address = url_path_join(serverapp.base_url, "stall-meter")
    add_handlers: Any = serverapp.web_app.add_handlers
    add_handlers(".*$", [(address, _Handler, {"meter": meter})])
