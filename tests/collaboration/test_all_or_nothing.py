"""An edit that fails halfway changes nothing for anybody, whatever made it fail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from pycrdt import Map

from jupyter_collaboration_mcp.backends.protocols.rooms import Overwrite
from jupyter_collaboration_mcp.collaboration.changes import SourceChange
from jupyter_collaboration_mcp.collaboration.peer import RoomPeer
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell
from jupyter_collaboration_mcp.errors import CellNotFound, InternalError
from tests.harness.memory_room import MemoryLink, MemoryRoom

pytestmark = pytest.mark.anyio

Fail = Callable[[RoomPeer], None]


def panic(peer: RoomPeer) -> None:
    """As a map that is half filled when pycrdt comes to what it cannot hold."""
    peer.doc.get("meta", type=Map)["metadata"] = Map({"first": 1, "number": 2**70})


def raise_error(peer: RoomPeer) -> None:
    raise ValueError("a mistake")


def change_and_fail(peer: RoomPeer, transaction: AbstractContextManager[Any], fail: Fail) -> None:
    with transaction:
        peer.notebook.set_source(0, "changed")
        peer.notebook.insert(1, [new_cell("code", "inserted")])
        fail(peer)


@pytest.mark.parametrize("fail", [panic, raise_error])
@pytest.mark.parametrize("kind", ["edit", "output"])
def test_the_room_gets_nothing_of_an_edit_that_fails_halfway(kind: str, fail: Fail) -> None:
    room = MemoryRoom(["a", "b"])
    seat, before = room.seat(), room.doc.get_update()
    transactions: dict[str, AbstractContextManager[Any]] = {
        "edit": room.peer.edit(seat, "test"),
        "output": room.peer.output(seat),
    }
    with pytest.raises(InternalError, match=r"Nothing was changed") as raised:
        change_and_fail(room.peer, transactions[kind], fail)
    assert raised.value.__cause__ is not None
    assert room.doc.get_update() == before
    assert room.sources() == ["a", "b"]
    assert len(seat.undo) == 0
    assert not room.link.alive  # whoever goes on joins anew


def test_a_new_peer_sees_the_rooms_content_and_can_continue() -> None:
    room = MemoryRoom(["a", "b"])
    seat, broken = room.seat(), room.peer
    with broken.edit(seat, "test") as record:
        broken.notebook.set_source(1, "kept")
        record(SourceChange("cell-1", "b", "kept"))
    with pytest.raises(InternalError):
        change_and_fail(broken, broken.edit(seat, "test"), panic)
    peer = RoomPeer(MemoryLink(room.doc))
    peer.inherit(broken)
    assert [peer.notebook.source(index) for index in range(len(peer.notebook))] == ["a", "kept"]
    assert [step.changes for step in peer.unsaved] == [(SourceChange("cell-1", "b", "kept"),)]
    with peer.edit(seat, "test"):
        peer.notebook.set_source(0, "again")
    assert room.sources() == ["again", "kept"]


def test_an_error_before_anything_is_changed_leaves_the_peer_as_it_is() -> None:
    room = MemoryRoom(["a"])
    with pytest.raises(CellNotFound), room.peer.edit(room.seat(), "test"):
        room.peer.notebook.find("nowhere")
    assert room.link.alive
    with room.peer.edit(room.seat(), "test"):
        room.peer.notebook.set_source(0, "changed")
    assert room.sources() == ["changed"]


async def test_a_peer_that_cannot_apply_an_update_is_replaced_and_never_stale() -> None:
    room = MemoryRoom(["a"])
    room.link.deliver(b"no update at all")
    room.notebook.set_source(0, "typed")
    with pytest.raises(Exception, match="update"):
        await room.peer.catch_up()
    assert not room.link.alive
    peer = RoomPeer(MemoryLink(room.doc))
    peer.inherit(room.peer)
    assert peer.notebook.source(0) == "typed"


class Overwritten(MemoryLink):
    """A seat in a room that a file has just come over."""

    def overwritten(self) -> Overwrite | None:
        return Overwrite(range(0, 1)) if self._received_file else None

    _received_file = False


@pytest.mark.parametrize("fail", [panic, raise_error])
async def test_a_reapply_that_fails_halfway_changes_nothing_and_is_reported(
    monkeypatch: pytest.MonkeyPatch, fail: Fail
) -> None:
    room = MemoryRoom(["a", "b"])
    link = Overwritten(room.doc)
    peer, seat = RoomPeer(link), room.seat()
    with peer.edit(seat, "test") as record:
        peer.notebook.set_source(0, "of Ada")
        record(SourceChange("cell-0", "a", "of Ada"))
    with room.doc.transaction():
        room.notebook.set_source(0, "of the file")
    link._received_file = True

    def redo(document: Notebook, *_: Any) -> Any:
        document.set_source(1, "half")
        if document is peer.document:
            fail(peer)

    monkeypatch.setattr(
        "jupyter_collaboration_mcp.collaboration.room_sync.reapply_overwritten", redo
    )
    with pytest.raises(InternalError):
        await peer.catch_up()
    assert room.sources() == ["of the file", "b"]
    assert peer.broken
    assert not link.alive  # whoever goes on joins anew
    assert "edits in cell cell-0, because of an internal error" in peer.notes[0]
    after = RoomPeer(MemoryLink(room.doc))
    after.inherit(peer)
    await after.catch_up()
    assert room.sources() == [after.notebook.source(n) for n in range(2)] == ["of the file", "b"]


@pytest.mark.parametrize("fail", [panic, raise_error])
def test_a_reapply_that_fails_after_a_restart_is_reported(
    monkeypatch: pytest.MonkeyPatch, fail: Fail
) -> None:
    room, restarted = MemoryRoom(["a", "b"]), MemoryRoom(["a", "b"])
    with room.peer.edit(room.seat(), "test") as record:
        room.peer.notebook.set_source(0, "of Ada")
        record(SourceChange("cell-0", "a", "of Ada"))
    peer = restarted.peer

    def make(wanted: Any, notebook: Notebook, before: Notebook) -> None:
        notebook.set_source(1, "half")
        fail(peer)

    monkeypatch.setattr("jupyter_collaboration_mcp.collaboration.restart._Repairs.make", make)
    peer.inherit(room.peer)
    assert restarted.sources() == ["a", "b"]
    assert peer.broken
    assert "edits in cell cell-0, because of an internal error" in peer.notes[0]
