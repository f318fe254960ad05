"""A model gets text and pictures. The facts as JSON are for programs that ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp_types import ImageContent

from jupyter_collaboration_mcp.cli import main
from tests.conftest import MakeServer
from tests.harness.agents import agent, over_stdio, text_of
from tests.harness.jupyter import JupyterProcess

from .conftest import New, Warm
from .test_outputs import png

pytestmark = pytest.mark.anyio

PLOT = f"""
import base64
from IPython.display import Image
Image(data=base64.b64decode({png(8, 6)!r}))
"""


@pytest.mark.parametrize("asked", [{"structured": "false"}, {"structured": ()}])
async def test_answers_and_errors_are_only_text_and_pictures_by_default(
    server: JupyterProcess, warm: Warm, asked: dict[str, Any]
) -> None:
    path = await warm()
    async with agent(server, **asked) as ada:
        ran = await ada.call("run_code", path=path, code=PLOT)
        error = await ada.call("get_notebook", path="nowhere.ipynb")
    assert (ran.structured_content, error.structured_content) == (None, None)
    assert "image/png 8 x 6 (image 1)" in text_of(ran)
    assert any(isinstance(part, ImageContent) for part in ran.content)
    assert error.is_error
    assert text_of(error).startswith("document_not_found: ")


async def test_a_connection_can_request_the_facts_too(server: JupyterProcess, new: New) -> None:
    path = new("1")
    async with agent(server, structured="true") as ada:
        read = await ada.call("get_notebook", path=path)
        error = await ada.call("get_notebook", path="nowhere.ipynb")
    assert read.structured_content is not None
    assert read.structured_content["cell_count"] == 1
    assert error.structured_content is not None
    assert error.structured_content["error"]["code"] == "document_not_found"


async def test_a_setting_decides_for_connections_that_do_not_specify(
    make_server: MakeServer,
) -> None:
    async with make_server("--JupyterCollaborationMCP.structured=True") as server:
        async with agent(server, structured=()) as ada:
            assert (await ada.call("list_notebooks")).structured_content is not None
        async with agent(server, structured="false") as bob:
            assert (await bob.call("list_notebooks")).structured_content is None


def test_a_misspelt_switch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_COLLABORATION_MCP_STRUCTURED", "yes")
    assert main(["--no-embedded"]) == 2


@pytest.mark.parametrize(
    ("arguments", "variable", "has_facts"),
    [((), "", False), (("--structured",), "", True), ((), "true", True)],
)
async def test_the_command_sends_facts_if_configured(
    tmp_path: Path, arguments: tuple[str, ...], variable: str, has_facts: bool
) -> None:
    options = ("--no-embedded", *arguments)
    async with over_stdio(tmp_path, *options, JUPYTER_COLLABORATION_MCP_STRUCTURED=variable) as ada:
        answer = await ada.call("list_servers")
    assert (answer.structured_content is not None) is has_facts
