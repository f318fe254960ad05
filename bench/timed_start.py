"""`python -m jupyter_server`, which says how long importing and loading our extension took."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from jupyter_server.extension.manager import ExtensionManager
from jupyter_server.serverapp import main

EXTENSION = "jupyter_collaboration_mcp"
MARK = "bench: seconds in our extension:"

#: The managers' methods that import, link and load an extension by name.
_STEPS = ("add_extension", "link_extension", "load_extension")


def _time_steps() -> None:
    spent = 0.0

    def timed(step: str) -> Any:
        method = getattr(ExtensionManager, step)

        def run(self: ExtensionManager, name: str, *args: Any, **options: Any) -> Any:
            nonlocal spent
            start = perf_counter()
            try:
                return method(self, name, *args, **options)
            finally:
                if name == EXTENSION:
                    spent += perf_counter() - start
                    if step == "load_extension":
                        print(MARK, spent, flush=True)

        return run

    for step in _STEPS:
        setattr(ExtensionManager, step, timed(step))


if __name__ == "__main__":
    _time_steps()
    main()
