"""Notebooks and text files as resources, through both ways to a server and in both eras."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import BlobResourceContents, ResourceTemplateReference, TextResourceContents

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.ways import WAYS, served

pytestmark = pytest.mark.anyio

BOOK = "folder/bôok 😀.ipynb"

#: What a browser would run, and a colour.
BAD = "<b>bold</b><script>alert(1)</script><img src=x onerror=alert(1)>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" onload="x()"><script>1</script><g/></svg>'
COLOUR = "\x1b[31mred\x1b[0m\n"

OUTPUTS = [
    {"output_type": "stream", "name": "stdout", "text": COLOUR},
    {
        "output_type": "display_data",
        "data": {
            "text/html": BAD,
            "image/svg+xml": SVG,
            "application/javascript": "alert(1)",
            "text/markdown": "<script>x</script>",
            "image/png": "iVBORw0KGgo=",
        },
        "metadata": {},
    },
    {"output_type": "error", "ename": "E", "evalue": "no", "traceback": ["\x1b[1mE\x1b[0m: no"]},
]


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, request: pytest.FixtureRequest, anyio_backend: str
) -> AsyncIterator[JupyterProcess]:
    async with served(
        make_server, request.param, settings={"denied_paths": "secret/*"}, measured=True
    ) as process:
        root = Path(process.root)
        for folder in ("folder", "secret"):
            (root / folder).mkdir()
        cells = [
            notebooks.markdown("intro", "# The tïtle 😀\n\nwords"),
            notebooks.code("work", "x = '`'", outputs=OUTPUTS),
            notebooks.markdown("empty", ""),
        ]
        notebooks.write(root / BOOK, notebooks.notebook(cells))
        notebooks.write(root / "secret/plan.ipynb", notebooks.notebook(cells))
        (root / "notes.md").write_text("# Nötes\n")
        yield process


async def contents(ada: AgentClient, uri: str) -> list[Any]:
    return list((await ada.client.read_resource(uri)).contents)


async def text(ada: AgentClient, uri: str) -> str:
    (content,) = await contents(ada, uri)
    assert isinstance(content, TextResourceContents)
    return content.text


def file_id(server: JupyterProcess, path: str) -> str:
    """As jupyter-collaboration tells it to somebody who opens the notebook."""
    answer = httpx.put(
        f"{server.url}api/collaboration/session/{path}",
        json={"format": "json", "type": "notebook"},
        headers=server.headers,
        timeout=60,
    )
    return str(answer.raise_for_status().json()["fileId"])


async def address(ada: AgentClient, path: str = BOOK) -> str:
    """The URI of a document, as the list of what is open has it."""
    await ada.ask("get_document_info" if path.endswith(".md") else "get_notebook", path=path)
    rows = json.loads(await text(ada, "notebook://list"))
    (uri,) = [row["uri"] for row in rows if row["path"] == path]
    return str(uri)


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_notebook_is_read_in_each_format(server: JupyterProcess, mode: str) -> None:
    async with agent(server, mode=mode) as ada:
        uri = await address(ada)
        (whole,) = await contents(ada, uri)
        assert whole.mime_type == "text/markdown"
        assert "# The tïtle 😀" in whole.text
        assert "x = '`'" in whole.text
        assert await text(ada, f"{uri}/srcmd") == whole.text
        known = whole.meta
        assert (known["sessionId"], known["notebookId"]) == tuple(uri.split("/")[2:4])
        assert (known["cellCount"], known["hasErrors"], known["totalExecutions"]) == (3, True, 0)
        assert known["createdAt"]
        assert known["lastModified"]

        (as_json,) = await contents(ada, f"{uri}/json")
        assert as_json.mime_type == "application/json"
        notebook = json.loads(as_json.text)
        assert [cell["source"] for cell in notebook["cells"]][1:] == ["x = '`'", ""]

        (cells,) = await contents(ada, f"{uri}/cells")
        rows = json.loads(cells.text)
        assert [(row["id"], row["type"]) for row in rows] == [
            ("intro", "markdown"),
            ("work", "code"),
            ("empty", "markdown"),
        ]
        assert next(output["kind"] for output in rows[1]["outputs"]) == "text"


async def test_people_can_name_a_notebook_by_its_path(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        uri = await address(ada)
        session = uri.split("/")[2]
        named = f"notebook://{session}/{quote(BOOK, safe='')}"
        assert await text(ada, named) == await text(ada, uri)


async def test_an_agent_can_use_its_own_session(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        uri = await address(ada)
        joined = await ada.ask("create_notebook_session", path=BOOK)
        own = f"notebook://{joined['session_id']}/{joined['file_id']}"
        assert await text(ada, own) == await text(ada, uri)


async def test_a_cell_is_read_alone_with_what_is_known_about_it(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        uri = await address(ada)
        (code,) = await contents(ada, f"{uri}/cells/work")
        assert (code.text, code.mime_type) == ("x = '`'", "text/x-python")
        assert code.meta["cellType"] == "code"
        assert code.meta["hasOutputs"]
        (said,) = await contents(ada, f"{uri}/cells/intro")
        assert said.mime_type == "text/markdown"
        assert said.meta["cellId"] == "intro"
        (first,) = await contents(ada, code.meta["outputs"][0]["uri"])
        assert first.text == "red"


async def test_nothing_runs_in_what_a_client_may_render(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        uri = await address(ada)
        shown = await contents(ada, f"{uri}/cells/work/outputs/1")
        by_type = {each.mime_type: each for each in shown}
        assert by_type["text/html"].text == "<b>bold</b><img>"
        assert "script" not in by_type["image/svg+xml"].text
        assert "onload" not in by_type["image/svg+xml"].text
        assert by_type["text/markdown"].text == "&lt;script>x&lt;/script>"
        assert by_type["text/plain"].text == "alert(1)"
        assert isinstance(by_type["image/png"], BlobResourceContents)
        as_json = await text(ada, f"{uri}/json")
        assert "<script>" not in as_json
        assert "onerror" not in as_json
        assert "\\u001b" not in as_json


async def test_the_live_document_is_read_and_not_the_file(server: JupyterProcess) -> None:
    async with (
        agent(server) as ada,
        Collaborator(server.url, server.token, "notes.md", kind="file") as human,
    ):
        uri = await address(ada, "notes.md")
        (before,) = await contents(ada, uri)
        assert (before.text, before.mime_type) == ("# Nötes\n", "text/markdown")
        human.insert(None, 0, "typed ")
        await human.flush()
        assert (await text(ada, uri)).startswith("typed # Nötes")


async def test_the_current_document_is_the_one_used_last(server: JupyterProcess) -> None:
    async with agent(server, "Newcomer") as ada:
        with pytest.raises(MCPError, match="You have not used any document yet"):
            await contents(ada, "notebook://current")
        await ada.ask("get_notebook", path=BOOK)
        assert "The tïtle" in await text(ada, "notebook://current")
        await ada.ask("get_document", path="notes.md")
        assert "Nötes" in await text(ada, "notebook://current")


async def test_virtual_files_have_the_same_content(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        uri = await address(ada)
        virtual = uri.replace("notebook://", "file:///notebooks/")
        assert await text(ada, f"{virtual}.src.md") == await text(ada, uri)
        for name in ("work", "work.py", "cell-2.py"):
            assert await text(ada, f"{virtual}/cells/{name}") == "x = '`'"


async def test_open_documents_are_listed_with_their_titles(server: JupyterProcess) -> None:
    async with agent(server) as ada, Collaborator(server.url, server.token, BOOK):
        uri = await address(ada)
        await address(ada, "notes.md")
        listed = {each.uri: each for each in (await ada.client.list_resources()).resources}
        assert listed["notebook://list"].mime_type == "application/json"
        book, cells = listed[uri], listed[f"{uri}/cells"]
        assert (book.title, book.mime_type) == ("The tïtle 😀", "text/markdown")
        assert book.meta is not None
        assert book.meta["cellCount"] == 3
        assert (cells.name, cells.mime_type) == ("The tïtle 😀 (cells)", "application/json")
        assert "notes.md" in {each.name for each in listed.values()}


async def test_what_may_not_be_read_is_neither_listed_nor_read(
    server: JupyterProcess,
) -> None:
    plan = "secret/plan.ipynb"
    async with agent(server) as ada, Collaborator(server.url, server.token, plan):
        session = (await address(ada)).split("/")[2]
        listed = (await ada.client.list_resources()).resources
        assert not any("secret" in f"{each.name}{each.description}" for each in listed)
        assert "secret" not in await text(ada, "notebook://list")
        for name in (file_id(server, plan), quote(plan, safe="")):
            with pytest.raises(MCPError, match="permission_refused"):
                await contents(ada, f"notebook://{session}/{name}")


BAD_URIS = [
    ("notebook://no-such-session/{id}", "session_not_found", False),
    ("notebook://{session}/no-such-file", "document_not_found", False),
    ("notebook://{session}/no/such.ipynb", "no format", True),
    ("notebook://{session}/no%2Fsuch.ipynb", "document_not_found", False),
    ("notebook://{session}/{id}/docx", "no format 'docx'", True),
    ("notebook://{session}/{id}/cells/nope", "cell_not_found", False),
    ("notebook://{session}/{id}/cells/work/outputs/9", "output_gone", False),
    ("notebook://{session}/{id}/executions/run-0", "run_not_found", False),
    ("notebook://{session}/..%2Fx.ipynb", "path_refused", True),
    ("notebook://{session}/../x", "is not the address", True),
    ("notebook://{session}/%2e%2e", "is not the address", True),
    ("notebook://{session}/{id}/%2E%2E/x", "is not the address", True),
    ("notebook://{session}/{id}/cells/..", "is not the address", True),
    ("notebook://{session}/{id}/executions/%2e%2e", "is not the address", True),
    ("notebook://{session}/x%2F..%2F..%2Fy.ipynb", "path_refused", True),
    ("notebook://../{id}", "is not the address", True),
    ("notebook://{session}/..%5Cx.ipynb", "path_refused", True),
    ("notebook://{session}/%252e%252e%2Fx.ipynb", "path_refused", True),
    ("notebook://{session}/x%00.ipynb", "path_refused", True),
    ("notebook://{session}/{id}/executions/..%2Frun-0", "run_not_found", False),
    ("notebook://templates/..%2Feda", "There is no template", False),
    ("notebook://{session}/%2Fetc%2Fpasswd", "document_not_found", False),
    ("file:///notebooks/{session}/..%2F..%2Fx.src.md", "path_refused", True),
    ("file:///notebooks/{session}/{id}/cells/..%2F..%2Fx", "cell_not_found", False),
    ("notebook://runs/%2e%2e/0", "is not the address", True),
    ("notebook://runs/run-0/0", "run_not_found", False),
    ("notebook://{session}/{id}/executions/run-0/outputs/0", "output_gone", False),
    ("notebook://{session}/{id}/cells/work/outputs/-1", "is not the address", True),
    ("notebook://", "is not the address", True),
    ("notebook://[bad/x", "is not the address", True),
    ("file:///notebooks/{session}/%2e%2e/cells/work", "is not the address", True),
    ("file://host/notebooks/{session}/{id}.src.md", "is not the address", True),
    ("file:///notebooks/{session}/{id}/cells/nope.py", "cell_not_found", False),
    ("file:///etc/passwd", "is not the address", True),
    ("file:///notebooks/../../etc/passwd", "is not the address", True),
    ("nonsense", "is not the address", True),
]


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_bad_uri_gets_the_error_of_the_protocol(server: JupyterProcess, mode: str) -> None:
    async with agent(server, mode=mode) as ada:
        session, notebook = (await address(ada)).split("/")[2:4]
        for form, said, malformed in BAD_URIS:
            uri = form.format(session=session, id=notebook)
            with pytest.raises(MCPError, match=said) as refused:
                await contents(ada, uri)
            assert refused.value.error.data == {"uri": uri}
            missing = -32602 if mode == MODERN else -32002
            assert refused.value.error.code == (-32602 if malformed else missing), uri


async def test_a_run_is_read_with_its_outputs_and_pictures(server: JupyterProcess) -> None:
    picture = "import base64; display({'image/png': 'iVBORw0KGgo='}, raw=True); print('é'); 1/0"
    async with agent(server) as ada:
        session, notebook = (await address(ada)).split("/")[2:4]
        ran = await ada.ask("run_code", path=BOOK, code=picture)
        (run_id,) = [each["run_id"] for each in ran["runs"]]
        uri = f"notebook://{session}/{notebook}/executions/{run_id}"
        about, shown = await contents(ada, uri)
        run = json.loads(about.text)
        assert (run["status"], run["source"]) == ("failed", picture)
        assert [output["kind"] for output in run["outputs"]] == ["image/png", "text", "error"]
        assert run["timings"]
        assert run["seconds"] >= 0
        assert isinstance(shown, BlobResourceContents)
        assert shown.uri == run["outputs"][0]["uri"]
        assert shown.mime_type == "image/png"
        assert (await contents(ada, run["outputs"][1]["uri"]))[0].text == "é"
        by_path = f"notebook://{session}/{quote(BOOK, safe='')}/executions/{run_id}"
        assert (await contents(ada, by_path))[0].text == about.text
        assert (await contents(ada, f"{by_path}/outputs/1"))[0].text == "é"


async def test_variables_of_uris_are_completed(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        session, notebook = (await address(ada)).split("/")[2:4]

        async def values(template: str, name: str, beginning: str, **given: str) -> list[str]:
            ref = ResourceTemplateReference(uri=template)
            argument = {"name": name, "value": beginning}
            found = await ada.client.complete(ref, argument, given)
            return found.completion.values

        plain = "notebook://{session}/{notebook}"
        assert session in await values(plain, "session", session[:3])
        assert await values(plain, "notebook", "folder/b") == [BOOK]
        assert await values(plain, "notebook", "secret/") == []
        secret = file_id(server, "secret/plan.ipynb")
        assert await values(f"{plain}/cells/{{cell}}", "cell", "", notebook=secret) == []
        assert await values(plain, "session", "", notebook=secret) == []
        given = {"session": session, "notebook": notebook}
        assert await values(f"{plain}/{{format}}", "format", "s", **given) == ["srcmd"]
        assert await values(f"{plain}/cells/{{cell}}", "cell", "w", **given) == ["work"]
        assert await values(f"{plain}/cells/{{cell}}", "cell", "w", session=session) == []
        output = f"{plain}/cells/{{cell}}/outputs/{{n}}{{?run,offset}}"
        assert await values(output, "n", "", **given, cell="work") == ["0", "1", "2"]
        ran = await ada.ask("run_code", path=BOOK, code="1")
        (run,) = [each["run_id"] for each in ran["runs"]]
        assert run in await values(f"{plain}/executions/{{run}}", "run", "run-", **given)
        with pytest.raises(MCPError, match="There is no 'toy://x' to complete"):
            await values("toy://x", "x", "")


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_clients_are_told_what_they_may_keep(server: JupyterProcess, mode: str) -> None:
    live, hour = (0, "private"), (3_600_000, "private")
    async with agent(server, mode=mode) as ada:
        uri, client = await address(ada), ada.client
        results: list[tuple[Any, tuple[int, str]]] = [
            (await client.list_resources(), live),
            (await client.list_resource_templates(), hour),
            (await client.list_prompts(), hour),
            (await client.list_tools(), (60_000, "private")),
            (await client.read_resource(uri), live),
            (await client.read_resource(f"{uri}/cells/work"), live),
            (await client.read_resource("notebook://list"), live),
        ]
        for result, hint in results:
            told = {"ttl_ms", "cache_scope"} & result.model_fields_set
            if mode == LEGACY:  # it knows no hints
                assert not told
            else:
                assert len(told) == 2
                assert (result.ttl_ms, result.cache_scope) == hint, type(result)
