"""How two contents of a document differ, as an agent reads it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.content import (
    NotebookContent,
    TextContent,
    longest_ascending,
)
from jupyter_collaboration_mcp.documents.content_diff import compare
from tests.harness.examples import examples


def cell(cell_id: str, source: str = "", **more: Any) -> dict[str, Any]:
    return {"id": cell_id, "cell_type": "code", "source": source, "metadata": {}, **more}


def texts(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    return [each.text() for each in compare(NotebookContent(before), NotebookContent(after))]


def test_what_is_only_on_one_side_stands_beside_its_neighbour() -> None:
    found = compare(
        NotebookContent([cell("a"), cell("gone", "x\ny"), cell("b")]),
        NotebookContent([cell("a"), cell("b"), cell("new", "z")]),
    )
    assert [(each.cell_id, each.kinds, each.index) for each in found] == [
        ("gone", ("deleted",), None),
        ("new", ("added",), 2),
    ]
    assert [each.text() for each in found] == [
        "gone: deleted\n```\n-x\n-y\n```",
        "[2] new: added\n```\n+z\n```",
    ]


def test_as_few_cells_as_possible_count_as_moved() -> None:
    ids = ["a", "b", "c", "d"]
    found = compare(
        NotebookContent([cell(each) for each in ids]),
        NotebookContent([cell(each) for each in ("d", "a", "b", "c")]),
    )
    assert [(each.cell_id, each.kinds) for each in found] == [("d", ("moved",))]


def test_type_metadata_and_outputs_take_a_line_each() -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "hi"}
    before = cell("a", "x", outputs=[output], execution_count=2.0)
    after = {**cell("a", "x"), "cell_type": "markdown", "metadata": {"tags": ["t"]}}
    assert texts([before], [after]) == [
        "[0] a markdown: type, metadata, outputs\n"
        "type: code -> markdown\nmetadata: tags\noutputs: 1 output (text) In[2] -> none"
    ]


def test_when_a_cell_was_run_and_whether_it_is_trusted_is_no_difference() -> None:
    before = cell("a", "x", metadata={"trusted": True, "execution": {"x": 1}})
    assert texts([before], [cell("a", "x")]) == []


def test_only_chosen_cells_are_compared() -> None:
    before = NotebookContent([cell("a", "1"), cell("b", "1")])
    after = NotebookContent([cell("a", "2"), cell("b", "2")])
    assert [each.cell_id for each in compare(before, after, ["b"])] == ["b"]


def test_a_text_is_one_part() -> None:
    (found,) = compare(TextContent("a\nb\n"), TextContent("a\nc\n"))
    assert found.text() == "text:\n```\n@@ -1,3 +1,3 @@\n a\n-b\n+c\n \n```"
    assert compare(TextContent("a"), TextContent("a")) == []


@examples(100, 500)
@given(st.permutations("abcdefg"))
def test_the_longest_ascending_row_is_ascending_and_none_is_longer(order: list[str]) -> None:
    index = {cell_id: place for place, cell_id in enumerate("abcdefg")}
    kept = longest_ascending(order, index)
    row = [each for each in order if each in kept]
    assert row == sorted(row)
    longest = [1] * len(order)
    for at, one in enumerate(order):
        longest[at] = 1 + max((longest[n] for n in range(at) if order[n] < one), default=0)
    assert len(row) == max(longest)
