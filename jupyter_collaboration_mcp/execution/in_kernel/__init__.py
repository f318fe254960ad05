"""Describes the variables of a kernel from inside it, without running the user's code.

The source of these modules is sent to the kernel and run there in its own namespace. So they must
import only the standard library and, by name, each other; no name may be defined twice; and they
must be valid Python 3.8. They trust only `type(value)`, read through the methods of builtin
classes, and call no `__repr__` that they do not know.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib.resources import files

from .variables import report

__all__ = ["report", "source"]

#: The modules that are sent, each after those that it imports from.
_MODULES = ("bounds", "classes", "brief", "definitions", "frames", "variables")


@cache
def source() -> str:
    """The source of all modules, as one that defines `report`."""
    sources = (files(__package__).joinpath(f"{name}.py").read_text("utf-8") for name in _MODULES)
    return "from __future__ import annotations\n" + "\n".join(map(_without_own_imports, sources))


def _without_own_imports(module: str) -> str:
    """A module without the imports that fail in one combined source."""
    lines = module.splitlines()
    for node in ast.parse(module).body:
        if isinstance(node, ast.ImportFrom) and (node.level or node.module == "__future__"):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[number - 1] = ""
    return "\n".join(lines)
