"""Changes of what a cell says."""

from __future__ import annotations

from collections import Counter

import pytest

from jupyter_collaboration_mcp.collaboration.changes import SourceChange
from jupyter_collaboration_mcp.collaboration.line_merge import MergedText
from jupyter_collaboration_mcp.documents.differ import Edit

from .documents import notebook, overwritten, planned, repaired, restarted, sources, text_file

ONE = SourceChange("a", "l1\nl2", "l1\none\nl2")


def test_a_source_change_is_as_large_as_both_texts_and_concerns_only_the_source() -> None:
    assert SourceChange("a", "123", "4567").size == 7
    assert SourceChange("a", "123", "4567").texts() == ("123", "4567")
    assert set(SourceChange.keys or ()) == {"source"}


class TestUndo:
    def test_edits_of_others_elsewhere_stay(self) -> None:
        plan = planned(notebook("l1\none\nl2\nof Ana"), ONE)
        assert plan.sources == {"a": "l1\nl2\nof Ana"}
        assert plan.conflicts == plan.notes == []

    def test_a_conflict_is_reported_with_the_diff(self) -> None:
        plan = planned(notebook("l1\nonce\nl2"), ONE)
        (conflict,) = plan.conflicts
        assert conflict.startswith("cell a, where others changed what you wrote:\n")
        assert "-once" in conflict

    def test_several_changes_are_undone_in_turn(self) -> None:
        then = SourceChange("a", "l1\none\nl2", "l1\none two\nl2")
        plan = planned(notebook("l1\none two\nl2"), ONE, then)
        assert plan.sources == {"a": "l1\nl2"}
        assert not plan.conflicts

    def test_a_cell_that_is_gone_is_noted(self) -> None:
        plan = planned(notebook(), ONE)
        assert (plan.notes, plan.sources) == (["cell a is gone"], {})


class TestReplay:
    def replayed(self, change: SourceChange, *said: str) -> str:
        texts = dict.fromkeys("a", *said) if said else {}
        change.replay(texts, notebook("now"))
        return texts["a"]

    def test_a_replay_on_the_original_text_or_none_gives_the_original_result(self) -> None:
        assert self.replayed(ONE) == ONE.after
        assert self.replayed(ONE, ONE.before) == ONE.after

    @pytest.mark.parametrize(
        ("before", "after", "said", "expected"),
        [
            ("abc def", "abc def!", "abd def", "abd def!"),
            ("abc", "abXc", "abYc", "abYXc"),
            ("abcdef", "abXcdef", "abef", "abXef"),
            ("abcdef", "abcdXef", "abef", "abXef"),
            ("abcdef", "abcXdef", "abef", "abcXdef"),
            ("abcdef", "abXcdef", "abYef", "abXcdef"),
            ("abcdef", "abcdXef", "abYef", "abcdXef"),
            ("abcdef", "abXdef", "abcYef", "abXdef"),
            ("abcdef", "abcdX", "aYcdef", "aYcdX"),
            ("abcdef", "Xcdef", "abcdY", "XcdY"),
            ("abcdef", "abcXef", "abYdef", "abcXef"),
            ("abcdef", "abXef", "abcYdef", "abXef"),
            ("abcdef", "abXcdef", "Yabcdef", "YabXcdef"),
            ("abcdef", "abcdeXf", "aYbcdef", "aYbcdeXf"),
        ],
        ids=[
            "apart",
            "two insertions at one place",
            "right before what was removed",
            "right behind what was removed",
            "within what was removed",
            "right before what was replaced",
            "right behind what was replaced",
            "a replacement right before a replacement",
            "a replacement behind another",
            "a replacement before another",
            "a replacement right behind a replacement",
            "around what was inserted",
            "an insertion behind another",
            "an insertion before another",
        ],
    )
    def test_both_edits_are_kept_unless_they_touch(
        self, before: str, after: str, said: str, expected: str
    ) -> None:
        assert self.replayed(SourceChange("a", before, after), said) == expected


