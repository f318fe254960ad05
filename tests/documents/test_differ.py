from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.differ import (
    _LARGEST_BLOCK,
    WORK,
    Differ,
    Edit,
    _belongs_to,
    _only_typed,
    edits,
    patch,
)
from tests.harness.growth import calls

from .texts import CHARACTERS, NUMBERED, TEXTS, scribble


@given(TEXTS, TEXTS)
def test_edits_turn_the_old_text_into_the_new_one(old: str, new: str) -> None:
    assert patch(old, edits(old, new)) == new


@given(TEXTS, TEXTS)
def test_edits_are_ascending_separate_and_never_empty(old: str, new: str) -> None:
    changes = edits(old, new)
    for before, after in pairwise(changes):
        assert before.end < after.start
    for change in changes:
        assert 0 <= change.start <= change.end <= len(old)
        assert old[change.start : change.end] != change.text


@given(TEXTS, st.data())
def test_typing_in_one_place_gives_one_insertion(old: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(old)))
    typed = data.draw(st.text(CHARACTERS, min_size=1, max_size=10))
    changes = edits(old, old[:place] + typed + old[place:])
    assert [len(change.text) for change in changes] == [len(typed)]
    assert changes[0].start == changes[0].end


@given(TEXTS, st.lists(st.tuples(st.integers(0, 100), st.text(CHARACTERS, max_size=5)), max_size=4))
def test_typing_deletes_nothing(old: str, typed: list[tuple[int, str]]) -> None:
    places = {place % (len(old) + 1): run for place, run in typed}
    new = patch(old, [Edit(place, place, run) for place, run in sorted(places.items())])
    assert all(change.start == change.end for change in edits(old, new))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("same", "same", []),
        ("a\nb\n", "a\nnew\nb\n", [Edit(2, 2, "new\n")]),
        ("f(a, b)", "f(x, y)", [Edit(2, 3, "x"), Edit(5, 6, "y")]),
        ("x = 1\ny = 2\n", "x = 10\ny = 2\nz = 3\n", [Edit(5, 5, "0"), Edit(12, 12, "z = 3\n")]),
        ("a\r\n1\r\n", "b\r\n1\r\n2\r\n", [Edit(0, 1, "b"), Edit(6, 6, "2\r\n")]),
        ("a\nx\ny\nz\n", "b\nx\nz\n", [Edit(0, 1, "b"), Edit(4, 6, "")]),
        ("foo bar", "foo baz bar", [Edit(4, 4, "baz ")]),
        ("foo baz bar", "foo bar", [Edit(4, 8, "")]),
        ("def a(): 1\ndef c(): 3\n", "def a(): 1\ndef b(): 2\ndef c(): 3\n",
         [Edit(11, 11, "def b(): 2\n")]),
        ("e\u0301 😀", "e\u0301 😁", [Edit(3, 4, "😁")]),
        ("a\r\nb\r\n", "a\nb\n", [Edit(1, 2, ""), Edit(4, 5, "")]),
        ("", "a", [Edit(0, 0, "a")]),
        ("a", "", [Edit(0, 1, "")]),
    ],
)  # fmt: skip
def test_edits_are_those_a_person_would_make(old: str, new: str, expected: list[Edit]) -> None:
    assert edits(old, new) == expected


def test_a_rewritten_word_is_replaced_as_a_whole() -> None:
    assert edits("x = bread\n", "x = troad\n") == [Edit(4, 7, "tro")]


