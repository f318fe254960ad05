"""How cells and text files are named in answers, and how these names come back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.handles import (
    Handle,
    brief_id,
    cell_handle,
    parse_cell,
    parse_path,
    parse_revision,
    revision,
    short_id,
)
from jupyter_collaboration_mcp.errors import InvalidArgument

#: Many of them begin with the same seven to ten characters.
IDS = st.builds(
    str.__add__,
    st.sampled_from(["", "a", "aaaaaaa", "aaaaaaaaaa"]),
    st.text("ab", min_size=1, max_size=4),
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("8f2c41d0", Handle("8f2c41d0")),
        ("8f2c41d0@9ab1c2", Handle("8f2c41d0", "9ab1c2")),
        (" 8f2c41d0@r:9ab1c2 ", Handle("8f2c41d0", "9ab1c2")),
        ("[3] 8f2c41d0@9ab1c2", Handle("8f2c41d0", "9ab1c2")),
        ("[3] 8f2c41d0", Handle("8f2c41d0")),
        ("[3] [4] 8f2c41d0", Handle("[4] 8f2c41d0")),
        ("8f2c[0] 41d0", Handle("8f2c[0] 41d0")),
        ('"an odd id"@9ab1c2', Handle("an odd id", "9ab1c2")),
        ('"an odd id"', Handle("an odd id")),
        ('"not closed', Handle('"not closed')),
    ],
)
def test_a_cell_handle_is_parsed_in_every_form_it_is_shown(given: str, expected: Handle) -> None:
    assert parse_cell(given) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a@9ab1c2@9ab1c2", "two @ signs"),
        ("@9ab1c2", "no id"),
        ("8f2c41d0@", "no revision"),
        ("@", "no id"),
        ("8f2c41d0@latest", "not a revision, which is six hexadecimal digits"),
        ("8f2c41d0@9AB1C2", "six hexadecimal digits"),
        ("8f2c41d0@9ab1c", "six hexadecimal digits"),
    ],
)
def test_a_malformed_handle_is_refused(given: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        parse_cell(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("notes.md@9ab1c2", Handle("notes.md", "9ab1c2")),
        ("work:a/b@home.md", Handle("work:a/b@home.md")),
        ("a@b@9ab1c2", Handle("a@b", "9ab1c2")),
        ("@9ab1c2", Handle("@9ab1c2")),
        ("notes.md@", Handle("notes.md@")),
    ],
)
def test_a_path_may_have_a_revision(given: str, expected: Handle) -> None:
    assert parse_path(given) == expected


@pytest.mark.parametrize("given", ["9ab1c2", "r:9ab1c2", "@9ab1c2", "8f2c41d0@9ab1c2"])
def test_a_revision_may_include_its_surrounding_syntax(given: str) -> None:
    assert parse_revision(given) == "9ab1c2"


@given(st.lists(IDS, min_size=1, max_size=8, unique=True))
def test_a_short_id_is_the_shortest_unique_prefix(ids: list[str]) -> None:
    ordered = sorted(ids)
    for cell_id in ids:
        shown = short_id(cell_id, ordered)
        fits = [other for other in ids if other.startswith(shown)]
        assert shown == cell_id or fits == [cell_id]
        assert len(shown) >= min(8, len(cell_id))
        if len(shown) > 8:
            shorter = shown[:-1]
            assert shorter in ids or [i for i in ids if i.startswith(shorter)] != [cell_id]


def test_an_id_that_looks_like_our_syntax_is_quoted() -> None:
    assert short_id('a\n[1] "b', []) == '"a\\n[1] \\"b"'
    assert cell_handle(3, "8f2c41d0", "9ab1c2") == "[3] 8f2c41d0@9ab1c2"


def test_a_revision_is_stable() -> None:
    assert revision("code", "print('é😀')") == revision("code", "print('é😀')") == "4c1a41"


def test_a_revision_depends_on_type_and_source() -> None:
    assert len({revision("code", "x"), revision("raw", "x"), revision("code", "x ")}) == 3


def test_a_revision_keeps_type_and_source_apart() -> None:
    assert revision("code", "x") != revision("codex", "")


@given(st.sampled_from(["code", "markdown", "raw"]), st.text())
def test_a_revision_is_six_hexadecimal_characters(cell_type: str, source: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{6}", revision(cell_type, source))


def test_an_error_quotes_only_the_beginning_of_a_malformed_handle() -> None:
    for parse, text in ((parse_cell, "x" * 100 + "@"), (parse_revision, "x" * 100)):
        with pytest.raises(InvalidArgument) as caught:
            parse(text)
        assert caught.value.happened.startswith(f"'{'x' * 80}' is not")


@pytest.mark.parametrize(
    ("cell_id", "brief"),
    [
        ("short", "short"),
        ("x" * 12, "x" * 12),
        ("x" * 13, "x" * 8),
        ("8f2c41d0-4b0e-4c6e", "8f2c41d0"),
        ("an odd id", '"an odd id"'),
        ("a\n" * 8, '"a\\na\\na\\na\\n"'),
    ],
)
def test_the_id_of_a_deleted_cell_is_abbreviated(cell_id: str, brief: str) -> None:
    assert brief_id(cell_id) == brief


def test_a_very_long_odd_id_is_cut_to_64_characters() -> None:
    odd = " " * 100
    assert short_id(odd, sorted([odd, odd + "x"])) == f'"{" " * 64}"'