@pytest.mark.parametrize(
    ("text", "amount"),
    [("x\nnew\ny", 1), ("old", -1), ("x", 0), ("new\nold", 0), ("new\nnew", 1), (None, 0)],
)
def test_the_amount_of_a_change_in_a_cell_is_counted_in_lines(
    text: str | None, amount: int
) -> None:
    lines = None if text is None else Counter(text.split("\n"))
    assert SourceChange("a", "old", "new").amount_in(lines) == amount


@pytest.mark.parametrize(
    ("after", "text", "earlier", "expected"),
    [
        ("x word", "here is a word", (), True),
        ("x word", "x", (), False),
        ("x word", "x word", ("a word", "x"), False),
        ("x word", "x word", ("x", "a word"), False),
        ("x  ", "x  ", (), False),
        ("x1x", "1x", (), False),
        ("", "", (), False),
    ],
    ids=[
        "it is there",
        "it is not",
        "it was there earlier",
        "it was there later",
        "only spaces",
        "it repeats what was there",
        "it only removed",
    ],
)
def test_a_change_recognizes_its_own_text(
    after: str, text: str, earlier: tuple[str, ...], expected: bool
) -> None:
    before = "1x1x" if after == "x1x" else "x"
    assert SourceChange("a", before, after).wrote(text, earlier) is expected


class TestRestart:
    def test_missing_text_is_restored(self) -> None:
        now, before = notebook("l1\nl2\ndisk"), notebook("l1\none\nl2")
        cell = repaired(now, before, [ONE])
        assert sources(now) == {"a": "l1\none\nl2\ndisk"}
        assert cell.report.lost == []

    def test_nothing_is_repaired_if_nothing_is_missing(self) -> None:
        assert not restarted(notebook(ONE.after), notebook(ONE.after), [ONE]).lacks_something
        assert restarted(notebook(ONE.before), notebook(ONE.after), [ONE]).lacks_something

    def test_a_clash_is_reported(self) -> None:
        change = SourceChange("a", "x = 1", "x = 2")
        cell = restarted(notebook("y = 3"), notebook("x = 2"), [change])
        assert cell.report.lost == ["in cell a somebody wrote at the same place"]
        assert not cell.lacks_something


