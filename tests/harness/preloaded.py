"""What servers and commands import; `tests.harness.forking` forks them from a process with it."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from tests.harness import measuring
from tests.harness.jupyter import QUICK_START

sys.path.insert(0, str(QUICK_START))

with measuring.imports():
    import jupyter_collaboration_mcp

    for _name in ("jupyter_server.serverapp", "jupyter_server_fileid.extension"):
        importlib.import_module(_name)
    importlib.import_module("jupyter_server_ydoc.app")
    for _module in pkgutil.walk_packages(
        jupyter_collaboration_mcp.__path__, "jupyter_collaboration_mcp."
    ):
        if "in_kernel" not in _module.name and not _module.name.endswith("__main__"):
            importlib.import_module(_module.name)
