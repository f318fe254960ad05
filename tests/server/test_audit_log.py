"""The audit log: one line for each call, without contents, that has outlived the server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.conftest import MakeServer
from tests.harness import measuring, notebooks
from tests.harness.agents import agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.standalone import BEARER
from tests.harness.waiting import until
from tests.harness.ways import WAYS, ours, served

pytestmark = pytest.mark.anyio

SECRET = "a-word-of-nobodys-business"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "calls.jsonl"


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest, path: Path
) -> AsyncIterator[JupyterProcess]:
    settings = {"audit_log": str(path)}
    async with served(make_server, request.param, settings=settings, measured=True) as process:
        yield process


async def lines_of(path: Path, name: str, count: int) -> list[dict[str, Any]]:
    """What is written of an agent's calls; there are as many as expected."""

    def found() -> list[dict[str, Any]]:
        lines = map(json.loads, path.read_text().splitlines())
        return [line for line in lines if line["agent"] == name]

    await until(lambda: len(found()) >= count)
    assert len(found()) == count
    return found()


async def test_each_call_has_a_line_with_who_what_where_and_how_it_ended(
    server: JupyterProcess, path: Path, request: pytest.FixtureRequest
) -> None:
    name = f"Ada {request.node.callspec.id}"
    cells = [notebooks.code("cell-a", "1"), notebooks.code("cell-b", "2")]
    notebooks.write(Path(server.root) / "audited.ipynb", notebooks.notebook(cells))
    started = datetime.now(UTC)
    async with agent(server, name) as ada:
        joined = await ada.ask("create_notebook_session", path="audited.ipynb")
        there = f"notebook://{joined['session_id']}/"
        await ada.ask("get_notebook", path="audited.ipynb")
        edited = await ada.write("audited.ipynb", "cell-a", f"{SECRET} 1")
        ran = await ada.call("run_code", path="audited.ipynb", code=f"raise ValueError({SECRET!r})")
        assert SECRET in str(ran.content)
        await ada.ask("batch_delete_notebook_cells", path="audited.ipynb", cell_ids=["cell-b"])
        await ada.refused("delete_document", path=f"https://x/missing?token={SECRET}")
        await ada.client.read_resource(f"{there}audited.ipynb")
        with pytest.raises(MCPError):
            await ada.client.read_resource(f"{there}missing.ipynb")
        await ada.client.get_prompt("review_notebook", {"path": "audited.ipynb"})
        lines = await lines_of(path, name, 9)
    assert [(line["call"], line["outcome"]) for line in lines] == [
        ("create_notebook_session", "ok"),
        ("get_notebook", "ok"),
        ("batch_update_notebook_cells", "ok"),
        ("run_code", "ok"),
        ("batch_delete_notebook_cells", "ok"),
        ("delete_document", "document_not_found"),
        ("resources/read", "ok"),
        ("resources/read", "document_not_found"),
        ("prompts/get", "ok"),
    ]
    _, read, edit, run, deletion, refused = lines[:6]
    for line in lines:
        then = datetime.fromisoformat(line["time"])
        assert then.utcoffset() == started.utcoffset()
        assert abs((then - started).total_seconds()) < 60
        assert line["duration_ms"] > 0
        assert line["credential"].startswith("token:")
    for line in (read, edit, run, deletion, lines[6], lines[8]):
        assert line["path"] == "audited.ipynb"
    assert "cells" not in read
    (changed,) = edited["cells"]
    assert edit["cells"] == [f"cell-a@{changed['revision']}"]
    assert read["version_after"] <= edit["version_before"] < edit["version_after"]
    assert edit["version_after"] == edited["version"]
    assert run["runs"] == {"failed": 1}
    assert deletion["cells"] == ["cell-b"]
    assert "missing" in refused["path"]
    written = path.read_text()
    for secret in (SECRET, server.token, BEARER):
        assert secret not in written


async def test_a_call_that_is_refused_has_a_line_too(
    server: JupyterProcess, path: Path, request: pytest.FixtureRequest
) -> None:
    name = f"Eve {request.node.callspec.id}"
    async with agent(server, name, permission="read") as eve:
        await eve.refused("create_document", path="new.md", type="file", content=SECRET)
        await eve.refused("get_notebook", path="../outside.ipynb")
        lines = await lines_of(path, name, 2)
    assert [(line["path"], line["outcome"]) for line in lines] == [
        ("new.md", "permission_refused"),
        ("../outside.ipynb", "path_refused"),
    ]


async def test_every_line_is_there_after_the_server_has_stopped(
    make_server: MakeServer, tmp_path: Path
) -> None:
    path = tmp_path / "calls.jsonl"
    settings = ours({"audit_log": str(path), "rate_limit": "20"})
    async with (
        make_server(env={**measuring.shared_server(), **settings}) as server,
        agent(server, "Ada") as ada,
    ):
        for _ in range(25):
            await ada.call("document_exists", path="a.md")
    outcomes = [json.loads(line)["outcome"] for line in path.read_text().splitlines()]
    assert outcomes == ["ok"] * 20 + ["rate_limited"] * 5
