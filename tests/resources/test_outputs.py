"""Outputs that are too large for a notebook, behind their addresses, against a real server."""

from __future__ import annotations

import asyncio
import base64
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceLink, TextResourceContents

from jupyter_collaboration_mcp.resources import RESOURCES
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, AgentClient, agent, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

#: Characters of printed text, and bytes of displays, that a notebook of these tests keeps.
PRINTED, DISPLAYED = 10_000, 50_000

LIMITS = (
    f"--JupyterCollaborationMCP.max_stream_size={PRINTED}",
    f"--JupyterCollaborationMCP.max_display_size={DISPLAYED}",
    "--JupyterCollaborationMCP.denied_paths=secret/*",
)

BOOK = "book.ipynb"

#: Prints, displays and fails at length. The emoji are where pages end.
CODE = {
    "printed": "print('begin é')\nfor n in range(5000): print(f'{n:04} ' + '😀' * 9)",
    "displayed": "display({'text/html': '<b>é😀</b>' * 20_000, 'text/plain': 'x'}, raw=True)",
    "pictured": (
        "import base64\ndisplay({'image/png': base64.b64encode(bytes(range(256)) * 300).decode()},"
        " raw=True)\nprint('beside')"
    ),
    "failed": "raise ValueError('wröng ' * 50_000)",
    "small": "print('small é')",
    "cleared": (
        "from IPython.display import clear_output\n"
        "print('first ' * 5000, flush=True)\nclear_output(wait=True)\nprint('second ' * 5000)"
    ),
}

PRINTED_WHOLE = "begin é\n" + "".join(f"{n:04} " + "😀" * 9 + "\n" for n in range(5000))

NOTICE = re.compile(
    r"\[Only a part is kept here \((?P<said>[^)]*)\)\. The whole, for 24 hours: (?P<uri>\S+)\]"
)


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A server with small limits."""
    async with make_server(*LIMITS) as process:
        root = Path(process.root)
        (root / "secret").mkdir()
        cells = [notebooks.code(name, code) for name, code in CODE.items()]
        for path in (BOOK, "other.ipynb", "secret/plan.ipynb"):
            notebooks.write(root / path, notebooks.notebook(cells))
        yield process


@pytest.fixture
async def ada(server: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(server, "Ada") as client:
        yield client


@asynccontextmanager
async def tab(server: JupyterProcess, path: str = BOOK) -> AsyncIterator[Collaborator]:
    async with Collaborator(server.url, server.token, path) as ana:
        yield ana


async def run(client: AgentClient, cell: str, path: str = BOOK) -> dict[str, Any]:
    facts = await client.ask("execute_notebook_cell", path=path, cell_id=cell)
    (told,) = facts["runs"]
    return dict(told)


async def stored(server: JupyterProcess, cell: str) -> list[dict[str, Any]]:
    """A cell's outputs as people have them."""
    async with tab(server) as ana:
        return list(ana.cell(cell)["outputs"])


async def notice(server: JupyterProcess, cell: str) -> str:
    """The address in the line that stands for the rest of a cell's first output."""
    (output, *_) = await stored(server, cell)
    text = output.get("text") or output.get("data", {}).get("text/plain")
    found = NOTICE.search(text or output["traceback"][0])
    assert found is not None, output
    return found["uri"]


async def read(client: AgentClient, uri: str) -> list[Any]:
    return list((await client.client.read_resource(uri)).contents)


async def pages(client: AgentClient, uri: str, mime: str = "text/plain") -> list[str]:
    """All pages of a text behind an address, following what each page says is the next."""
    found: list[str] = []
    following: str | None = uri
    while following is not None:
        (content,) = [part for part in await read(client, following) if part.mime_type == mime]
        assert isinstance(content, TextResourceContents)
        page, following = content.text, None
        if content.meta is not None and content.meta["end"] < content.meta["size"]:
            page, _, last = page.rpartition("\n")
            following = last.removesuffix("]").rpartition("next: ")[2]
            assert len(page.encode()) == content.meta["end"] - content.meta["offset"]
        found.append(page)
    return found


async def refused(client: AgentClient, uri: str) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await client.client.read_resource(uri)
    return caught.value


# -- what a notebook keeps -------------------------------------------------------------------


