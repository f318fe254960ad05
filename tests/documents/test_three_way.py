"""Merging what two sides made of the same content."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.content import NotebookContent, TextContent
from jupyter_collaboration_mcp.documents.three_way import Merged, merge
from tests.harness.examples import examples

WORDS = st.sampled_from(["a", "b", "é😀", "x = 1\ny = 2", ""])


def cell(cell_id: str, source: str, **more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"outputs": [], "execution_count": None, "metadata": {}}
    return {"id": cell_id, "cell_type": "code", "source": source, **plain, **more}


def notebook(*cells: dict[str, Any]) -> NotebookContent:
    return NotebookContent(cells)


def text(lines: list[str]) -> TextContent:
    return TextContent("".join(lines))


def sources(merged: Merged) -> dict[str, str]:
    assert isinstance(merged.content, NotebookContent)
    return {each["id"]: each["source"] for each in merged.content.cells}


def order(merged: Merged) -> str:
    return "".join(sources(merged))


def ordered(letters: str) -> NotebookContent:
    return notebook(*(cell(letter, letter) for letter in letters))


@st.composite
def sides(draw: st.DrawFn) -> tuple[NotebookContent, NotebookContent, NotebookContent]:
    """A notebook, and what two sides have made of it."""
    base = [cell(f"c{number}", draw(WORDS)) for number in range(draw(st.integers(0, 6)))]

    def edited(side: str) -> NotebookContent:
        cells = []
        for each in draw(st.permutations(base)) if draw(st.booleans()) else base:
            match draw(st.sampled_from(["keep", "keep", "edit", "delete", "add"])):
                case "edit":
                    cells.append({**each, "source": f"{side} {draw(WORDS)}"})
                case "add":
                    cells += [each, cell(f"{side}{len(cells)}", side)]
                case "keep":
                    cells.append(each)
        return notebook(*cells)

    return notebook(*base), edited("fork"), edited("document")


@given(sides())
@examples(300, 2000)
def test_every_cell_of_a_merge_says_what_one_side_says(
    three: tuple[NotebookContent, NotebookContent, NotebookContent],
) -> None:
    base, fork, document = three
    merged = merge(base, fork, document)
    said = sources(merged)
    assert isinstance(merged.content, NotebookContent)
    assert len(said) == len(merged.content.cells)
    conflicts = {each.cell_id for each in merged.conflicts}
    was, ours, theirs = (
        {each["id"]: each["source"] for each in side.cells} for side in (base, fork, document)
    )
    for cell_id in {**was, **ours, **theirs}:
        before, new, now = was.get(cell_id), ours.get(cell_id), theirs.get(cell_id)
        both = new != before and now != before and new != now
        assert (cell_id in conflicts) == both
        wanted = now if both or new == before else new
        assert said.get(cell_id) == wanted


@given(sides())
@examples(300, 2000)
def test_a_side_that_changed_nothing_yields_to_the_other(
    three: tuple[NotebookContent, NotebookContent, NotebookContent],
) -> None:
    base, fork, document = three
    taken = merge(base, fork, base)
    assert (taken.content, taken.conflicts) == (NotebookContent(list(fork.cells)), [])
    kept = merge(base, base, document)
    assert (kept.content, kept.deeds) == (NotebookContent(list(document.cells)), [])


LINES = st.lists(st.sampled_from(["a\n", "b\n", "é\n", "\n"]), max_size=8)


@given(LINES, LINES, LINES)
@examples(300, 2000)
def test_merged_lines_are_those_of_a_side(
    base: list[str], ours: list[str], theirs: list[str]
) -> None:
    merged = merge(text(base), text(ours), text(theirs))
    assert isinstance(merged.content, TextContent)
    allowed = {*base, *ours, *theirs}
    assert set(merged.content.text.splitlines(keepends=True)) <= allowed
    if ours == base:
        assert merged.content.text == "".join(theirs)
    if theirs == base:
        assert merged.content.text == "".join(ours)


@given(LINES, st.lists(st.just("fork\n"), max_size=3), st.lists(st.just("doc\n"), max_size=3))
@examples(100, 500)
def test_disjoint_changes_of_a_text_are_both_in_it(
    middle: list[str], ours: list[str], theirs: list[str]
) -> None:
    kept = ["start\n", *middle, "end\n"]
    fork, document = [*ours, *kept], [*kept, *theirs]
    merged = merge(text(kept), text(fork), text(document))
    assert not merged.conflicts
    assert merged.content == TextContent("".join([*ours, *kept, *theirs]))


def test_moves_of_both_sides_are_kept() -> None:
    merged = merge(ordered("abcdef"), ordered("bacdef"), ordered("abcdfe"))
    assert order(merged) == "bacdfe"


def test_parts_of_a_cell_that_only_one_side_changed_are_merged() -> None:
    base = notebook(cell("a", "x", metadata={"tags": ["one"]}))
    fork = notebook(cell("a", "y", metadata={"tags": ["one"]}))
    document = notebook(cell("a", "x", metadata={"tags": ["two"]}))
    merged = merge(base, fork, document)
    assert not merged.conflicts
    assert isinstance(merged.content, NotebookContent)
    assert merged.content.cells[0]["source"] == "y"
    assert merged.content.cells[0]["metadata"] == {"tags": ["two"]}


def test_outputs_follow_the_source_that_they_belong_to() -> None:
    printed = {"outputs": [{"output_type": "stream", "text": "1"}], "execution_count": 1}
    base = notebook(cell("a", "x"), cell("b", "x"), cell("c", "x"))
    fork = notebook(cell("a", "y", **printed), cell("b", "x", **printed), cell("c", "x", **printed))
    document = notebook(cell("a", "x"), cell("b", "z"), cell("c", "x"))
    merged = merge(base, fork, document)
    assert isinstance(merged.content, NotebookContent)
    assert [bool(each["outputs"]) for each in merged.content.cells] == [True, False, True]


def test_where_the_base_is_not_known_whatever_differs_is_a_conflict() -> None:
    fork = notebook(cell("a", "same"), cell("b", "fork"), cell("c", "new"))
    document = notebook(cell("a", "same"), cell("b", "doc"), cell("d", "kept"))
    merged = merge(None, fork, document)
    assert [each.cell_id for each in merged.conflicts] == ["b"]
    assert set(sources(merged)) == {"a", "b", "c", "d"}
    assert sources(merge(None, fork, document, "fork"))["b"] == "fork"


def test_of_texts_of_which_nobody_knows_what_they_were_the_preferred_one_stays() -> None:
    fork, document = TextContent("f"), TextContent("d")
    assert merge(None, fork, document, "fork").content == fork
    assert merge(None, fork, document, "document").content == document
    assert merge(None, fork, document).conflicts
    assert not merge(None, fork, fork).conflicts
