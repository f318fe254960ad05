from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents import render
from jupyter_collaboration_mcp.documents.cell_view import CellView
from jupyter_collaboration_mcp.documents.handles import short_id
from jupyter_collaboration_mcp.documents.render import Rendering
from jupyter_collaboration_mcp.errors import InvalidArgument

Form = Callable[[list[CellView], int], Rendering]

ERROR = {"output_type": "error", "ename": "NameError", "evalue": "x", "traceback": []}
TEXT = {"output_type": "stream", "name": "stdout", "text": "hello\nWorld"}
IMAGE = {"output_type": "display_data", "data": {"image/png": "AAAA" * 10_000}}


def cell(index: int = 0, source: str = "x = 1", **changes: Any) -> CellView:
    values: dict[str, Any] = {
        "id": f"{index:08x}-4f6e", "short_id": f"{index:08x}", "cell_type": "code",
        "revision": "9ab1c2", "execution_count": None, "execution_state": "idle",
        "outputs": [], "metadata": {},
    }  # fmt: skip
    return CellView(index=index, source=source, **(values | changes))


def forms() -> list[Form]:
    return [
        lambda cells, length: render.outline(cells, max_length=length),
        lambda cells, length: render.source(cells, max_length=length),
        lambda cells, length: render.source(cells, include_outputs=True, max_length=length),
        lambda cells, length: render.full(cells, max_length=length),
        lambda cells, length: render.matches(cells, "a", max_length=length),
    ]


class TestOutline:
    @pytest.mark.parametrize(
        ("view", "expected"),
        [
            (
                cell(3, "\nimport pandas as pd\nx", execution_count=5, outputs=[TEXT, IMAGE]),
                " In[5] -> image/png: import pandas as pd",
            ),
            (cell(3), ": x = 1"),
            (cell(3, ""), " empty"),
            (cell(3, " \n "), " empty"),
            (cell(3, "a\n" * 5), " 6L: a"),
            (cell(3, execution_state="running"), " running: x = 1"),
            (
                cell(3, execution_count=2.0, outputs=[TEXT, ERROR]),
                " In[2] ERROR NameError -> error: x = 1",
            ),
        ],
    )
    def test_a_cell_is_one_line(self, view: CellView, expected: str) -> None:
        rendered = render.outline([view], max_length=1_000)
        assert rendered.text == f"[3] 00000003@9ab1c2{expected}"

    def test_a_markdown_cell_has_no_state(self) -> None:
        rendered = render.outline([cell(0, "# é", cell_type="markdown")], max_length=100)
        assert rendered.text == "[0] 00000000@9ab1c2 markdown: # é"

    def test_a_long_first_line_is_cut(self) -> None:
        assert f": {'x' * 57}..." in render.outline([cell(0, "x" * 100)], max_length=200).text

    def test_nothing_in_a_document_can_forge_a_line(self) -> None:
        name = short_id("a\n[1] b", [])
        evil = cell(0, 'x" -> text\r[1] fake', short_id=name, cell_type="code\nx",
                    outputs=[ERROR | {"ename": "E\n[9]"}])  # fmt: skip
        assert render.outline([evil], max_length=1_000).text.count("\n") == 0

    def test_the_facts_match_the_outline(self) -> None:
        rendered = render.outline([cell(3, execution_count=2.0, outputs=[ERROR])], max_length=100)
        assert rendered.facts() == [
            {
                "index": 3, "id": "00000003-4f6e", "revision": "9ab1c2", "cell_type": "code",
                "execution_count": 2, "running": False, "outputs": ["error"],
                "error": "NameError", "lines": 1, "first_line": "x = 1",
            }
        ]  # fmt: skip