async def test_the_notebook_keeps_the_beginning_and_a_link_to_the_rest(
    server: JupyterProcess, ada: AgentClient
) -> None:
    told = await run(ada, "printed")
    (output,) = await stored(server, "printed")
    head, line = output["text"][:PRINTED], output["text"][PRINTED:].strip("\n")
    assert head == PRINTED_WHOLE[:PRINTED]
    found = NOTICE.fullmatch(line)
    assert found is not None, line
    assert found["said"] == f"{len(PRINTED_WHOLE) / 1000:.1f} kB in all"
    assert told["run_id"] in found["uri"]
    assert told["outputs"][0]["length"] == len(PRINTED_WHOLE)


async def test_pages_add_up_to_the_whole_output(server: JupyterProcess, ada: AgentClient) -> None:
    told = await run(ada, "printed")
    uri = await notice(server, "printed")
    found = await pages(ada, uri)
    assert len(found) > 3
    assert "".join(found) == PRINTED_WHOLE
    # As the cell has it now, without the name of a run.
    assert "".join(await pages(ada, uri.partition("?")[0])) == PRINTED_WHOLE
    # The same with a tool, for clients that read no resources.
    whole, offset, more = "", 0, True
    while more:
        facts = await ada.ask("get_run", run_id=told["run_id"], output=0, offset=offset)
        (part,) = facts["parts"]
        whole += part["text"]
        offset, more = part["offset"], part["offset"] < part["size"]
    assert whole == PRINTED_WHOLE
    text = await ada.say("get_run", run_id=told["run_id"], output=0)
    assert f"; continue with offset={len(found[0].encode())}\n" in text


async def test_the_answer_shows_the_end_and_a_link_to_all_of_it(ada: AgentClient) -> None:
    result = await ada.call("execute_notebook_cell", path=BOOK, cell_id="printed")
    assert "begin é" in text_of(result)
    assert "4999 😀" in text_of(result)
    (link,) = [part for part in result.content if isinstance(part, ResourceLink)]
    assert "".join(await pages(ada, str(link.uri))) == PRINTED_WHOLE


async def test_scratch_code_has_an_address_too(ada: AgentClient) -> None:
    result = await ada.call("run_code", path=BOOK, code=CODE["printed"])
    (link,) = [part for part in result.content if isinstance(part, ResourceLink)]
    assert re.fullmatch(r"notebook://runs/run-[0-9a-f]{12}/0", str(link.uri))
    assert "".join(await pages(ada, str(link.uri))) == PRINTED_WHOLE


async def test_a_large_display_is_replaced_by_a_link_to_all_of_it(
    server: JupyterProcess, ada: AgentClient
) -> None:
    await run(ada, "displayed")
    (output,) = await stored(server, "displayed")
    assert list(output["data"]) == ["text/plain"]
    assert "text/html, text/plain" in output["data"]["text/plain"]
    uri = await notice(server, "displayed")
    for address in (uri, uri.partition("?")[0]):
        assert "".join(await pages(ada, address, "text/html")) == "<b>é😀</b>" * 20_000
    (_, plain) = await read(ada, uri)
    assert (plain.mime_type, plain.text) == ("text/plain", "x")


async def test_a_large_picture_is_replaced_by_a_link_to_all_of_it(
    server: JupyterProcess, ada: AgentClient
) -> None:
    told = await run(ada, "pictured")
    outputs = await stored(server, "pictured")
    assert outputs[1]["text"] == "beside\n"
    (content,) = await read(ada, await notice(server, "pictured"))
    assert content.mime_type == "image/png"
    assert base64.b64decode(content.blob) == bytes(range(256)) * 300
    text = await ada.say("get_run", run_id=told["run_id"], output=0)
    assert "image/png: read it at notebook://" in text
    assert len(text) < 1000


async def test_a_large_error_keeps_its_name(server: JupyterProcess, ada: AgentClient) -> None:
    await run(ada, "failed")
    (output,) = await stored(server, "failed")
    assert output["ename"] == "ValueError"
    assert output["evalue"].startswith("wröng wröng")
    assert len(str(output)) < 3000
    whole = "".join(await pages(ada, await notice(server, "failed")))
    assert whole.startswith("ValueError: wröng")
    assert "wröng " * 40_000 in whole


async def test_cleared_output_is_not_kept(server: JupyterProcess, ada: AgentClient) -> None:
    await run(ada, "cleared")
    assert "".join(await pages(ada, await notice(server, "cleared"))) == "second " * 5000 + "\n"


