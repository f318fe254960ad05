"""Files that are deleted and renamed while people and agents are in them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.kernels import KernelApi
from tests.harness.runs import run
from tests.harness.waiting import until
from tests.harness.ways import WAYS, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

#: Saves nothing by itself within a test: what is unsaved stays so.
LAZY = "--YDocExtension.document_save_delay=600"


@pytest.fixture(scope="module", params=WAYS)
async def lazy(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    """A server that does not save by itself in the time of a test."""
    async with served(make_server, request.param, LAZY) as process:
        yield process


@pytest.fixture
async def ida(lazy: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(lazy, "Ida") as client:
        yield client


def person(server: JupyterProcess, path: str) -> Collaborator:
    kind: Any = "notebook" if path.endswith(".ipynb") else "file"
    return Collaborator(server.url, server.token, path, kind=kind)


def write(server: JupyterProcess, path: str, text: str = "old\n") -> Path:
    file = Path(server.root) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if path.endswith(".ipynb"):
        notebooks.write(file, notebooks.numbered(2))
    else:
        file.write_text(text)
    return file


def shown(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


async def drained(tab: ClientConnection) -> None:
    while True:
        await tab.recv()


async def file_id(server: JupyterProcess, file: Path) -> str:
    """As the server names a file, whatever its path."""
    return str((await session(server, str(file.relative_to(server.root))))["fileId"])


async def session(server: JupyterProcess, path: str) -> dict[str, Any]:
    """What a tab asks for before it enters a room."""
    async with httpx2.AsyncClient(headers=server.headers, timeout=60, verify=False) as http:
        answer = await http.put(
            f"{server.url}api/collaboration/session/{path}", json={"format": "text", "type": "file"}
        )
    return dict(answer.json())


async def delete(server: JupyterProcess, path: str) -> None:
    """As JupyterLab does it."""
    async with httpx2.AsyncClient(headers=server.headers, timeout=60, verify=False) as http:
        answer = await http.delete(f"{server.url}api/contents/{quote(path)}")
    assert answer.status_code == 204


def fitting(glob: str) -> str:
    """A name that fits another one, if that is taken for a glob."""
    return glob.replace("[ack]", "a").replace("*", "-").replace("?", "o")


async def append(ada: AgentClient, path: str, text: str) -> dict[str, Any]:
    return await ada.ask("batch_update_document", path=path, operations=[{"content": text}])


async def read(ada: AgentClient, path: str) -> str:
    return str((await ada.ask("get_document", path=path))["content"])


async def room_of(ada: AgentClient, path: str) -> str:
    return str((await ada.ask("create_document_session", path=path))["room_id"])


async def end_of(ana: Collaborator) -> str:
    """Why a person's connection was ended; a tab that comes back soon has other worries."""
    await until(lambda: not ana.connected)
    return str(ana.last_error)


async def knows_path(ana: Collaborator, path: str) -> None:
    """Wait until a person is told where the document is now.

    That is a change of the document: in a save that has not begun to write, it cancels the save.
    A server without the extension looks for new paths once a second.
    """
    await ana.until(lambda: ana.document.path == path, timeout=20)


async def something_else_is_saved(server: JupyterProcess, ada: AgentClient) -> None:
    """Another document is edited and saved: what the server had to save before, it has tried."""
    other = write(server, "other.md")
    async with person(server, "other.md") as bea:
        bea.insert(None, 0, "by Bea ")
        await append(ada, "other.md", "by an agent\n")
        await bea.save()
        await until(lambda: other.read_text() == "by Bea old\nby an agent\n")
    await ada.ask("delete_document", path="other.md")


# -- delete -----------------------------------------------------------------------------------


