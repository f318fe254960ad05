"""Printed text as JupyterLab shows it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.screen import Screen
from tests.harness.growth import growth

PIECES = st.text(st.sampled_from("ab \n\r\b\né€😀e\u0301\ud83d\n"), max_size=20)


def as_shown(text: str) -> str:
    """JupyterLab's rules, one character after the other."""
    shown: list[str] = []
    cursor = 0
    for character in text:
        start = len(shown) - shown[::-1].index("\n") if "\n" in shown else 0
        if character == "\n":
            shown.append("\n")
            cursor = len(shown)
        elif character == "\r":
            cursor = start
        elif character == "\b":
            cursor = max(start, cursor - 1)
        else:
            shown[cursor : cursor + 1] = [character]
            cursor += 1
    return "".join(shown)


def printed(*pieces: str) -> Screen:
    screen = Screen()
    for piece in pieces:
        screen.print(piece)
    return screen


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=12))
def test_any_pieces_are_shown_as_in_jupyterlab(pieces: list[str]) -> None:
    screen = printed(*pieces)
    assert screen.text == as_shown("".join(pieces))
    assert len(screen) == len(screen.text)
    assert screen.on_new_line is (screen.text.endswith("\n") or not screen.text)


@settings(max_examples=300)
@given(st.lists(st.one_of(PIECES, st.none(), st.integers(0, 40)), max_size=16))
def test_the_pieces_taken_add_up_to_the_text(steps: list[str | int | None]) -> None:
    screen, taken = Screen(), ""
    for step in steps:
        if step is None:
            unchanged, rest = screen.take()
            taken = taken[:unchanged] + rest
            assert taken == screen.text == screen.taken
            assert screen.take() == (len(taken), "")
        elif isinstance(step, int):
            before = screen.text
            assert screen.cut(step) == before[step:]
            assert screen.text == before[:step]
        else:
            screen.print(step)
    unchanged, rest = screen.take()
    assert taken[:unchanged] + rest == screen.text


def test_a_cut_text_continues_at_its_end() -> None:
    screen = printed("one\ntwo\r")
    screen.take()
    assert screen.cut(5) == "wo"
    screen.print("en\n")
    assert screen.text == "one\nten\n"
    assert screen.take() == (5, "en\n")
    assert screen.cut(1) == "ne\nten\n"
    assert (screen.text, screen.taken) == ("o", "o")
    screen.print("ur")
    assert screen.take() == (1, "ur")


def test_only_the_changed_part_of_a_progress_bar_is_new() -> None:
    screen = printed("epoch 1\n 10% |█   |")
    screen.take()
    screen.print("\r 10% |██  |")
    assert screen.take() == (len("epoch 1\n 10% |█"), "█  |")
    screen.print("\r 10% |██  |")
    assert screen.take() == (len(screen.text), "")


def test_windows_line_endings_end_lines() -> None:
    assert printed("one\r\ntwo\r", "\nthree\r\r\n").text == "one\ntwo\nthree\n"


def test_a_shorter_line_overwrites_only_part_of_a_longer_one() -> None:
    assert printed("longer line\rshort").text == "shortr line"


def test_a_backspace_stays_on_its_line() -> None:
    assert printed("a\n\b\b\bb\b\b\bc").text == "a\nc"


@pytest.mark.parametrize(
    ("before", "content"),
    [("", "x" * 39 + "\n"), ("", "é"), ("\r", "x" * 39 + "\n")],
    ids=["lines", "one-line", "goes-back"],
)
def test_megabytes_are_printed_in_linear_time(before: str, content: str) -> None:
    def print_all(size: int) -> None:
        screen = Screen()
        screen.print(before + content * (size // len(content)))
        assert len(screen) == size // len(content) * len(content)

    assert growth(print_all, 2_500_000) < 10


def test_a_spinner_after_a_very_long_line_costs_little() -> None:
    def spin(size: int) -> None:
        screen = printed("x" * size)
        for _ in range(2_000):
            screen.print("\b|")
        assert screen.text == "x" * (size - 1) + "|"

    assert growth(spin, 250_000) < 10
