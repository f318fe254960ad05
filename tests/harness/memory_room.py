"""A room without a server: for questions about peers that need thousands of tries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from pycrdt import Doc, Text, TransactionEvent, YMessageType, handle_sync_message

from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.backends.protocols.rooms import Authorship, Overwrite
from jupyter_collaboration_mcp.collaboration.edits import Edit
from jupyter_collaboration_mcp.collaboration.peer import RoomPeer
from jupyter_collaboration_mcp.collaboration.presence import Profile
from jupyter_collaboration_mcp.collaboration.seats import Seat
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell
from jupyter_collaboration_mcp.workspace.call_limits import Limits
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from jupyter_collaboration_mcp.workspace.text_editing import TextChange, TextSpan, change_text

T = TypeVar("T")


def perform(here: OpenDocument, edit: Edit[T], aside: bool = False) -> T:
    """Make an edit at once, or as large ones are made: on a copy, in a thread."""
    if not aside:
        return here.peer.perform_now(here.seat, here.tool, edit)
    return asyncio.run(here.perform(replace(edit, large=True)))


class MemoryRoom:
    """A document that a person edits directly and agents through a peer."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.doc: Doc[Any] = Doc()
        self.notebook = Notebook(self.doc)
        with self.doc.transaction():
            cells = [
                {**new_cell("code", source), "id": f"cell-{n}"} for n, source in enumerate(sources)
            ]
            self.notebook.insert(0, cells)
        self.link = MemoryLink(self.doc)
        self.peer = RoomPeer(self.link)

    def seat(self, name: str = "Ada") -> Seat:
        return Seat(Profile(f"{name} <test>", name))

    def sources(self) -> list[str]:
        return [self.notebook.source(index) for index in range(len(self.notebook))]


class MemoryLink:
    """A seat in such a room; it delivers when asked, as the real one does."""

    room_id = RoomId("json:notebook:memory")
    session_id = "memory"
    path = "memory.ipynb"
    alive = True
    saved = False
    writable = True
    limitation = None
    at_once = True
    pends = True
    autosaves = True
    on_end: Callable[[], None] | None = None
    states: Mapping[int, Mapping[str, Any]] = {}

    def __init__(self, room: Doc[Any]) -> None:
        self._room = room
        self._received = [room.get_update()]
        self._own = False
        self.recorded: list[Authorship] = []
        room.observe(self._on_update)

    loads = 0

    def whereabouts(self) -> Sequence[str]:
        return (self.path,)

    def loaded_since(self, loads: int) -> Sequence[str]:
        return ()

    def attach(self, doc: Doc[Any]) -> None:
        pass

    def on_arrival(self, tell: Callable[[], None]) -> None:
        pass

    def on_update(self, tell: Callable[[], None]) -> None:
        pass

    def notices(self) -> Sequence[str]:
        return ()

    def remember(self, notice: str | None) -> None:
        pass

    def send(self, message: bytes) -> None:
        if message[0] == YMessageType.SYNC:
            self._own = True
            handle_sync_message(message[1:], self._room)
            self._own = False

    @asynccontextmanager
    async def as_one(self, updates: Sequence[bytes]) -> AsyncIterator[None]:
        yield

    def receive(self) -> Sequence[bytes]:
        received, self._received = self._received, []
        return received

    def deliver(self, update: bytes) -> None:
        """Send the peer something."""
        self._received.append(update)

    def record(self, authorship: Authorship) -> None:
        self.recorded.append(authorship)

    def overwritten(self) -> Overwrite | None:
        return None

    async def stale(self) -> bool:
        return False

    def give_up(self) -> None:
        self.alive = False

    async def current(self) -> None:
        pass

    async def wait_acknowledged(self) -> None:
        pass

    async def save(self) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def _on_update(self, event: TransactionEvent) -> None:
        if not self._own:
            self._received.append(event.update)


class TextLink(MemoryLink):
    room_id = RoomId("text:file:memory")
    path = "memory.md"


class TextRoom:
    """A live text that an agent edits through a peer, and a person directly."""

    def __init__(self, content: str) -> None:
        self.doc: Doc[Any] = Doc()
        self.text: Text = self.doc.get("source", type=Text)
        self.text += content
        self.peer = RoomPeer(TextLink(self.doc))
        self.here = OpenDocument("memory.md", self.peer, Seat(Profile("ada <test>", "Ada")), "test")

    def change(self, *changes: TextChange, **more: Any) -> list[TextSpan]:
        asyncio.run(self.peer.catch_up())
        limits = more.pop("limits", Limits())
        return perform(self.here, change_text(self.here, changes, limits, **more))

    def type(self, place: int, typed: str) -> None:
        """What a person does."""
        position = len(str(self.text)[:place].encode())
        self.text.insert(position, typed)

    def __str__(self) -> str:
        return str(self.text)
