"""Nothing is changed that is no longer as the caller has read it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from jupyter_collaboration_mcp.documents.handles import revision
from jupyter_collaboration_mcp.errors import InvalidArgument, PermissionRefused, StaleRevision
from jupyter_collaboration_mcp.workspace.cell_selection import Targets
from jupyter_collaboration_mcp.workspace.guards import (
    RunRequest,
    expected_revision,
    guard_cells,
    guard_place,
    guard_text,
)
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from tests.harness.memory_room import MemoryRoom, TextRoom

OTHER = "0123ab"


class Cells:
    """An agent at a notebook that a person edits."""

    def __init__(self, *sources: str) -> None:
        self.room = MemoryRoom(sources)
        asyncio.run(self.room.peer.catch_up())
        self.here = OpenDocument("memory.ipynb", self.room.peer, self.room.seat(), "test")

    def type(self, index: int, source: str) -> None:
        """What a person does."""
        with self.room.doc.transaction():
            self.room.notebook.set_source(index, source)
        asyncio.run(self.room.peer.catch_up())

    def show(self, index: int) -> None:
        """What the agent reads."""
        self.room.peer.seen_sources.add([self.room.peer.notebook.view(index)])


class TestCells:
    def test_cells_at_the_revision_that_was_read_pass(self) -> None:
        cells = Cells("a", "b")
        guard_cells(cells.here, Targets([0, 1], [revision("code", "a"), revision("code", "b")]))

    def test_cells_without_a_revision_pass(self) -> None:
        cells = Cells("a", "b")
        guard_cells(cells.here, Targets([0, 1], [None, None]))
        guard_cells(cells.here, Targets([], []))

    @pytest.mark.parametrize("stale", [0, 1, 2])
    def test_one_changed_cell_is_enough_to_refuse(self, stale: int) -> None:
        cells = Cells("a", "b", "c")
        revisions: list[str | None] = [revision("code", source) for source in "abc"]
        cells.type(stale, "changed")
        with pytest.raises(StaleRevision) as caught:
            guard_cells(cells.here, Targets([0, 1, 2], revisions))
        assert caught.value.detail["index"] == stale
        assert caught.value.detail["cell_id"] == f"cell-{stale}"
        assert caught.value.detail["revision"] == revision("code", "changed")
        assert caught.value.detail["source"] == "changed"

    def test_the_revision_of_another_cell_is_refused(self) -> None:
        cells = Cells("a", "b")
        with pytest.raises(StaleRevision):
            guard_cells(cells.here, Targets([0], [revision("code", "b")]))

    def test_a_caller_that_read_the_cell_sees_what_changed(self) -> None:
        cells = Cells("one\ntwo")
        cells.show(0)
        cells.type(0, "one\nthree")
        with pytest.raises(StaleRevision) as caught:
            guard_cells(cells.here, Targets([0], [revision("code", "one\ntwo")]))
        error = caught.value
        assert error.detail["diff"] == "@@ -1,2 +1,2 @@\n one\n-two\n+three"
        assert "What changed since" in error.happened
        assert "not shown here lately" not in error.happened
        handle = "cell-0@" + revision("code", "one\nthree")
        assert f"Cell [0] {handle} is not at revision" in error.happened
        assert error.next_step == f"Redo it on this text with the handle {handle}."

    def test_a_revision_that_was_never_shown_is_reported_as_unknown(self) -> None:
        cells = Cells("one")
        with pytest.raises(StaleRevision) as caught:
            guard_cells(cells.here, Targets([0], [OTHER]))
        error = caught.value
        assert f"Revision {OTHER} was not shown here lately." in error.happened
        assert "What changed since" not in error.happened
        assert error.detail["diff"] is None
        assert "It now says:\n```\none\n```" in error.happened

    def test_a_source_shown_in_an_error_counts_as_read(self) -> None:
        cells = Cells("one")
        with pytest.raises(StaleRevision):
            guard_cells(cells.here, Targets([0], [OTHER]))
        cells.type(0, "two")
        with pytest.raises(StaleRevision, match="What changed since"):
            guard_cells(cells.here, Targets([0], [revision("code", "one")]))

    def test_an_error_shows_eight_thousand_characters_of_a_long_cell(self) -> None:
        cells = Cells("x" * 8_000, "x" * 8_001)
        for index, shortened in ((0, False), (1, True)):
            with pytest.raises(StaleRevision) as caught:
                guard_cells(cells.here, Targets([index], [OTHER]))
            assert ("characters cut" in caught.value.detail["source"]) is shortened
            assert len(caught.value.detail["source"]) <= 8_000


class TestPlaces:
    def test_no_place_needs_no_guard(self) -> None:
        guard_place(Cells("a").here, None)

    @pytest.mark.parametrize("after", [0, "cell-0", f"cell-0@{revision('code', 'a')}"])
    def test_a_place_after_an_unchanged_cell_passes(self, after: str | int) -> None:
        guard_place(Cells("a", "b").here, after)

    def test_a_place_after_a_changed_cell_is_refused(self) -> None:
        with pytest.raises(StaleRevision) as caught:
            guard_place(Cells("a", "b").here, f"cell-1@{OTHER}")
        assert caught.value.detail["index"] == 1


class TestTexts:
    def test_a_text_at_the_revision_that_was_read_passes(self) -> None:
        room = TextRoom("one\n")
        guard_text(room.here, None)
        guard_text(room.here, room.peer.text.view().revision)

    def test_a_changed_text_is_refused_with_a_diff(self) -> None:
        room = TextRoom("one\n")
        before = room.peer.text.view()
        room.peer.seen_sources.add([before])
        room.type(0, "zero\n")
        asyncio.run(room.peer.catch_up())
        with pytest.raises(StaleRevision) as caught:
            guard_text(room.here, before.revision)
        error = caught.value
        now = room.peer.text.view().revision
        assert error.detail["diff"] == "@@ -1,2 +1,3 @@\n+zero\n one\n "
        assert error.detail["revision"] == now
        assert error.detail["source"] == "zero\none\n"
        assert error.next_step == f"Redo it on this text with the path memory.md@{now}."
        assert "not shown here lately" not in error.happened

    def test_a_revision_that_was_never_shown_is_reported_as_unknown_once(self) -> None:
        room = TextRoom("one")
        shown = room.peer.text.view().revision
        with pytest.raises(StaleRevision, match=f"Revision {OTHER} was not shown") as caught:
            guard_text(room.here, OTHER)
        assert caught.value.detail["diff"] is None
        assert "What changed since" not in caught.value.happened
        room.type(0, "two ")
        asyncio.run(room.peer.catch_up())
        with pytest.raises(StaleRevision, match=f"What changed since {shown}"):
            guard_text(room.here, shown)

    @pytest.mark.parametrize(("length", "shortened"), [(4_000, False), (4_001, True)])
    def test_an_error_shows_four_thousand_characters_of_a_long_text(
        self, length: int, shortened: bool
    ) -> None:
        room = TextRoom("x" * length)
        with pytest.raises(StaleRevision) as caught:
            guard_text(room.here, OTHER)
        assert ("characters cut" in caught.value.detail["source"]) is shortened
        assert len(caught.value.detail["source"]) <= 4_000

    @pytest.mark.parametrize(
        ("in_path", "given", "expected"),
        [
            (None, None, None),
            ("9ab1c2", None, "9ab1c2"),
            (None, "9ab1c2", "9ab1c2"),
            (None, "r:9ab1c2", "9ab1c2"),
            ("9ab1c2", "9ab1c2", "9ab1c2"),
        ],
    )
    def test_the_revision_may_be_in_the_path_or_beside_it(
        self, in_path: str | None, given: str | None, expected: str | None
    ) -> None:
        here = replace(TextRoom("").here, expected=in_path)
        assert expected_revision(here, given) == expected

    def test_two_different_revisions_are_refused(self) -> None:
        here = replace(TextRoom("").here, expected="9ab1c2")
        with pytest.raises(InvalidArgument, match=f"9ab1c2, and if_revision is {OTHER}"):
            expected_revision(here, OTHER)


class TestRunRequests:
    REFUSAL = PermissionRefused("It may not run.", "Ask.", level="execute")

    @pytest.mark.parametrize(
        ("request_", "cell_type"),
        [
            (RunRequest(False), "code"),
            (RunRequest(True), "code"),
            (RunRequest(False, REFUSAL), "code"),
            (RunRequest(True, REFUSAL), "markdown"),
        ],
    )
    def test_a_request_that_runs_nothing_or_is_permitted_passes(
        self, request_: RunRequest, cell_type: str
    ) -> None:
        request_.check(cell_type)

    def test_a_code_cell_that_may_not_be_run_is_refused(self) -> None:
        with pytest.raises(
            PermissionRefused, match=r"It may not run\. Nothing was changed"
        ) as caught:
            RunRequest(True, self.REFUSAL).check("code")
        assert caught.value.detail == {"level": "execute"}
        assert "exec=false" in caught.value.next_step
