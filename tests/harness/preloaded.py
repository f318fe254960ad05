"""What servers and commands import; `tests.harness.forking` forks them from a process with it."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import pkgutil
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, cast

from tests.harness import measuring
from tests.harness.jupyter import QUICK_START

#: What they import only when they need it, as most of them do in the end.
_LATER = (
    "IPython",
    "anyio._backends._asyncio",
    "httpcore2",
    "ipykernel.kernelspec",
    "jinja2.ext",
    "jupyter_core.migrate",
    "packaging.requirements",
    "rich.console",
    "rich.logging",
    "tornado.platform.asyncio",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)

sys.path.insert(0, str(QUICK_START))

with measuring.imports():
    from jupyter_server import serverapp

    import jupyter_collaboration_mcp

    for _module in pkgutil.walk_packages(
        jupyter_collaboration_mcp.__path__, "jupyter_collaboration_mcp."
    ):
        if "in_kernel" not in _module.name and not _module.name.endswith("__main__"):
            importlib.import_module(_module.name)

    # The schemas of all tools, which take a server or command longer than its own start otherwise.
    from jupyter_collaboration_mcp.backends.in_process import activity_events
    from jupyter_collaboration_mcp.backends.remote.extension_info import INFO_PATH
    from jupyter_collaboration_mcp.tools.parts import Parts, Standalone
    from jupyter_collaboration_mcp.tools.registry import all_tools
    from jupyter_collaboration_mcp.transport.history_routes import history_handlers
    from jupyter_collaboration_mcp.transport.panel_routes import panel_handlers
    from jupyter_collaboration_mcp.transport.token_routes import token_handlers
    from jupyter_collaboration_mcp.workspace.sites import Sites

    all_tools(Parts(Sites(), None, Standalone(cast("Any", None))))

for _name in _LATER:
    importlib.import_module(_name)


def _work_out_once() -> None:
    """Let servers and commands find what each would work out as it starts, with the same result."""
    # What is installed, and on which system: Jupyter asks git and uname.
    requirements: Any = importlib.import_module("jupyter_collaboration_mcp.requirements")
    server: Any = serverapp
    for module, name in ((requirements, "unmet_requirements"), (server, "get_sys_info")):
        setattr(module, name, functools.cache(getattr(module, name)))
        getattr(module, name)()

    # That the schemas of events are sound; one of a test is checked where it is used.
    schema: Any = importlib.import_module("jupyter_events.schema")
    schema.yaml.load = functools.cache(schema.yaml.load)
    schema.validate_schema = _once_for_each(schema.validate_schema)
    collaboration: Any = importlib.import_module("jupyter_server_ydoc.utils")
    for folder in (
        server.DEFAULT_EVENTS_SCHEMA_PATH,
        collaboration.EVENTS_FOLDER_PATH,
        Path(activity_events.__file__).parent,
    ):
        for file in folder.rglob("*.yaml"):
            schema.EventSchema(file)

    # Types of files by their names.
    importlib.import_module("mimetypes").init()

    # The patterns of routes, as Tornado completes them: `re` keeps the last 512.
    for route in _routes():
        re.compile(f"{route}$")

    # What checks notebooks, which nbformat compiles when the first one is opened.
    for relaxed in (False, True):
        importlib.import_module("nbformat.validator").get_validator(4, 5, relaxed)

    # Those of templates.
    importlib.import_module("jinja2").Environment().lexer  # noqa: B018


def _once_for_each(check: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """The same check, left out for what has passed it; it may correct what it is given."""
    passed = set()

    def check_new(value: dict[str, Any]) -> None:
        if repr(value) not in passed:
            check(value)
            passed.add(repr(value))

    return check_new


def _routes() -> Iterator[str]:
    services = chain.from_iterable(filter(None, serverapp.JUPYTER_SERVICE_HANDLERS.values()))
    for name in (*services, "jupyter_server.base.handlers"):
        for route, *_ in importlib.import_module(name).default_handlers:
            yield route
    nothing: Any = None
    for route, *_ in (
        *history_handlers(nothing),
        *token_handlers(INFO_PATH, nothing),
        *panel_handlers(nothing),
    ):
        yield route


_work_out_once()

# What is here stays: no fork has to look at it in search of garbage.
gc.collect()
gc.freeze()
gc.collect()  # Python counts what is left, and collects the more often


def make_distinct() -> None:
    """Give this process what modules make or look up once, when a process imports them."""
    from jupyter_server_ydoc import handlers, utils

    for name in [each for each in sys.modules if each.startswith("jupyter_server_fileid")]:
        del sys.modules[name]  # has the path of its database, by the environment
    utils.SERVER_SESSION = handlers.SERVER_SESSION = str(uuid.uuid4())
    data = Path(os.environ.get("XDG_DATA_HOME", "~/.local/share")).expanduser()
    trash: Any = importlib.import_module("send2trash.plat_other")
    trash.XDG_DATA_HOME, trash.HOMETRASH_B = bytes(data), bytes(data / "Trash")
