"""The page for users of other servers names tools and arguments that exist."""

from __future__ import annotations

import re

import pytest

from docs.generate import _tools as every_tool
from jupyter_collaboration_mcp.tools.registry import RegisteredTool, select
from tests.harness.jupyter import REPOSITORY

PAGE = (REPOSITORY / "docs" / "coming-from.md").read_text()
TOOLS = {tool.name: tool for tool in every_tool()}

#: What stands in backquotes in the column of our names, and is no tool.
VALUES = {"outline", "source", "full", "explain_cell", "%pip install"}


def rows() -> list[tuple[str, str, str]]:
    found = re.findall(r"^\| (.+?) \| (.+?) \| (.*?) ?\|$", PAGE, re.MULTILINE)
    return [row for row in found if row[0] not in ("there", "---")]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def section(dialect: str) -> str:
    """The part of the page about a dialect."""
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    return next(part for part in parts if f"the toolset `{dialect}`" in part.partition("\n")[0])


def arguments_of(tool: RegisteredTool) -> set[str]:
    """The arguments of a tool, also those of the elements of its lists."""
    properties = tool.schema["properties"]
    inner = [node.get("items", {}).get("properties", {}) for node in properties.values()]
    return {*properties, *(name for names in inner for name in names)}


def test_every_name_of_ours_is_a_tool_with_the_arguments_that_it_is_given() -> None:
    count = 0
    for there, here, _ in rows():
        names = [name.partition("(")[0] for name in quoted(here)]
        tools = [TOOLS[name] for name in names if name in TOOLS]
        count += len(tools)
        given = {name.partition("=")[0] for name in names if name not in TOOLS}
        given |= set(re.findall(r"(\w+)=", here))
        takes = [arguments_of(tool) for tool in tools or TOOLS.values()]
        assert given - VALUES <= set().union(*takes), (there, here)
    assert count > 70


@pytest.mark.parametrize("dialect", ["rtc", "connect"])
def test_each_tool_of_a_dialect_has_a_row(dialect: str) -> None:
    table = re.findall(r"^\| (.+?) \|", section(dialect), re.MULTILINE)
    named = {name for there in table for name in quoted(there)}
    assert named == {tool.name for tool in select(dialect, TOOLS.values())}
