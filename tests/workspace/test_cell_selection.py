"""Which cells a call means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pycrdt import Doc

from jupyter_collaboration_mcp.documents.handles import revision
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell
from jupyter_collaboration_mcp.errors import (
    AmbiguousCell,
    CellNotFound,
    InvalidArgument,
    NotCode,
    TextMismatch,
    TooLarge,
)
from jupyter_collaboration_mcp.workspace.cell_selection import (
    CellRef,
    Targets,
    by_old_text,
    cell_before,
    code_cells,
    code_indexes,
    each_once,
    in_ranges,
    index_of,
    insertion_point,
    insertion_points,
    locate,
    targets,
    with_texts,
)

SOURCES = ("import os", "total = 1", "total = 2", "print(total)")
FIRST, SECOND = "9ab1c2", "0123ab"


def notebook(*sources: str, ids: Sequence[str] = (), types: Sequence[str] = ()) -> Notebook:
    made = Notebook(Doc())
    with made.doc.transaction():
        for number, source in enumerate(sources or SOURCES):
            cell = new_cell(types[number] if types else "code", source)
            made.insert(number, [{**cell, "id": ids[number] if ids else f"cell-{number}"}])
    return made


class TestRanges:
    @pytest.mark.parametrize(
        ("start", "end", "count", "expected"),
        [
            (0, 4, 1, [0, 1, 2, 3]),
            (1, 3, 1, [1, 2]),
            (3, 4, 1, [3]),
            (0, None, 1, [0]),
            (2, None, 2, [2, 3]),
            (-1, None, 1, [3]),
            (-2, 4, 1, [2, 3]),
            (0, -1, 1, [0, 1, 2]),
            (1, -2, 1, [1]),
        ],
    )
    def test_a_range_is_half_open_and_may_count_from_the_end(
        self, start: int, end: int | None, count: int, expected: list[int]
    ) -> None:
        assert targets(notebook(), start, end, None, count=count).indexes == expected

    @pytest.mark.parametrize(
        ("start", "end", "count"),
        [(0, 0, 1), (0, 5, 1), (2, 2, 1), (2, 1, 1), (3, None, 2), (0, -4, 1)],
    )
    def test_a_range_must_consist_of_existing_cells(
        self, start: int, end: int | None, count: int
    ) -> None:
        with pytest.raises(InvalidArgument, match="is not one of existing cells"):
            targets(notebook(), start, end, None, count=count)

    def test_a_range_without_a_count_is_one_cell(self) -> None:
        assert targets(notebook(), 1, None, None).indexes == [1]

    @pytest.mark.parametrize("start", [4, -5])
    def test_a_range_starts_at_an_existing_cell(self, start: int) -> None:
        with pytest.raises(CellNotFound):
            targets(notebook(), start, None, None)

    @pytest.mark.parametrize(("start", "cells"), [(None, None), (0, ["cell-0"])])
    def test_cells_are_named_either_by_id_or_by_range(
        self, start: int | None, cells: Sequence[CellRef] | None
    ) -> None:
        with pytest.raises(InvalidArgument, match="either by cell_ids or by start_index"):
            targets(notebook(), start, None, cells)

    def test_an_empty_list_of_cells_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="cell_ids is empty"):
            targets(notebook(), None, None, [])


class TestSeveralRanges:
    @pytest.mark.parametrize(
        ("ranges", "expected"),
        [
            ([(0, 2), (3, None)], [[0, 1], [3]]),
            ([(2, 4), (0, 1)], [[2, 3], [0]]),
            ([(-1, None), (0, -3)], [[3], [0]]),
        ],
    )
    def test_several_ranges_are_all_of_the_notebook_as_it_is(
        self, ranges: list[tuple[int, int | None]], expected: list[list[int]]
    ) -> None:
        assert [list(cells) for cells in in_ranges(notebook(), ranges)] == expected

    @pytest.mark.parametrize(
        "ranges",
        [[(0, 0)], [(2, 1)], [(0, 5)], [(4, None)], [(-5, None)], [(0, 2), (1, 3)], []],
    )
    def test_ranges_to_change_have_existing_cells_and_do_not_overlap(
        self, ranges: list[tuple[int, int | None]]
    ) -> None:
        with pytest.raises(InvalidArgument):
            in_ranges(notebook(), ranges)

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            (0, None, [0, 1, 2, 3]),
            (2, None, [2, 3]),
            (0, 0, []),
            (2, 2, []),
            (3, 9, [3]),
            (-2, None, [2, 3]),
        ],
    )
    def test_a_range_to_read_may_be_empty_or_exceed_the_notebook(
        self, start: int, end: int | None, expected: list[int]
    ) -> None:
        (found,) = in_ranges(notebook(), [(start, end)], reading=True)
        assert list(found) == expected

    @pytest.mark.parametrize(("start", "end"), [(2, 1), (4, None), (4, 5), (-5, None), (1, -4)])
    def test_a_range_to_read_is_not_turned_round_and_begins_at_a_cell(
        self, start: int, end: int | None
    ) -> None:
        with pytest.raises(InvalidArgument, match="is not one of existing cells"):
            in_ranges(notebook(), [(start, end)], reading=True)

    def test_a_cell_in_several_ranges_is_read_once(self) -> None:
        assert each_once([range(2, 4), range(0, 3), range(1, 4)], 5) == [2, 3, 0, 1]
        assert each_once([range(0)], 0) == []


class TestNames:
    @pytest.mark.parametrize(
        ("cell", "given", "expected"),
        [
            ("cell-2", None, (2, None)),
            ("cell-2", FIRST, (2, FIRST)),
            (f"cell-2@{FIRST}", None, (2, FIRST)),
            (f"cell-2@{FIRST}", FIRST, (2, FIRST)),
            (f"[7] cell-2@{FIRST}", f"r:{FIRST}", (2, FIRST)),
            (2, None, (2, None)),
            (-1, FIRST, (3, FIRST)),
            ("text:import", None, (0, None)),
            ("text:import", FIRST, (0, FIRST)),
        ],
    )
    def test_a_cell_is_found_with_the_expected_revision(
        self, cell: CellRef, given: str | None, expected: tuple[int, str | None]
    ) -> None:
        assert locate(notebook(), cell, given) == expected

    def test_two_different_revisions_are_refused(self) -> None:
        with pytest.raises(InvalidArgument, match=f"another revision than if_revision={SECOND}"):
            locate(notebook(), f"cell-0@{FIRST}", SECOND)

    def test_an_update_must_name_its_cell(self) -> None:
        with pytest.raises(InvalidArgument, match="does not say which cell"):
            locate(notebook(), None)

    @pytest.mark.parametrize("cell_id", [f"odd@{FIRST}", "text:import"])
    def test_an_id_that_looks_like_a_handle_or_text_is_still_an_id(self, cell_id: str) -> None:
        odd = notebook("import", "a", ids=["plain", cell_id])
        assert locate(odd, cell_id) == (1, None)
        assert targets(odd, None, None, [cell_id]) == Targets([1], [None])
        assert index_of(odd, cell_id) == 1

    def test_each_cell_can_have_its_own_revision(self) -> None:
        found = targets(notebook(), None, None, ["cell-3", 0], [FIRST, SECOND])
        assert found == Targets([3, 0], [FIRST, SECOND])
        assert found.expected_revisions(notebook()) == {"cell-3": FIRST, "cell-0": SECOND}

    def test_one_revision_is_enough_for_one_cell(self) -> None:
        found = targets(notebook(), None, None, ["cell-3"], FIRST)
        assert found == Targets([3], [FIRST])

    def test_cells_without_a_revision_are_not_guarded(self) -> None:
        found = targets(notebook(), None, None, ["cell-1", f"cell-2@{FIRST}"])
        assert found == Targets([1, 2], [None, FIRST])
        assert found.expected_revisions(notebook()) == {"cell-2": FIRST}

    @pytest.mark.parametrize("given", [FIRST, [FIRST], [FIRST] * 3, []])
    def test_the_number_of_revisions_must_match_the_number_of_cells(
        self, given: str | list[str]
    ) -> None:
        with pytest.raises(InvalidArgument, match="2 cells but"):
            targets(notebook(), None, None, ["cell-1", "cell-2"], given)


class TestWords:
    def test_a_cell_can_be_named_by_text_that_only_it_has(self) -> None:
        found = targets(notebook(), None, None, ["text:print(", "text:import", "cell-1"])
        assert found.indexes == [3, 0, 1]

    def test_text_that_several_cells_have_is_ambiguous(self) -> None:
        made = notebook(*(f"total = {number}" for number in range(7)))
        with pytest.raises(AmbiguousCell, match="7 cells have the text 'total'") as caught:
            targets(made, None, None, ["text:total"])
        assert caught.value.detail["candidates"] == [f"cell-{number}" for number in range(5)]
        handles = [f"[{n}] cell-{n}@{revision('code', f'total = {n}')}" for n in range(5)]
        assert f": {', '.join(handles)}." in caught.value.happened

    @pytest.mark.parametrize("words", ["text:nowhere", "text:"])
    def test_text_that_no_cell_has_is_refused(self, words: str) -> None:
        with pytest.raises(CellNotFound, match="No cell has the text"):
            locate(notebook(), words)
        with pytest.raises(CellNotFound, match="No cell has the text"):
            targets(notebook(), None, None, [words])

    def test_the_cells_with_each_text_are_found(self) -> None:
        assert with_texts(notebook(), ["total", "os", "zip"]) == {
            "total": [1, 2, 3],
            "os": [0],
            "zip": [],
        }
        assert with_texts(notebook(), []) == {}

    def test_at_most_twenty_texts_can_be_searched_at_once(self) -> None:
        texts = [f"text {number}" for number in range(21)]
        assert len(with_texts(notebook(), texts[:20])) == 20
        with pytest.raises(TooLarge, match="21 cells are named by their text; at most 20"):
            with_texts(notebook(), texts)

    def test_an_update_may_name_its_cell_by_the_text_it_replaces(self) -> None:
        cells = [None, "cell-1", None, "text:import", None]
        old = ["print", "nowhere", "total = 2", None, None]
        named = by_old_text(notebook(), cells, old)
        assert named == ["cell-3", "cell-1", "cell-2", "cell-0", None]

    def test_a_text_to_replace_that_no_cell_has_is_refused(self) -> None:
        with pytest.raises(TextMismatch, match="'nowhere' is in no cell") as caught:
            by_old_text(notebook(), [None], ["nowhere"])
        assert caught.value.detail["matches"] == 0

    def test_a_text_to_replace_that_several_cells_have_is_refused(self) -> None:
        with pytest.raises(AmbiguousCell, match="3 cells have the text 'total'"):
            by_old_text(notebook(), [None], ["total"])

    def test_an_error_quotes_only_the_beginning_of_a_long_text(self) -> None:
        words = "x" * 81
        with pytest.raises(CellNotFound) as nowhere:
            locate(notebook(), f"text:{words}")
        assert f"'{'x' * 80}'" in nowhere.value.happened
        with pytest.raises(TextMismatch) as mismatch:
            by_old_text(notebook(), [None], [words])
        assert f"'{'x' * 80}'" in mismatch.value.happened
        with pytest.raises(AmbiguousCell) as ambiguous:
            locate(notebook(words, words), f"text:{words}")
        assert f"'{'x' * 80}'" in ambiguous.value.happened
        handle = f"{words}@{FIRST}"
        with pytest.raises(InvalidArgument) as twice:
            locate(notebook("a", ids=[words]), handle, SECOND)
        assert f"'{'x' * 80}'" in twice.value.happened


class TestCode:
    MIXED = ("code", "markdown", "code", "raw")

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [(None, None, [0, 2]), (0, 2, [0]), (1, 4, [2]), (2, None, [2])],
    )
    def test_only_code_cells_are_run(
        self, start: int | None, end: int | None, expected: list[int]
    ) -> None:
        assert code_indexes(notebook(types=self.MIXED), start, end) == expected

    def test_all_code_cells_are_listed(self) -> None:
        assert code_cells(notebook(types=self.MIXED)) == ["cell-0", "cell-2"]

    def test_a_range_without_code_cells_is_refused_if_some_are_wanted(self) -> None:
        made = notebook(types=self.MIXED)
        with pytest.raises(NotCode):
            code_indexes(made, 3, 4)
        assert code_indexes(made, 3, 4, wanted=False) == []

    def test_an_end_needs_a_start(self) -> None:
        with pytest.raises(InvalidArgument, match="end_index is given without start_index"):
            code_indexes(notebook(), None, 2)


class TestPlaces:
    @pytest.mark.parametrize(
        ("position", "after", "expected"),
        [
            (0, None, 0),
            (4, None, 4),
            (-1, None, 4),
            (-5, None, 0),
            (None, "cell-0", 1),
            (None, 3, 4),
        ],
    )
    def test_cells_are_inserted_before_a_position_or_after_a_cell(
        self, position: int | None, after: CellRef | None, expected: int
    ) -> None:
        assert insertion_point(notebook(), position, after) == expected
        assert insertion_points(notebook(), 2, None, position, after) == [expected] * 2

    @pytest.mark.parametrize("position", [5, -6])
    def test_a_position_is_within_the_notebook(self, position: int) -> None:
        with pytest.raises(InvalidArgument, match=f"Position {position} is outside"):
            insertion_point(notebook(), position, None)

    def test_cells_are_appended_by_default(self) -> None:
        assert insertion_points(notebook(), 3, None, None, None) == [4, 4, 4]

    def test_each_cell_may_have_a_position(self) -> None:
        assert insertion_points(notebook(), 3, [0, -1, 2], None, None) == [0, 4, 2]

    @pytest.mark.parametrize("positions", [[0], [0, 1, 2], []])
    def test_the_number_of_positions_must_match_the_number_of_cells(
        self, positions: list[int]
    ) -> None:
        with pytest.raises(InvalidArgument, match="2 cells but"):
            insertion_points(notebook(), 2, positions, None, None)

    @pytest.mark.parametrize(
        ("positions", "start", "after"),
        [([0], 0, None), ([0], None, "cell-0"), (None, 0, "cell-0"), ([0], 0, "cell-0")],
    )
    def test_a_place_can_be_given_in_only_one_way(
        self, positions: list[int] | None, start: int | None, after: str | None
    ) -> None:
        with pytest.raises(InvalidArgument, match="More than one of positions"):
            insertion_points(notebook(), 1, positions, start, after)

    def test_the_cell_before_a_place_is_found(self) -> None:
        assert cell_before(notebook(), 0) is None
        assert cell_before(notebook(), 1) == "cell-0"
        assert cell_before(notebook(), 3) == "cell-2"