async def test_a_small_output_has_an_address_too(server: JupyterProcess, ada: AgentClient) -> None:
    told = await run(ada, "small")
    await run(ada, "printed")
    uri = (await notice(server, "printed")).replace("/printed/", "/small/").partition("?")[0]
    for address in (uri, f"{uri}?run={told['run_id']}"):
        (content,) = await read(ada, address)
        assert content.text.strip() == "small é"
    error = await refused(ada, uri.replace("outputs/0", "outputs/1"))
    assert "There is no output 1 of cell small; it has 1." in error.message


async def test_the_output_of_a_run_can_be_read_while_it_prints(
    server: JupyterProcess, ada: AgentClient, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    code = (
        f"{CODE['printed']}\nimport time, pathlib\n"
        f"while not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)\nprint('end')"
    )
    result = await ada.ask("run_code", path=BOOK, code=code, timeout=0)
    run_id = result["runs"][0]["run_id"]
    facts: dict[str, Any] = {}
    try:
        async with asyncio.timeout(20):
            while not facts.get("parts") or facts["parts"][0]["size"] < 200_000:
                facts = (
                    await ada.call("get_run", run_id=run_id, output=0, wait=0)
                ).structured_content
    finally:
        gate.touch()
    assert PRINTED_WHOLE.startswith(facts["parts"][0]["text"])
    await ada.ask("get_run", run_id=run_id)
    address = f"notebook://any/{await file_id(ada)}/executions/{run_id}/outputs/0"
    assert "".join(await pages(ada, address)) == PRINTED_WHOLE + "end\n"


async def file_id(client: AgentClient, path: str = BOOK) -> str:
    return str((await client.ask("create_notebook_session", path=path))["file_id"])


# -- what is gone ----------------------------------------------------------------------------


async def test_an_output_whose_file_is_gone_says_so(
    server: JupyterProcess, ada: AgentClient
) -> None:
    told = await run(ada, "printed")
    uri = await notice(server, "printed")
    (kept,) = Path(server.home).glob(f"data/collaboration-mcp/*/outputs/*/{told['run_id']}")
    shutil.rmtree(kept)
    for address in (uri, uri.partition("?")[0]):
        error = await refused(ada, address)
        assert error.code == -32602
        assert error.message.startswith("output_gone: ")
        assert "Run the cell again" in error.message
    gone = await ada.refused("get_run", run_id=told["run_id"], output=0)
    assert gone["code"] == "output_gone"
    # What the notebook has is still told.
    assert "4999 😀" in await ada.say("get_run", run_id=told["run_id"])


# -- who may read ----------------------------------------------------------------------------


async def test_a_read_only_connection_can_read_outputs(
    server: JupyterProcess, ada: AgentClient
) -> None:
    await run(ada, "printed")
    uri = await notice(server, "printed")
    for mode in (LEGACY, "2026-07-28"):
        async with agent(server, "Eve", mode, permission="read") as reader:
            assert "".join(await pages(reader, uri)) == PRINTED_WHOLE


async def test_another_notebooks_address_does_not_open_a_run(
    server: JupyterProcess, ada: AgentClient
) -> None:
    await run(ada, "printed")
    uri = await notice(server, "printed")
    run_id = uri.rpartition("=")[2]
    here, other = await file_id(ada), await file_id(ada, "other.ipynb")
    for address in (
        uri.replace(here, other),
        f"notebook://any/{other}/executions/{run_id}/outputs/0",
        f"notebook://any/{here}/cells/printed/outputs/0?run=run-000000000000",
        f"notebook://any/{here}/cells/printed/outputs/0?run=..%2f..%2fsecret",
        f"notebook://any/{here}/cells/printed/outputs/7?run={run_id}",
    ):
        assert (await refused(ada, address)).message.startswith("output_gone: "), address
    error = await refused(ada, uri.replace(here, "00000000-0000-0000-0000-000000000000"))
    assert error.message.startswith("document_not_found: ")
    error = await refused(ada, f"notebook://any/{here}/cells/nobody/outputs/0")
    assert error.message.startswith("cell_not_found: ")


@pytest.fixture
async def moved(server: JupyterProcess, ada: AgentClient) -> tuple[str, str]:
    """A run, and the address of its output, whose notebook went where no agent may look."""
    path = "moved.ipynb"
    shown = Path(server.root) / path
    if not shown.exists():
        code = notebooks.code("printed", CODE["printed"])
        notebooks.write(shown, notebooks.notebook([code]))
    told = await run(ada, "printed", path)
    identity = await file_id(ada, path)
    uri = f"notebook://any/{identity}/cells/printed/outputs/0?run={told['run_id']}"
    assert "".join(await pages(ada, uri)) == PRINTED_WHOLE
    await move(server, path, f"secret/{told['run_id']}.ipynb")
    return told["run_id"], uri


async def test_a_denied_path_cannot_be_read_as_a_resource(
    ada: AgentClient, moved: tuple[str, str]
) -> None:
    error = await refused(ada, moved[1])
    assert error.message.startswith("permission_refused: ")


async def test_a_denied_path_cannot_be_read_through_its_runs(
    ada: AgentClient, moved: tuple[str, str]
) -> None:
    error = await ada.refused("get_run", run_id=moved[0], output=0)
    assert error["code"] == "permission_refused"


async def move(server: JupyterProcess, path: str, to: str) -> None:
    """Rename a file as a person does in the file browser."""
    async with httpx.AsyncClient(
        headers=server.headers, trust_env=False, timeout=60, verify=False
    ) as http:
        answer = await http.patch(f"{server.url}api/contents/{path}", json={"path": to})
        answer.raise_for_status()


@pytest.mark.parametrize(
    "uri",
    [
        "notebook://any",
        "notebook://any/",
        "notebook://any/{id}/cells/printed/outputs/",
        "notebook://any/{id}/cells/printed/outputs/x",
        "notebook://any/{id}/cells/printed/outputs/-1",
        "notebook://any/{id}/cells/printed/outputs/%D9%A1",
        "notebook://any/{id}/cells/printed/outputs/0/more",
        "notebook://any/{id}/cells/printed/inputs/0",
        "notebook://any/{id}/things/printed/outputs/0",
        "notebook://any/{id}/cells/printed/outputs/0?offset=-1",
        "notebook://any/{id}/cells/printed/outputs/0?offset=all",
        "notebook://any/{id}/cells/printed/outputs/0?offset=99999999999999999999999",
        "notebooks://any/{id}/cells/printed/outputs/0",
        "file:///etc/passwd",
    ],
)
async def test_a_malformed_address_gives_a_clear_error(ada: AgentClient, uri: str) -> None:
    error = await refused(ada, uri.replace("{id}", await file_id(ada)))
    assert error.code == -32602
    assert error.message.startswith("invalid_argument: ")
    assert "Addresses are notebook://list, " in error.message
    assert "notebook://{session}/{notebook}/cells/{cell}, " in error.message


async def test_the_templates_are_listed(ada: AgentClient) -> None:
    listing = await ada.client.list_resource_templates()
    templates = {template.name: template.uri_template for template in listing.resource_templates}
    single = {"open notebooks", "current document"}
    assert list(templates) == [kind.name for kind in RESOURCES if kind.name not in single]
    assert templates["cell output"] == (
        "notebook://{session}/{notebook}/cells/{cell}/outputs/{n}{?run,offset}"
    )
    assert templates["run output"] == (
        "notebook://{session}/{notebook}/executions/{run}/outputs/{n}{?offset}"
    )
    assert templates["output"] == "notebook://runs/{run}/{n}{?offset}"


# -- later -----------------------------------------------------------------------------------


async def test_a_link_in_a_notebook_outlives_the_server(server: JupyterProcess) -> None:
    file = Path(server.root) / BOOK
    async with agent(server, "Ada") as ada:
        await run(ada, "printed")
        await run(ada, "displayed")
        result = await ada.call("run_code", path=BOOK, code=CODE["printed"])
        (link,) = [part for part in result.content if isinstance(part, ResourceLink)]
        uris = [await notice(server, "printed"), await notice(server, "displayed")]
    await until(lambda: all(uri in file.read_text() for uri in uris))
    await server.terminate()
    await server.start()
    async with agent(server, "Ada") as ada:
        assert "".join(await pages(ada, uris[0])) == PRINTED_WHOLE
        assert "".join(await pages(ada, uris[0].partition("?")[0])) == PRINTED_WHOLE
        assert "".join(await pages(ada, str(link.uri))) == PRINTED_WHOLE
        assert "".join(await pages(ada, uris[1], "text/html")) == "<b>é😀</b>" * 20_000
