from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Text

from jupyter_collaboration_mcp.documents import text
from jupyter_collaboration_mcp.documents.differ import Edit, edits, patch
from jupyter_collaboration_mcp.errors import InvalidArgument
from tests.harness.growth import growth

from .texts import CHARACTERS, TEXTS


def shared(content: str) -> tuple[Doc[Text], Text]:
    doc: Doc[Text] = Doc()
    doc["source"] = shared_text = Text(content)
    return doc, shared_text


def replica(doc: Doc[Text]) -> tuple[Doc[Text], Text]:
    other: Doc[Text] = Doc()
    other.apply_update(doc.get_update())
    return other, other.get("source", type=Text)


@given(TEXTS, TEXTS)
def test_edits_are_applied_to_a_shared_text(old: str, new: str) -> None:
    doc, target = shared(old)
    with doc.transaction():
        text.apply(target, edits(old, new), old)
    assert str(target) == new


@given(TEXTS, TEXTS, st.data())
def test_text_typed_elsewhere_at_the_same_time_survives(
    old: str, new: str, data: st.DataObject
) -> None:
    changes = edits(old, new)
    untouched = [
        place
        for place in range(len(old) + 1)
        if not any(change.start <= place <= change.end for change in changes)
    ]
    if not untouched:
        return
    place = data.draw(st.sampled_from(untouched))
    typed = "«typed by a person 😀»"
    mine, my_text = shared(old)
    theirs, their_text = replica(mine)

    with mine.transaction():
        text.apply(my_text, changes, old)
    their_text.insert(len(old[:place].encode()), typed)
    mine.apply_update(theirs.get_update())
    theirs.apply_update(mine.get_update())

    expected = patch(old, sorted([*changes, Edit(place, place, typed)]))
    assert str(my_text) == str(their_text) == expected


def test_many_edits_are_combined_into_fewer_nearby_ones() -> None:
    old = "0123456789\n" * 3_000
    changes = [Edit(place, place + 1, "é") for place in range(5, len(old), 11)]
    far = Edit(len(old) + 500, len(old) + 501, "far")
    old += "-" * 1_000
    doc, target = shared(old)
    deltas: list[Any] = []
    target.observe(lambda event: deltas.append(event.delta))  # type: ignore[attr-defined]
    with doc.transaction():
        text.apply(target, [*changes, far], old)
    assert str(target) == patch(old, [*changes, far])
    (delta,) = deltas
    assert sum("insert" in part for part in delta) == 1_000


def test_edits_of_a_large_text_take_linear_time() -> None:
    def change(size: int) -> None:
        old = "a" * 2_000 * size
        doc, target = shared(old)
        with doc.transaction():
            text.apply(target, [Edit(n * 2_000, n * 2_000 + 9, "b") for n in range(size)], old)

    assert growth(change, 150) < 10


def test_an_edit_that_no_document_can_hold_is_refused_before_any_change() -> None:
    doc, target = shared("abc")
    changes = [Edit(0, 1, "fine"), Edit(2, 2, "\ud83d")]
    with doc.transaction(), pytest.raises(InvalidArgument, match=r"U\+D83D"):
        text.apply(target, changes, "abc")
    assert str(target) == "abc"


def test_a_shared_text_with_other_content_is_not_changed() -> None:
    doc, target = shared("é")
    with doc.transaction(), pytest.raises(ValueError, match="has 2 bytes, expected 1"):
        text.apply(target, [Edit(0, 1, "x")], "e")
    assert str(target) == "é"


class TestClip:
    def test_a_short_text_is_not_clipped(self) -> None:
        assert text.clip("abc", 3) == "abc"

    @given(st.text(CHARACTERS, min_size=101, max_size=300), st.integers(40, 100))
    def test_a_long_text_is_clipped_to_fit_with_a_count(self, long: str, limit: int) -> None:
        clipped = text.clip(long, limit)
        assert len(clipped) <= limit
        head, _, rest = clipped.rpartition("\n... ")
        count, _, tail = rest.partition(" characters cut ...\n")
        assert long.startswith(head)
        assert long.endswith(tail)
        assert int(count) == len(long) - len(head) - len(tail)


@given(st.text(st.sampled_from("aé日😀\n"), max_size=600), st.integers(0, 900))
def test_a_text_is_clipped_to_bytes(source: str, limit: int) -> None:
    clipped = text.clip_bytes(source, limit)
    if text.size(source) <= limit:
        assert clipped == source
    elif len(source) > 60:  # otherwise the note would be longer than what it stands for
        assert text.size(clipped) <= max(limit, 60)
        assert "characters cut" in clipped


@given(st.text(st.sampled_from("aé日😀"), min_size=1, max_size=300), st.integers(0, 900))
def test_the_beginning_of_a_text_fits_the_byte_limit(source: str, limit: int) -> None:
    found = text.beginning(source, limit)
    assert source.startswith(found)
    assert found  # whoever reads on has to come to the end
    assert len(found) == 1 or text.size(found) <= limit
    assert text.size(source) > limit or found == source
