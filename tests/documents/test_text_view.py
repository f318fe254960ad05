"""Reading a text in parts: whole lines where that is possible, and never a character lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.text import beginning
from jupyter_collaboration_mcp.documents.text_view import Lines, cut, line_count
from jupyter_collaboration_mcp.errors import InvalidArgument

TEXTS = st.text(st.sampled_from("ab é😀\n\n"), max_size=60)

THREE = "one\ntwo\nthree\n"


def part(
    source: str,
    start_line: int | None = None,
    end_line: int | None = None,
    start_position: int | None = None,
    limit: int = 1000,
) -> Lines:
    return cut(source, start_line, end_line, start_position, limit)


@given(TEXTS, st.integers(1, 20))
def test_reading_part_by_part_covers_the_whole_text(source: str, limit: int) -> None:
    position: int | None = 0
    seen = ""
    while position is not None:
        found = part(source, start_position=position, limit=limit)
        assert found.start == len(seen)
        assert found.first == seen.count("\n") + 1
        assert len(found.content) == 1 or len(found.content.encode()) <= limit
        assert found.at_end is (found.next_position is None)
        seen += found.content
        position = found.next_position
    assert seen == source


@given(TEXTS, st.integers(1, 20))
def test_a_part_ends_with_a_line_unless_a_single_line_is_longer_than_the_limit(
    source: str, limit: int
) -> None:
    found = part(source, limit=limit)
    if found.next_position is not None and not found.content.endswith("\n"):
        assert "\n" not in beginning(source, limit)


@given(TEXTS, st.integers(1, 8), st.integers(0, 8))
def test_a_range_of_lines_returns_those_lines(source: str, start: int, more: int) -> None:
    lines = source.splitlines(keepends=True)
    try:
        found = part(source, start_line=start, end_line=start + more)
    except InvalidArgument as refused:
        assert start > source.count("\n") + 1
        assert refused.detail["length"] == len(source)  # noqa: PT017
        return
    wanted = lines[start - 1 : start + more]
    assert found.content == "".join(wanted)
    assert found.first == start
    assert found.last == start + max(0, len(wanted) - 1)
    assert found.partial is (found.content != source)
    assert found.next_position is None


@given(TEXTS)
def test_lines_are_counted_as_in_an_editor(source: str) -> None:
    assert line_count(source) == len(source.splitlines())


def test_empty_lines_at_the_end_are_lines_too() -> None:
    found = part("a\n\n\n")
    assert (found.first, found.last) == (1, 3)
    assert line_count("a\n\n\n") == 3


def test_an_empty_text_is_one_part_without_lines() -> None:
    found = part("")
    assert found == Lines("", 0, 1, 1, partial=False, at_end=True, next_position=None)
    assert line_count("") == 0


def test_a_line_longer_than_the_limit_is_cut() -> None:
    found = part("x" * 25 + "\nend", limit=10)
    assert found.content == "x" * 10
    assert found.next_position == 10
    rest = part("x" * 25 + "\nend", start_position=20, limit=10)
    assert (rest.content, rest.first, rest.last) == ("xxxxx\nend", 1, 2)


def test_a_range_beyond_the_limit_says_where_to_continue() -> None:
    found = part(THREE, start_line=2, end_line=3, limit=6)
    assert found.content == "two\n"
    assert found.next_position == 8
    assert not found.at_end


def test_an_end_line_beyond_the_end_means_the_end() -> None:
    assert part(THREE, start_line=3, end_line=99).content == "three\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"start_line": 5}, "3 lines"),
        ({"start_position": len(THREE) + 1}, "14 characters"),
        ({"start_line": 2, "start_position": 1}, "Both"),
        ({"start_line": 3, "end_line": 2}, "before"),
        ({"start_position": 9, "end_line": 2}, "before"),
    ],
)
def test_a_start_beyond_the_end_or_a_contradiction_is_refused(
    arguments: dict[str, int], says: str
) -> None:
    with pytest.raises(InvalidArgument, match=says):
        part(THREE, **arguments)
