from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycrdt import Doc, Text

from jupyter_collaboration_mcp.documents import text
from jupyter_collaboration_mcp.documents.differ import Edit, edits, patch
from jupyter_collaboration_mcp.errors import InvalidArgument, TextMismatch
from tests.harness.growth import calls, growth

from .texts import CHARACTERS, NUMBERED, TEXTS


def shared(content: str) -> tuple[Doc[Text], Text]:
    doc: Doc[Text] = Doc()
    doc["source"] = shared_text = Text(content)
    return doc, shared_text


def replica(doc: Doc[Text]) -> tuple[Doc[Text], Text]:
    other: Doc[Text] = Doc()
    other.apply_update(doc.get_update())
    return other, other.get("source", type=Text)


@given(TEXTS, TEXTS)
def test_a_shared_text_takes_the_edits(old: str, new: str) -> None:
    doc, target = shared(old)
    with doc.transaction():
        text.apply(target, edits(old, new), old)
    assert str(target) == new


@given(TEXTS, TEXTS, st.data())
def test_text_typed_elsewhere_at_the_same_time_survives_whole(
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


def test_very_many_edits_are_made_as_fewer_of_those_near_to_each_other() -> None:
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


def test_a_change_that_no_document_can_hold_is_refused_before_anything_is_changed() -> None:
    doc, target = shared("abc")
    changes = [Edit(0, 1, "fine"), Edit(2, 2, "\ud83d")]
    with doc.transaction(), pytest.raises(InvalidArgument, match=r"U\+D83D"):
        text.apply(target, changes, "abc")
    assert str(target) == "abc"


def test_a_shared_text_that_reads_otherwise_is_not_changed() -> None:
    doc, target = shared("é")
    with doc.transaction(), pytest.raises(ValueError, match="has 2 bytes, expected 1"):
        text.apply(target, [Edit(0, 1, "x")], "e")
    assert str(target) == "é"


class TestReplaceOnce:
    def test_the_only_match_is_replaced_literally(self) -> None:
        assert text.replace_once("a.c abc", "a.c", r"\1") == r"\1 abc"

    def test_no_text_to_replace_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="old_text is empty"):
            text.replace_once("abc", "", "x")

    def test_several_matches_are_counted_with_their_lines(self) -> None:
        with pytest.raises(TextMismatch) as caught:
            text.replace_once("x = 1\ny = 2\nx = 1\n", "x = 1", "x = 3")
        assert str(caught.value) == (
            "old_text is there 2 times, on lines 1, 3. Nothing was changed.\n"
            "Next: Include more surrounding text in old_text, so that it matches once."
        )
        assert caught.value.detail == {"matches": 2, "lines": [1, 3]}

    def test_overlapping_matches_leave_a_choice_too(self) -> None:
        with pytest.raises(TextMismatch, match="2 times"):
            text.replace_once("aaa", "aa", "b")

    def test_very_many_matches_are_not_all_counted(self) -> None:
        with pytest.raises(TextMismatch, match=r"at least 1,000 times.* and 990 more"):
            text.replace_once("a" * 100_000, "a", "b")

    def test_the_nearest_lines_are_shown(self) -> None:
        source = "import numpy\n\ndef mean(values):\n    return sum(values) / len(values)\n"
        with pytest.raises(TextMismatch) as caught:
            text.replace_once(source, "return sum(value) / len(value)", "x")
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
    def test_it_is_said_how_the_text_differs(
        self, source: str, wanted: str, difference: str, lines: list[int]
    ) -> None:
        with pytest.raises(TextMismatch) as caught:
            text.replace_once(source, wanted, "")
        assert f"the source differs in {difference} here:" in str(caught.value)
        assert caught.value.detail["lines"] == lines

    def test_nothing_similar_is_said_too(self) -> None:
        with pytest.raises(TextMismatch, match=r"nor anything like it \(2 lines\)"):
            text.replace_once("abc\ndef", "0123456789", "")

    def test_an_empty_source_is_said_to_be_empty(self) -> None:
        with pytest.raises(TextMismatch, match="the source is empty"):
            text.replace_once("", "x", "y")

    def test_long_lines_and_windows_are_shortened(self) -> None:
        source = "\n".join("x" * 1_000 for _ in range(30))
        with pytest.raises(TextMismatch) as caught:
            text.replace_once(source, source.upper(), "")
        assert "... 22 more lines" in str(caught.value)
        assert "(840 more characters)" in str(caught.value)
        assert len(str(caught.value)) < 2_000

    def test_a_large_source_is_searched_in_linear_time(self) -> None:
        def search(size: int) -> None:
            with pytest.raises(TextMismatch, match="  778  line 777 "):
                text.replace_once("".join(NUMBERED[:size]), NUMBERED[777].strip() + "?", "")

        assert growth(search, 20_000) < 10

    def test_a_very_large_source_is_not_searched_for_what_is_only_similar(self) -> None:
        source = "".join(NUMBERED)

        def search(wanted: str, said: str) -> None:
            with pytest.raises(TextMismatch, match=said):
                text.find_once(source, wanted)

        for wanted, said in (
            ("?" * 40, r"nor anything like it in the first 80,000 characters \(400,001 lines\)"),
            ("?\n" * 3_000_000, "nor anything like it in the first 80,000 characters"),
            (NUMBERED[-1].upper(), "the nearest lines in the first 80,000 characters are:"),
            (NUMBERED[10_000].upper(), "differs in case here:\n10001  line 10000 "),
        ):
            assert calls(partial(search, wanted, said)) < 200_000

    @given(TEXTS, TEXTS.filter(bool))
    @settings(max_examples=50)
    def test_it_replaces_only_what_is_there_once(self, source: str, wanted: str) -> None:
        places = [place for place in range(len(source)) if source.startswith(wanted, place)]
        if len(places) == 1:
            assert text.replace_once(source, wanted, "") == source.replace(wanted, "")
            return
        with pytest.raises(TextMismatch) as caught:
            text.replace_once(source, wanted, "")
        assert caught.value.detail["matches"] == len(places)