async def test_deleted_files_and_empty_folders_go_to_the_trash(
    server: JupyterProcess, ada: AgentClient
) -> None:
    write(server, "gone/a.md")
    error = await ada.refused("delete_document", path="gone")
    assert error["code"] == "folder_not_empty"
    assert "1 entry" in error["message"]
    assert "recursive=true" in error["next_step"]
    told = await ada.ask("delete_document", path="gone/a.md")
    assert (told["type"], told["deleted"]) == ("file", True)
    trash = server.home / "home" / ".local" / "share" / "Trash" / "files"
    assert (trash / "a.md").read_text() == "old\n"
    assert (await ada.ask("delete_document", path="gone"))["type"] == "directory"
    assert (trash / "gone").is_dir()
    assert not (Path(server.root) / "gone").exists()
    assert (await ada.refused("delete_document", path="gone"))["code"] == "document_not_found"


async def test_a_folder_with_content_is_deleted_only_with_recursive(
    server: JupyterProcess, ada: AgentClient
) -> None:
    write(server, "full/a.md")
    write(server, "full/in/b.ipynb")
    assert (await ada.refused("delete_document", path="full"))["code"] == "folder_not_empty"
    assert (Path(server.root) / "full" / "in" / "b.ipynb").exists()
    await ada.ask("delete_document", path="full", recursive=True)
    assert not (Path(server.root) / "full").exists()
    trash = server.home / "home" / ".local" / "share" / "Trash" / "files"
    assert (trash / "full" / "in" / "b.ipynb").exists()


async def test_the_root_can_be_neither_deleted_nor_renamed(
    server: JupyterProcess, ada: AgentClient
) -> None:
    for path in ("", "/", "."):
        error = await ada.refused("delete_document", path=path, recursive=True)
        assert error["code"] == "path_refused"
        error = await ada.refused("rename_document", path=path, newPath="elsewhere")
        assert error["code"] in ("path_refused", "invalid_argument")
    assert Path(server.root).is_dir()


@pytest.mark.parametrize("way", WAYS)
async def test_a_folder_with_content_is_deleted_without_a_trash_if_the_server_allows_it(
    make_server: MakeServer, way: str
) -> None:
    for_good = "--FileContentsManager.delete_to_trash=False"
    always = "--FileContentsManager.always_delete_dir=True"
    async with served(make_server, way, for_good, always) as server, agent(server) as ada:
        write(server, "full/in/a.md")
        await ada.ask("delete_document", path="full", recursive=True)
        assert not (Path(server.root) / "full").exists()


@pytest.mark.parametrize("path", ["deleted.md", "deleted.ipynb", "deleted/in/a.md"])
async def test_a_deleted_file_never_comes_back(
    lazy: JupyterProcess, ida: AgentClient, path: str
) -> None:
    """Nobody brings it back: no autosave, no tab that types on, no agent, no other document."""
    file = write(lazy, path)
    target = path.partition("/")[0]
    async with person(lazy, path) as ana:
        if path.endswith(".ipynb"):
            await ida.write(path, "cell-00000", "unsaved, by an agent")
            ana.insert(1, 0, "unsaved, by Ana")
        else:
            await append(ida, path, "unsaved, by an agent")
            ana.insert(None, 0, "unsaved, by Ana")
        await ana.flush()
        ended = asyncio.create_task(end_of(ana))
        await ida.ask("delete_document", path=target, recursive=True)
        assert not file.exists()
        ana.insert(0 if file.suffix == ".ipynb" else None, 0, "and on ")
        if lazy.standalone is None:
            assert "was deleted" in await ended
        ended.cancel()
        tool = "get_notebook" if path.endswith(".ipynb") else "get_document"
        assert (await ida.refused(tool, path=path))["code"] == "document_not_found"
        await something_else_is_saved(lazy, ida)
    assert not (await ida.ask("document_exists", path=path))["exists"]
    assert not file.exists()
    assert not list(Path(lazy.root).glob("*recovered*"))


