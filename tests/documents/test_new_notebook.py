"""Notebooks that are not there yet: from nothing, from JSON, from code, from another one."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest

from jupyter_collaboration_mcp.documents.new_notebook import (
    for_kernel,
    from_template,
    new_notebook,
)
from jupyter_collaboration_mcp.errors import InvalidArgument
from tests.harness import notebooks

PYTHON = {"name": "python3", "display_name": "Python 3", "language": "python"}
R = {"name": "ir", "display_name": "R", "language": "R"}


def given(**more: Any) -> str:
    cells = [notebooks.code("one", "1 + 1")]
    return json.dumps({**notebooks.notebook(cells), **more})


def test_a_new_notebook_is_valid_and_empty() -> None:
    notebook = new_notebook()
    nbformat.validate(notebook)
    assert notebook["cells"] == []


def test_code_becomes_the_first_cell_with_a_unique_id() -> None:
    first, second = new_notebook("x = 1\n"), new_notebook("x = 1\n")
    nbformat.validate(first)
    assert [cell["source"] for cell in first["cells"]] == ["x = 1\n"]
    assert first["cells"][0]["cell_type"] == "code"
    assert first["cells"][0]["id"] != second["cells"][0]["id"]


@pytest.mark.parametrize("code", ["", '{"a": 1}', "{'nbformat': 4}", "[1]", "null", "{nbformat"])
def test_text_that_only_resembles_a_notebook_is_code(code: str) -> None:
    assert [cell["source"] for cell in new_notebook(code)["cells"]] == [code]


def test_a_notebook_given_as_json_keeps_its_content() -> None:
    content = given(metadata={"kernelspec": R, "mine": {"ä": 1}})
    notebook = new_notebook(f"\n  {content}\n")
    assert [cell["id"] for cell in notebook["cells"]] == ["one"]
    assert notebook["metadata"] == {"kernelspec": R, "mine": {"ä": 1}}


def test_an_older_notebook_is_upgraded() -> None:
    cell = {"cell_type": "code", "input": "y", "language": "python", "outputs": [], "metadata": {}}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": "old"}}
    old["worksheets"] = [{"cells": [cell], "metadata": {}}]
    notebook = new_notebook(json.dumps(old))
    assert notebook["nbformat"] == 4
    assert [cell["source"] for cell in notebook["cells"]] == ["y"]


def test_missing_and_duplicate_ids_are_replaced() -> None:
    cell = notebooks.code("twice", "x")
    nameless = {key: value for key, value in cell.items() if key != "id"}
    notebook = new_notebook(json.dumps(notebooks.notebook([cell, cell, nameless])))
    ids = [cell["id"] for cell in notebook["cells"]]
    assert ids[0] == "twice"
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"nbformat": 4, "cells": [', "Expecting value"),
        ('{"nbformat": 4}', "missing an expected key"),
        ('{"nbformat": "4", "cells": []}', "Unsupported nbformat version"),
        ('{"nbformat":' * 100_000, "recursion|Stack overflow"),
        (given(nbformat=7), "Unsupported nbformat version 7"),
        (given(cells=[{"cell_type": "poem", "source": "", "metadata": {}}]), "poem"),
        (given(cells=[notebooks.code("one", 7)]), "7"),  # type: ignore[arg-type]
        (given(metadata={"x": float("nan")}), "NaN is not JSON"),
        (given(cells=[notebooks.code("one", "\ud800")]), "surrogate"),
    ],
)
def test_an_invalid_notebook_is_refused(content: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as refused:
        new_notebook(content)
    assert len(refused.value.happened) < 500


def test_a_copy_of_a_template_has_no_outputs_and_the_template_is_unchanged() -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "old\n"}
    run = notebooks.code("one", "1", outputs=[output], execution_count=3)
    run["metadata"] = {"execution": {"shell.execute_reply": "then"}, "tags": ["keep"]}
    text = notebooks.markdown("two", "# Title", attachments={"a.png": {"image/png": "x"}})
    metadata = {"kernelspec": R, "widgets": {"application/vnd.jupyter.widget-state+json": {}}}
    template = notebooks.notebook([run, text], metadata=metadata)
    before = json.dumps(template)
    made = from_template(template)
    assert json.dumps(template) == before
    assert made["cells"][0] == {
        **notebooks.code("one", "1"),
        "metadata": {"tags": ["keep"]},
    }
    assert made["cells"][1] == text
    assert made["metadata"] == {"kernelspec": R}


def test_a_notebook_without_a_kernel_gets_the_default_one() -> None:
    notebook = new_notebook()
    for_kernel(notebook, PYTHON, chosen=False)
    assert notebook["metadata"] == {"kernelspec": PYTHON}


def test_a_notebook_keeps_its_kernel_unless_another_one_is_chosen() -> None:
    metadata = {"kernelspec": R, "language_info": {"name": "R", "version": "4"}}
    notebook = new_notebook(given(metadata=metadata))
    for_kernel(notebook, PYTHON, chosen=False)
    assert notebook["metadata"] == metadata
    for_kernel(notebook, {**R, "name": "other"}, chosen=True)
    assert notebook["metadata"]["language_info"] == metadata["language_info"]
    for_kernel(notebook, PYTHON, chosen=True)
    assert notebook["metadata"] == {"kernelspec": PYTHON}


def test_a_server_without_kernels_can_have_notebooks() -> None:
    notebook = new_notebook()
    for_kernel(notebook, {}, chosen=False)
    nbformat.validate(notebook)
    assert notebook["metadata"] == {}


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        ("x = 1\n", [("code", "x = 1\n")]),
        ("", [("code", "")]),
        ("# %%\nx = 1\n\n# %% a title\ny\n", [("code", "x = 1"), ("code", "# a title\ny")]),
        ("x\n# %%time\ny", [("code", "x\n# %%time\ny")]),
        (
            "# %% [markdown]\n# Title\n\ntext\n## Section",
            [("markdown", "# Title\n\ntext\n## Section")],
        ),
        (
            "import a\n# %% [markdown]\n# # Title\n#\n# text\n# %%\nx",
            [("code", "import a"), ("markdown", "# Title\n\ntext"), ("code", "x")],
        ),
        ("# %% [markdown]\nplain\n# %%", [("markdown", "plain"), ("code", "")]),
        ("print('# %%')", [("code", "print('# %%')")]),
    ],
)
def test_a_script_is_split_into_cells(content: str, cells: list[tuple[str, str]]) -> None:
    made = new_notebook(content)["cells"]
    assert [(cell["cell_type"], cell["source"]) for cell in made] == cells
