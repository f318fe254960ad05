"""What servers and commands import; `tests.harness.forking` forks them from a process with it."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import sys
import uuid
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
    from jupyter_collaboration_mcp.tools.parts import Parts, Standalone
    from jupyter_collaboration_mcp.tools.registry import all_tools
    from jupyter_collaboration_mcp.workspace.sites import Sites

    all_tools(Parts(Sites(), None, Standalone(cast("Any", None))))

for _name in _LATER:
    importlib.import_module(_name)
for _names in serverapp.JUPYTER_SERVICE_HANDLERS.values():
    for _name in _names or ():
        importlib.import_module(_name)

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
