"""Compiles each schema of notebooks once, however many notebooks are opened at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from .workaround import Server, Workaround, changed_signature, unused_names

_compiling = threading.Lock()


class NotebookSchemas(Workaround):
    name = "notebook_schemas"
    package = "nbformat"
    fault = (
        "The first notebooks that are opened at the same time each compile the schema, every one "
        "in a thread of its own: 8 MB that the thread's heap keeps, and up to half a second."
    )
    patches = ("nbformat.validator.get_validator",)
    without = "ten notebooks that are opened at once may cost 80 MB for good"

    def check(self, server: Server) -> list[str]:
        from nbformat import validator

        parameters = ("version", "version_minor", "relax_add_props", "name")
        return [
            *changed_signature(validator, "get_validator", *parameters, is_async=False),
            *unused_names(validator, "_get_errors", "get_validator"),
        ]

    def apply(self, server: Server) -> None:
        compile_schemas_once()


def compile_schemas_once() -> None:
    """Have one thread compile a schema, and all others wait for it."""
    from nbformat import validator

    compiled: Callable[..., Any] = validator.get_validator
    if hasattr(compiled, "__wrapped__"):  # by another server in this process
        return

    @wraps(compiled)
    def get_validator(*arguments: Any, **options: Any) -> Any:
        with _compiling:
            return compiled(*arguments, **options)

    validator.get_validator = get_validator
