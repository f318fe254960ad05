"""What a kernel is asked when code is to be run, whichever way the question goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def execute_request(
    code: str,
    silent: bool,
    store_history: bool,
    allow_stdin: bool,
    user_expressions: Mapping[str, str] | None,
) -> dict[str, Any]:
    """The content of an `execute_request`."""
    return {
        "code": code,
        "silent": silent,
        "store_history": store_history,
        "user_expressions": dict(user_expressions or {}),
        "allow_stdin": allow_stdin,
        # An error of ours must not throw away what people have queued.
        "stop_on_error": False,
    }
