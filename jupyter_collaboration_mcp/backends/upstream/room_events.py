"""Lets the rooms of notebooks know that they have to save, without being told each change.

A room observes its notebook only to save it. jupyter-ydoc does that for all that is below the
cells, and for each such event yrs counts the cells before it, several times: whoever clears the
outputs of thousands of cells stops the server for seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from jupyter_server_ydoc.rooms import DocumentRoom
from jupyter_ydoc import YNotebook


def tell_rooms_of_changes_only() -> None:
    """Have rooms that are made from now on observe their document as a whole."""
    observe = YNotebook.observe
    if hasattr(observe, "_before"):
        return

    def observe_in_room(self: YNotebook, callback: Callable[[str, Any], None]) -> None:
        if not isinstance(getattr(callback, "__self__", None), DocumentRoom):
            observe(self, callback)  # somebody else, who wants to know what happened
            return
        self.unobserve()
        subscriptions: dict[Any, Any] = self._subscriptions
        subscriptions[self.ydoc] = self.ydoc.observe(partial(callback, "cells"))

    observe_in_room._before = observe  # type: ignore[attr-defined]
    YNotebook.observe = observe_in_room  # type: ignore[method-assign]
