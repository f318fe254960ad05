"""Recording must never get in the way of what is recorded."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")

_log = logging.getLogger(__name__)


def harmless(record: Callable[P, None]) -> Callable[P, None]:
    """A function that logs its own errors: its callers answer agents, or receive people's edits."""

    @functools.wraps(record)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            record(*args, **kwargs)
        except Exception:
            _log.exception("An activity could not be recorded")

    return guarded