def test_lines_between_two_changed_lines_are_not_touched() -> None:
    lines = [f"line {number}\n" for number in range(200)]
    changed = lines.copy()
    changed[3] = "other\n"
    changed[150] = "else\n"
    old = "".join(lines)
    changes = edits(old, "".join(changed))
    middle = old.index("line 4\n"), old.index("line 150\n")
    assert len(changes) >= 2
    assert not any(change.end > middle[0] and change.start < middle[1] for change in changes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("".join(NUMBERED), "".join(NUMBERED[::-1]), id="reversed"),
        pytest.param("".join(NUMBERED[:-1]), "".join(NUMBERED[1:]), id="both ends"),
        pytest.param("\n" * 9_000 + "a", "b" + "\n\n" * 4_500, id="blank lines"),
        pytest.param("a\nb\n" * 5_000, "b\nc\na\n" * 3_000, id="few different lines"),
        pytest.param("ab(" * 600 + "x", "y" + "(ba" * 600, id="repeated characters"),
        pytest.param(
            "".join(NUMBERED[:9_000]),
            "".join(NUMBERED[:9_000]).replace("5", "five").replace("0\n", "zero\n"),
            id="every line changed",
        ),
    ],
)
def test_large_or_repetitive_texts_are_compared_with_bounded_work(old: str, new: str) -> None:
    changes: list[Edit] = []
    # A third of a second on an idle machine; comparing all with all would take billions.
    assert calls(lambda: changes.extend(edits(old, new))) < 3_000_000
    assert patch(old, changes) == new


def test_many_texts_are_compared_with_little_more_work_than_one() -> None:
    pairs = [(scribble(1_900, seed), scribble(1_900, 1_000 + seed)) for seed in range(1, 101)]
    differ = Differ()
    assert calls(lambda: [differ.edits(old, new) for old, new in pairs]) < 3_000_000


def test_one_of_many_texts_gets_no_more_work_than_it_would_alone() -> None:
    old, new = NUMBERED[:9_000], [f"{line[:-1]}!\n" for line in NUMBERED[:9_000]]
    differ = Differ(2 * WORK)
    assert differ.edits("".join(old), "".join(new)) == edits("".join(old), "".join(new))
    assert differ.edits("f(a, b)", "f(x, y)") == [Edit(2, 3, "x"), Edit(5, 6, "y")]


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=5), st.integers(0, 300))
def test_edits_are_correct_even_when_the_budget_is_used_up(
    pairs: list[tuple[str, str]], work: int
) -> None:
    differ = Differ(work)
    for old, new in pairs:
        changes = differ.edits(old, new)
        assert patch(old, changes) == new
        assert all(before.end < after.start for before, after in pairwise(changes))


def test_common_ends_are_kept_even_when_the_budget_is_used_up() -> None:
    assert Differ(0).edits("def f(a, b): 1", "def f(x, y): 1") == [Edit(6, 10, "x, y")]


@pytest.mark.parametrize(
    ("shorter", "longer", "typed"),
    [
        ("ac", "abc", True),
        ("ac", "bca", False),
        ("", "x" * 64, True),
        ("", "x" * 65, False),
        ("y" * 70, "y" * 140, True),
        ("y" * 70, "y" * 141, False),
        ("z" * (_LARGEST_BLOCK - 1), "z" * _LARGEST_BLOCK, True),
        ("z" * _LARGEST_BLOCK, "z" * (_LARGEST_BLOCK + 1), False),
    ],
)
def test_letters_were_only_typed_if_all_others_are_still_there(
    shorter: str, longer: str, typed: bool
) -> None:
    assert _only_typed(shorter, longer) is typed
    assert _only_typed(longer, shorter) is typed


@pytest.mark.parametrize(
    ("kept", "joined"), [("a", True), ("ab", True), ("abc", False), ("a ", False), (".", False)]
)
def test_two_replacements_are_one_with_at_most_two_letters_between_them(
    kept: str, joined: bool
) -> None:
    old = f"x{kept}y"
    first, second = Edit(0, 1, "X"), Edit(1 + len(kept), 2 + len(kept), "Y")
    assert _belongs_to(old, first, second) is joined
    assert not _belongs_to(old, Edit(1, 1, "X"), second)
    assert not _belongs_to(old, first, Edit(second.start, second.end, ""))
