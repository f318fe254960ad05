"""Places in shared texts: from numbers to relative positions and back, in any text."""

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

import pytest
from pycrdt import Doc

from jupyter_collaboration_mcp.documents.positions import (
    RelativePosition,
    line_and_column,
    offset_of,
    offsets_in_copy,
    position_in_copy,
    position_of,
)
from jupyter_collaboration_mcp.documents.text_document import TextDocument
from tests.harness.yjs import NODE_DIRECTORY, find_node

ASCII = ("a", "bc", "\n", "def ")
UNICODE = ("é", "😀", "ab", "\n", "x😀y", "日本", "👩‍👩‍👧")


def written(seed: int, words: tuple[str, ...]) -> TextDocument:
    """A text of two writers, in many pieces, some of them deleted."""
    chance = random.Random(seed)
    documents = [TextDocument(Doc(), follows=False) for _ in range(2)]
    for step in range(30):
        mine, other = documents if step % 2 else documents[::-1]
        text = str(mine)
        at = chance.randint(0, len(text))
        start = len(text[:at].encode())
        shared = mine.shared_source(0)
        if text and chance.random() < 0.3:
            end = len(text[: at + chance.randint(1, 3)].encode())
            del shared[start:end]
        else:
            shared.insert(start, chance.choice(words))
        if step % 3 == 0 or step == 29:
            for one, two in ((mine, other), (other, mine)):
                two.doc.apply_update(one.doc.get_update(two.doc.get_state()))
    return documents[0]


def in_copy(document: TextDocument, position: RelativePosition) -> int | None:
    """Where a place is, as a copy of the document says."""
    assert position.item is not None
    state = document.doc.get_update()
    found = offsets_in_copy(TextDocument, state, 0, [position.item]).get(position.item)
    return None if found is None else found + (1 if position.assoc < 0 else 0)


@pytest.mark.parametrize("seed", range(12))
def test_a_place_is_found_again_after_every_character(seed: int) -> None:
    document = written(seed, UNICODE if seed % 2 else ASCII)
    state, text = document.doc.get_update(), str(document)
    for at in range(len(text) + 1):
        position = position_in_copy(TextDocument, state, 0, at)
        quick = position_of(document, 0, at)
        assert quick in (None, position)
        assert quick is not None or not text[:at].isascii()
        assert offset_of(document, 0, position) in (None, at)
        if position.item is not None:
            assert in_copy(document, position) == at


@pytest.mark.node
def test_yjs_finds_every_place_where_we_do() -> None:
    given, expected = [], []
    for seed in range(20):
        document = written(seed, UNICODE if seed % 2 else ASCII)
        state, text = document.doc.get_update(), str(document)
        places = [position_in_copy(TextDocument, state, 0, at) for at in range(len(text) + 1)]
        positions = [place.to_json() for place in places]
        given.append({"update": list(state), "name": "source", "positions": positions})
        # yjs counts UTF-16 units.
        units = [len(text[:at].encode("utf-16-le")) // 2 for at in range(len(text) + 1)]
        expected.append(units)
    process = subprocess.run(
        [find_node(), str(NODE_DIRECTORY / "positions.mjs")],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(process.stdout) == expected


def test_a_place_stays_where_it_is_while_others_type_before_it() -> None:
    document = written(1, UNICODE)
    text = str(document)
    at = len(text) // 2
    position = position_in_copy(TextDocument, document.doc.get_update(), 0, at)
    document.shared_source(0).insert(0, "😀 new\n")
    assert in_copy(document, position) == at + len("😀 new\n")


def test_a_place_at_a_deleted_character_is_not_found_in_a_copy() -> None:
    document = TextDocument(Doc(), follows=False)
    document.shared_source(0).insert(0, "é1")
    position = position_in_copy(TextDocument, document.doc.get_update(), 0, 2)
    del document.shared_source(0)[2:3]
    assert in_copy(document, position) is None


def test_the_ends_of_a_text_need_no_character() -> None:
    document = TextDocument(Doc(), follows=False)
    start, end = RelativePosition(tname="source", assoc=-1), RelativePosition(tname="source")
    assert position_of(document, 0, 0) == start
    assert [offset_of(document, 0, each) for each in (start, end)] == [0, 0]
    document.shared_source(0).insert(0, "é1")
    assert [offset_of(document, 0, each) for each in (start, end)] == [0, 2]


def test_a_character_that_has_not_arrived_is_no_place() -> None:
    document = TextDocument(Doc(), follows=False)
    document.shared_source(0).insert(0, "text")
    position = RelativePosition(tname="source", item=(12345, 7))
    assert offset_of(document, 0, position) is None
    assert in_copy(document, position) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        {"type": 3},
        {"item": {"client": 1}},
        {"item": {"client": "a", "clock": 0}},
        {"assoc": "x"},
        {"item": {"client": 1, "clock": -1}},
        {"item": {"client": -1, "clock": 1}},
        {"item": {"client": 1, "clock": 1 << 32}},
        {"type": {"client": 1 << 53, "clock": 0}},
    ],
)
def test_what_is_no_position_is_not_taken_for_one(value: Any) -> None:
    assert RelativePosition.parse(value) is None


def test_places_far_apart_in_a_large_text_are_found_together() -> None:
    document = TextDocument(Doc(), follows=False)
    text = "日本語のテキスト\n" * 5_000
    document.shared_source(0).insert(0, text)
    for at in (30_000, 10_000, 20_001):
        document.shared_source(0).insert(len(text[:at].encode()), "😀")
        text = text[:at] + "😀" + text[at:]
    state = document.doc.get_update()
    places = [1, 4_096, 10_001, 20_002, 30_003, len(text)]
    items = [position_in_copy(TextDocument, state, 0, at).item for at in places]
    assert None not in items
    found = offsets_in_copy(TextDocument, state, 0, [item for item in items if item is not None])
    assert [found[item] + 1 for item in items if item is not None] == places


def test_any_side_of_a_character_is_one_of_two() -> None:
    sides = [RelativePosition.parse({"tname": "source", "assoc": side}) for side in (-7, 3, None)]
    assert [side.assoc for side in sides if side is not None] == [-1, 0, 0]


def test_a_position_is_written_with_all_its_keys() -> None:
    position = RelativePosition(type=(1, 2), item=(3, 4), assoc=-1)
    written_out = {
        "type": {"client": 1, "clock": 2},
        "tname": None,
        "item": {"client": 3, "clock": 4},
        "assoc": -1,
    }
    assert position.to_json() == written_out
    assert RelativePosition.parse(written_out) == position
    assert set(RelativePosition(tname="source").to_json()) == set(written_out)


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [("", 0, (0, 0)), ("ab", 2, (0, 2)), ("a\nb", 2, (1, 0)), ("é😀\n\nx", 4, (2, 0))],
)
def test_lines_and_columns_count_from_0(text: str, at: int, expected: tuple[int, int]) -> None:
    assert line_and_column(text, at) == expected
