"""Rooms of notebooks that learn that they have to save, and not what each change was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .workaround import Server, Workaround, changed_signature, missing_fields, unused_names


class ChangeEvents(Workaround):
    name = "change_events"
    package = "jupyter-ydoc"
    fault = (
        "A room observes its notebook only to know that it has to save. jupyter-ydoc observes "
        "everything below the cells for it, and for each event yrs counts the cells before it, "
        "several times."
    )
    patches = ("YNotebook.observe",)
    without = "whoever clears the outputs of thousands of cells stops the server for seconds"

    def check(self, server: Server) -> list[str]:
        from jupyter_server_ydoc.rooms import DocumentRoom
        from jupyter_ydoc import YNotebook
        from jupyter_ydoc.ybasedoc import YBaseDoc

        return [
            *changed_signature(YNotebook, "observe", "callback", is_async=False),
            *changed_signature(YNotebook, "unobserve", is_async=False),
            *missing_fields(YBaseDoc, "_subscriptions"),
            *changed_signature(
                DocumentRoom, "_on_document_change", "target", "event", is_async=False
            ),
            *unused_names(DocumentRoom, "__init__", "_on_document_change"),
        ]

    def apply(self, server: Server) -> None:
        from jupyter_server_ydoc.rooms import DocumentRoom
        from jupyter_ydoc import YNotebook

        observe = YNotebook.observe
        if hasattr(observe, "_before"):
            return

        def observe_in_room(self: YNotebook, callback: Callable[[str, Any], None]) -> None:
            if not isinstance(getattr(callback, "__self__", None), DocumentRoom):
                observe(self, callback)  # another observer, who needs the details
                return
            self.unobserve()
            subscriptions: dict[Any, Any] = self._subscriptions
            subscriptions[self.ydoc] = self.ydoc.observe(partial(callback, "cells"))

        observe_in_room._before = observe  # type: ignore[attr-defined]
        YNotebook.observe = observe_in_room  # type: ignore[method-assign]
