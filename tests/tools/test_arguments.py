"""Arguments and tools under names that are not ours, and values that do not fit."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import MCPError
from mcp_types import INVALID_PARAMS

from docs.generate import _tools as every_tool
from jupyter_collaboration_mcp.errors import InvalidArgument
from jupyter_collaboration_mcp.tools.arguments import check_names
from jupyter_collaboration_mcp.tools.names import closest_tools
from jupyter_collaboration_mcp.tools.registry import select
from tests.harness.agents import AgentClient, agent, text_of
from tests.harness.jupyter import JupyterProcess

from .conftest import New

TOOLS = {tool.name: tool for tool in select("default", every_tool())}


def read(tool: str, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call as the server reads them, before it looks anything up."""
    known = TOOLS[tool]
    named = known.respelled(given)
    parsed = known.parsed(named, known.json_texts(named))
    check_names(tool, parsed, known.schema)
    return known.validated(parsed)


def refusal(tool: str, **given: Any) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        read(tool, given)
    assert "othing was done" in caught.value.happened
    return caught.value


# -- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "given", "meant"),
    [
        ("rename_document", {"path": "a", "new_path": "b"}, {"path": "a", "newPath": "b"}),
        ("copy_document", {"path": "a", "copy_path": "b"}, {"path": "a", "copyPath": "b"}),
        ("run_code", {"Path": "a", "code": "1"}, {"path": "a", "code": "1"}),
        ("move_notebook_cells", {"path": "a", "cellIds": ["x"], "toIndex": 0},
         {"path": "a", "cell_ids": ["x"], "to_index": 0}),
    ],
)  # fmt: skip
def test_alternative_spellings_are_understood(
    tool: str, given: dict[str, Any], meant: dict[str, Any]
) -> None:
    assert meant.items() <= read(tool, given).items()


def test_alternative_spellings_are_understood_inside_lists_and_json() -> None:
    for updates in ([{"cellId": "x", "oldText": "a"}], '[{"cellId": "x", "oldText": "a"}]'):
        made = read("batch_update_notebook_cells", {"path": "a", "updates": updates})
        (update,) = made["updates"]
        assert (update.cell_id, update.old_text) == ("x", "a")


def test_alternative_spellings_are_not_in_the_schema() -> None:
    assert list(TOOLS["rename_document"].schema["properties"]) == ["path", "newPath"]
    assert list(TOOLS["copy_document"].schema["properties"]) == ["path", "copyPath"]


def test_metadata_keys_are_not_renamed() -> None:
    update = {"index": 0, "metadata": {"cellId": 1, "new_path": 2}}
    made = read("batch_update_notebook_cells", {"path": "a", "updates": [update]})
    assert made["updates"][0].metadata == {"cellId": 1, "new_path": 2}


def test_one_argument_under_two_spellings_is_refused() -> None:
    error = refusal("rename_document", path="a", newPath="b", new_path="c")
    assert "has no argument 'new_path': did you mean newPath?" in error.happened
    error = refusal("rename_document", path="a", new_path="b", NewPath="c")
    assert "has no argument 'NewPath': did you mean newPath?" in error.happened


