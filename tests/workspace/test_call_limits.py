"""One call may change so much and no more."""

from __future__ import annotations

import pytest

from jupyter_collaboration_mcp.errors import InvalidArgument, TooLarge
from jupyter_collaboration_mcp.workspace.call_limits import (
    Limits,
    check_cell_type,
    check_contents,
    check_count,
    check_source,
)

LIMITS = Limits(cells_per_call=3, source_length=10)


def test_a_call_changes_a_thousand_cells_and_four_million_characters_by_default() -> None:
    assert Limits() == Limits(cells_per_call=1_000, source_length=4_000_000)


def test_the_number_of_cells_is_limited() -> None:
    check_count(LIMITS, 3)
    with pytest.raises(TooLarge, match="4 cells in one call; at most 3 are allowed") as caught:
        check_count(LIMITS, 4, "Name fewer.")
    assert caught.value.next_step == "Name fewer."


def test_the_length_of_a_source_is_limited() -> None:
    check_source(LIMITS, "x" * 10)
    with pytest.raises(TooLarge, match="11 characters of source; at most 10"):
        check_source(LIMITS, "x" * 11)


def test_the_contents_of_a_call_are_limited_together() -> None:
    check_contents(LIMITS, ["x" * 5, "", "x" * 5], "updates")
    with pytest.raises(TooLarge, match="11 characters of source"):
        check_contents(LIMITS, ["x" * 5, "x" * 6], "updates")
    with pytest.raises(TooLarge, match="4 cells in one call"):
        check_contents(LIMITS, [""] * 4, "updates")


def test_empty_contents_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="updates is empty; nothing was changed"):
        check_contents(LIMITS, [], "updates")


def test_contents_that_no_document_can_hold_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="half of a surrogate pair"):
        check_contents(LIMITS, ["x", "\ud800"], "cells")


@pytest.mark.parametrize("cell_type", ["code", "markdown", "raw"])
def test_a_cell_has_one_of_three_types(cell_type: str) -> None:
    check_cell_type(cell_type)


@pytest.mark.parametrize("cell_type", ["", "Code", "heading"])
def test_another_cell_type_is_refused(cell_type: str) -> None:
    with pytest.raises(InvalidArgument, match="There is no cell type"):
        check_cell_type(cell_type)
