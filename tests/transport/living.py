"""For the tests, a Jupyter extension: how many objects of some classes live where only reference
counts free them, because Python's garbage collector does not run."""

from __future__ import annotations

import gc
import json
from collections import Counter
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from tornado import web


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: ServerApp) -> None:
    routes = [(f"{serverapp.base_url}living", LivingHandler)]
    serverapp.web_app.add_handlers(".*$", routes)  # type: ignore[no-untyped-call]


class LivingHandler(APIHandler):
    """Asked for the first time, it collects what there is, and switches the collector off."""

    @web.authenticated
    def get(self) -> None:
        if gc.isenabled():
            gc.collect()
            gc.disable()
        living = Counter(type(each).__qualname__ for each in gc.get_objects())
        self.finish(json.dumps(living))