@pytest.mark.parametrize(
    ("tool", "given", "meant"),
    [
        ("get_notebook", {"notebook_path": "a"}, {"notebook_path": ["path"]}),
        ("get_notebook", {"file_path": "a"}, {"file_path": ["path"]}),
        ("get_notebook", {"pth": "a"}, {"pth": ["path"]}),
        ("get_notebook", {"path": "a", "cells": [1]}, {"cells": ["cell_ids"]}),
        ("get_notebook", {"path": "a", "search": "x"}, {"search": ["query"]}),
        ("list_notebooks", {"path": "a", "limit": 3},
         {"path": ["path_prefix"], "limit": ["max_results"]}),
        ("list_notebooks", {"folder": "a"}, {"folder": ["path_prefix"]}),
        ("execute_notebook_cell", {"path": "a", "id": "x"}, {"id": ["cell_id"]}),
        ("execute_notebook_cell", {"path": "a", "cell_index": 1}, {"cell_index": ["cell_id"]}),
        ("run_code", {"notebook": "a", "source": "1"},
         {"notebook": ["path"], "source": ["code"]}),
        ("rename_document", {"from_path": "a", "to_path": "b"},
         {"from_path": ["path"], "to_path": ["newPath"]}),
        ("rename_document", {"path": "a", "new_name": "b"}, {"new_name": ["newPath"]}),
        ("copy_document", {"source": "a", "destination": "b"},
         {"source": ["path"], "destination": ["copyPath"]}),
        ("copy_document", {"path": "a", "new_path": "b"}, {"new_path": ["copyPath"]}),
        ("batch_update_notebook_cells", {"path": "a", "updates": [{"id": "x", "source": "y"}]},
         {"id": ["cell_id"], "source": ["content"]}),
        ("batch_insert_notebook_cells", {"path": "a", "cells": [{"code": "y"}], "index": 0},
         {"code": ["content"], "index": ["start_position"]}),
        ("batch_update_document", {"path": "a", "edits": []}, {"edits": ["operations"]}),
        ("batch_update_document", {"path": "a", "operations": [{"old_string": "x"}]},
         {"old_string": ["old_text"]}),
        ("get_run", {"id": "x", "timeout": 1}, {"id": ["run_id"], "timeout": ["wait"]}),
        ("reply_to_input", {"run_id": "x", "answer": "y"}, {"answer": ["text"]}),
        ("inspect_variables", {"path": "a", "variables": ["x"]}, {"variables": ["names"]}),
        ("change_notebook_kernel", {"path": "a", "kernel": "x"}, {"kernel": ["kernel_name"]}),
        ("create_document", {"filename": "a", "text": "x"},
         {"filename": ["path"], "text": ["content"]}),
        ("batch_update_notebook_cells", {"path": "a", "execute": False, "updates": []},
         {"execute": ["exec"]}),
    ],
)  # fmt: skip
def test_a_foreign_argument_name_suggests_ours(
    tool: str, given: dict[str, Any], meant: dict[str, list[str]]
) -> None:
    error = refusal(tool, **given)
    assert error.detail["did_you_mean"] == meant
    for name, (ours,) in meant.items():
        assert f"has no argument {name!r}: did you mean {ours}?" in error.happened
    assert " needs " not in error.happened  # what is missing is what was meant
    assert " takes " in error.happened


def test_a_misplaced_argument_gets_a_hint_to_its_list() -> None:
    error = refusal("batch_update_notebook_cells", path="a", cell_id="x", content="y")
    assert "has no argument 'cell_id': it belongs in each of updates." in error.happened
    assert "has no argument 'content': it belongs in each of updates." in error.happened


def test_an_unknown_argument_is_answered_with_all_arguments() -> None:
    error = refusal("run_code", path="a", code="1", colour="red")
    assert error.happened == (
        "run_code has no argument 'colour'. Nothing was done. "
        "run_code takes path (required), code (required), timeout."
    )
    assert refusal("list_kernels", path="a").happened.endswith("list_kernels takes no arguments.")


def test_missing_arguments_are_named() -> None:
    assert refusal("run_code").happened.startswith("run_code needs path and code.")
    error = refusal("batch_insert_notebook_cells", path="a", cells=[{"cell_type": "raw"}])
    assert error.happened.startswith("cells[0] needs content.")


def test_a_long_text_under_a_wrong_name_suggests_the_right_one() -> None:
    error = refusal("run_code", path="a", source="x = 1\n" * 1000)
    assert "did you mean code?" in error.happened
    assert len(str(error)) < 400


def test_many_wrong_names_give_a_short_answer() -> None:
    names = {f"{number}{'x' * 500}": 1 for number in range(1000)}
    assert len(str(refusal("get_notebook", path="a", **names))) < 2_000
    updates = [{f"wrong{number}": 1} for number in range(1000)]
    error = refusal("batch_update_notebook_cells", path="a", updates=updates)
    assert len(str(error)) < 2_000


