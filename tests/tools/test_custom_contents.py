"""A server whose files are not on its disk: a contents manager has them, and is asked for all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
import pytest

from tests.conftest import MakeServer
from tests.harness.agents import AgentClient
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.runs import run
from tests.harness.ways import WAYS, served
from tests.tools.conftest import SAVE_SOON

pytestmark = pytest.mark.anyio

ELSEWHERE = "--ServerApp.contents_manager_class=tests.harness.contents_elsewhere.ContentsElsewhere"

Stored = Callable[[str], Awaitable[str]]


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    async with served(make_server, request.param, SAVE_SOON, ELSEWHERE) as process:
        yield process


@pytest.fixture
async def stored(server: JupyterProcess) -> AsyncIterator[Stored]:
    """What the server has of a text, whoever asks; nothing if there is no such file."""
    async with httpx2.AsyncClient(base_url=server.url, headers=server.headers, timeout=60) as http:

        async def text_at(path: str) -> str:
            answer = await http.get(f"api/contents/{path}", params={"type": "file"})
            return str(answer.json()["content"]) if answer.status_code == 200 else ""

        yield text_at


async def test_notebooks_can_be_created_edited_and_run(ada: AgentClient) -> None:
    made = await ada.ask("create_document", path="work/one.ipynb", content="x = 6")
    assert made["folders"] == ["work"]
    await ada.ask(
        "batch_insert_notebook_cells",
        path="work/one.ipynb",
        cells=[{"content": "x * 7"}],
        exec=False,
    )
    assert (await run(ada, "work/one.ipynb", 0))["state"] == "completed"
    told = await run(ada, "work/one.ipynb", 1)
    assert "42" in str(told)


async def test_edits_of_a_person_and_an_agent_are_both_saved(
    server: JupyterProcess, ada: AgentClient, stored: Stored
) -> None:
    await ada.ask("create_document", path="note.md", type="file", content="first\n")
    async with Collaborator(server.url, server.token, "note.md", kind="file") as ana:
        ana.insert(None, 0, "Ana's ")
        edit = {"old_text": "first\n", "new_text": "first\nlast\n"}
        await ada.ask("batch_update_document", path="note.md", operations=[edit])
        await ana.until(lambda: ana.source() == "Ana's first\nlast\n")
    await eventually(lambda: stored("note.md"), lambda text: text == "Ana's first\nlast\n")


async def test_files_and_folders_can_be_listed_moved_copied_and_deleted(
    ada: AgentClient, stored: Stored
) -> None:
    for path in ("a/b/c.md", "a/d.md", "a/e.ipynb"):
        kind = "notebook" if path.endswith("ipynb") else "file"
        await ada.ask("create_document", path=path, type=kind, content=f"in {path}")
    inside = await ada.ask("list_documents", path="a")
    assert [entry["path"] for entry in inside["documents"]] == ["a/b", "a/d.md", "a/e.ipynb"]
    below = await ada.ask("list_documents", path="a", path_filter="*.md")
    assert [entry["path"] for entry in below["documents"]] == ["a/d.md", "a/b/c.md"]
    edit = {"old_text": "in", "new_text": "edited in"}
    await ada.ask("batch_update_document", path="a/b/c.md", operations=[edit])
    await ada.ask("copy_document", path="a", copyPath="copy")
    assert await stored("copy/b/c.md") == "edited in a/b/c.md"
    await ada.ask("rename_document", path="a", newPath="moved")
    assert await stored("moved/b/c.md") == "edited in a/b/c.md"
    assert not (await ada.ask("document_exists", path="a"))["exists"]
    text = await ada.ask("get_document", path="moved/b/c.md")
    assert text["content"] == "edited in a/b/c.md"
    error = await ada.refused("delete_document", path="moved")
    assert error["code"] == "folder_not_empty"
    await ada.ask("delete_document", path="moved", recursive=True)
    assert not (await ada.ask("document_exists", path="moved/d.md"))["exists"]
    assert await stored("copy/d.md") == "in a/d.md"


async def test_missing_and_existing_targets_are_reported(ada: AgentClient, stored: Stored) -> None:
    error = await ada.refused("get_document", path="nowhere.md")
    assert error["code"] == "document_not_found"
    await ada.ask("create_document", path="one.md", type="file", content="one")
    await ada.ask("create_document", path="two.md", type="file", content="two")
    error = await ada.refused("rename_document", path="one.md", newPath="two.md")
    assert error["code"] == "already_exists"
    error = await ada.refused("copy_document", path="one.md", copyPath="two.md")
    assert error["code"] == "already_exists"
    assert (await stored("one.md"), await stored("two.md")) == ("one", "two")


async def test_a_contents_managers_own_error_is_reported(
    server: JupyterProcess, ada: AgentClient, stored: Stored
) -> None:
    await ada.ask("create_document", path="kept.md", type="file", content="kept")
    error = await ada.refused("delete_document", path="kept.md")
    assert error["code"] == "file_failed"
    # From outside of a server, no more is known than that it failed.
    assert ("the bucket is locked" in error["message"]) == (server.standalone is None)
    assert await stored("kept.md") == "kept"