async def test_a_new_file_at_the_path_of_a_deleted_one_inherits_nothing(
    lazy: JupyterProcess, ida: AgentClient
) -> None:
    write(lazy, "again.md", "first\n")
    await append(ida, "again.md", "unsaved\n")
    before = await room_of(ida, "again.md")
    await ida.ask("delete_document", path="again.md")
    await ida.ask("create_document", path="again.md", type="file", content="second\n")
    assert await read(ida, "again.md") == "second\n"
    assert await room_of(ida, "again.md") != before
    error = await ida.refused("undo_agent_changes", path="again.md")
    assert error["code"] == "nothing_to_undo"
    async with person(lazy, "again.md") as ana:
        assert ana.source() == "second\n"
        await append(ida, "again.md", "third\n")
        await ana.until(lambda: ana.source() == "second\nthird\n")
        await ana.save()
    assert (Path(lazy.root) / "again.md").read_text() == "second\nthird\n"


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_a_deleted_file_does_not_come_back_when_the_server_restarts(
    make_server: MakeServer, end: str
) -> None:
    server = make_server(LAZY, env=NOT_MEASURED)
    async with server:
        file, other = write(server, "a.md"), write(server, "kept.md")
        async with agent(server) as ada:
            await append(ada, "a.md", "unsaved\n")
            await append(ada, "kept.md", "unsaved\n")
            await ada.ask("delete_document", path="a.md")
            if end == "kill":
                server.kill()
            else:
                await server.terminate()
        await server.start()
        assert not file.exists()
        assert other.read_text() == "old\nunsaved\n"
        assert shown(server.root) == {"kept.md"}


@pytest.mark.parametrize("name", ["br[ack]ets", "st*ar", "wh?"])
@pytest.mark.parametrize("by", ["agent", "person"])
async def test_deleting_a_folder_whose_name_looks_like_a_glob_affects_no_other(
    lazy: JupyterProcess, ida: AgentClient, name: str, by: str
) -> None:
    """B22: the ids of other folders would go with it, and what is unsaved in their rooms too."""
    if lazy.standalone is not None:
        pytest.skip("a server without the extension has that fault")
    file = write(lazy, f"{by}/{name}/a.md")
    other = fitting(f"{by}/{name}/b.md")
    write(lazy, other)
    await append(ida, str(file.relative_to(lazy.root)), "unsaved\n")
    await append(ida, other, "unsaved\n")
    room = await room_of(ida, other)
    if by == "agent":
        await ida.ask("delete_document", path=f"{by}/{name}", recursive=True)
    else:
        await delete(lazy, f"{by}/{name}")
    assert not file.exists()
    await append(ida, other, "more\n")
    assert await read(ida, other) == "old\nunsaved\nmore\n"
    assert await room_of(ida, other) == room
    # Those of the folder itself are gone: what comes there is something else.
    write(lazy, f"{by}/{name}/a.md", "another\n")
    assert await read(ida, str(file.relative_to(lazy.root))) == "another\n"


@pytest.mark.parametrize("name", ["told.md", f"{'é' * 40} told.md"], ids=["short", "long"])
async def test_people_in_a_deleted_file_are_notified(
    lazy: JupyterProcess, ida: AgentClient, name: str
) -> None:
    """As JupyterLab reads it: a code that ends the session, and why."""
    if lazy.standalone is not None:
        pytest.skip("a server without the extension tells nobody")
    write(lazy, name)
    asked = await session(lazy, quote(name))
    room = f"text:file:{asked['fileId']}"
    url = f"{lazy.url.replace('http', 'ws', 1)}api/collaboration/room/{room}"
    async with connect(
        f"{url}?sessionId={asked['sessionId']}", additional_headers=lazy.headers
    ) as tab:
        await tab.recv()
        await ida.ask("delete_document", path=name)
        with pytest.raises(ConnectionClosed) as closed:
            await drained(tab)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1003
    said = json.loads(closed.value.rcvd.reason)
    assert said["reloadable"] is False
    assert "told.md was deleted" in said["errorReason"]


