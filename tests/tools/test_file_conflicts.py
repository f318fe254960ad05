"""Files that several hands want at once, or that are something else under another name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_types import CallToolResult

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.ways import WAYS, served

pytestmark = pytest.mark.anyio

#: Saves nothing by itself within a test: what is unsaved stays so.
LAZY = "--YDocExtension.document_save_delay=600"


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    trash = "--FileContentsManager.delete_to_trash=False"
    async with served(make_server, request.param, LAZY, trash) as process:
        yield process


@pytest.fixture
def root(server: JupyterProcess) -> Path:
    return Path(server.root)


def person(server: JupyterProcess, path: str) -> Collaborator:
    kind: Any = "notebook" if path.endswith(".ipynb") else "file"
    return Collaborator(server.url, server.token, path, kind=kind)


async def append(client: AgentClient, path: str, text: str) -> None:
    await client.ask("batch_update_document", path=path, operations=[{"content": text}])


async def read(client: AgentClient, path: str) -> str:
    return str((await client.ask("get_document", path=path))["content"])


def done(results: list[CallToolResult]) -> list[bool]:
    return [not result.is_error for result in results]


# -- at once ---------------------------------------------------------------------------------


async def test_only_one_of_two_renames_to_the_same_path_succeeds(
    ada: AgentClient, root: Path
) -> None:
    for n in range(6):
        for name in ("left", "right"):
            (root / f"{name}-{n}.md").write_text(name)
        made = done(
            await asyncio.gather(
                *(
                    ada.call("rename_document", path=f"{name}-{n}.md", newPath=f"target-{n}.md")
                    for name in ("left", "right")
                )
            )
        )
        assert sorted(made) == [False, True]
        winner, loser = ("left", "right") if made[0] else ("right", "left")
        assert (root / f"target-{n}.md").read_text() == winner
        assert (root / f"{loser}-{n}.md").read_text() == loser


async def test_only_one_of_two_creations_of_the_same_file_succeeds(
    ada: AgentClient, root: Path
) -> None:
    for n in range(6):
        calls = [
            ada.call("create_document", path=f"one-{n}.md", type="file", content=content)
            for content in ("left", "right")
        ]
        made = done(await asyncio.gather(*calls))
        assert sorted(made) == [False, True]
        assert (root / f"one-{n}.md").read_text() == ("left" if made[0] else "right")


async def test_several_files_can_be_created_in_a_new_folder_at_once(
    ada: AgentClient, root: Path
) -> None:
    calls = [
        ada.call("create_document", path=f"new/deep/{n}.md", type="file", content=str(n))
        for n in range(6)
    ]
    assert all(done(await asyncio.gather(*calls)))
    found = {file.name: file.read_text() for file in (root / "new/deep").glob("*.md")}
    assert found == {f"{n}.md": str(n) for n in range(6)}


# -- without a trash -------------------------------------------------------------------------


async def test_a_folder_that_is_not_empty_is_not_deleted_without_a_trash(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    file = root / "full/a.md"
    file.parent.mkdir()
    file.write_text("old\n")
    async with person(server, "full/a.md") as ana:
        error = await ada.refused("delete_document", path="full", recursive=True)
        assert error["code"] == "folder_not_empty"
        assert "always_delete_dir" in error["next_step"]
        assert str(root) not in error["message"]
        ana.insert(None, 0, "still here ")
        assert await ana.save() == "success"
        assert file.read_text() == "still here old\n"
    text = await ada.say("delete_document", path="full/a.md")
    assert "trash" not in text
    await ada.ask("delete_document", path="full")
    assert not file.parent.exists()
    assert not (server.home / "home" / ".local").exists()


# -- half of a rename ------------------------------------------------------------------------


async def test_a_rename_succeeds_even_if_checkpoints_cannot_follow(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    """Jupyter moves the file first, and reports that as a failure."""
    (root / "kept.md").write_text("the only copy")
    (root / "target").mkdir()
    (root / "target" / ".ipynb_checkpoints").write_text("in the way")
    async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
        answer = await http.post(f"{server.url}api/contents/kept.md/checkpoints")
        assert answer.status_code == 201
    async with person(server, "kept.md") as ana:
        await ada.ask("rename_document", path="kept.md", newPath="target/kept.md")
        assert (root / "target/kept.md").read_text() == "the only copy"
        assert not (root / "kept.md").exists()
        await append(ada, "target/kept.md", ", and more")
        if server.standalone is None:
            await ana.until(lambda: ana.source() == "the only copy, and more")


async def test_a_failed_rename_changes_nothing(ada: AgentClient, root: Path) -> None:
    (root / "stays.md").write_text("here")
    name = "x" * 300
    error = await ada.refused("rename_document", path="stays.md", newPath=f"{name}.md")
    assert error["code"] in ("file_failed", "document_not_found")
    assert (root / "stays.md").read_text() == "here"


# -- something else --------------------------------------------------------------------------


async def test_an_open_notebook_cannot_be_renamed_to_a_text(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    """Its room would go on, beside that of the text, and each would overwrite the other."""
    notebooks.write(root / "n.ipynb", notebooks.numbered(2))
    async with person(server, "n.ipynb") as ana:
        async with asyncio.timeout(30):  # from outside, people are seen when they next say hello
            while ana.name not in (await ada.ask("get_document_info", path="n.ipynb"))["people"]:
                ana.awareness.set_local_state_field("looks", "around")
        error = await ada.refused("rename_document", path="n.ipynb", newPath="n.json")
        assert error["code"] == "in_use"
        assert ana.name in error["message"]
        assert (root / "n.ipynb").exists()
    async with asyncio.timeout(60):  # and to have left, when their farewell has come
        while ana.name in (await ada.ask("get_document_info", path="n.ipynb"))["people"]:
            await asyncio.sleep(0.02)
    await ada.replace("n.ipynb", "cell-00000", "0", "zero")
    await ada.ask("rename_document", path="n.ipynb", newPath="n.json")
    text = await read(ada, "n.json")
    assert "zero" in json.dumps(json.loads(text)["cells"][0])
    await ada.ask(
        "batch_update_document",
        path="n.json",
        operations=[{"old_text": "zero", "new_text": "nought"}],
    )
    await ada.ask("rename_document", path="n.json", newPath="n.ipynb")
    found = await ada.ask("get_notebook", path="n.ipynb")
    assert "nought" in found["cells"][0]["source"]
    await ada.replace("n.ipynb", "cell-00000", "nought", "zero")


async def test_an_open_notebook_that_a_person_renamed_is_not_read_as_a_text(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    if server.standalone is not None:
        pytest.skip("who is in other rooms is known inside of a server only")
    notebooks.write(root / "m.ipynb", notebooks.numbered(2))
    async with person(server, "m.ipynb") as ana:
        await ana.flush()  # the server knows her name
        async with httpx2.AsyncClient(headers=server.headers, timeout=60) as http:
            await http.patch(f"{server.url}api/contents/m.ipynb", json={"path": "m.json"})
        error = await ada.refused("get_document", path="m.json")
        assert error["code"] == "in_use"
        assert ana.name in error["message"]


async def test_a_file_is_edited_in_its_open_room_whichever_link_is_used(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    if server.standalone is not None:
        pytest.skip("from outside of a server, a link looks like a file")
    (root / "real.md").write_text("real\n")
    (root / "alias.md").symlink_to("real.md")
    for path, other in (("real.md", "alias.md"), ("alias.md", "real.md")):
        async with person(server, path) as ana:
            ana.insert(None, 0, "Ana, ")
            await ana.flush()
            await append(ada, other, f"through {other}\n")
            await ana.until(lambda other=other: f"through {other}" in ana.source())  # type: ignore[misc]
            assert ana.source().startswith("Ana, ")
            assert "Ana, " in await read(ada, other)
            assert await ana.save() == "success"


async def test_a_new_file_at_the_path_of_a_deleted_one_inherits_nothing(
    ada: AgentClient, root: Path
) -> None:
    file = root / "again.md"
    for again in ("create", "copy"):
        file.write_text("one\ntwo\n")
        operations = [{"old_text": "one", "new_text": "ONE (old)"}]
        await ada.ask("batch_update_document", path="again.md", operations=operations)
        file.unlink()
        if again == "create":
            arguments = {"type": "file", "content": "one\nfresh\n"}
            await ada.ask("create_document", path="again.md", **arguments)
        else:
            (root / "template.md").write_text("one\nfresh\n")
            await ada.ask("copy_document", path="template.md", copyPath="again.md")
        assert await read(ada, "again.md") == "one\nfresh\n"
        error = await ada.refused("undo_agent_changes", path="again.md")
        assert error["code"] == "nothing_to_undo"
        assert file.read_text() == "one\nfresh\n"
        await ada.ask("delete_document", path="again.md")


# -- copies ----------------------------------------------------------------------------------


async def test_a_folder_is_not_copied_into_itself_through_a_link(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    (root / "top/inner").mkdir(parents=True)
    (root / "top/inner/a.md").write_text("a")
    (root / "link").symlink_to("top/inner")
    if server.standalone is None:
        error = await ada.refused("copy_document", path="top", copyPath="link/x")
        assert error["code"] == "invalid_argument"
        assert not (root / "top/inner/x").exists()
    else:
        await ada.ask("copy_document", path="top", copyPath="link/x")
        found = {str(path.relative_to(root)) for path in (root / "top").rglob("*")}
        copied = {"top/inner/x", "top/inner/x/inner", "top/inner/x/inner/a.md"}
        assert found == {"top/inner", "top/inner/a.md"} | copied


async def test_a_copy_of_a_folder_includes_unsaved_edits_or_warns_about_them(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    (root / "folder").mkdir()
    (root / "folder/a.md").write_text("a\n")
    async with person(server, "folder/a.md") as ana:
        ana.insert(None, 0, "Ana, ")
        await ana.flush()
        facts = await ada.ask("copy_document", path="folder", copyPath="copied")
    if server.standalone is None:
        assert (root / "copied/a.md").read_text() == "Ana, a\n"
        assert "notices" not in facts
    else:
        assert "may be missing" in " ".join(facts["notices"])


async def test_a_template_includes_unsaved_edits(
    server: JupyterProcess, ada: AgentClient, root: Path
) -> None:
    (root / "letter.md").write_text("Dear\n")
    await append(ada, "letter.md", "unsaved\n")
    await ada.ask("create_document", path="written.md", type="file", template="letter.md")
    assert (root / "written.md").read_text() == "Dear\nunsaved\n"