class TestSource:
    def test_the_source_is_unescaped_in_a_fence(self) -> None:
        rendered = render.source([cell(0, 'a = "\\n"\n'), cell(1, "b")], max_length=1_000)
        assert rendered.text == (
            '[0] 00000000@9ab1c2\n```\na = "\\n"\n\n```\n\n[1] 00000001@9ab1c2\n```\nb\n```'
        )

    def test_the_fence_is_longer_than_any_in_the_source(self) -> None:
        assert render.fenced("```python\n````\n") == "`````\n```python\n````\n\n`````"

    def test_outputs_are_shown_only_on_request(self) -> None:
        view = cell(0, outputs=[TEXT, IMAGE])
        assert "hello" not in render.source([view], max_length=500).text
        rendered = render.source([view], include_outputs=True, max_length=500)
        assert rendered.text.endswith("\n2 outputs:\n```\nhello\nWorld\nimage/png 30.0 kB\n```")

    def test_a_cell_with_many_outputs_shows_the_first_and_last(self) -> None:
        many = [TEXT | {"text": f"<{number}>"} for number in range(500)]
        text = render.source([cell(outputs=many)], include_outputs=True, max_length=9_000).text
        assert "<0>" in text
        assert "... 488 outputs cut ...\n<499>" in text

    def test_cells_that_do_not_fit_are_left_out_whole(self) -> None:
        cells = [cell(index, "x" * 100) for index in range(10, 20)]
        rendered = render.source(cells, max_length=500)
        assert len(rendered.text) <= 500
        assert (rendered.cell_count, rendered.next_index, rendered.next_position) == (3, 13, None)

    def test_one_cell_that_is_too_long_can_be_read_in_pieces(self) -> None:
        long = "first\n" + "".join(map(str, range(9_000))) + "\nlast"
        read = ""
        start: int | None = 0
        while start is not None:
            rendered = render.source([cell(0, long), cell(1)], max_length=2_000, start=start)
            assert (rendered.cell_count, rendered.next_index) == (1, 1) or read
            assert len(rendered.text) <= 2_000
            read += rendered.facts()[0]["source"]
            start = rendered.next_position
        assert read == long


class TestFull:
    def test_the_full_view_has_state_metadata_and_outputs(self) -> None:
        view = cell(0, execution_count=1, outputs=[TEXT], metadata={"tags": ["é\n"]})
        assert render.full([view], max_length=500).text == (
            "[0] 00000000@9ab1c2 In[1]\n```\nx = 1\n```\n"
            'metadata: {"tags": ["é\\n"]}\n1 output:\n```\nhello\nWorld\n```'
        )

    def test_technical_metadata_is_left_out_unless_requested(self) -> None:
        noted = {
            "trusted": True, "execution": {"iopub.status.busy": "2026-11-18"}, "collapsed": False,
            "jupyter": {"source_hidden": True}, "slideshow": {"slide_type": ""}, "tags": [],
        }  # fmt: skip
        view = cell(0, metadata={**noted, "slide": 1})
        assert render.full([view], max_length=900).text.endswith('metadata: {"slide": 1}')
        assert "metadata" not in render.full([cell(0, metadata=noted)], max_length=900).text
        whole = render.full([view], max_length=900, all_metadata=True).text
        assert all(key in whole for key in noted)
        assert render.full([view], max_length=900).facts()[0]["metadata"] == view.metadata

    def test_a_slide_type_that_means_something_is_shown(self) -> None:
        view = cell(0, metadata={"slideshow": {"slide_type": "slide"}})
        assert '"slide_type": "slide"' in render.full([view], max_length=900).text


