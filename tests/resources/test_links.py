"""Links to outputs of notebooks that this process of the command has never opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceLink, TextResourceContents

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.standalone import StandaloneProcess

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

STOCK = {"jupyter_collaboration_mcp": False}
PATH = "book.ipynb"
LONG = "for n in range(200_000): print('line', n)"
PRINTED = "".join(f"line {n}\n" for n in range(200_000))
SAID = {"output_type": "stream", "name": "stdout", "text": "said before\n"}


@pytest.fixture(scope="module")
async def stock(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A Jupyter server that has nothing of ours."""
    async with make_server(extensions=STOCK) as process:
        cells = [notebooks.code("long", LONG), notebooks.code("short", "", outputs=[SAID])]
        notebooks.write(Path(process.root) / PATH, notebooks.notebook(cells))
        yield process


async def read(client: AgentClient, uri: str) -> str:
    (content,) = (await client.client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


def file_id(server: JupyterProcess) -> str:
    """As jupyter-collaboration tells it to somebody who opens the notebook."""
    answer = httpx.put(
        f"{server.url}api/collaboration/session/{PATH}",
        json={"format": "json", "type": "notebook"},
        headers=server.headers,
        timeout=60,
    )
    return str(answer.raise_for_status().json()["fileId"])


async def test_a_link_to_side_output_outlives_the_command(stock: JupyterProcess) -> None:
    async with StandaloneProcess([stock]) as command, agent(command) as ada:
        ran = await ada.call("execute_notebook_cell", path=PATH, cell_id="long", timeout=60)
        (link,) = [part for part in ran.content if isinstance(part, ResourceLink)]
    async with StandaloneProcess([stock]) as command, agent(command) as ada:
        text = await read(ada, f"{link.uri}?offset=2000000")
        assert text.startswith(PRINTED[2_000_000:2_020_000])


async def test_a_link_works_while_another_server_is_down(
    stock: JupyterProcess, make_server: MakeServer
) -> None:
    known = f"notebook://any/{file_id(stock)}/cells/short/outputs/0"
    unknown = "notebook://any/no-such-file/cells/short/outputs/0"
    async with (
        make_server(extensions=STOCK) as other,
        StandaloneProcess([other, stock]) as command,
        agent(command) as ada,
    ):
        with pytest.raises(MCPError, match="document_not_found"):
            await read(ada, unknown)
        other.kill()
        assert await read(ada, known) == "said before"
        # It may be there: nobody can say that there is no such notebook.
        with pytest.raises(MCPError, match="server_unreachable"):
            await read(ada, unknown)
