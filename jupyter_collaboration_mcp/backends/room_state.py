"""What a Jupyter server says about a document in the document itself: its saves and its path.

The state map has a flag `dirty`, but only JupyterLab ever sets it: where none is open, it stays
false while agents edit. What can be trusted is that the server writes `dirty` and `hash` anew
after each save, and that any change cancels a save that has begun. So the file has everything
when the latest thing that happened in the room is such a mark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pycrdt import Doc, Map, MapEvent, TransactionEvent

from .updates import first_block, sole_author


class RoomState:
    """Watches one Doc for saves and renames."""

    def __init__(self, doc: Doc[Any], path: str, saved: bool | None = None) -> None:
        self.doc = doc
        self.path = path
        self._saved = saved
        """None before the document has come."""
        self._dirty = self._marked = False
        self._doubtful: set[tuple[int, int]] = set()
        self._map: Map[Any] = doc.get("state", type=Map)
        self._on_end: list[Callable[[], None]] = [
            partial(self._map.unobserve, self._map.observe(self._on_map)),
            partial(doc.unobserve, doc.observe(self._on_update)),
        ]

    @property
    def saved(self) -> bool:
        """Whether the file has everything that this Doc has."""
        return bool(self._saved)

    def doubt(self, update: bytes) -> None:
        """A mark in an update may be of a save that began before the latest edit came."""
        if (block := first_block(update)) is not None:
            client, clock = block
            self._doubtful |= {(client, clock), (client, clock + 1)}  # `dirty`, then `hash`

    def copy(self) -> RoomState:
        """The same of a Doc of its own, which can go ahead."""
        doc: Doc[Any] = Doc()
        doc.apply_update(self.doc.get_update())
        copy = RoomState(doc, self.path, self.saved)
        copy._doubtful = set(self._doubtful)
        return copy

    def close(self) -> None:
        """Stop watching."""
        while self._on_end:
            self._on_end.pop()()

    def _on_map(self, event: MapEvent) -> None:
        changes: dict[str, Any] = event.keys  # type: ignore[attr-defined]  # not declared
        changed = {key: change.get("newValue") for key, change in changes.items()}
        if "dirty" in changed:
            self._dirty = changed["dirty"] is True
            self._marked = not self._dirty
        if "hash" in changed:
            self._marked = True
        # On loading, the path may be one that an older room has left in the store.
        if changed.get("path") and self._saved is not None:
            self.path = str(changed["path"])

    def _on_update(self, event: TransactionEvent) -> None:
        """Comes after `_on_map` of the same transaction."""
        marked, self._marked = self._marked, False
        if self._saved is None:
            self._saved = not self._dirty
            return
        # A mark comes alone; with the work of others in one update, who knows the order.
        alone = sole_author(event.update) is not None
        doubtful = first_block(event.update) in self._doubtful
        self._saved = marked and alone and not doubtful
        if self._saved:
            self._doubtful.clear()
