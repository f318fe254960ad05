"""In sync with a room over connections that break, without a server."""

from __future__ import annotations

from typing import Any

import pytest
from pycrdt import Doc, Map, Text, create_sync_message, handle_sync_message, read_message

from jupyter_collaboration_mcp.backends.protocols.rooms import Piece
from jupyter_collaboration_mcp.backends.remote.connection_sync import ConnectionSync


def text_of(doc: Doc[Any]) -> str:
    return str(doc.get("source", type=Text))


class Pair:
    """A room and a seat in it, whose Doc has what the room has."""

    def __init__(self) -> None:
        self.room: Doc[Any] = Doc()
        self.room.get("source", type=Text).insert(0, "old")
        self.sync = ConnectionSync()
        self.doc: Doc[Any] = Doc()
        self.doc.apply_update(self.room.get_update())
        self.sync.attach(self.doc, "a.md")

    def ask(self) -> None:
        """Ask the room for what is missing, and have its answer."""
        question, answered = self.sync.question()
        answer = handle_sync_message(question[1:], self.room)
        assert answer is not None
        self.sync.on_answer(read_message(answer[2:]))
        answered()

    def write(self, text: str, connected: bool = True) -> bytes:
        """Write on our side; returns the update."""
        before = self.doc.get_state()
        self.doc.get("source", type=Text).insert(0, text)
        update = self.doc.get_update(before)
        self.sync.on_sent(update, echoes=connected)
        if connected:
            self.room.apply_update(update)
        return update

    def write_there(self, text: str) -> bytes:
        before = self.room.get_state()
        self.room.get("source", type=Text).insert(0, text)
        return self.room.get_update(before)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_updates_are_received_once_the_room_has_answered(pair: Pair) -> None:
    update = pair.write_there("new ")
    pair.sync.on_update(update)
    assert pair.sync.receive(everything=False) == []
    pair.sync.on_update(update)
    assert pair.sync.receive(everything=True) == [update, update]
    pair.ask()
    (piece,) = pair.sync.receive(everything=False)
    assert isinstance(piece, Piece)
    pair.doc.apply_update(piece)
    assert text_of(pair.doc) == "new old"


def test_our_own_updates_are_not_received_back(pair: Pair) -> None:
    pair.sync.on_update(pair.write("mine "))
    assert pair.sync.receive(everything=True) == []


def test_an_update_made_offline_does_not_count_as_an_echo(pair: Pair) -> None:
    """Somebody else may send just that: whoever has it from us."""
    update = pair.write("mine ", connected=False)
    pair.sync.on_update(update)
    assert pair.sync.receive(everything=True) == [update]


def test_a_lost_connection_forgets_expected_echoes(pair: Pair) -> None:
    update = pair.write("mine ")
    pair.sync.on_lost()
    pair.sync.on_update(update)
    assert pair.sync.receive(everything=True) == [update]


def test_the_room_receives_edits_made_offline(pair: Pair) -> None:
    pair.ask()
    pair.write("mine ", connected=False)
    introduction = create_sync_message(pair.room)
    assert not pair.sync.is_other_history(introduction)
    missing = pair.sync.missing_in_room(introduction)
    assert missing is not None
    pair.room.apply_update(read_message(missing[2:]))
    assert text_of(pair.room) == "mine old"


def test_a_room_that_lost_what_it_had_confirmed_has_another_history(pair: Pair) -> None:
    forgetful: Doc[Any] = Doc()
    forgetful.apply_update(pair.room.get_update())
    pair.write("mine ")
    pair.ask()
    assert not pair.sync.is_other_history(create_sync_message(pair.room))
    assert pair.sync.is_other_history(create_sync_message(forgetful))


def test_a_room_that_lost_what_others_wrote_has_another_history(pair: Pair) -> None:
    assert not pair.sync.is_other_history(create_sync_message(pair.room))
    assert pair.sync.is_other_history(create_sync_message(Doc()))


def test_without_a_document_every_room_is_accepted() -> None:
    sync = ConnectionSync()
    assert not sync.is_other_history(create_sync_message(Doc()))
    assert sync.missing_in_room(create_sync_message(Doc())) is None
    sync.close()


def test_a_copy_ahead_includes_updates_that_are_not_received_yet(pair: Pair) -> None:
    assert pair.sync.state is not None
    pair.sync.on_update(pair.write_there("first "))
    with pair.sync.ahead(pair.sync.state) as ahead:
        assert text_of(ahead.doc) == "first old"
        pair.sync.on_update(pair.write_there("second "))
        pair.sync.on_update(pair.write("mine "))
        assert sorted(text_of(ahead.doc).split()) == ["first", "mine", "old", "second"]
    pair.sync.on_update(pair.write_there("third "))
    assert "third" not in text_of(ahead.doc)
    assert text_of(pair.doc) == "mine old"


def save(pair: Pair, number: int) -> bytes:
    """The mark of a save, as a server writes it."""
    before = pair.room.get_state()
    state = pair.room.get("state", type=Map)
    with pair.room.transaction():
        state["dirty"] = False
        state["hash"] = f"hash {number}"
    return pair.room.get_update(before)


def test_a_save_that_began_before_our_edit_does_not_count(pair: Pair) -> None:
    assert pair.sync.state is not None
    state = pair.sync.state
    pair.doc.apply_update(pair.write_there("loaded "))
    assert state.saved
    pair.sync.on_update(save(pair, 1))  # which nobody has received when we write
    pair.write("mine ")
    pair.sync.on_update(save(pair, 2))  # before the room has confirmed the edit
    for update in pair.sync.receive(everything=True):
        pair.doc.apply_update(update)
        assert not state.saved
    pair.ask()
    confirmed = save(pair, 3)
    pair.sync.on_update(confirmed)
    pair.doc.apply_update(confirmed)
    assert state.saved
