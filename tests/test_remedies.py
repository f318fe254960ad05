"""What an agent can do about an error: an intent below, the names of tools where they are."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import jupyter_collaboration_mcp
from jupyter_collaboration_mcp.errors import CellNotFound
from jupyter_collaboration_mcp.remedies import Intent, Remedy
from jupyter_collaboration_mcp.tools.parts import Parts, Standalone
from jupyter_collaboration_mcp.tools.registry import all_tools, select
from jupyter_collaboration_mcp.tools.wording import WORDING
from jupyter_collaboration_mcp.workspace.sites import Site, Sites

PACKAGE = Path(jupyter_collaboration_mcp.__file__).parent

#: The layers that dialects share: none of them may know what a tool is called.
SHARED = (
    *("errors", "remedies.py", "documents", "backends"),
    *("collaboration", "execution", "workspace", "resources"),
)


def tool_names() -> set[str]:
    async def connect(url: str, alias: str | None) -> Site:
        raise AssertionError

    return {tool.name for tool in all_tools(Parts(Sites(), None, Standalone(connect)))}


def texts(module: Path) -> Iterator[str]:
    """The texts that a module may show to somebody; no docstrings."""
    tree = ast.parse(module.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def modules() -> list[Path]:
    found = [path for name in SHARED for path in (PACKAGE / name).rglob("*.py")]
    return found + [PACKAGE / name for name in SHARED if name.endswith(".py")]


def test_no_layer_below_the_tools_names_a_tool() -> None:
    names = re.compile(rf"\b({'|'.join(sorted(tool_names(), key=len, reverse=True))})\b")
    for module in modules():
        named = [text for text in texts(module) if names.search(text)]
        assert not named, f"{module.relative_to(PACKAGE)} names a tool: {named}"


def test_every_intent_is_worded_with_tools_that_exist() -> None:
    assert set(WORDING) == set(Intent)
    known = tool_names()
    for words in WORDING.values():
        called = re.findall(r"\b[a-z]+(?:_[a-z]+)+\b(?!=)", words)
        assert set(called) <= known | {"include_outputs"}


@pytest.mark.parametrize("name", ["rtc", "connect"])
def test_a_dialect_words_every_intent_with_its_own_tools(name: str) -> None:
    async def connect(url: str, alias: str | None) -> Site:
        raise AssertionError

    every = all_tools(Parts(Sites(), None, Standalone(connect)))
    known = {tool.name for tool in select(name, every)}
    (wording,) = {id(tool.wording): tool.wording for tool in select(name, every)}.values()
    assert set(wording) == set(Intent)
    for intent, words in wording.items():
        called = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b(?!=)", words))
        assert called <= known | {"server_url"}, words
        facts = set(re.findall(r"\{(\w+)\}", words))
        assert facts <= set(re.findall(r"\{(\w+)\}", intent.value)), words


@pytest.mark.parametrize("name", ["rtc", "connect"])
def test_the_list_of_a_dialect_names_no_tool_that_it_lacks(name: str) -> None:
    async def connect(url: str, alias: str | None) -> Site:
        raise AssertionError

    every = all_tools(Parts(Sites(), None, Standalone(connect)))
    chosen = select(name, every)
    lacking = tool_names() - {tool.name for tool in chosen}
    names = re.compile(rf"\b({'|'.join(sorted(lacking, key=len, reverse=True))})\b")
    for tool in chosen:
        assert not names.search(json.dumps([tool.description, tool.schema])), tool.name


@pytest.mark.parametrize("intent", Intent)
def test_every_wording_uses_the_same_facts(intent: Intent) -> None:
    wanted = set(re.findall(r"\{(\w+)\}", intent.value))
    assert set(re.findall(r"\{(\w+)\}", WORDING[intent])) == wanted


def test_a_fact_with_braces_is_not_formatted() -> None:
    remedy = Remedy(Intent.CHANGE_KERNEL, {"kernels": "{kernels}, {0}"})
    assert remedy.worded(WORDING) == "Call change_notebook_kernel with one of: {kernels}, {0}."


def test_an_error_is_worded_by_the_toolset_that_was_called() -> None:
    error = CellNotFound("There is no cell 9.", Intent.SEE_CELLS)
    assert error.said_in({Intent.SEE_CELLS: "Use read_nb_cells."}).endswith(
        "Next: Use read_nb_cells."
    )
    assert "get_notebook" in error.said_in(WORDING)
    assert str(error) == f"There is no cell 9.\nNext: {Intent.SEE_CELLS.value}"
    assert error.remedy == error.next_step == Intent.SEE_CELLS.value
