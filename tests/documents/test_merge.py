from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.differ import Edit, edits, patch
from jupyter_collaboration_mcp.documents.merge import revert

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="ΑΒΓΔ"), max_size=40),
    st.text(st.sampled_from("ab \né😀"), max_size=30),
    st.lists(st.sampled_from(["x = 1\n", "x = 2\n", "\n", "print(x)\n"]), max_size=8).map("".join),
)
#: Letters that no other text has, so that what others typed can be found again.
TYPED = st.text(st.sampled_from("ΑΒΓΔ"), min_size=1, max_size=6)


@given(TEXTS, TEXTS)
def test_reverting_restores_the_text_if_nobody_else_edited(before: str, after: str) -> None:
    assert revert(before, after, after) == (before, True)


@given(TEXTS, TEXTS)
def test_reverting_nothing_keeps_the_text(before: str, current: str) -> None:
    assert revert(before, before, current) == (current, True)


@given(TEXTS, TEXTS)
def test_text_that_others_already_reverted_is_left_alone(before: str, after: str) -> None:
    assert revert(before, after, before) == (before, True)


@given(TEXTS, TEXTS, TEXTS)
def test_no_character_that_others_inserted_is_lost(before: str, after: str, current: str) -> None:
    typed = Counter("".join(edit.text for edit in edits(after, current)))
    assert not typed - Counter(revert(before, after, current).text)


@given(TEXTS, TEXTS, st.lists(st.tuples(st.integers(0, 200), TYPED), max_size=4))
def test_runs_that_others_typed_stay_whole_and_in_order(
    before: str, after: str, typed: list[tuple[int, str]]
) -> None:
    places = {place % (len(after) + 1): run for place, run in typed}
    insertions = [Edit(place, place, run) for place, run in sorted(places.items())]
    reverted = revert(before, after, patch(after, insertions))
    position = 0
    for insertion in insertions:
        position = reverted.text.find(insertion.text, position)
        assert position >= 0
        position += len(insertion.text)
    assert "".join(letter for letter in reverted.text if letter not in "ΑΒΓΔ") == before


@given(TEXTS, TEXTS.filter(bool), TEXTS, TEXTS.filter(bool), st.booleans())
def test_text_typed_right_before_or_after_the_agents_text_is_kept(
    head: str, written: str, tail: str, typed: str, first: bool
) -> None:
    around = (typed, written) if first else (written, typed)
    current = head + "".join(around) + tail
    reverted = revert(head + tail, head + written + tail, current)
    assert reverted.clean
    # "1" written before "1" and "0" typed between them: nobody can tell which "1" was the agent's.
    assert current == head + tail or Counter(reverted.text) == Counter(head + typed + tail)


@given(TEXTS, TYPED, TEXTS, TEXTS.filter(bool), st.booleans())
def test_text_typed_next_to_the_agents_distinct_text_stays_in_place(
    head: str, written: str, tail: str, typed: str, first: bool
) -> None:
    around = (typed, written) if first else (written, typed)
    reverted = revert(head + tail, head + written + tail, head + "".join(around) + tail)
    assert reverted == (head + typed + tail, True)


@given(TEXTS, TEXTS.filter(bool), TEXTS, TYPED)
def test_text_typed_where_the_agent_deleted_is_kept_next_to_the_restored_text(
    head: str, removed: str, tail: str, typed: str
) -> None:
    reverted = revert(head + removed + tail, head + tail, head + typed + tail)
    assert reverted.clean
    assert typed in reverted.text
    assert reverted.text.replace(typed, "") == head + removed + tail


@given(TEXTS, TEXTS, TEXTS, st.data())
def test_deleting_is_never_a_conflict(
    head: str, written: str, tail: str, data: st.DataObject
) -> None:
    after = head + written + tail
    start = data.draw(st.integers(0, len(after)))
    end = data.draw(st.integers(start, len(after)))
    assert revert(head + tail, after, after[:start] + after[end:]).clean


