"""Reading Yjs binary formats, held to what pycrdt writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Text, TransactionEvent

from jupyter_collaboration_mcp.documents.updates import decode_state, encode_state, sole_author


def test_a_state_vector_names_every_client() -> None:
    one: Doc[Text] = Doc(client_id=2**53 - 1)
    two: Doc[Text] = Doc(client_id=7)
    one.get("t", type=Text).insert(0, "é😀")
    two.apply_update(one.get_update())
    two.get("t", type=Text).insert(0, "abc")
    assert decode_state(two.get_state()) == {2**53 - 1: 3, 7: 3}


@given(st.dictionaries(st.integers(0, 2**53), st.integers(0, 2**40)))
def test_encoding_a_state_is_the_inverse_of_decoding(clocks: dict[int, int]) -> None:
    assert decode_state(encode_state(clocks)) == clocks


def test_an_update_has_one_author_unless_it_only_deletes_or_is_merged() -> None:
    doc: Doc[Text] = Doc(client_id=1234567)
    text = doc.get("t", type=Text)
    updates: list[bytes] = []

    def keep(event: TransactionEvent) -> None:
        updates.append(event.update)

    doc.observe(keep)
    text.insert(0, "words")
    del text[0:2]
    assert [sole_author(update) for update in updates] == [1234567, None]
    other: Doc[Text] = Doc(client_id=5)
    other.get("t", type=Text).insert(0, "x")
    doc.apply_update(other.get_update())
    assert sole_author(doc.get_update()) is None