async def test_a_tab_that_reconnects_to_a_missing_file_affects_nobody_else(
    server: JupyterProcess, ada: AgentClient
) -> None:
    """B20: it would take all rooms of the server with it."""
    if server.standalone is not None:
        pytest.skip("a server without the extension has that fault")
    file = write(server, "undisturbed.md")
    gone = write(server, "nowhere.md")
    async with person(server, file.name) as ana, person(server, file.name) as bea:
        gone.unlink()
        comer = person(server, gone.name)
        coming = asyncio.create_task(comer.__aenter__())
        # Twice: when it comes again, all that it did the first time is over.
        await until(lambda: server.log.count("File nowhere.md not found") > 1)
        assert not comer.connected
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        ana.insert(None, 0, "Ana's ")
        await bea.until(lambda: bea.source() == "Ana's old\n")
        await append(ada, file.name, "by an agent\n")
        await bea.until(lambda: bea.source() == "Ana's old\nby an agent\n")
        await until(lambda: file.read_text() == "Ana's old\nby an agent\n")
        async with person(server, file.name) as dora:
            assert dora.source() == "Ana's old\nby an agent\n"


async def test_deleting_a_document_while_it_is_stored_does_not_lock_the_store(
    lazy: JupyterProcess, ida: AgentClient
) -> None:
    """B21: the database would stay locked for all documents."""
    if lazy.standalone is not None:
        pytest.skip("a server without the extension ends no rooms")
    for number in range(10):
        write(lazy, f"stored-{number}.md")
        async with person(lazy, f"stored-{number}.md") as ana:
            await ana.type(None, 0, "typed letter by letter, each of which is stored ")
            await append(ida, f"stored-{number}.md", "unsaved\n")
            await ida.ask("delete_document", path=f"stored-{number}.md")
    write(lazy, "stored.md")
    await append(ida, "stored.md", "unsaved\n")
    async with person(lazy, "stored.md") as ana:
        assert ana.source() == "old\nunsaved\n"
    assert "database is locked" not in lazy.log


# -- links ------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["delete_document", "rename_document"])
async def test_deleting_or_renaming_a_link_leaves_its_target_open(
    lazy: JupyterProcess, ida: AgentClient, act: str
) -> None:
    if lazy.standalone is not None:
        pytest.skip("from outside of a server, a link looks like a file")
    real = write(lazy, f"{act}/real.md")
    link = real.with_name("alias.md")
    link.symlink_to("real.md")
    path, alias = f"{act}/real.md", f"{act}/alias.md"
    await append(ida, alias, "unsaved, by an agent\n")
    room = await room_of(ida, path)
    async with person(lazy, path) as ana:
        ana.insert(None, 0, "Ana's ")
        await ana.flush()
        more = {"newPath": f"{act}/renamed.md"} if act == "rename_document" else {}
        await ida.ask(act, path=alias, **more)
        assert not os.path.lexists(link)
        assert (real.with_name("renamed.md").is_symlink()) == bool(more)
        assert ana.connections == 1
        assert await room_of(ida, path) == room
        for name in (path, *more.values()):
            await append(ida, name, "on\n")
        whole = "Ana's old\nunsaved, by an agent\n" + "on\n" * (1 + len(more))
        await ana.until(lambda: ana.source() == whole)
        await ana.save()
        await until(lambda: real.read_text() == whole)


async def test_edits_made_through_a_link_survive_its_deletion(
    lazy: JupyterProcess, ida: AgentClient
) -> None:
    if lazy.standalone is not None:
        pytest.skip("who is in other rooms is known inside of a server only")
    real = write(lazy, "gone-link/real.md")
    real.with_name("alias.md").symlink_to("real.md")
    async with person(lazy, "gone-link/alias.md") as ana:
        ana.insert(None, 0, "Ana's ")
        await ana.flush()
        ended = asyncio.create_task(end_of(ana))
        await ida.ask("delete_document", path="gone-link/alias.md")
        assert "was deleted" in await ended
        assert real.read_text() == "Ana's old\n"


