from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings

from jupyter_collaboration_mcp.documents import text_search
from jupyter_collaboration_mcp.errors import InvalidArgument, TextMismatch
from tests.harness.growth import calls, growth

from .texts import NUMBERED, TEXTS


class TestReplaceOnce:
    def test_the_only_match_is_replaced_literally(self) -> None:
        assert text_search.replace_once("a.c abc", "a.c", r"\1") == r"\1 abc"

    def test_an_empty_old_text_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="old_text is empty"):
            text_search.replace_once("abc", "", "x")

    def test_several_matches_are_counted_with_their_lines(self) -> None:
        with pytest.raises(TextMismatch) as caught:
            text_search.replace_once("x = 1\ny = 2\nx = 1\n", "x = 1", "x = 3")
        assert str(caught.value) == (
            "old_text is there 2 times, on lines 1, 3. Nothing was changed.\n"
            "Next: Include more surrounding text in old_text, so that it matches once."
        )
        assert caught.value.detail == {"matches": 2, "lines": [1, 3]}

    def test_overlapping_matches_are_ambiguous_too(self) -> None:
        with pytest.raises(TextMismatch, match="2 times"):
            text_search.replace_once("aaa", "aa", "b")

    def test_very_many_matches_are_not_all_counted(self) -> None:
        with pytest.raises(TextMismatch, match=r"at least 1,000 times.* and 990 more"):
            text_search.replace_once("a" * 100_000, "a", "b")

    def test_the_nearest_lines_are_shown(self) -> None:
        source = "import numpy\n\ndef mean(values):\n    return sum(values) / len(values)\n"
        with pytest.raises(TextMismatch) as caught:
            text_search.replace_once(source, "return sum(value) / len(value)", "x")
        assert str(caught.value) == (
            "old_text was not found; the nearest lines are:\n"
            "    4      return sum(values) / len(values)\n"
            "Nothing was changed.\n"
            "Next: Copy old_text exactly from the source, then call again."
        )
        assert caught.value.detail == {"matches": 0, "lines": [4, 4]}

    @pytest.mark.parametrize(
        ("source", "wanted", "difference", "lines"),
        [
            ("if x:\n\treturn 1\n", "if x:\n    return 1", "white space", [1, 2]),
            ("a\r\nb\r\n", "a\nb", "line ends (CRLF)", [1, 2]),
            ("\nprint(X)\n", "print(x)", "case", [2, 2]),
            ("\nPrint( x )\n", "print(x)", "white space and case", [2, 2]),
        ],
    )
    def test_the_error_says_how_the_text_differs(
        self, source: str, wanted: str, difference: str, lines: list[int]
    ) -> None:
        with pytest.raises(TextMismatch) as caught:
            text_search.replace_once(source, wanted, "")
        assert f"the source differs in {difference} here:" in str(caught.value)
        assert caught.value.detail["lines"] == lines

    def test_the_error_says_if_nothing_is_similar(self) -> None:
        with pytest.raises(TextMismatch, match=r"nor anything like it \(2 lines\)"):
            text_search.replace_once("abc\ndef", "0123456789", "")

    def test_the_error_says_if_the_source_is_empty(self) -> None:
        with pytest.raises(TextMismatch, match="the source is empty"):
            text_search.replace_once("", "x", "y")

    def test_long_lines_and_windows_are_shortened(self) -> None:
        source = "\n".join("x" * 1_000 for _ in range(30))
        with pytest.raises(TextMismatch) as caught:
            text_search.replace_once(source, source.upper(), "")
        assert "... 22 more lines" in str(caught.value)
        assert "(840 more characters)" in str(caught.value)
        assert len(str(caught.value)) < 2_000

    def test_a_large_source_is_searched_in_linear_time(self) -> None:
        def search(size: int) -> None:
            with pytest.raises(TextMismatch, match="  778  line 777 "):
                text_search.replace_once("".join(NUMBERED[:size]), NUMBERED[777].strip() + "?", "")

        assert growth(search, 20_000) < 10

    def test_a_very_large_source_is_not_searched_for_similar_text(self) -> None:
        source = "".join(NUMBERED)

        def search(wanted: str, said: str) -> None:
            with pytest.raises(TextMismatch, match=said):
                text_search.find_once(source, wanted)

        for wanted, said in (
            ("?" * 40, r"nor anything like it in the first 80,000 characters \(400,001 lines\)"),
            ("?\n" * 3_000_000, "nor anything like it in the first 80,000 characters"),
            (NUMBERED[-1].upper(), "the nearest lines in the first 80,000 characters are:"),
            (NUMBERED[10_000].upper(), "differs in case here:\n10001  line 10000 "),
        ):
            assert calls(partial(search, wanted, said)) < 200_000

    @given(TEXTS, TEXTS.filter(bool))
    @settings(max_examples=50)
    def test_only_a_unique_match_is_replaced(self, source: str, wanted: str) -> None:
        places = [place for place in range(len(source)) if source.startswith(wanted, place)]
        if len(places) == 1:
            assert text_search.replace_once(source, wanted, "") == source.replace(wanted, "")
            return
        with pytest.raises(TextMismatch) as caught:
            text_search.replace_once(source, wanted, "")
        assert caught.value.detail["matches"] == len(places)