# -- values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("get_notebook", {"path": 3}, "path should be a string (given: 3)."),
        ("get_notebook", {"path": "a", "start_index": "x"},
         'start_index should be an integer (given: "x").'),
        ("get_notebook", {"path": "a", "format": "x"},
         "format should be 'outline', 'source' or 'full' (given: \"x\")."),
        ("get_notebook", {"path": "a", "cell_ids": "x"},
         'cell_ids should be a list of strings or integers (given: "x").'),
        ("get_notebook", {"path": "a", "cell_ids": [1.5]},
         "cell_ids[0] should be a string or an integer (given: 1.5)."),
        ("get_notebook", {"path": "a", "include_outputs": "maybe"},
         'include_outputs should be true or false (given: "maybe").'),
        ("list_notebooks", {"max_results": 0},
         "max_results should be greater than or equal to 1 (given: 0)."),
        ("batch_update_notebook_cells", {"path": "a", "updates": {"index": 0}},
         'updates should be a list of objects (given: {"index": 0}).'),
        ("batch_update_notebook_cells", {"path": "a", "updates": [{"index": "x"}]},
         'updates[0].index should be an integer (given: "x").'),
        ("batch_update_notebook_cells", {"path": "a", "updates": ["x"]},
         'updates[0] should be an object (given: "x").'),
        ("move_notebook_cells", {"path": "a", "cell_ids": ["x"], "if_revision": 3},
         "if_revision should be a string or a list of strings (given: 3)."),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_gets_the_expected_type(
    tool: str, given: dict[str, Any], said: str
) -> None:
    assert refusal(tool, **given).happened.endswith(f"nothing was done. {said}")


# -- tools -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("get_notebok", ["get_notebook"]),
        ("read_notebook", ["get_notebook"]),
        ("read_cell", ["get_notebook"]),
        ("insert_cell", ["batch_insert_notebook_cells"]),
        ("edit_cell", ["batch_update_notebook_cells"]),
        ("NotebookEdit", ["batch_update_notebook_cells"]),
        ("execute_cell", ["execute_notebook_cell", "batch_execute_notebook_cells"]),
        ("execute_code", ["run_code"]),
        ("read_file", ["get_document"]),
        ("list_files", ["list_documents"]),
        ("create_notebook", ["create_document"]),
        ("move_file", ["rename_document"]),
        ("restart_kernel", ["restart_notebook_kernel"]),
        ("undo", ["undo_agent_changes"]),
        ("weather", []),
    ],
)
def test_a_foreign_tool_name_suggests_ours(name: str, meant: list[str]) -> None:
    assert closest_tools(name, list(TOOLS)) == meant


# -- through a server ------------------------------------------------------------------------


@pytest.mark.anyio
async def test_files_are_moved_and_copied_under_either_spelling(
    server: JupyterProcess, ada: AgentClient, new: New
) -> None:
    path = new("1")
    copied = await ada.ask("copy_document", path=path, copy_path="either-copy.ipynb")
    assert copied["path"] == "either-copy.ipynb"
    moved = await ada.ask("rename_document", path="either-copy.ipynb", new_path="either.ipynb")
    assert moved["path"] == "either.ipynb"
    again = await ada.ask("rename_document", path="either.ipynb", newPath="or.ipynb")
    assert again["path"] == "or.ipynb"
    assert (server.root / "or.ipynb").exists()


@pytest.mark.anyio
async def test_an_unknown_argument_is_refused_with_a_suggestion(ada: AgentClient, new: New) -> None:
    path = new("1")
    result = await ada.call("run_code", notebook_path=path, source="1" * 2000)
    assert result.is_error
    assert text_of(result) == (
        "invalid_argument: run_code has no argument 'notebook_path': did you mean path? "
        "run_code has no argument 'source': did you mean code? Nothing was done. "
        "run_code takes path (required), code (required), timeout.\n"
        "Next: Correct the names and repeat the call."
    )


@pytest.mark.anyio
async def test_an_unknown_tool_suggests_only_tools_of_this_connection(
    server: JupyterProcess,
) -> None:
    async with agent(server, permission="read") as reader:
        with pytest.raises(MCPError) as caught:
            await reader.call("read_notebook", path="a.ipynb")
        assert caught.value.error.code == INVALID_PARAMS
        assert "Unknown tool: read_notebook. Did you mean get_notebook?" in str(caught.value)
        with pytest.raises(MCPError) as caught:
            await reader.call("edit_cell", path="a.ipynb")
        assert "batch_update" not in str(caught.value)