@pytest.mark.parametrize("act", ["delete_document", "rename_document"])
async def test_people_in_a_document_opened_through_a_link_are_notified_when_its_target_goes(
    lazy: JupyterProcess, ida: AgentClient, act: str
) -> None:
    if lazy.standalone is not None:
        pytest.skip("who is in other rooms is known inside of a server only")
    folder = act.partition("_")[0]
    real = write(lazy, f"{folder}/real.md")
    real.with_name("alias.md").symlink_to("real.md")
    async with person(lazy, f"{folder}/alias.md") as ana:
        ana.insert(None, 0, "Ana's ")
        await ana.flush()
        ended = asyncio.create_task(end_of(ana))
        target = f"{folder}/new.md"
        more = {"newPath": target} if act == "rename_document" else {}
        await ida.ask(act, path=f"{folder}/real.md", **more)
        assert f"real.md was {folder}d" in await ended
        if more:
            assert await read(ida, target) == "Ana's old\n"
        assert not real.exists()


async def test_a_file_renamed_through_a_link_to_its_folder_keeps_its_room(
    lazy: JupyterProcess, ida: AgentClient
) -> None:
    if lazy.standalone is not None:
        pytest.skip("from outside of a server, a link looks like a folder")
    write(lazy, "behind/a.md")
    (Path(lazy.root) / "before").symlink_to("behind")
    for path, target in (("before/a.md", "before/b.md"), ("before/b.md", "behind/c.md")):
        await append(ida, path, "unsaved\n")
        room = await room_of(ida, path)
        await ida.ask("rename_document", path=path, newPath=target)
        assert await room_of(ida, target) == room
    async with person(lazy, "before/c.md") as ana:  # in a room of this name
        await append(ida, "behind/c.md", "more\n")
        await ana.until(lambda: "more" in ana.source())
        await ida.ask("rename_document", path="before/c.md", newPath="before/d.md")
        await knows_path(ana, "behind/d.md")
        await append(ida, "before/d.md", "on\n")
        await ana.until(lambda: ana.source().endswith("more\non\n"))


# -- rename -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["moved.md", "new/folder/moved.md"])
async def test_a_renamed_text_keeps_its_people_and_unsaved_edits(
    lazy: JupyterProcess, ida: AgentClient, target: str
) -> None:
    old = write(lazy, f"text-{len(target)}.md")
    new = Path(lazy.root) / target
    async with person(lazy, old.name) as ana:
        await append(ida, old.name, "unsaved, by an agent\n")
        ana.insert(None, 0, "unsaved, by Ana: ")
        await ana.flush()
        room = await room_of(ida, old.name)
        told = await ida.ask("rename_document", path=old.name, newPath=target)
        assert (told["path"], told["old_path"]) == (target, old.name)
        assert told["folders"] == (["new", "new/folder"] if "/" in target else [])
        assert not old.exists()
        # The same room: both are still in it, under the new path.
        assert await room_of(ida, target) == room
        assert ana.connections == 1
        ana.insert(None, 0, "Ana again. ")
        await ana.flush()
        await append(ida, target, "the agent again\n")
        whole = "Ana again. unsaved, by Ana: old\nunsaved, by an agent\nthe agent again\n"
        await ana.until(lambda: ana.source() == whole)
        assert await read(ida, target) == whole
        await knows_path(ana, target)
        await ana.save()
        await until(lambda: new.read_text() == whole)
        await something_else_is_saved(lazy, ida)
        assert not old.exists()
        error = await ida.refused("get_document", path=old.name)
        assert error["code"] == "document_not_found"
        await ida.ask("undo_agent_changes", path=target)
        await ana.until(lambda: "the agent again" not in ana.source())


async def test_people_are_notified_of_the_new_path(lazy: JupyterProcess, ida: AgentClient) -> None:
    write(lazy, "before.md")
    async with person(lazy, "before.md") as ana:
        await ida.ask("rename_document", path="before.md", newPath="after.md")
        await knows_path(ana, "after.md")


