"""What a Jupyter server writes about a document into the document itself: its saves and its path.

The state map has a flag `dirty`, but only JupyterLab ever sets it: where none is open, it stays
false while agents edit. It is reliable that the server rewrites `dirty` and then `hash` after each
save, and that any change cancels a save that has begun. So the file has everything if such a mark
is the latest event in the room. A `dirty` of the server without a following `hash` means that the
file was changed on disk and has overwritten the room (B9).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pycrdt import Doc, Map, MapEvent, TransactionEvent

from ...documents.updates import decode_state, first_block, is_single, sole_author
from ..protocols.rooms import Overwrite


class RoomState:
    """Watches one Doc for saves and renames."""

    def __init__(self, doc: Doc[Any], path: str, saved: bool | None = None) -> None:
        self.doc = doc
        self.path = path
        self._saved = saved
        """None before the document has arrived."""
        self._dirty = self._clean = self._marked = False
        self._cleaned = False  # whether the latest event is a server's `dirty` without a `hash` yet
        self.updates = 0
        """Number of updates since somebody set it to 0."""
        self._overwritten: Overwrite | None = None
        self._content = Overwrite(range(0))  # which update brought it, if any
        self.overwrites = 0
        """How often the file has overwritten the room."""
        self._server: int | None = None
        """The client id of the server, once known."""
        self._doubtful: set[tuple[int, int]] = set()
        self._map: Map[Any] = doc.get("state", type=Map)
        self._on_end: list[Callable[[], None]] = [
            partial(self._map.unobserve, self._map.observe(self._on_map)),
            partial(doc.unobserve, doc.observe(self._on_update)),
        ]

    @property
    def saved(self) -> bool:
        """Whether the file has everything that this Doc has, and nothing was lost on the way."""
        return bool(self._saved) and self._overwritten is None

    def overwritten(self) -> Overwrite | None:
        """The update with which the file overwrote the room since the last call.

        Updates are counted since `updates` was set to 0. Call this when everything that the room
        has is here: a `hash` may be on its way.
        """
        if self._cleaned:
            self._cleaned, self._saved = False, True
            self._note_overwrite()
        overwritten, self._overwritten = self._overwritten, None
        return overwritten

    @property
    def hash(self) -> str | None:
        """The hash of the file when the server last saved it."""
        said = self._map.get("hash")
        return None if said is None else str(said)

    def _note_overwrite(self) -> None:
        if self._overwritten is None:
            self._overwritten = self._content
        self.overwrites += 1

    def _hides_overwrite(self, event: TransactionEvent) -> bool:
        """Whether the file may have overwritten the room right before it was saved.

        An update that answers a question includes everything. A save is only two pieces.
        """
        if self._server is None:
            return True
        states: tuple[bytes, bytes] = (event.before_state, event.after_state)  # type: ignore[attr-defined]  # not declared
        before, after = (decode_state(state).get(self._server, 0) for state in states)
        return after - before + self._cleaned > 2

    def doubt(self, update: bytes) -> None:
        """Mark a save as doubtful that may have started before the latest edit arrived."""
        if (block := first_block(update)) is not None:
            client, clock = block
            self._doubtful |= {(client, clock), (client, clock + 1)}  # `dirty`, then `hash`

    def copy(self) -> RoomState:
        """A copy with its own Doc, which can run ahead."""
        doc: Doc[Any] = Doc()
        doc.apply_update(self.doc.get_update())
        copy = RoomState(doc, self.path, self.saved)
        copy._doubtful = set(self._doubtful)
        copy._server = self._server
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
            self._clean = not self._dirty
        if changed.get("hash") is not None:  # reloading a notebook's file removes it
            self._marked = True
        # On loading, the path may be one that an older room left in the store.
        if changed.get("path") and self._saved is not None:
            self.path = str(changed["path"])

    def _on_update(self, event: TransactionEvent) -> None:
        """Called after `_on_map` of the same transaction."""
        marked, self._marked = self._marked, False
        clean, self._clean = self._clean, False
        if self._saved is None:
            self._saved = not self._dirty
            return
        author = sole_author(event.update)
        if marked and author is not None:
            self._server = author
        if self._hides_overwrite(event) if marked else self._cleaned:
            if not self._cleaned:
                self._content = Overwrite.between(self.updates - 1, self.updates + 1)
            self._note_overwrite()
        # JupyterLab writes `dirty` too, after a save that its user has requested.
        self._cleaned = clean and not marked and author in (None, self._server or author)
        if self._cleaned:
            # The content of the file came right before, or in the same update.
            single = is_single(event.update)
            self._content = Overwrite.between(self.updates - 1, self.updates + (not single))
        self.updates += 1
        # A mark comes alone; if others' work is in the same update, the order is unknown.
        doubtful = first_block(event.update) in self._doubtful
        self._saved = marked and author is not None and not doubtful
        if self._saved:
            self._doubtful.clear()
