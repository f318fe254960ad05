"""Notebooks as `.src.md`: whatever the cells say, they come back, and so does the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents import srcmd
from jupyter_collaboration_mcp.documents.cell_view import CellView
from jupyter_collaboration_mcp.errors import InvalidArgument
from tests.harness.examples import examples


def views(cells: Sequence[Mapping[str, Any]]) -> list[CellView]:
    """Cells of nbformat, as a notebook shows them."""
    return [
        CellView(
            index=index,
            id=f"cell-{index}",
            short_id=f"cell-{index}",
            cell_type=cell["cell_type"],
            revision="",
            source=cell["source"],
            execution_count=None,
            execution_state=None,
            outputs=[],
            metadata=dict(cell.get("metadata") or {}),
        )
        for index, cell in enumerate(cells)
    ]


def cell(cell_type: str, source: str, **metadata: Any) -> dict[str, Any]:
    return {"cell_type": cell_type, "source": source, "metadata": metadata}


#: Lines that are something in Markdown, or in this form of it.
LINES = st.sampled_from(
    (
        "# Title",
        "# Title <!-- title -->",
        "## Part",
        "###### cell-1.py",
        "###### a.py",
        "######",
        "```",
        "```python",
        "````",
        "~~~",
        "<!-- cell -->",
        "<!-- /cell -->",
        "<!-- /cell-2 -->",
        "<!-- cell:markdown -->",
        "<!-- cell-2:raw x -->",
        '<!-- srcbook:{"language":"python"} -->',
        "",
        " ",
        "\t",
        "text `code` é😀",
        "x = '```'",
        "\r",
        "a\u2028b",
        "---",
        "\\",
    )
)
texts = st.lists(LINES | st.text(max_size=8), max_size=8).map("\n".join)
names = st.none() | st.sampled_from(
    ("a.py", "cell-1.py", "x.json", "é b.js", " x ", "", "a-->b", 1)
)
cells = st.builds(
    lambda kind, source, name: cell(kind, source, **({} if name is None else {"name": name})),
    st.sampled_from(("markdown", "code", "markdown", "code", "raw")),
    texts,
    names,
)


def essence(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(each["cell_type"], each["source"]) for each in cells]


@examples(400, 3000)
@given(st.lists(cells, max_size=6), st.sampled_from(("python", "R", "c++", "odd -->`")), texts)
def test_cells_survive_export_and_import_and_so_do_the_bytes(
    cells: list[dict[str, Any]], language: str, title: str
) -> None:
    text = srcmd.export(views(cells), language=language, title=title)
    assert srcmd.is_srcmd(text)
    notebook = srcmd.parse(text)
    assert essence(notebook["cells"]) == essence(cells)
    assert notebook["metadata"]["language_info"]["name"] == language
    again = srcmd.export(views(notebook["cells"]), language=language, title=title)
    assert again == text


def test_a_plain_notebook_is_plain_to_read() -> None:
    book = [
        cell("markdown", "# Sales\n\nBy *region*."),
        cell("code", "import csv\n\nprint('`')"),
        cell("markdown", "## Result"),
        cell("markdown", "Another one."),
        cell("code", "", name="plot.py"),
    ]
    assert srcmd.export(views(book), language="python", title="unused") == (
        '<!-- srcbook:{"language":"python"} -->\n\n'
        "# Sales\n\nBy *region*.\n\n"
        "###### cell-2.py\n\n```python\nimport csv\n\nprint('`')\n```\n\n"
        "## Result\n\n<!-- cell -->\n\nAnother one.\n\n"
        "###### plot.py\n\n```python\n```\n"
    )


def test_a_notebook_without_a_heading_gets_one_that_is_no_cell() -> None:
    text = srcmd.export(views([cell("code", "1")]), language="python", title="my\nbook")
    assert text.split("\n")[2] == "# my book <!-- title -->"
    assert essence(srcmd.parse(text)["cells"]) == [("code", "1")]


SRCBOOK = """<!-- srcbook:{"language":"javascript"} -->

# Tree of Thought

###### package.json

```json
{"type": "module"}
```

## Problem

What is it?

###### tree-node.js

```javascript
class TreeNode {
  // ``
}
```

###### Not code, only small
"""


@pytest.mark.parametrize("text", [SRCBOOK, SRCBOOK.replace("\n", "\r\n"), "\ufeff\n" + SRCBOOK])
def test_a_file_of_srcbook_is_imported(text: str) -> None:
    notebook = srcmd.parse(text)
    assert essence(notebook["cells"]) == [
        ("markdown", "# Tree of Thought"),
        ("raw", '{"type": "module"}'),
        ("markdown", "## Problem\n\nWhat is it?"),
        ("code", "class TreeNode {\n  // ``\n}"),
        ("markdown", "###### Not code, only small"),
    ]
    assert notebook["cells"][3]["metadata"]["name"] == "tree-node.js"
    assert notebook["metadata"]["language_info"]["name"] == "javascript"
    nbformat.validate(notebook)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- srcbook:{} -->", "names no language"),
        ("<!-- srcbook:{oops} -->", "names no language"),
        ("<!-- srcbook:[1] -->", "names no language"),
        ('<!-- srcbook:{"language":"python"} --> text', "names no language"),
        ('<!-- srcbook:{"language":"python"} -->\n\n###### a.py\n```\n1', "line 4 has no end"),
        ('<!-- srcbook:{"language":"python"} -->\n<!-- cell:raw -->\n1', "line 2 has no end"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        srcmd.parse(text)


@pytest.mark.parametrize(
    ("cells", "title"),
    [
        ([cell("markdown", "text\n\n## The *one* ##\n# Two")], "The *one*"),
        ([cell("code", "# comment"), cell("markdown", "# Later")], "Later"),
        ([cell("markdown", "no heading")], "book"),
        ([], "book"),
        ([cell("markdown", "#hash")], "book"),
    ],
)
def test_a_notebook_is_called_by_its_first_heading(cells: list[dict[str, Any]], title: str) -> None:
    assert srcmd.title_of(views(cells), "folder/book.ipynb") == title