async def test_a_renamed_notebook_keeps_its_kernel(
    server: JupyterProcess, ada: AgentClient, api: KernelApi
) -> None:
    write(server, "run.ipynb")
    write(server, "folder/in.ipynb")
    for path, target in (("run.ipynb", "ran.ipynb"), ("folder", "renamed")):
        old = path if path.endswith(".ipynb") else f"{path}/in.ipynb"
        new = target if path.endswith(".ipynb") else f"{target}/in.ipynb"
        assert (await run(ada, old, 0))["state"] == "completed"
        (session,) = await api.sessions(old)
        await ada.ask("rename_document", path=path, newPath=target)
        code = {"content": "print(x + 41)", "cell_id": "cell-00001"}
        told = await ada.ask("batch_update_notebook_cells", path=new, updates=[code])
        assert "41" in str(told["runs"])
        (moved,) = await api.sessions(new)
        assert moved["id"] == session["id"]
        assert moved["kernel"]["id"] == session["kernel"]["id"]
        assert await api.sessions(old) == []
        await api.close(moved["id"])


async def test_open_documents_follow_the_rename_of_their_folder(
    lazy: JupyterProcess, ida: AgentClient
) -> None:
    write(lazy, "project/in/a.md")
    write(lazy, "project/n.ipynb")
    closed = await file_id(lazy, write(lazy, "project/closed.md"))
    async with person(lazy, "project/in/a.md") as ana, person(lazy, "project/n.ipynb") as bea:
        await append(ida, "project/in/a.md", "unsaved, by an agent\n")
        await ida.write("project/n.ipynb", "cell-00001", "by an agent")
        room = await room_of(ida, "project/in/a.md")
        ana.insert(None, 0, "unsaved, by Ana: ")
        bea.insert(0, 0, "# Bea\n")
        await ana.flush()
        await bea.flush()
        await ida.ask("rename_document", path="project", newPath="new/project")
        assert await room_of(ida, "new/project/in/a.md") == room
        ana.insert(None, 0, "on ")
        bea.insert(0, 0, "# on\n")
        await knows_path(ana, "new/project/in/a.md")
        await knows_path(bea, "new/project/n.ipynb")
        await ana.save()
        await bea.save()
        new = Path(lazy.root) / "new" / "project"
        text = "on unsaved, by Ana: old\nunsaved, by an agent\n"
        await until(lambda: (new / "in" / "a.md").read_text() == text)
        sources = ["# on\n# Bea\nx = 0\n", "by an agent"]
        await until(lambda: notebooks.sources(new / "n.ipynb") == sources)
        assert await ida.sources("new/project/n.ipynb") == sources
        await something_else_is_saved(lazy, ida)
        assert not (Path(lazy.root) / "project").exists()
        # What is not open now keeps its history, too.
        assert await file_id(lazy, new / "closed.md") == closed


async def test_a_file_deleted_by_a_person_with_unsaved_edits_does_not_block_others(
    lazy: JupyterProcess, ida: AgentClient
) -> None:
    write(lazy, "deleted-by-ana.md")
    write(lazy, "kept-by-ana.md")
    await append(ida, "deleted-by-ana.md", "unsaved\n")
    await append(ida, "kept-by-ana.md", "unsaved\n")
    await delete(lazy, "deleted-by-ana.md")
    await ida.ask("rename_document", path="kept-by-ana.md", newPath="renamed-by-ida.md")
    assert await read(ida, "renamed-by-ida.md") == "old\nunsaved\n"


@pytest.mark.parametrize("name", ["br[ack]ets", "st*ar", "wh?"])
async def test_renaming_a_folder_whose_name_looks_like_a_glob_affects_no_other(
    lazy: JupyterProcess, ida: AgentClient, name: str
) -> None:
    """jupyter-server-fileid takes it for a glob: of its own files some ids would stay behind, and
    those of other folders would go with it."""
    other = fitting(name)
    file = write(lazy, f"{name}/a.md")
    write(lazy, f"{other}/b.md")
    async with person(lazy, f"{name}/a.md") as ana:
        await append(ida, f"{name}/a.md", "unsaved\n")
        await append(ida, f"{other}/b.md", "unsaved\n")
        rooms = [await room_of(ida, path) for path in (f"{name}/a.md", f"{other}/b.md")]
        await ida.ask("rename_document", path=name, newPath=f"new-{name}")
        assert not file.exists()
        if lazy.standalone is None:  # a server without the extension has that fault
            assert await room_of(ida, f"new-{name}/a.md") == rooms[0]
            assert await room_of(ida, f"{other}/b.md") == rooms[1]
            ana.insert(None, 0, "Ana's ")
            await ana.save()
            new = Path(lazy.root) / f"new-{name}" / "a.md"
            await until(lambda: new.read_text() == "Ana's old\nunsaved\n")
        assert "unsaved" in await read(ida, f"new-{name}/a.md")
        assert await read(ida, f"{other}/b.md") == "old\nunsaved\n"
        await append(ida, f"new-{name}/a.md", "more\n")
        assert "more" in await read(ida, f"new-{name}/a.md")


