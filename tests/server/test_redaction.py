"""Secrets are masked before an agent sees them, and stay where they are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp import MCPError

from jupyter_collaboration_mcp.server.redaction import MASK, Redaction, Redactor, secrets_in
from jupyter_collaboration_mcp.settings.settings import settings_of
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, agent, text_of
from tests.harness.jupyter import JupyterProcess

pytestmark = pytest.mark.anyio

SECRET, PATTERN = 'hunter2-"long"-secret', "sk-[a-z0-9]{10}"
KEY = "sk-abcdef0123"


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    settings = (
        "--JupyterCollaborationMCP.redact_secrets=True",
        f"--JupyterCollaborationMCP.redact_patterns={PATTERN}",
        "--JupyterCollaborationMCP.redact_patterns=account (\\d{4})",
    )
    env = {"SHOP_API_KEY": SECRET, "SHORT_TOKEN": "abc", "PLAIN": "visible-value"}
    async with make_server(*settings, env=env) as process:
        cells = [
            notebooks.code("keys", f"key = '{KEY}'  # account 1234, visible-value, abc"),
            notebooks.code("env", "import os; print(os.environ['SHOP_API_KEY'])"),
        ]
        notebooks.write(Path(process.root) / "a.ipynb", notebooks.notebook(cells))
        yield process


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_an_agent_sees_masks_and_the_notebook_keeps_the_secrets(
    server: JupyterProcess, mode: str
) -> None:
    async with agent(server, mode=mode) as ada:
        ran = await ada.call("execute_notebook_cell", path="a.ipynb", cell_id="env", timeout=60)
        read = await ada.call("get_notebook", path="a.ipynb", include_outputs=True)
        found = await ada.call("get_notebook", path="a.ipynb", query="hunter2")
        refused = await ada.call("get_notebook", path=f"{KEY}.ipynb")
        listed = await ada.client.list_resources()
        (uri,) = (each.uri for each in listed.resources if each.mime_type == "text/markdown" and
                  (each.meta or {}).get("path") == "a.ipynb")  # fmt: skip
        resource = await ada.client.read_resource(uri)
        as_json = await ada.client.read_resource(f"{uri}/json")
        prompt = await ada.client.get_prompt("explain_cell", {"path": "a.ipynb", "cell": "keys"})
        for result in (ran, read, found, refused, listed, resource, as_json, prompt):
            shown = result.model_dump_json()
            assert KEY not in shown
            assert SECRET not in shown
            assert json.dumps(SECRET)[1:-1] not in shown
        assert MASK in text_of(ran)
        assert f"key = '{MASK}'  # account {MASK}, visible-value, abc" in text_of(read)
        assert "Do not write the mask into it." in text_of(read)
        assert "hunter2" not in text_of(read)
        assert (resource.meta or {})["masked"] is True
        plain = await ada.call("list_notebooks")
        assert "masked" not in text_of(plain)
        await ada.call("get_run", run_id="x")
    saved = json.dumps(notebooks.sources(Path(server.root) / "a.ipynb"))
    assert KEY in saved


async def test_an_error_that_quotes_a_secret_is_masked_too() -> None:
    async def refuse(ctx: Any) -> None:
        raise MCPError(code=-32602, message=f"There is no {SECRET}.", data={"uri": "a"})

    redaction = Redaction(Redactor([SECRET]))
    with pytest.raises(MCPError) as refused:
        await redaction(cast("Any", SimpleNamespace(method="resources/read")), refuse)
    error = refused.value.error
    assert (error.code, error.message, error.data) == (-32602, f"There is no {MASK}.", {"uri": "a"})


def test_a_longer_secret_is_masked_whole() -> None:
    redactor = Redactor(["password1", "password1-and-more"])
    assert redactor.mask("password1-and-more, password1") == (f"{MASK}, {MASK}", 2)
    assert not Redactor()


def test_only_texts_of_documents_are_masked() -> None:
    redactor = Redactor(["aGVsbG8gd29ybGQ="])
    content = [{"type": "image", "data": "aGVsbG8gd29ybGQ="}, {"text": "aGVsbG8gd29ybGQ="}]
    masked, count = redactor.mask_all({"content": content, "n": 1})
    assert (masked["content"][0]["data"], masked["content"][1]["text"]) == (
        content[0]["data"],
        MASK,
    )
    assert count == 1


def test_no_name_of_a_field_hides_a_secret_of_a_document() -> None:
    redactor = Redactor(["hunter2-long"])
    kept = {"data": "hunter2-long", "type": "image", "blob": ["hunter2-long"], "hunter2-long": 1}
    masked, count = redactor.mask_all({"structuredContent": {"cells": [{"metadata": kept}]}})
    (cell,) = masked["structuredContent"]["cells"]
    assert cell["metadata"] == {"data": MASK, "type": "image", "blob": [MASK], MASK: 1}
    assert count == 3


def test_secrets_are_found_by_the_names_of_variables() -> None:
    environment = {
        "GITHUB_TOKEN": "long-enough",
        "db_password": "also-long-enough",
        "AWS_SECRET_ACCESS_KEY": "and-this-one",
        "MY_TOKEN": "short",
        "KEYBOARD": "a-long-value",
        "HOME": "/home/somebody",
    }
    assert secrets_in(environment) == ["long-enough", "also-long-enough", "and-this-one"]


@pytest.mark.parametrize("pattern", ["(", "x*", ""])
def test_a_pattern_that_would_mask_everything_or_nothing_is_refused(pattern: str) -> None:
    (setting,) = (each for each in settings_of("command") if each.name == "redact_patterns")
    with pytest.raises(ValueError, match=r"regular expression|empty text"):
        setting.checked((pattern,))