@pytest.mark.parametrize(
    ("before", "after", "current", "text", "clean"),
    [
        pytest.param(
            "a = 1\n", "a = 1\nprint(a)\n", "a = 1\nprint(very_a)\n", "a = 1\nvery_", False,
            id="a person typed inside the agent's line",
        ),
        pytest.param(
            "a = 1\n", "a = 2\n", "a = 3\n", "a = 13\n", False,
            id="a person wrote something else instead",
        ),
        pytest.param(
            "a = 1\nb = 2\n", "a = 9\nb = 2\n", "a = 9\nb = 2  # é😀\nc = 3\n",
            "a = 1\nb = 2  # é😀\nc = 3\n", True,
            id="a person worked on other lines",
        ),
        pytest.param(
            "a\n", "a\nx\ny\nz\n", "a\nx\nz\n", "a\n", True,
            id="a person deleted one of the agent's lines",
        ),
        pytest.param(
            "a\nb\nc\n", "a\nc\n", "a\nc\nd\n", "a\nb\nc\nd\n", True,
            id="the agent's deletion comes back",
        ),
        pytest.param(
            "def c(): 3\n", "def b(): 2\ndef c(): 3\n", "def b(): 2\n# three\ndef c(): 3\n",
            "# three\ndef c(): 3\n", True,
            id="a comment above the function below the agent's",
        ),
        pytest.param(
            "a = 1\nb = 1\n", "a = 2\nb = 2\n", "a = 1\nb = 2\n", "a = 1\nb = 1\n", True,
            id="a person put one of two changes back",
        ),
        pytest.param(
            "keep\ngone\nkeep\n", "keep\nkeep\n", "", "gone\n", True,
            id="a person deleted everything around",
        ),
        pytest.param(
            "one two three", "one three", "XYZ", "XYZtwo ", False,
            id="a person rewrote everything around",
        ),
        pytest.param("", "", "typed", "typed", True, id="an empty cell"),
    ],
)  # fmt: skip
def test_reverting_gives_the_expected_text(
    before: str, after: str, current: str, text: str, clean: bool
) -> None:
    assert revert(before, after, current) == (text, clean)


#: The shortest texts that tell the merge from one with a comparison or a number changed in it, with
#: what comes out. Each is a story with letters that are alike, so that only one explanation fits.
ALIKE = [
    ("", "a", "cab", "cb", True),
    ("", "\n", "\na\n", "a\n", True),
    ("ab", "b", "a", "aa", True),
    ("", "\n\n", "\nb\n", "b", False),
    ("c", "caa", "a", "", True),
    ("ab", "bb", "b", "a", True),
    (" ", "  a", " a", " ", True),
    ("ba", "aaa", "a", "ba", True),
    ("ab", "a\na", "a", "ab", True),
    (" c", "c\n", "\nc\n", " \nc", True),
    ("ab", "aa", "bab", "bab", True),
    ("\n", "\n \n", "\n c\n", "c\n", True),
    ("c", "cac", "cbacc", "cbc", True),
    ("acac", "aa", "aac", "acac", True),
    ("", "abb", "ababbb", "abb", False),
    ("ba", "b ba", "ba ba", "baa", True),
    ("bb", "bbbb", "bbbaba", "bbaa", False),
    ("babc", "babb", "cbab", "cbac", True),
    ("abaa", "aa\nabaa", "aaba", "aba", True),
    ("baa", "aaba", "aaaabbba", "baaaabb", True),
    ("b \nb", "b c \nb", " cc \nab", " c\nab", True),
    ("\nabb", "\nbab\n\n", "\nbab\nb\n\n", "\nab\nbb", True),
    ("cbba", "abbbcba", "abbabacc", "cbaacc", False),
    ("b\n\na\na", "b\n\nabaa\n", "b\n\naa\n", "b\n\na\n", True),
    ("babcc", "babcacc", "babcabcca", "babbcca", True),
    ("aaba", "aabaaabb", "aababaabbb", "aababb", True),
    ("\n \n\n\ncac", "\n b a\ncac", "a\n a\ncac", "a\n \n\n\ncac", True),
    ("bbbaac", "bbbaccaac", "bbbaccbbacb", "bbbabbcb", False),
    ("baabbaa", "bbaaaabbaabb", "bbaaabbbabbaabb", "babbbabbaa", True),
    ("ccaacbacbbcbab", "ccaaccccbbcba", "ccaacccbcbbcba", "ccaacbacbbbcbab", False),
    (
        "\n\naa\naab\nba\nbaba\n\na\nb",
        "\n\n\nbaa\naab\nb\nb\nba\na\nb",
        "\n\n\nbaa\naab\nb\nba\na\nb",
        "\n\naa\naab\nba\naba\n\na\nb",
        True,
    ),
]


@pytest.mark.parametrize(("before", "after", "current", "text", "clean"), ALIKE)
def test_repetitive_texts_are_reverted_as_expected(
    before: str, after: str, current: str, text: str, clean: bool
) -> None:
    assert revert(before, after, current) == (text, clean)


def test_large_texts_are_merged_in_bounded_time() -> None:
    lines = [f"line {number}\n" for number in range(8_000)]
    after = [line if number % 3 else "agent " + line for number, line in enumerate(lines)]
    current = [line if number % 5 else line + "person\n" for number, line in enumerate(after)]
    reverted = revert("".join(lines), "".join(after), "".join(current))
    assert reverted.clean
    assert reverted.text == "".join(
        line if number % 5 else line + "person\n" for number, line in enumerate(lines)
    )