async def test_a_file_can_be_renamed_to_a_path_that_was_once_used(
    lazy: JupyterProcess, ida: AgentClient
) -> None:
    """The id of a file that was removed on disk stays with its path for ever."""
    write(lazy, "source.md")
    gone = write(lazy, "once.md", "what was there\n")
    assert await read(ida, "once.md") == "what was there\n"
    await append(ida, "source.md", "unsaved\n")
    gone.unlink()
    room = await room_of(ida, "source.md")
    await ida.ask("rename_document", path="source.md", newPath="once.md")
    assert await read(ida, "once.md") == "old\nunsaved\n"
    if lazy.standalone is None:
        assert await room_of(ida, "once.md") == room
    await append(ida, "once.md", "more\n")
    await ida.ask("copy_document", path="once.md", copyPath="saved.md")
    assert gone.read_text() == "old\nunsaved\nmore\n"
    assert not (Path(lazy.root) / "source.md").exists()


async def test_a_rename_neither_overwrites_nor_moves_a_folder_into_itself(
    lazy: JupyterProcess, ida: AgentClient
) -> None:
    file, other = write(lazy, "stays/a.md"), write(lazy, "other/b.md", "other\n")
    async with person(lazy, "stays/a.md") as ana:
        await append(ida, "stays/a.md", "unsaved\n")
        for path, target, code in (
            ("stays/a.md", "other/b.md", "already_exists"),
            ("stays/a.md", "other", "already_exists"),
            ("stays", "other", "already_exists"),
            ("stays", "other/b.md", "already_exists"),
            ("stays", "stays", "invalid_argument"),
            ("stays", "stays/in", "invalid_argument"),
            ("stays", "stays/./deep/in", "invalid_argument"),
            ("stays/a.md", "stays/a.md/in", "invalid_argument"),
            ("stays/a.md", "", "path_refused"),
            ("stays/a.md", "../a.md", "path_refused"),
        ):
            error = await ida.refused("rename_document", path=path, newPath=target)
            assert error["code"] == code, target
        assert file.exists()
        assert other.read_text() == "other\n"
        assert shown(file.parent) == {"a.md"}
        ana.insert(None, 0, "Ana's ")
        await ana.save()
        await until(lambda: file.read_text() == "Ana's old\nunsaved\n")


async def test_nothing_is_lost_if_the_server_dies_after_a_rename(make_server: MakeServer) -> None:
    server = make_server(LAZY, env=NOT_MEASURED)
    async with server:
        root = Path(server.root)
        write(server, "a.md")
        write(server, "folder/b.md")
        write(server, "folder/[c]/d.md")
        async with agent(server) as ada, person(server, "a.md") as ana:
            await append(ada, "a.md", "before\n")
            await append(ada, "folder/b.md", "before\n")
            await append(ada, "folder/[c]/d.md", "before\n")
            ana.insert(None, 0, "Ana's ")
            await ana.flush()
            await ada.ask("rename_document", path="a.md", newPath="new/a.md")
            await ada.ask("rename_document", path="folder/[c]", newPath="folder/c")
            await ada.ask("rename_document", path="folder", newPath="moved")
            await append(ada, "new/a.md", "after\n")
            server.kill()
        await server.start()
        assert (root / "new" / "a.md").read_text() == "Ana's old\nbefore\nafter\n"
        assert (root / "moved" / "b.md").read_text() == "old\nbefore\n"
        assert (root / "moved" / "c" / "d.md").read_text() == "old\nbefore\n"
        assert shown(root) == {"new", "moved"}
        assert shown(root / "new") == {"a.md"}