class TestUnified:
    def test_changed_lines_come_with_their_context(self) -> None:
        before = "\n".join("abcdefghijkl")
        after = before.replace("c", "C").replace("k", "k\nnew")
        assert text.unified(before, after) == (
            "@@ -1,5 +1,5 @@\n a\n b\n-c\n+C\n d\n e\n@@ -10,3 +10,4 @@\n j\n k\n+new\n l"
        )

    def test_changes_close_to_each_other_share_a_hunk(self) -> None:
        assert text.unified("a\nb\nc\nd", "A\nb\nc\nD", context=1) == (
            "@@ -1,4 +1,4 @@\n-a\n+A\n b\n c\n-d\n+D"
        )

    def test_equal_texts_have_no_diff(self) -> None:
        assert text.unified("a\n", "a\n") == ""

    def test_a_carriage_return_can_be_seen(self) -> None:
        assert text.unified("a\r\nb", "a\nb", context=0) == "@@ -1 +1 @@\n-a␍\n+a"

    def test_a_long_diff_is_cut_with_a_count(self) -> None:
        after = "\n".join(f"line {number}" for number in range(5_000))
        diff = text.unified("", after, limit=500)
        assert len(diff) <= 500
        shown = diff.count("\n")
        assert diff.endswith(f"... {5_000 + 2 - shown:,} more lines of the diff cut")


class TestClip:
    def test_a_short_text_stays(self) -> None:
        assert text.clip("abc", 3) == "abc"

    @given(st.text(CHARACTERS, min_size=101, max_size=300), st.integers(40, 100))
    def test_a_long_text_fits_and_counts_what_is_cut(self, long: str, limit: int) -> None:
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
def test_the_beginning_of_a_text_has_as_many_bytes_as_fit(source: str, limit: int) -> None:
    found = text.beginning(source, limit)
    assert source.startswith(found)
    assert found  # whoever reads on has to come to the end
    assert len(found) == 1 or text.size(found) <= limit
    assert text.size(source) > limit or found == source
