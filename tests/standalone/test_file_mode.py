"""Servers without collaboration: the same tools through files, each answer says so."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ResourceLink, TextResourceContents

from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.backends.remote.file_room import FileRoom, FileRooms
from jupyter_collaboration_mcp.backends.remote.jupyter_api import JupyterApi
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.collaboration.peer import RoomPeer
from jupyter_collaboration_mcp.collaboration.presence import Profile
from jupyter_collaboration_mcp.collaboration.seats import Seat
from jupyter_collaboration_mcp.errors import RoomUnavailable
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent, text_of
from tests.harness.jupyter import JupyterProcess
from tests.harness.standalone import StandaloneProcess

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

FILES = {"jupyter_collaboration_mcp": False, "jupyter_server_ydoc": False}
PATH = "work.ipynb"


@pytest.fixture(scope="module")
async def servers(
    make_server: MakeServer, anyio_backend: str
) -> AsyncIterator[tuple[JupyterProcess, JupyterProcess]]:
    async with make_server(extensions=FILES) as one, make_server(extensions=FILES) as two:
        yield one, two


@pytest.fixture(scope="module")
async def command(
    servers: tuple[JupyterProcess, JupyterProcess],
) -> AsyncIterator[StandaloneProcess]:
    async with StandaloneProcess(servers) as process:
        yield process


@pytest.fixture
async def ada(command: StandaloneProcess) -> AsyncIterator[AgentClient]:
    async with agent(command) as client:
        yield client


@pytest.fixture
def root(servers: tuple[JupyterProcess, JupyterProcess]) -> Path:
    """Of the first server."""
    cells = [notebooks.code("one", "1 + 1"), notebooks.markdown("two", "text")]
    for server in servers:
        notebooks.write(Path(server.root) / PATH, notebooks.notebook(cells))
    return Path(servers[0].root)


async def labelled(ada: AgentClient, tool: str, **arguments: Any) -> dict[str, Any]:
    """The facts of an answer that says, in both its parts, that it is about a file."""
    result = await ada.call(tool, **arguments)
    assert not result.is_error, text_of(result)
    assert "File mode" in text_of(result), tool
    facts: dict[str, Any] = result.structured_content
    assert facts["mode"] == "file", tool
    return facts


async def test_cell_edits_can_be_made_and_undone(ada: AgentClient, root: Path) -> None:
    def saved() -> list[str]:
        return notebooks.sources(root / PATH)

    await labelled(ada, "create_notebook_session", path=PATH)
    cells = [{"content": "é😀", "cell_type": "markdown"}]
    await labelled(ada, "batch_insert_notebook_cells", path=PATH, cells=cells, start_position=1)
    assert saved() == ["1 + 1", "é😀", "text"]
    await labelled(ada, "move_notebook_cells", path=PATH, cell_ids=["two"], to_index=0)
    assert saved() == ["text", "1 + 1", "é😀"]
    await labelled(ada, "batch_delete_notebook_cells", path=PATH, cell_ids=["one"])
    assert saved() == ["text", "é😀"]
    await labelled(ada, "undo_agent_changes", path=PATH, steps=3)
    assert saved() == ["1 + 1", "text"]
    await labelled(ada, "get_notebook", path=PATH)


async def test_a_text_keeps_its_line_endings_when_edited(ada: AgentClient, root: Path) -> None:
    file = root / "windows.md"
    file.write_bytes("é😀\r\nsecond\r\nthird".encode())
    await labelled(ada, "create_document_session", path=file.name)
    read = await labelled(ada, "get_document", path=file.name)
    operations = [
        {"content": "[", "position": 0},
        {"content": "]", "position": 2},
        {"old_text": "second", "new_text": "2nd"},
        {"content": "\nend"},
    ]
    await labelled(
        ada,
        "batch_update_document",
        path=file.name,
        operations=operations,
        if_revision=read["revision"],
    )
    assert file.read_bytes().decode() == "[é😀]\r\n2nd\r\nthird\r\nend"
    stale = await ada.refused(
        "batch_update_document",
        path=file.name,
        operations=[{"content": "x"}],
        if_revision=read["revision"],
    )
    assert stale["code"] == "stale_revision"
    file.write_bytes(b"by somebody else")
    again = await labelled(ada, "get_document", path=file.name)
    assert again["content"] == "by somebody else"


async def test_files_can_be_renamed_copied_and_deleted_after_reading(
    ada: AgentClient, root: Path
) -> None:
    (root / "old.md").write_text("text")
    await labelled(ada, "get_document", path="old.md")
    await ada.ask("rename_document", path="old.md", newPath="new.md")
    assert not (root / "old.md").exists()
    await labelled(
        ada, "batch_insert_text", path="new.md", operations=[{"text": "!", "position": -1}]
    )
    assert (root / "new.md").read_text() == "text!"
    await ada.ask("copy_document", path="new.md", copyPath="copy.md")
    assert (root / "copy.md").read_text() == "text!"
    await ada.ask("delete_document", path="new.md")
    assert (await ada.refused("get_document", path="new.md"))["code"] == "document_not_found"
    assert not (root / "new.md").exists()


async def test_files_of_the_same_path_on_two_servers_are_kept_apart(
    ada: AgentClient, servers: tuple[JupyterProcess, JupyterProcess], root: Path
) -> None:
    links = []
    for number in (1, 2):
        path = f"s{number}:{PATH}"
        await ada.write(path, "one", f"for n in range(30_000): print({number}, n)")
        ran = await ada.call("execute_notebook_cell", path=path, cell_id="one", timeout=60)
        links += [part for part in ran.content if isinstance(part, ResourceLink)]
    assert len({link.uri for link in links}) == 2
    for number, link in enumerate(links, 1):
        (page,) = (await ada.client.read_resource(link.uri)).contents
        assert isinstance(page, TextResourceContents)
        assert page.text.startswith(f"{number} 0\n{number} 1\n")
    for number, server in enumerate(servers, 1):
        assert f"print({number}, n)" in notebooks.sources(Path(server.root) / PATH)[0]


async def test_a_concurrent_write_by_somebody_else_is_not_overwritten(
    servers: tuple[JupyterProcess, JupyterProcess], root: Path
) -> None:
    api = JupyterApi(ServerAddress(servers[0].url, servers[0].token))
    rooms = FileRooms(api)
    (root / "moment.md").write_text("text")
    peer = RoomPeer(await rooms.join(rooms.identify("moment.md", "file")))
    await peer.catch_up()
    with peer.edit(Seat(Profile("ada <test>", "Ada")), "test"):
        peer.text.set_source(0, "by an agent")
    (root / "moment.md").write_text("by somebody else")  # after the look, before the save
    with pytest.raises(RoomUnavailable, match="somebody else"):
        await peer.wait_acknowledged()
    assert (root / "moment.md").read_text() == "by somebody else"
    await peer.catch_up()
    assert str(peer.text) == "by somebody else"
    await api.close()


async def test_large_integers_are_rounded_and_invalid_json_is_refused(
    ada: AgentClient, root: Path
) -> None:
    cells = [notebooks.code("one", "x", metadata={"k": 2**70}, execution_count=2**64 - 1)]
    notebooks.write(root / "large.ipynb", notebooks.notebook(cells))
    before = (root / "large.ipynb").read_bytes()
    said = await ada.say("get_notebook", path="large.ipynb", format="full")
    assert "cells[0].metadata.k, cells[0].execution_count" in said
    assert (root / "large.ipynb").read_bytes() == before
    await ada.write("large.ipynb", "one", "edited")
    saved = json.loads((root / "large.ipynb").read_text())["cells"][0]
    assert (saved["source"], saved["metadata"]["k"]) == (["edited"], 2.0**70)
    for name, cell in {
        "nan": notebooks.code("one", "x", metadata={"k": float("nan")}),
        "number": {**notebooks.code("one", ""), "source": 5},
        "half": notebooks.code("one", "\ud83d"),
        "deep": notebooks.code("one", "x", metadata=json.loads('{"k":' * 300 + "1" + "}" * 300)),
    }.items():
        notebooks.write(root / f"{name}.ipynb", notebooks.notebook([cell]))
    (root / "none.ipynb").write_text("{ half a noteb")
    for name in ("nan", "number", "half", "deep", "none"):
        before = (root / f"{name}.ipynb").read_bytes()
        error = await ada.refused("get_notebook", path=f"{name}.ipynb")
        assert error["code"] == "corrupt_document", (name, error)
        assert str(root) not in error["message"]
        assert (root / f"{name}.ipynb").read_bytes() == before


async def test_a_closed_file_is_freed() -> None:
    """B28."""
    nobody: Any = None
    room = FileRoom(nobody, RoomId("json:notebook:x"), "x.ipynb")
    freed = weakref.ref(room)
    await room.close()
    await room.close()
    del room
    gc.collect()
    assert freed() is None
