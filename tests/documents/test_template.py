"""Templates: what they say about themselves, and notebooks that are made of them."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.template import METADATA, BrokenTemplate, Template
from jupyter_collaboration_mcp.errors import InvalidArgument
from tests.harness.examples import examples

SCRIPT = """\
# %% [markdown]
# # A title
#
# What it is for,
# in two lines.
#
# More.

# %% tags=["parameters"]
path = ""  # a file
count: int = 3; ratio = 0.5
names = ["a", "é"]  # 😀
rows = {
    "a": 1,
}
nothing: str | None = None

# %%
print(path, count, ratio, names, rows, nothing)
"""

#: Values that JSON can have, as a client would send them.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def template(text: str = SCRIPT) -> Template:
    return Template.parse("toy", text)


def assigned(notebook: dict[str, Any]) -> dict[str, Any]:
    """What the cell with the parameters assigns."""
    (cell,) = (each for each in notebook["cells"] if each["metadata"].get("tags"))
    names: dict[str, Any] = {}
    exec(cell["source"], {}, names)
    names.pop("__annotations__", None)
    return names


def test_a_template_has_a_title_a_purpose_and_parameters_with_types() -> None:
    found = template()
    assert (found.title, found.purpose) == ("A title", "What it is for, in two lines.")
    assert [(each.name, each.type, each.default) for each in found.parameters] == [
        ("path", "string", ""),
        ("count", "integer", 3),
        ("ratio", "number", 0.5),
        ("names", "array", ["a", "é"]),
        ("rows", "object", {"a": 1}),
        ("nothing", "string", None),
    ]
    assert found.signature.startswith("path: string = '', count: integer = 3, ")


def test_a_notebook_has_the_defaults_and_says_which_template_it_is_of() -> None:
    notebook = template().make({})
    assert [cell["cell_type"] for cell in notebook["cells"]] == ["markdown", "code", "code"]
    assert notebook["metadata"][METADATA] == {"pattern": "toy"}
    assert assigned(notebook)["count"] == 3
    again = template().make({})
    ids = [cell["id"] for made in (notebook, again) for cell in made["cells"]]
    assert len(set(ids)) == 6


def test_given_parameters_replace_defaults_and_leave_the_rest_of_the_cell() -> None:
    notebook = template().make({"rows": {"é": [1]}, "path": "a\n'\".csv", "nothing": "x"})
    assert assigned(notebook) == {
        "path": "a\n'\".csv",
        "count": 3,
        "ratio": 0.5,
        "names": ["a", "é"],
        "rows": {"é": [1]},
        "nothing": "x",
    }
    source = notebook["cells"][1]["source"]
    assert "# a file" in source
    assert "# 😀" in source


@examples(100, 400)
@given(value=VALUES)
def test_no_value_is_more_than_a_literal(value: Any) -> None:
    notebook = template('# %% tags=["parameters"]\nvalue = None\n# %%\nvalue').make(
        {"value": value}
    )
    source = notebook["cells"][0]["source"]
    assert [type(each) for each in ast.parse(source).body] == [ast.Assign]
    assert ast.literal_eval(source.partition(" = ")[2]) == value


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"other": 1}, "no parameter 'other'"),
        ({"count": "3"}, "has the type integer, not string"),
        ({"count": True}, "has the type integer, not boolean"),
        ({"count": 1.5}, "has the type integer, not number"),
        ({"names": {}}, "has the type array, not object"),
        ({"path": None}, "has the type string, not null"),
        ({"ratio": float("nan")}, "not a number"),
        ({"rows": {"a": [float("inf")]}}, "not a number"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused(given_: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        template().make(given_)


def test_a_whole_number_does_for_any_number() -> None:
    assert assigned(template().make({"ratio": 2}))["ratio"] == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ('# %% tags=["parameters"]\nprint(1)', "line 1 of its parameters assigns no parameter"),
        ('# %% tags=["parameters"]\na = 1\nb.c = 2', "line 2 of its parameters"),
        ('# %% tags=["parameters"]\na = open("x")', "default of a is not a literal"),
        ('# %% tags=["parameters"]\na = = 1', "not Python"),
        ('# %% tags=["parameters"]\na = {[1]: 2}', "default of a is not a literal"),
        pytest.param(
            f'# %% tags=["parameters"]\na = {"-" * 50_000}1', "(not Python|a literal)", id="deep"
        ),
        ("# %% tags=[parameters]\na = 1", "not a list of tags"),
        ('{"nbformat": 4, "cells": 3}', "is none"),
    ],
)
def test_what_is_not_a_template_says_why(text: str, says: str) -> None:
    with pytest.raises(BrokenTemplate, match=says):
        template(text)


def test_a_notebook_file_can_be_a_template_and_loses_its_outputs() -> None:
    stream = {"output_type": "stream", "name": "stdout", "text": "1"}
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# Ours"},
        {
            "cell_type": "code",
            "id": "b",
            "metadata": {"tags": ["parameters"]},
            "source": "n = 1",
            "outputs": [stream],
            "execution_count": 4,
        },
    ]
    text = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    made = template(text).make({"n": 2})
    assert made["cells"][1]["source"] == "n = 2"
    assert (made["cells"][1]["outputs"], made["cells"][1]["execution_count"]) == ([], None)


def test_a_template_without_a_heading_or_parameters_is_called_by_its_name() -> None:
    found = template("x = 1")
    assert (found.title, found.purpose, found.parameters, found.signature) == ("toy", "", (), "")
    with pytest.raises(InvalidArgument, match="no parameter 'x'") as refused:
        found.make({"x": 2})
    assert "none" in str(refused.value.next_step)


def test_the_preview_is_the_notebook_as_markdown() -> None:
    preview = template().preview
    assert preview.startswith('<!-- srcbook:{"language":"python"} -->\n\n# A title\n')
    assert "count: int = 3" in preview
    assert "tags=" not in preview
