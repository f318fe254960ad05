"""One fork that is in sync with its document, and when it stops being so."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pycrdt import Doc, Text, TransactionEvent
from pycrdt.websocket import YRoom

from jupyter_collaboration_mcp.backends.in_process.fork_store import ForkStore
from jupyter_collaboration_mcp.backends.in_process.fork_watch import ForkWatch
from jupyter_collaboration_mcp.backends.protocols.forks import Fork
from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.documents.updates import decode_state

pytestmark = pytest.mark.anyio


class Root:
    """The room of a document, as its watch has it."""

    def __init__(self, state: bytes | None = None) -> None:
        self.doc: Doc[Any] = Doc()
        if state is not None:
            self.doc.apply_update(state)
        self.room = SimpleNamespace(ydoc=self.doc)
        self.listeners: set[Any] = set()
        self.doc.observe(self._on_update)

    def _on_update(self, event: TransactionEvent) -> None:
        for listener in list(self.listeners):
            listener(event.update)

    def type(self, text: str) -> None:
        source = self.doc.get("source", type=Text)
        source += text


def watch_of(store: ForkStore, root: Root) -> ForkWatch:
    fork = Fork("f", RoomId("text:file:1"), synchronize=True)
    store.add(fork, root.doc.get_update())
    store.commit()
    doc: Doc[Any] = Doc()
    doc.apply_update(root.doc.get_update())
    return ForkWatch(fork, YRoom(ydoc=doc), store, store.commit)


def text_of(watch: ForkWatch) -> str:
    return str(watch.room.ydoc.get("source", type=Text))


async def test_a_fork_follows_its_document_until_either_ends(tmp_path: Path) -> None:
    store, root = ForkStore(tmp_path / "forks.db"), Root()
    root.type("one ")
    watch: Any = watch_of(store, root)
    root.type("before ")
    watch.follow(root)
    root.type("two ")
    assert text_of(watch) == "one before two "
    watch.release()
    assert not root.listeners
    state = root.doc.get_update()
    root.type("lost ")
    again: Any = Root(state)  # the document was closed, and is opened again
    again.type("three")
    watch.follow(again)
    assert text_of(watch) == "one before two three"
    base: Doc[Any] = Doc()
    kept = store.base("f")
    assert kept is not None
    base.apply_update(kept)
    assert str(base.get("source", type=Text)) == "one before two three"
    gone = weakref.ref(watch.room.ydoc)
    watch.close()
    assert not again.listeners
    del watch
    gc.collect()
    assert gone() is None
    store.close()


async def test_a_fork_does_not_follow_a_document_with_another_history(tmp_path: Path) -> None:
    store, root = ForkStore(tmp_path / "forks.db"), Root()
    root.type("one")
    watch: Any = watch_of(store, root)
    other: Any = Root()
    other.type("something else")
    watch.follow(other)
    assert not watch.follows
    assert text_of(watch) == "one"
    watch.close()
    store.close()


async def test_a_fork_whose_base_is_known_follows_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, root = ForkStore(tmp_path / "forks.db"), Root()
    root.type("one ")
    first: Any = watch_of(store, root)
    first.close()
    clocks = decode_state(root.doc.get_state())
    watch: Any = ForkWatch(first.fork, first.room, store, store.commit, clocks)
    monkeypatch.setattr(store, "base", None)
    watch.follow(root)
    root.type("two ")
    state = root.doc.get_update()
    root.type("three")
    earlier: Any = Root(state)
    watch.follow(earlier)  # an older copy of the document came back
    assert not watch.follows
    watch.follow(root)
    assert watch.follows
    assert text_of(watch) == "one two three"
    watch.close()
    store.close()
