"""What the log says of calls: one line for each that can change or run something, and no token."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import httpx2
import pytest

from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent, mcp_address
from tests.harness.jupyter import JupyterProcess
from tests.harness.standalone import BEARER
from tests.harness.waiting import until
from tests.transport.conftest import HEADERS, INITIALIZE

pytestmark = pytest.mark.anyio


def log_of(server: JupyterProcess) -> str:
    return server.log if server.standalone is None else server.standalone.log


async def lines_about(server: JupyterProcess, name: str, count: int) -> list[str]:
    """What is logged of an agent's calls, without times; there are as many as expected."""

    def found() -> list[str]:
        lines = log_of(server).splitlines()
        return [line[line.index(f"{name} <") :] for line in lines if f"{name} <" in line]

    await until(lambda: len(found()) >= count)
    return [re.sub(r"\d+ ms$", "N ms", line) for line in found()]


async def test_each_call_that_changes_or_runs_something_is_logged_in_one_line(
    server: JupyterProcess,
) -> None:
    notebooks.write(Path(server.root) / "logged.ipynb", notebooks.notebook([]))
    secret = "a text that is nobody's business"
    async with agent(server, "Logged Ada") as ada:
        await ada.ask("get_notebook", path="logged.ipynb")
        await ada.ask(
            "batch_insert_notebook_cells",
            path="logged.ipynb",
            cells=[{"cell_type": "markdown", "content": secret}],
        )
        await ada.ask("run_code", path="logged.ipynb", code=f"len({secret!r})")
        await ada.call("run_code", path="logged.ipynb", code="1 / 0")
        await ada.refused("delete_document", path="no\nsuch <b>")
        await ada.refused("rename_document", path="logged.ipynb")
        lines = await lines_about(server, "Logged Ada", 5)
    digest = hashlib.sha256(BEARER.encode()).hexdigest()[:16]
    credential = "server" if server.standalone is None else digest
    who = f"Logged Ada <token:{credential}>"
    assert lines == [
        f"{who} batch_insert_notebook_cells logged.ipynb: ok in N ms",
        f"{who} run_code logged.ipynb: ok, 1 run completed in N ms",
        f"{who} run_code logged.ipynb: ok, 1 run failed in N ms",
        f"{who} delete_document 'no\\nsuch <b>': document_not_found in N ms",
        f"{who} rename_document logged.ipynb: invalid_argument in N ms",
    ]
    assert secret not in log_of(server)


async def test_an_agents_name_cannot_forge_a_line(server: JupyterProcess) -> None:
    async with agent(server, "Mallory\x1b[2K\u2028[I 1970 Fake") as mallory:
        await mallory.refused("delete_document", path="missing.txt")
    await until(lambda: "Mallory" in log_of(server))
    (line,) = [line for line in log_of(server).splitlines() if "Mallory" in line and "ms" in line]
    assert "\x1b[2K" not in line
    assert "delete_document" in line


async def test_no_log_contains_a_token(server: JupyterProcess, ada: AgentClient) -> None:
    url, headers = mcp_address(server)
    token, mistyped = headers["Authorization"].partition(" ")[2], "mistyped-token"
    async with httpx2.AsyncClient(headers=HEADERS, timeout=30, verify=False) as http:
        for query, sent in (
            (f"token={token}", headers),
            (f"tokn={token}", headers),
            (f"permission=read&TOKEN={token}", headers),
            (f"token={mistyped}", {}),
            ("", {"Authorization": f"Bearer {mistyped}"}),
        ):
            await http.post(f"{url}?{query}", json=INITIALIZE, headers=sent)
    await ada.call("run_code", path="missing.ipynb", code=f"print('{mistyped}')")
    await until(lambda: "run_code missing.ipynb: document_not_found" in log_of(server))
    for log in {server.log, log_of(server)}:
        assert server.token not in log
        assert token not in log
        assert mistyped not in log