class TestOverwrite:
    def test_missing_text_is_restored_and_counts_as_unsaved(self) -> None:
        document = notebook("l1\nl2\ndisk")
        cell, left = overwritten(document, ONE.after, [ONE])
        assert sources(document) == {"a": "l1\none\nl2\ndisk"}
        assert left == [SourceChange("a", "l1\nl2\ndisk", "l1\none\nl2\ndisk")]
        assert cell.is_changed
        assert cell.report.lost == []

    def test_text_that_the_file_has_may_still_be_unsaved(self) -> None:
        then = SourceChange("a", ONE.after, ONE.after + "\ntwo")
        document = notebook(ONE.after)
        cell, left = overwritten(document, then.after, [ONE, then])
        assert left == [ONE, SourceChange("a", ONE.after, then.after)]
        assert cell.is_changed
        cell, left = overwritten(document, then.after, [ONE, then])
        assert left == [ONE, then]
        assert not cell.is_changed

    def test_a_clash_is_reported(self) -> None:
        change = SourceChange("a", "x = 1", "x = 2")
        document = notebook("y = 3")
        cell, left = overwritten(document, "x = 2", [change])
        assert cell.report.lost == ["in cell a somebody wrote at the same place"]
        assert (sources(document), left, cell.is_changed) == ({"a": "y = 3"}, [change], False)

    def test_a_cell_that_was_just_reinserted_has_its_text(self) -> None:
        document = notebook("l1\nl2")
        cell, left = overwritten(document, ONE.after, [ONE], is_inserted=True)
        assert (sources(document), left, cell.is_changed) == ({"a": "l1\nl2"}, [], False)

    def test_text_that_landed_after_the_file_content_moves_to_its_place(self) -> None:
        document = text_file("l1\nl2\ndiskone\n")
        change = SourceChange("", ONE.before, ONE.after)
        strays = {"": [Edit(10, 14, "")]}
        cell, left = overwritten(document, ONE.after, [change], find_stray_text=lambda: strays)
        assert str(document) == "l1\none\nl2\ndisk"
        assert left == [SourceChange("", "l1\nl2\ndisk", "l1\none\nl2\ndisk")]
        assert cell.is_changed
        assert cell.report.lost == []

    def test_text_in_place_is_rewritten_if_it_may_have_landed_after_the_file_content(self) -> None:
        document = notebook(ONE.after)
        strays = {"a": [Edit(3, 7, "")]}
        updates: list[bytes] = []
        subscription = document.doc.observe(lambda event: updates.append(event.update))
        cell, left = overwritten(
            document, ONE.after, [ONE], find_stray_text=lambda: strays, is_late=True
        )
        document.doc.unobserve(subscription)
        assert sources(document) == {"a": ONE.after}
        assert left == [ONE]
        assert len(updates) == 1
        assert not cell.is_changed

    def test_text_is_left_alone_if_it_came_before_the_overwrite(self) -> None:
        def find() -> dict[str, list[Edit]]:
            raise AssertionError("there is nothing to look for")

        document = notebook(ONE.after)
        _, left = overwritten(document, ONE.after, [ONE], find_stray_text=find)
        assert (sources(document), left) == ({"a": ONE.after}, [ONE])

    @pytest.mark.parametrize(
        ("again", "clash", "written"),
        [("current", False, True), ("other", False, False), ("current", True, False)],
    )
    def test_text_is_left_alone_if_it_would_not_be_restored_exactly(
        self, again: str, clash: bool, written: bool
    ) -> None:
        def merge(changes: object, text_before: str, current: str) -> MergedText:
            if current == "current":
                return MergedText(current, [], 1, clash=False)
            return MergedText(again, [Edit(0, 0, again[:-1])], 0, clash)

        document = notebook("current")
        strays = {"a": [Edit(0, 6, "")]}
        cell, left = overwritten(
            document,
            "before",
            [ONE],
            find_stray_text=lambda: strays,
            is_late=True,
            merge=merge,
        )
        assert sources(document) == {"a": "current"}
        assert left == ([SourceChange("a", "t", "current")] if written else [ONE])
        assert cell.report.lost == []

    @pytest.mark.parametrize(
        ("change", "clash", "moved"),
        [
            (SourceChange("a", "old", "new"), False, True),
            (SourceChange("a", "old", "new"), True, False),
            (SourceChange("a", "old", "old, new"), True, True),
        ],
    )
    def test_stray_text_stays_if_it_replaced_text_that_others_changed(
        self, change: SourceChange, clash: bool, moved: bool
    ) -> None:
        def merge(changes: object, text_before: str, current: str) -> MergedText:
            if current == "disk-stray":
                return MergedText("disk-stray-twice", [Edit(10, 10, "-twice")], 0, clash=False)
            assert current == "disk"
            return MergedText("merged disk", [Edit(0, 0, "merged ")], 0, clash)

        document = notebook("disk-stray")
        strays = {"a": [Edit(4, 10, "")]}
        cell, left = overwritten(
            document, "before", [change], find_stray_text=lambda: strays, merge=merge
        )
        assert sources(document) == {"a": "merged disk" if moved else "disk-stray"}
        assert left == ([SourceChange("a", "disk", "merged disk")] if moved else [change])
        assert bool(cell.report.lost) is clash
        assert cell.is_changed is moved

    def test_a_clash_without_stray_text_stays_a_clash(self) -> None:
        change = SourceChange("a", "x = 1", "x = 2")
        cell, _ = overwritten(notebook("y = 3"), "x = 2", [change], find_stray_text=dict)
        assert cell.report.lost == ["in cell a somebody wrote at the same place"]

    def test_strays_of_other_cells_do_not_matter(self) -> None:
        document = notebook("l1\nl2", "other")
        strays = {"b": [Edit(0, 2, "")]}
        overwritten(document, ONE.after, [ONE], find_stray_text=lambda: strays, is_late=True)
        assert sources(document) == {"a": ONE.after, "b": "other"}