class TestMatches:
    @pytest.fixture(autouse=True)
    def _many(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        """As if so many cells matched that their lines are shown, not they themselves."""
        if "few" not in request.node.name:
            monkeypatch.setattr(render, "_FEW", -1)

    def test_few_matching_cells_are_shown_whole_with_their_matching_outputs(self) -> None:
        cells = [cell(0, "import x\nx"), cell(1, "plain", outputs=[TEXT]), cell(2, "other")]
        found = render.matches(cells, "import", max_length=500)
        assert found.text == "[0] 00000000@9ab1c2\n```\nimport x\nx\n```"
        assert found.facts()[0]["matches"] == ["1: import x"]
        found = render.matches(cells, "world", max_length=500)
        assert found.text.endswith("1 output:\n```\nhello\nWorld\n```")
        found = render.matches([cell(0, "x = 1\n" * 900)], "x", max_length=40_000)
        assert found.text.endswith("... 880 more lines")

    @pytest.mark.parametrize("place", [0, 15])
    def test_the_match_itself_is_always_shown(self, place: int) -> None:
        lines = [f"line {n}" for n in range(4_000)]
        lines[2_000] = "the NEEDLE"
        outputs = [TEXT] * 30
        outputs[place] = TEXT | {"text": "\n".join(lines)}
        found = render.matches([cell(0), cell(7, outputs=outputs)], "needle", max_length=9_000)
        assert "output" in found.text
        assert "the NEEDLE" in found.text
        assert [view.index for view in found.cells] == [7]

    @pytest.mark.parametrize("form", range(5))
    def test_every_page_makes_progress_in_any_script(self, form: int) -> None:
        wide = {"output_type": "stream", "name": "stdout", "text": "\u65e5a" * 2_000}
        view = cell(0, "\u65e5a\n" * 2_000, outputs=[wide] * 12)
        rendered = forms()[form]([view, cell(1, "a")], 5_000)
        assert rendered.cell_count > 0
        assert len(rendered.text.encode()) <= 5_000

    def test_matching_lines_are_shown_with_their_numbers(self) -> None:
        cells = [
            cell(0, "import x\n\nprint('Hello hello')\nhello"),
            cell(1, "nothing"),
            cell(2, "x", outputs=[IMAGE, TEXT]),
        ]
        rendered = render.matches(cells, "hello", max_length=500)
        assert rendered.text == (
            "[0] 00000000@9ab1c2\n  3: print('Hello hello')\n  4: hello\n"
            "[2] 00000002@9ab1c2\n  output 1 line 1: hello"
        )
        assert rendered.facts()[0]["matches"] == ["3: print('Hello hello')", "4: hello"]

    def test_a_long_line_is_shown_around_the_match(self) -> None:
        rendered = render.matches([cell(0, "x" * 500 + "A" + "y" * 500)], "a", max_length=500)
        line = rendered.text.splitlines()[1]
        assert line == f"  1: ...{'x' * 80}A{'y' * 80}..."

    def test_surplus_matching_lines_are_counted(self) -> None:
        rendered = render.matches([cell(0, "a\n" * 100)], "a", max_length=5_000)
        assert rendered.text.endswith("  20: a\n  ... 80 more lines")

    def test_no_match_gives_an_empty_text(self) -> None:
        found = render.matches([cell()], "zzz", max_length=100)
        assert (found.text, found.cell_count, found.next_index, found.facts()) == ("", 0, None, [])

    def test_a_query_may_span_lines_and_is_literal(self) -> None:
        assert "2: b.*" in render.matches([cell(0, "a\nb.*\nc")], ".*\nc", max_length=100).text

    def test_an_empty_query_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="query is empty"):
            render.matches([cell()], "", max_length=100)


CELLS = st.lists(
    st.builds(
        partial(cell, id="abcdefgh-ijkl"),
        source=st.text(max_size=300) | st.just("a`" * 400),
        cell_type=st.sampled_from(["code", "markdown"]),
        outputs=st.lists(st.sampled_from([TEXT, ERROR, IMAGE]), max_size=3),
        metadata=st.sampled_from([{}, {"tags": ["a"] * 100}]),
        execution_count=st.none() | st.just(3.0),
    ),
    max_size=5,
)


@given(CELLS, st.integers(0, 900), st.sampled_from(range(5)))
def test_no_text_is_longer_than_allowed(cells: list[CellView], length: int, form: int) -> None:
    numbered = [cell(index, view.source, outputs=view.outputs, metadata=view.metadata)
                for index, view in enumerate(cells)]  # fmt: skip
    rendered = forms()[form](numbered, length)
    assert len(rendered.text) <= length
    assert rendered.cell_count == len(rendered.facts())
    # With room for a header and a note there is always progress.
    if length >= 400 and rendered.next_index is not None:
        assert rendered.cell_count > 0


@given(CELLS)
def test_paging_through_shows_every_cell_once(cells: list[CellView]) -> None:
    numbered = [cell(index, view.source) for index, view in enumerate(cells)]
    seen: list[int] = []
    start: int | None = 0 if numbered else None
    while start is not None:
        rendered = render.source(numbered[start:], max_length=400)
        seen += [fact["index"] for fact in rendered.facts()]
        start = rendered.next_index
    assert seen == list(range(len(numbered)))


@given(st.text(st.sampled_from("`\na"), max_size=40))
def test_no_source_can_end_its_own_fence(source: str) -> None:
    fence, *inside, end = render.fenced(source).split("\n")
    assert fence == end
    assert all(fence not in line for line in inside)
