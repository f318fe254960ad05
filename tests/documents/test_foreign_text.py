"""Foreign words in our sentences stay on their line, within their bounds and within quotes."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.foreign_text import inline, listed, quoted

#: Any text, with what hides, breaks and turns lines more often than by chance.
ANY = st.text(st.characters() | st.sampled_from("\n\r\x1b\u2028\u202e\u200b\ud800'\", "))


@given(ANY, st.integers(1, 50))
def test_foreign_text_is_one_line_of_bounded_length(text: str, limit: int) -> None:
    for said in (inline(text, limit), quoted(text, limit)):
        assert said.isprintable()
        assert len(said.splitlines()) == 1
        assert len(said) <= 10 * limit + 30  # of one character, \U0001d800 is the most
        said.encode()


@given(ANY)
def test_quoted_text_can_be_parsed_back(text: str) -> None:
    assert ast.literal_eval(quoted(text, 1000)) == text
    assert inline(text, 1000) in (text, quoted(text, 1000))


@pytest.mark.parametrize(
    "name", ["a.ipynb", "My notebook.ipynb", "données/Übung 1.md", "Python 3 (ipykernel)", "it's"]
)
def test_an_ordinary_name_is_not_quoted(name: str) -> None:
    assert inline(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb", "'a\\nb'"),
        ("\x1b[31mred", "'\\x1b[31mred'"),
        ("a\u202eb", "'a\\u202eb'"),
        ("a.md, open by Ana", "'a.md, open by Ana'"),
        ("'quoted'", "\"'quoted'\""),
        (" padded", "' padded'"),
        ("", "''"),
        ("x" * 300, f"'{'x' * 200}'... (300 characters)"),
    ],
)
def test_a_name_that_could_be_mistaken_is_quoted(name: str, shown: str) -> None:
    assert inline(name) == shown


def test_a_long_list_of_names_shows_the_first_ones() -> None:
    assert listed(["a", "b\n"]) == "a, 'b\\n'"
    assert listed(map(str, range(25))).endswith("18, 19, 5 more")
    assert listed([]) == ""
