"""Arguments that are longer or more than any call needs."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from jupyter_collaboration_mcp.documents.json_values import has_too_many_values
from jupyter_collaboration_mcp.tools.limits import Echoes, check, shown
from tests.harness import notebooks
from tests.harness.agents import AgentClient, text_of
from tests.harness.jupyter import JupyterProcess

from .conftest import New

pytestmark = pytest.mark.anyio

MOST = 1000


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"k": value}
    return value


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("get_notebook", {"cell_ids": [0] * 100_000}, "too_large"),
        ("get_notebook", {"cell_ids": ["x" * 300] * 1000 + [0]}, "too_large"),
        ("get_notebook", {"cell_ids": "[" + "0," * 100_000 + "0]"}, "too_large"),
        ("get_notebook", {"cell_ids": "[" + "[]," * 400_000 + "[]]"}, "too_large"),
        ("get_notebook", {"cell_ids": ["x" * 100_000]}, "too_large"),
        ("get_notebook", {"query": "x" * 100_000}, "too_large"),
        ("get_document", {"path": "x/" * 200_000}, "too_large"),
        ("get_document", {"path": "x/" * 400}, "path_refused"),
        ("get_document", {"path": f"{'x' * 220}/" * 4}, "document_not_found"),
        ("create_document", {"path": "z/" * 600 + "a.md", "type": "file"}, "too_large"),
        ("create_document", {"path": "z/" * 60 + "a.md", "type": "file"}, "path_refused"),
        ("document_exists", {"path": "x/" * 450}, "path_refused"),
        ("list_notebooks", {"path_prefix": "x/" * 200_000}, "too_large"),
        ("list_documents", {"path_filter": "*a" * 100_000}, "too_large"),
        ("list_documents", {"file_type": "x" * 100_000}, "too_large"),
        ("get_run", {"run_id": "x" * 100_000}, "too_large"),
        ("get_run", {"run_id": "x" * 900}, "run_not_found"),
        ("get_notebook", {"x" * 100_000: 1}, "invalid_argument"),
        ("get_notebook", {"x" * 900: 1}, "invalid_argument"),
        ("get_notebook", {"format": "x" * 900}, "invalid_argument"),
        ("batch_update_notebook_cells", {"updates": [{}] * 100_000}, "too_large"),
        ("batch_update_notebook_cells", {"updates": ["x" * 900] * 1000}, "invalid_argument"),
        ("batch_update_notebook_cells", {"updates": [{"x" * 900: 1}] * 5}, "invalid_argument"),
        ("batch_update_document", {"operations": [{}] * 100_000}, "too_large"),
        (
            "batch_update_notebook_cells",
            {"updates": [{"index": 0, "metadata": {"k": "x" * 2_000_000}}]},
            "too_large",
        ),
        (
            "batch_update_notebook_cells",
            {"updates": [{"index": 0, "metadata": {"k": [0] * 400_000}}]},
            "too_large",
        ),
        (
            "batch_update_notebook_cells",
            {"updates": [{"index": 0, "metadata": deep(80)}]},
            "invalid_argument",
        ),
        ("inspect_variables", {"names": ["x"] * 100_000}, "too_large"),
    ],
)
async def test_a_call_that_is_too_large_is_refused_briefly(
    ada: AgentClient, new: New, tool: str, arguments: dict[str, Any], code: str
) -> None:
    named = {} if tool in ("list_notebooks", "list_documents", "get_run") else {"path": new("1")}
    result = await ada.call(tool, **{**named, **arguments})
    assert result.structured_content is not None
    assert (result.is_error, result.structured_content["error"]["code"]) == (True, code)
    assert len(text_of(result)) < 2_000
    for letter in ("x", "x/", "z/", "*a"):
        assert letter * (201 // len(letter)) not in str(result)


async def test_a_cell_named_repeatedly_is_read_once(ada: AgentClient, new: New) -> None:
    read = await ada.ask("get_notebook", path=new("1", "2"), cell_ids=[1] * 1000)
    assert [cell["index"] for cell in read["cells"]] == [1]


async def test_a_cell_named_repeatedly_is_deleted_once(ada: AgentClient, new: New) -> None:
    gone = await ada.ask("batch_delete_notebook_cells", path=new("1", "2"), cell_ids=[1, 1, -1])
    assert gone["deleted"] == ["cell-1"]


async def test_a_long_path_can_be_used(ada: AgentClient) -> None:
    path = "/".join(f"folder-{number}-{'x' * 8}" for number in range(12)) + "/a.md"
    assert len(path) > 200
    made = await ada.ask("create_document", path=path, type="file", content=f"I am {path}.")
    assert made["path"] == path
    # What the text says is not cut, although it repeats an argument.
    assert f"I am {path}." in await ada.say("get_document", path=path)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("batch_delete_notebook_cells", {"start_index": 0, "end_index": MOST + 1}),
        ("batch_delete_notebook_cells", {"cell_ids": list(range(MOST + 1))}),
        ("batch_delete_notebook_cells", {"start_index": 0, "end_index": MOST + 1, "exec": True}),
        ("move_notebook_cells", {"cell_ids": list(range(MOST + 1)), "to_index": -1}),
        ("clear_notebook_outputs", {}),
        ("clear_notebook_outputs", {"cell_ids": list(range(MOST + 1))}),
        ("restart_notebook_kernel", {"clear_outputs": True}),
    ],
)
async def test_a_call_cannot_change_more_cells_than_the_limit(
    server: JupyterProcess, ada: AgentClient, tool: str, arguments: dict[str, Any]
) -> None:
    path = "many.ipynb"
    if not (server.root / path).exists():
        cells = [notebooks.code(f"cell-{n}", "", execution_count=1) for n in range(MOST + 1)]
        notebooks.write(server.root / path, notebooks.notebook(cells))
    error = await ada.refused(tool, path=path, **arguments)
    assert (error["code"], "1,001" in error["message"]) == ("too_large", True)
    assert len((await ada.ask("get_notebook", path=path, format="outline"))["cells"]) == MOST + 1


async def test_a_call_can_change_as_many_cells_as_the_limit(ada: AgentClient, new: New) -> None:
    path = new(*(notebooks.code(f"cell-{n}", "", execution_count=1) for n in range(MOST)))
    assert len((await ada.ask("clear_notebook_outputs", path=path))["cleared"]) == MOST
    gone = await ada.ask("batch_delete_notebook_cells", path=path, start_index=0, end_index=MOST)
    assert gone["cell_count"] == 0


def test_an_error_quotes_at_most_200_characters_of_an_argument() -> None:
    path = "".join(chr(ord("a") + n % 26) + str(n) for n in range(300))
    cut = Echoes({"path": f"server:/{path}/", "content": "y" * 300}).cut
    assert cut(f"There is nothing at {path!r}.") == f"There is nothing at '{path[:197]}...'."
    assert cut("y" * 300) == "y" * 300
    assert cut(f"Some of it, {path[100:250]}, stays.") == f"Some of it, {path[100:250]}, stays."


def test_a_long_argument_is_cut_to_its_beginning() -> None:
    assert shown({"a": [1, "b"]}) == '{"a": [1, "b"]}'
    assert len(shown("x" * 4_000_000)) == len(shown([0] * 1_000_000)) == 200
    assert len(shown(nested(900))) == 200


def test_deep_and_wide_arguments_are_refused_early() -> None:
    with pytest.raises(Exception, match="nested"):
        check({"cell_ids": nested(100_000)}, MOST)
    with pytest.raises(Exception, match="too many values"):
        check({"cell_ids": [[0] * MOST] * MOST}, MOST)


def test_quotes_of_a_thousand_long_names_are_cut_quickly() -> None:
    ids = [f"{number:04d}" + "abcdefghij" * 99 for number in range(1_000)]
    text = "No cell has the id " + ids[900] + ", ".join(ids[:7]) + ". Something else."
    start = time.thread_time()
    cut = Echoes({"cell_ids": ids}).cut(text)
    assert time.thread_time() - start < 0.05
    assert ids[900][:150] in cut
    assert not any(name[:201] in cut or name[-201:] in cut for name in ids)
    assert cut.endswith("Something else.")


@pytest.mark.parametrize(
    ("text", "many"),
    [
        ("[" + "[]," * 301_000 + "[]]", True),
        ("[" * 601_000, True),
        (json.dumps({"k": "[," * 1_000_000}), False),
        (json.dumps(['\\"[,' * 100_000] * 4 + [0] * 1_000), False),
        (json.dumps(["\\" * 300_001, [0] * 601_000]), True),
        (json.dumps(['"' * 300_001, [0] * 590_000]), False),
        ("[" + '"\\\\",' * 599_000 + "0]", False),
        ("[" + '"\\\\",' * 601_000 + "0]", True),
    ],
    ids=["lists", "deep", "text", "escapes", "behind escapes", "few", "strings", "many strings"],
)
async def test_values_inside_strings_are_not_counted(text: str, many: bool) -> None:
    assert await has_too_many_values(text.encode()) == many


async def test_text_that_looks_like_json_is_not_parsed(ada: AgentClient) -> None:
    text = "[" + "[]," * 400_000 + "[]]"
    made = await ada.ask("create_document", path="lists.json", type="file", content=text)
    assert made["path"] == "lists.json"
