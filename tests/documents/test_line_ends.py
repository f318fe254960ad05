"""Line ends: a file keeps those that it has, and only what was edited is written anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.line_ends import plain, restore

LINES = st.lists(st.text(st.sampled_from("ab é😀"), max_size=4), max_size=8)
ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def files(draw: st.DrawFn) -> str:
    lines = draw(LINES)
    return "".join(line + draw(ENDS) for line in lines) + draw(st.sampled_from(["", "end"]))


@given(files(), LINES)
def test_saved_text_reads_back_as_the_content(original: str, lines: list[str]) -> None:
    content = "\n".join(lines)
    assert plain(restore(content, original)) == content


@given(files())
def test_an_unchanged_text_gives_the_same_bytes(original: str) -> None:
    assert restore(plain(original), original) == original


@given(files(), st.integers(0, 40), st.sampled_from(["X", "X\nY", "\nX\n"]))
def test_an_insertion_keeps_all_other_line_endings(
    original: str, place: int, inserted: str
) -> None:
    live = plain(original)
    place = min(place, len(live))
    saved = restore(live[:place] + inserted + live[place:], original)
    more = len(saved) - len(original)
    assert more >= len(inserted)
    assert any(
        original == saved[:start] + saved[start + more :] for start in range(len(original) + 1)
    )


@given(LINES, LINES)
def test_a_windows_file_keeps_its_line_endings(before: list[str], after: list[str]) -> None:
    original = "\r\n".join([*before, "", ""])
    saved = restore("\n".join(after), original)
    assert saved == "\r\n".join(after)


@given(LINES, LINES)
def test_a_file_without_carriage_returns_gets_none(before: list[str], after: list[str]) -> None:
    assert restore("\n".join(after), "\n".join(before)) == "\n".join(after)


@pytest.mark.parametrize(
    ("original", "content", "saved"),
    [
        ("a\r\nb\nc\r\nd\r\n", "a\nb\nNEW\nc\nd\n", "a\r\nb\nNEW\r\nc\r\nd\r\n"),
        ("a\nb\nc\r\nd\n", "a\nb\nNEW\nc\nd\n", "a\nb\nNEW\nc\r\nd\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc!\n", "a\r\nb\nc!\r\n"),
        ("a\r\nb\nc\r\n", "ab\nc\n", "ab\nc\r\n"),
        ("a\r\nb\nc\r\n", "b\nc\n", "b\nc\r\n"),
        ("a\r\nb\nc\r\n", "", ""),
        ("\ufeffa\r\nb\n", "\ufeffa\nB\n", "\ufeffa\r\nB\n"),
        ("a\rb\r\nc\n", "a\rb\nC\n", "a\rb\r\nC\n"),
    ],
    ids=["new, most CRLF", "new, most LF", "typed", "joined", "deleted", "all", "mark", "lone CR"],
)
def test_mixed_line_endings_change_only_on_edited_lines(
    original: str, content: str, saved: str
) -> None:
    assert restore(content, original) == saved


RETURNS = st.text(st.sampled_from("ab\r\n"), max_size=12)


@given(RETURNS, RETURNS)
def test_saving_text_with_carriage_returns_twice_changes_nothing_more(
    original: str, content: str
) -> None:
    saved = restore(content, original)
    assert restore(content, saved) == saved


@given(RETURNS)
def test_an_unchanged_text_with_stray_carriage_returns_gives_the_same_bytes(
    original: str,
) -> None:
    assert restore(plain(original), original) == original


@pytest.mark.parametrize(
    ("original", "content", "saved"),
    [
        ("a\nb\n", "a\r\nb\r\n", "a\nb\n"),
        ("a\nb\n", "a\r\r\nb\n", "a\nb\n"),
        ("a\r\nb\r\n", "a\r\nb\n", "a\r\nb\r\n"),
        ("a\r\nb\nc\n", "a\nb\r\nc\n", "a\r\nb\nc\n"),
        ("a\r\nb\rx\nc\n", "a\nb\r\nc\n", "a\r\nb\nc\n"),
        ("a\r\r\nb\n", "a\r\nB\n", "a\r\r\nB\n"),
        ("a\n", "50 %\r100 %\n", "50 %\r100 %\n"),
    ],
    ids=["LF", "twice", "CRLF", "mixed", "joined", "was there", "lone"],
)
def test_a_carriage_return_before_a_line_break_is_kept_only_in_its_original_place(
    original: str, content: str, saved: str
) -> None:
    assert restore(content, original) == saved
