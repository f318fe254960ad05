"""The settings of the extension hold through the command too, on every server that it joins."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp_types import ImageContent
from PIL import Image

from jupyter_collaboration_mcp.settings.settings import SETTINGS
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent, over_stdio, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.standalone import StandaloneProcess
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

BOOK = "book.ipynb"

LIMITS: Mapping[str, Any] = {
    "allowed_paths": ["*.ipynb", "*.md"],
    "denied_paths": ["private/*", "[xy]*.md"],
    "agent_name": "Grace",
    "max_cells_per_call": 3,
    "max_source_length": 500,
    "max_stream_size": 200,
    "max_display_size": 3_000,
    "aside_limit": 4_000,
    "aside_total": 7_000_000,
    "aside_age": 7_200,
    "max_image_width": 56,
    "max_image_height": 28,
    "input_timeout": 1,
}

CODE = {
    "printed": "print('x' * 8_000)",
    "displayed": "display({'text/plain': 'y' * 4_500}, raw=True)",
    "pictured": (
        "from PIL import Image\nimport io\nfrom IPython.display import Image as Shown\n"
        "file = io.BytesIO()\nImage.new('RGB', (400, 100), 'red').save(file, 'png')\n"
        "Shown(data=file.getvalue())"
    ),
    "asking": "input('Anyone? ')",
}


class Joined(NamedTuple):
    """The command with small limits, joined to one server; an agent has connected another."""

    ada: AgentClient
    command: StandaloneProcess
    first: JupyterProcess
    second: JupyterProcess


@pytest.fixture(scope="module")
async def servers(
    make_server: MakeServer, anyio_backend: str
) -> AsyncIterator[list[JupyterProcess]]:
    """Two Jupyter servers that have nothing of ours."""
    async with AsyncExitStack() as stack:
        both = [make_server(extensions={"jupyter_collaboration_mcp": False}) for _ in range(2)]
        for server in both:
            await stack.enter_async_context(server)
            root = Path(server.root)
            (root / "private").mkdir()
            cells = [notebooks.code(name, code) for name, code in CODE.items()]
            for path in (BOOK, "private/plan.ipynb"):
                notebooks.write(root / path, notebooks.notebook(cells))
            for name in ("notes.md", "xyz.md", "data.csv"):
                (root / name).write_text("text")
        yield both


@pytest.fixture(scope="module", params=["options", "environment"])
async def joined(
    servers: list[JupyterProcess], request: pytest.FixtureRequest, anyio_backend: str
) -> AsyncIterator[Joined]:
    first, second = servers
    options, variables = [], {}
    for setting in SETTINGS:
        if setting.name not in LIMITS:
            continue
        value = LIMITS[setting.name]
        texts = list(map(str, value if setting.is_list else [value]))
        options += [f"{setting.option}={text}" for text in texts]
        variables[setting.variable] = json.dumps(texts) if setting.is_list else texts[0]
    by_options = request.param == "options"
    command = StandaloneProcess([first], *(options if by_options else ()))
    command.environment.update({} if by_options else variables)
    async with command, agent(command) as ada:
        url = f"{second.url}?token={second.token}"
        await ada.ask("connect_server", url=url, alias="later")
        yield Joined(ada, command, first, second)


@pytest.mark.parametrize("alias", ["", "later:"], ids=["named", "connected later"])
async def test_path_rules_hold_on_every_server(joined: Joined, alias: str) -> None:
    ada = joined.ada
    assert len(await ada.sources(f"{alias}{BOOK}")) == len(CODE)
    for tool, path in (
        ("get_notebook", "private/plan.ipynb"),
        ("get_document", "xyz.md"),
        ("get_document", "data.csv"),
        ("delete_document", "private/plan.ipynb"),
    ):
        error = await ada.refused(tool, path=f"{alias}{path}")
        assert error["code"] == "permission_refused", path
    listed = await ada.ask("list_documents", path=alias, path_filter="*", file_type="file")
    listed["documents"] += (await ada.ask("list_notebooks", path_prefix=alias))["notebooks"]
    names = {found["path"] if isinstance(found, dict) else found for found in listed["documents"]}
    assert {f"{alias}{BOOK}", f"{alias}notes.md"} <= names
    hidden = {"private/plan.ipynb", "xyz.md", "data.csv"}
    assert not {name.removeprefix("later:") for name in names} & hidden


@pytest.mark.parametrize("alias", ["", "later:"], ids=["named", "connected later"])
async def test_the_size_of_a_call_is_limited(joined: Joined, alias: str) -> None:
    path, server = f"{alias}{BOOK}", joined.second if alias else joined.first
    for cells in ([{"content": "1"}] * 4, [{"content": "x" * 501}]):
        error = await joined.ada.refused(
            "batch_insert_notebook_cells", path=path, cells=cells, exec=False
        )
        assert error["code"] == "too_large"
    assert len(await joined.ada.sources(path)) == len(CODE)
    assert len(notebooks.sources(Path(server.root) / BOOK)) == len(CODE)


async def test_the_output_that_a_notebook_keeps_is_limited(joined: Joined) -> None:
    ada, path = joined.ada, f"later:{BOOK}"
    printed = await run(ada, path, "printed")
    displayed = await run(ada, path, "displayed")
    async with Collaborator(joined.second.url, joined.second.token, BOOK) as ana:
        text = ana.cell("printed")["outputs"][0]["text"]
        assert len(text) < 600
        assert "The whole, for 2 hours" in text
        assert "y" * 3_001 not in json.dumps(ana.cell("displayed")["outputs"])
    whole = await ada.say("get_run", run_id=printed["run_id"], output=0)
    assert "not kept beyond 4,000 bytes of one run" in whole
    with pytest.raises(Exception, match="kept for 2 hours and up to 7 MB"):
        await ada.client.read_resource(f"notebook://runs/{displayed['run_id']}/0")


async def test_the_size_of_images_is_limited(joined: Joined) -> None:
    answer = await joined.ada.call("execute_notebook_cell", path=BOOK, cell_id="pictured")
    (picture,) = [part for part in answer.content if isinstance(part, ImageContent)]
    width, height = Image.open(io.BytesIO(base64.b64decode(picture.data))).size
    assert width <= 56
    assert height <= 28


async def test_the_wait_for_input_is_limited(joined: Joined) -> None:
    told = await run(joined.ada, BOOK, "asking")

    async def look() -> Any:
        return await joined.ada.call("get_run", run_id=told["run_id"], wait=0)

    result = await eventually(
        look, lambda result: result.structured_content["state"] != "input_required"
    )
    assert "nobody answered for 1 s" in text_of(result)


async def test_an_unnamed_agent_gets_the_configured_name(joined: Joined) -> None:
    async with agent(joined.command, ()) as unnamed:
        await unnamed.ask("clear_notebook_outputs", path=BOOK)
    await until(lambda: "Grace <" in joined.command.log)


async def run(ada: AgentClient, path: str, cell: str) -> dict[str, Any]:
    facts = await ada.ask("execute_notebook_cell", path=path, cell_id=cell, timeout=60)
    (told,) = facts["runs"]
    return dict(told)


@pytest.mark.parametrize("way", ["options", "environment"])
async def test_permission_and_toolsets_hide_tools_and_an_idle_agent_leaves(
    servers: list[JupyterProcess], tmp_path: Path, way: str
) -> None:
    server = servers[0]
    given = {"permission": "read", "toolsets": "notebook", "idle_timeout": "0.5"}
    options = [f"--{name.replace('_', '-')}={text}" for name, text in given.items()]
    variables: dict[str, Any] = {
        f"JUPYTER_COLLABORATION_MCP_{name.upper()}": text for name, text in given.items()
    }
    async with (
        Collaborator(server.url, server.token, BOOK, "Ana") as ana,
        over_stdio(
            tmp_path,
            f"--server={server.url}",
            *(options if way == "options" else ()),
            "--agent-name=Idle",
            JUPYTER_TOKEN=server.token,
            **(variables if way == "environment" else {}),
        ) as ada,
    ):
        tools = {tool.name for tool in (await ada.client.list_tools()).tools}
        assert "get_notebook" in tools
        assert not tools & {"batch_update_notebook_cells", "get_document", "connect_server"}
        error = await ada.refused("batch_delete_notebook_cells", path=BOOK, cell_ids=["asking"])
        assert error["code"] == "permission_refused"
        seen: set[str] = set()

        def names() -> set[str]:
            return {str(user["name"]) for user in ana.awareness_users()}

        ana.awareness.observe(lambda topic, change: seen.update(names()))
        await ada.ask("create_notebook_session", path=BOOK)
        await ana.until(lambda: "Idle" in seen and "Idle" not in names())


async def test_an_option_wins_over_the_environment(
    servers: list[JupyterProcess], tmp_path: Path
) -> None:
    server = servers[0]
    async with over_stdio(
        tmp_path,
        f"--server={server.url}",
        "--denied-paths=nothing/*",
        JUPYTER_TOKEN=server.token,
        JUPYTER_COLLABORATION_MCP_DENIED_PATHS="private/*",
        JUPYTER_COLLABORATION_MCP_MAX_IMAGE_WIDTH="0",
    ) as ada:
        assert len(await ada.sources("private/plan.ipynb")) == len(CODE)
        answer = await ada.call("execute_notebook_cell", path=BOOK, cell_id="pictured")
        assert not [part for part in answer.content if isinstance(part, ImageContent)]