async def test_a_pending_save_does_not_bring_the_old_path_back(
    server: JupyterProcess, ada: AgentClient
) -> None:
    """Saves, edits, renames and at last a delete, in each other's way. A large file takes time."""
    large = "a line of a large file\n" * 170_000
    write(server, "hop-0.md", large)
    async with person(server, "hop-0.md") as ana:
        for number in range(6):
            ana.insert(None, 0, "A")
            await append(ada, f"hop-{number}.md", f"{number}")
            saving = asyncio.create_task(ana.save(timeout=30))
            await until(lambda name=f"hop-{number}.md": f"Saving file: {name}" in server.log)  # type: ignore[misc]
            target = f"hop-{number + 1}.md"
            await ada.ask("rename_document", path=f"hop-{number}.md", newPath=target)
            await saving
            if server.standalone:  # that server may save where the file was
                (Path(server.root) / f"hop-{number}.md").unlink(missing_ok=True)
            assert hops(server) == {target}
        whole = "A" * 6 + large + "012345"
        await ana.until(lambda: ana.source() == whole, timeout=30)
        file = Path(server.root) / "hop-6.md"
        await until(lambda: file.read_text() == whole)
        ana.insert(None, 0, "A")
        saves = server.log.count("Saving file: hop-6.md")
        saving = asyncio.create_task(ana.save(timeout=30))
        await until(lambda: server.log.count("Saving file: hop-6.md") > saves)
        await ada.ask("delete_document", path="hop-6.md")
        await asyncio.gather(saving, return_exceptions=True)
    assert hops(server) == set()
    # While it writes a file, Jupyter keeps a copy of it beside.
    await until(lambda: not list(Path(server.root).glob(".~hop-*")))


def hops(server: JupyterProcess) -> set[str]:
    names = {path.name for path in Path(server.root).glob("*hop-*")}
    return {name for name in names if not name.startswith(".~")}


# -- renamed in the same moment ---------------------------------------------------------------


@pytest.mark.parametrize("ending", [".md", ".ipynb"])
async def test_an_edit_that_races_with_a_rename_succeeds_or_gets_the_new_path(
    server: JupyterProcess, ada: AgentClient, ending: str
) -> None:
    """By a person, who does not wait for agents; for a moment the file is at neither path."""
    file = write(server, f"race-0{ending}", "text\n")
    paths = [f"race-{number}{ending}" for number in range(15)]

    async def edit(path: str, word: str) -> Any:
        if ending == ".md":
            operations = [{"old_text": "text", "new_text": f"{word} text"}]
            return await ada.call("batch_update_document", path=path, operations=operations)
        update = {"index": 0, "old_text": "x", "new_text": f"{word} x"}
        return await ada.call(
            "batch_update_notebook_cells", path=path, updates=[update], exec=False
        )

    done: list[str] = []
    async with httpx2.AsyncClient(headers=server.headers, timeout=60, verify=False) as http:
        for number, (path, new_path) in enumerate(pairwise(paths)):
            word = f"word{number}"
            url = f"{server.url}api/contents/{path}"
            await ada.ask("get_document_info", path=path)
            renamed, result = await asyncio.gather(
                http.patch(url, json={"path": new_path}), edit(path, word)
            )
            renamed.raise_for_status()
            if result.is_error:
                error = result.structured_content["error"]
                assert error["code"] == "document_not_found", error
                assert error["new_path"] == new_path
                result = await edit(new_path, word)
                assert not result.is_error, result
            done.append(word)
    last = file.with_name(paths[-1])
    await until(lambda: last.exists() and all(word in last.read_text() for word in done))
    # A server without the extension writes at the old path again if it saves meanwhile.
    rewritten = {path for path in paths if f"Saving file: {path}\n" in server.log}
    left = shown(file.parent) & set(paths) - {paths[-1]}
    assert last.exists()
    assert left <= (rewritten if server.standalone else set())
