"""Rooms of a server elsewhere, stock Jupyter without our extension, over networks that break."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, cast

import pytest
from pycrdt import Array, Doc, YMessageType, create_sync_message, handle_sync_message
from websockets.asyncio.server import ServerConnection, serve

from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.backends.remote import (
    room_connection,
    room_file,
    room_reconnector,
    room_saves,
    room_socket,
    websocket,
)
from jupyter_collaboration_mcp.backends.remote.answer_limits import AnswerLimits
from jupyter_collaboration_mcp.backends.remote.backend import RemoteBackend
from jupyter_collaboration_mcp.backends.remote.jupyter_api import JupyterApi
from jupyter_collaboration_mcp.backends.remote.room_reconnector import RoomReconnector
from jupyter_collaboration_mcp.backends.remote.room_socket import RoomSocket
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.backends.remote.websocket import BoundedConnection, open_websocket
from jupyter_collaboration_mcp.collaboration.peer import RoomPeer
from jupyter_collaboration_mcp.collaboration.presence import Profile
from jupyter_collaboration_mcp.collaboration.seats import Seat
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell
from jupyter_collaboration_mcp.errors import (
    CorruptDocument,
    DocumentNotFound,
    NotANotebook,
    RoomUnavailable,
    ServerUnreachable,
    TokenRefused,
)
from jupyter_collaboration_mcp.workspace.call_limits import Limits
from jupyter_collaboration_mcp.workspace.permissions import PathRules
from jupyter_collaboration_mcp.workspace.workspace import Workspace
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.permits import permit
from tests.harness.proxy import Proxy
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

STOCK = {"jupyter_collaboration_mcp": False}

LOG = logging.getLogger("test")


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A stock Jupyter server with real-time collaboration, and nothing of ours."""
    async with make_server(extensions=STOCK) as process:
        yield process


@pytest.fixture
async def backend(server: JupyterProcess) -> AsyncIterator[RemoteBackend]:
    async with remote(server.url, server.token) as backend:
        yield backend


@asynccontextmanager
async def remote(url: str, token: str | None) -> AsyncIterator[RemoteBackend]:
    api = JupyterApi(ServerAddress(url, token))
    backend = RemoteBackend(api, LOG)
    try:
        yield backend
    finally:
        await backend.close()
        await api.close()


class Agent:
    """A peer with one agent at it, as the workspace would have it."""

    def __init__(self, peer: RoomPeer) -> None:
        self.peer = peer
        self.seat = Seat(Profile("ada <test>", "Ada"))
        self.link = cast("RoomSocket", peer.link)

    @classmethod
    async def at(cls, backend: RemoteBackend, path: str) -> Agent:
        return cls(RoomPeer(await backend.join(await backend.identify(path))))

    def sources(self) -> list[str]:
        notebook = self.peer.notebook
        return [notebook.source(index) for index in range(len(notebook))]

    async def read(self) -> list[str]:
        await self.peer.catch_up()
        return self.sources()

    def edit(self, index: int, source: str) -> None:
        with self.peer.edit(self.seat, "test"):
            self.peer.notebook.set_source(index, source)

    async def write(self, index: int, source: str) -> None:
        await self.peer.catch_up()
        self.edit(index, source)
        await self.peer.link.wait_acknowledged()


def write(server: JupyterProcess, path: str, count: int = 3) -> Path:
    file = Path(server.root) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    notebooks.write(file, notebooks.numbered(count))
    return file


def collaborator(server: JupyterProcess, path: str) -> Collaborator:
    return Collaborator(server.url, server.token, path)


# -- together ------------------------------------------------------------------------------


async def test_an_agents_edits_are_seen_by_a_person_and_saved(
    server: JupyterProcess, backend: RemoteBackend
) -> None:
    file = write(server, "together.ipynb")
    ada_and_ana = ["by an agent: é😀", "# a person\nx = 1\n"]
    ada = await Agent.at(backend, file.name)
    assert await ada.read() == ["x = 0\n", "x = 1\n", "x = 2\n"]
    async with collaborator(server, file.name) as ana:
        ana.awareness.set_local_state_field("autosave", False)
        await ana.flush()
        await ada.write(0, "by an agent: é😀")
        await ana.until(lambda: ana.source(0) == "by an agent: é😀")
        ana.insert(1, 0, "a person\n")
        await ana.flush()
        assert (await ada.read())[1] == "a person\nx = 1\n"
        assert not ada.link.saved
        ana.awareness.set_local_state_field("autosave", True)
        ana.insert(1, 0, "# ")
        await until(lambda: notebooks.sources(file)[:2] == ada_and_ana)
        while not ada.link.saved:
            await ada.read()
        assert notebooks.sources(file) == ada.sources() == ana.sources()


async def test_an_agent_always_reads_the_rooms_current_content(
    server: JupyterProcess, backend: RemoteBackend
) -> None:
    file = write(server, "moment.ipynb")
    ada = await Agent.at(backend, file.name)
    async with collaborator(server, file.name) as ana:
        for n in range(30):
            ana.insert(0, 0, f"{n} ")
            await ana.flush()
            assert (await ada.read())[0] == ana.source(0)


async def test_eight_edits_in_a_row_arrive_in_order_and_once(
    server: JupyterProcess, backend: RemoteBackend
) -> None:
    file = write(server, "eight.ipynb")
    ada = await Agent.at(backend, file.name)
    async with collaborator(server, file.name) as ana:
        for n in range(8):
            ada.edit(0, ada.sources()[0] + f"line {n}\n")
        await ada.link.wait_acknowledged()
        expected = "x = 0\n" + "".join(f"line {n}\n" for n in range(8))
        await ana.until(lambda: ana.source(0) == expected)
        assert (await ada.read())[0] == expected
        assert not ada.link.receive()  # its own edits do not come back


async def test_flush_saves_and_confirms_it(server: JupyterProcess, backend: RemoteBackend) -> None:
    file = write(server, "flush.ipynb")
    ada = await Agent.at(backend, file.name)
    assert ada.link.saved
    ada.edit(0, "saved on leaving")
    assert not ada.link.saved
    await ada.link.flush()
    assert notebooks.sources(file)[0] == "saved on leaving"
    await ada.read()
    assert ada.link.saved
    await ada.link.flush()  # nothing to do


async def test_a_flush_really_saves_while_a_person_types(
    server: JupyterProcess, backend: RemoteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save that is cancelled by typing is reported as a success."""
    monkeypatch.setattr(room_saves, "_FLUSH", 60.0)
    file = write(server, "typing.ipynb", 50)
    ada = await Agent.at(backend, file.name)
    async with collaborator(server, file.name) as ana:
        typing = asyncio.create_task(ana.type(1, None, "typed by a person" * 20, delay=0.02))
        for n in range(3):
            await ada.write(0, f"kept {n}")
            await ada.link.flush()
            # Whenever the person pauses, the server saves by itself as well.
            assert (await notebooks.whole_sources(file))[0] == f"kept {n}"
        await typing


async def test_an_agent_is_seen_by_people_until_it_leaves(
    server: JupyterProcess, backend: RemoteBackend
) -> None:
    file = write(server, "presence.ipynb")
    ada = await Agent.at(backend, file.name)
    async with collaborator(server, file.name) as ana:
        ada.peer.seat(ada.seat)
        await ana.until(lambda: [u["name"] for u in ana.awareness_users()] == ["Ada"])
        # The newcomer says so, and is answered without waiting for the next heartbeat.
        async with Collaborator(server.url, server.token, file.name, "Bob") as bob:
            await bob.until(lambda: "Ada" in [u["name"] for u in bob.awareness_users()])
            await until(lambda: _names(ada.link) == ["Ada", "Ana", "Bob"])
        await until(lambda: _names(ada.link) == ["Ada", "Ana"])
        ada.peer.unseat(ada.seat)
        await ada.link.close()
        await ana.until(lambda: not ana.awareness_users())
        assert not ada.link.alive


def _names(link: RoomSocket) -> list[str]:
    return sorted(str(state["user"]["name"]) for state in link.states.values() if "user" in state)


async def test_a_server_with_our_extension_works_the_same(make_server: MakeServer) -> None:
    server = make_server(base_url="/some/base")
    file = write(server, "extended.ipynb")
    async with server, remote(server.url, server.token) as backend:
        ada = await Agent.at(backend, file.name)
        await ada.write(2, "over the network")
        async with collaborator(server, file.name) as ana:
            assert ana.source(2) == "over the network"
        await ada.link.flush()
        assert notebooks.sources(file)[2] == "over the network"


async def test_a_server_without_a_token_lets_everybody_in(make_server: MakeServer) -> None:
    server = make_server(extensions=STOCK, token="")
    file = write(server, "open.ipynb")
    async with server, remote(server.url, None) as backend:
        ada = await Agent.at(backend, file.name)
        await ada.write(0, "no token")
        await ada.link.flush()
        assert notebooks.sources(file)[0] == "no token"


# -- files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "a b.ipynb",
        "100%.ipynb",
        "50%25 off.ipynb",
        "c#1.ipynb",
        "why?.ipynb",
        "a:b.ipynb",
        "a+b&c=d;e.ipynb",
        "dir #1/né 日本😀.ipynb",
    ],
)
async def test_any_file_name_can_be_opened_and_edited(
    server: JupyterProcess, backend: RemoteBackend, path: str
) -> None:
    file = write(server, path)
    ada = await Agent.at(backend, path)
    await ada.write(0, f"# {path}")
    assert ada.link.path == path
    assert backend.known_room(path) == ada.link.room_id
    async with collaborator(server, path) as ana:
        assert ana.source(0) == f"# {path}"
    await ada.link.flush()
    assert notebooks.sources(file)[0] == f"# {path}"


async def test_opening_anything_but_a_notebook_raises_a_specific_error(
    server: JupyterProcess, backend: RemoteBackend
) -> None:
    (server.root / "text.txt").write_text("text")
    (server.root / "folder").mkdir()
    (server.root / "broken.ipynb").write_text("{")
    with pytest.raises(DocumentNotFound):
        await backend.identify("nowhere.ipynb")
    with pytest.raises(NotANotebook):
        await backend.identify("text.txt")
    with pytest.raises(NotANotebook):
        await backend.identify("folder")
    with pytest.raises(CorruptDocument):
        await Agent.at(backend, "broken.ipynb")
    assert (server.root / "broken.ipynb").read_text() == "{"


async def test_notebooks_are_listed_breadth_first(make_server: MakeServer) -> None:
    server = make_server(extensions=STOCK)
    for path in ("b.ipynb", "a/c.ipynb", "a/deep/d.ipynb", "e/f.ipynb", ".hidden/g.ipynb"):
        write(server, path)
    write(server, "a/.ipynb_checkpoints/c-checkpoint.ipynb")
    async with server, remote(server.url, server.token) as backend:
        ada = await Agent.at(backend, "a/c.ipynb")
        ada.peer.seat(ada.seat)
        rules = PathRules(denied=["e/f.ipynb"])
        workspace = Workspace(backend, rules, Limits(), 60, logging.getLogger(__name__))
        filing = workspace.filing
        listing = await filing.listings.notebooks(permit(workspace, ""), 10)
        paths = [entry.path for entry in listing.entries]
        assert paths == ["b.ipynb", "a/c.ipynb", "a/deep/d.ipynb"]
        assert listing.complete
        assert [entry.open for entry in listing.entries] == [False, True, False]
        assert listing.entries[1].people == ("Ada (agent)",)
        looked = await filing.look(permit(workspace, "b.ipynb"))
        assert listing.entries[0].last_modified == looked.last_modified
        few = await filing.listings.notebooks(permit(workspace, "a"), 1)
        assert [entry.path for entry in few.entries] == ["a/c.ipynb"]
        assert not few.complete
        assert not (await filing.listings.notebooks(permit(workspace, "nowhere/x"), 9)).entries


async def test_a_seat_follows_a_rename(
    server: JupyterProcess, backend: RemoteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_file, "_LOOK", 0.1)
    file = write(server, "before.ipynb")
    ada = await Agent.at(backend, file.name)
    await backend._api.request(
        "PATCH", "api", "contents", "before.ipynb", body={"path": "after.ipynb"}
    )
    await until(lambda: ada.link.path == "after.ipynb")
    assert backend.known_room("before.ipynb") is None
    assert backend.known_room("after.ipynb") == ada.link.room_id
    await ada.write(0, "after the rename")
    await ada.link.flush()
    assert notebooks.sources(file.with_name("after.ipynb"))[0] == "after the rename"
    assert not file.exists()


async def test_a_seat_in_a_deleted_file_is_lost(
    server: JupyterProcess, backend: RemoteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_file, "_LOOK", 0.1)
    file = write(server, "deleted.ipynb")
    ada = await Agent.at(backend, file.name)
    ends = count_ends(ada.link)
    await backend._api.request("DELETE", "api", "contents", "deleted.ipynb")
    await until(lambda: not ada.link.alive)
    assert "deleted.ipynb" in ada.link.ended
    assert ends() == 1
    assert backend.known_room(file.name) is None
    with pytest.raises(RoomUnavailable):
        await ada.read()
    with pytest.raises(DocumentNotFound):
        await backend.identify(file.name)
    write(server, file.name)
    again = await Agent.at(backend, file.name)
    assert len(await again.read()) == 3


async def test_a_server_without_collaboration_is_used_in_file_mode(make_server: MakeServer) -> None:
    server = make_server(extensions={**STOCK, "jupyter_server_ydoc": False})
    file = write(server, "alone.ipynb")
    async with server, remote(server.url, server.token) as backend:
        link = await backend.join(await backend.identify(file.name))
        assert link.limitation is not None
        assert link.limitation.mode == "file"
        assert backend.path_of(link.room_id.rpartition(":")[2]) == file.name
        with pytest.raises(DocumentNotFound):
            await backend.identify("nowhere.ipynb")


# -- broken connections --------------------------------------------------------------------


def count_ends(link: RoomSocket) -> Callable[[], int]:
    ends: list[bool] = []
    link.on_end = lambda: ends.append(link.alive)

    def count() -> int:
        assert not any(ends)
        return len(ends)

    return count


def is_at_rest(link: RoomSocket) -> bool:
    """Whether nothing is left of it that could try anything."""
    return len(link._tasks) == 0


async def test_an_edit_made_while_the_network_is_cut_arrives_once(server: JupyterProcess) -> None:
    file = write(server, "cut.ipynb")
    async with (
        Proxy(server.url) as proxy,
        remote(proxy.url, server.token) as backend,
        collaborator(server, file.name) as ana,
    ):
        ada = await Agent.at(backend, file.name)
        ada.peer.seat(ada.seat)
        for n in range(3):
            proxy.cut()
            await until(lambda: not ada.link.connected)
            ada.edit(0, ada.sources()[0] + f"offline {n}\n")
            ana.insert(0, 0, f"meanwhile {n}\n")
            await asyncio.sleep(n / 2)  # the cut lasts as long
            assert ada.link.alive
            proxy.resume()
            await ada.link.wait_acknowledged()
            await ana.flush()  # the room has what Ana wrote, and Ana what Ada did
            assert await ada.read() == ana.sources()
        lines = ana.source(0).splitlines()
        assert lines == [
            *("meanwhile 2", "meanwhile 1", "meanwhile 0"),
            *("x = 0", "offline 0", "offline 1", "offline 2"),
        ]
        await ada.link.flush()
        assert notebooks.sources(file) == ana.sources()
        await ana.until(lambda: "Ada" in [user["name"] for user in ana.awareness_users()])


async def test_a_silent_network_only_delays_edits(server: JupyterProcess) -> None:
    file = write(server, "silent.ipynb")
    async with Proxy(server.url) as proxy, remote(proxy.url, server.token) as backend:
        ada = await Agent.at(backend, file.name)
        proxy.pause()
        ada.edit(0, "in the dark")
        waiting = asyncio.create_task(ada.link.wait_acknowledged())
        await asyncio.sleep(2)  # the silence lasts as long
        assert not waiting.done()
        proxy.resume()
        await waiting
        async with collaborator(server, file.name) as ana:
            assert ana.source(0) == "in the dark"


async def test_a_network_that_stays_silent_is_detected(
    server: JupyterProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(server, "noticed.ipynb")
    async with Proxy(server.url) as proxy, remote(proxy.url, server.token) as backend:
        ada = await Agent.at(backend, file.name)
        # Only the next connection is an impatient one: while a server loads a document it does
        # not answer, and who enters for the first time tries once.
        monkeypatch.setattr(websocket, "_PING", 0.3)
        monkeypatch.setattr(websocket, "_PONG", 0.3)
        proxy.cut()
        await until(lambda: not ada.link.connected)
        proxy.resume()
        await until(lambda: ada.link.connected)
        proxy.pause()
        await until(lambda: not ada.link.connected)
        monkeypatch.undo()
        ada.edit(0, "in the dark")
        proxy.resume()
        await ada.link.wait_acknowledged()
        async with collaborator(server, file.name) as ana:
            assert ana.source(0) == "in the dark"


async def test_a_rename_during_a_network_cut_is_followed(server: JupyterProcess) -> None:
    file = write(server, "old.ipynb")
    async with (
        Proxy(server.url) as proxy,
        remote(proxy.url, server.token) as backend,
        remote(server.url, server.token) as person,
        collaborator(server, file.name) as ana,
    ):
        ada = await Agent.at(backend, file.name)
        proxy.cut()
        await person._api.request(
            "PATCH", "api", "contents", "old.ipynb", body={"path": "new.ipynb"}
        )
        ada.edit(0, "offline")
        proxy.resume()
        await ada.link.wait_acknowledged()
        assert ada.link.path == "new.ipynb"
        await ana.until(lambda: ana.source(0) == "offline")


async def test_a_hanging_server_only_delays_edits(server: JupyterProcess) -> None:
    file = write(server, "hangs.ipynb")
    async with remote(server.url, server.token) as backend:
        ada = await Agent.at(backend, file.name)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            ada.edit(0, "patience")
            waiting = asyncio.create_task(ada.link.wait_acknowledged())
            await asyncio.sleep(1)  # it hangs as long
            assert not waiting.done()
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await waiting
        assert (await ada.read())[0] == "patience"


async def test_a_server_that_stays_away_is_reported_as_unreachable(
    server: JupyterProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_reconnector, "_AWAY", 0.5)
    file = write(server, "away.ipynb")
    async with Proxy(server.url) as proxy, remote(proxy.url, server.token) as backend:
        ada = await Agent.at(backend, file.name)
        proxy.cut()
        await until(lambda: not ada.link.connected)
        with pytest.raises(RoomUnavailable, match="cannot be reached"):
            await ada.read()
        ada.edit(0, "into the void")
        with pytest.raises(RoomUnavailable, match="may not have been kept"):
            await ada.link.wait_acknowledged()
        proxy.resume()
        await until(lambda: ada.link.connected)
        assert (await ada.read())[0] == "into the void"
        proxy.cut()
        with pytest.raises(ServerUnreachable):
            await backend.identify(file.name)


class Rests:
    """The pauses between attempts to connect; no clock says how many there may be in a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pauses: list[float] = []
        rest = RoomReconnector._rest

        async def noted(line: RoomReconnector, pause: float) -> None:
            began = time.monotonic()
            await rest(line, pause)
            assert time.monotonic() - began >= min(pause / 2, 1)
            self.pauses.append(pause)

        monkeypatch.setattr(RoomReconnector, "_rest", noted)

    async def grow(self) -> None:
        """Wait for some, of which each is twice as long as the one before."""
        await until(lambda: len(self.pauses) >= 3)
        assert self.pauses[:3] == [0.2, 0.4, 0.8]


async def test_reconnection_attempts_back_off(
    server: JupyterProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(server, "rarer.ipynb")
    rests = Rests(monkeypatch)
    async with Proxy(server.url) as proxy, remote(proxy.url, server.token) as backend:
        ada = await Agent.at(backend, file.name)
        before = proxy.connections
        proxy.cut()
        await rests.grow()
        assert ada.link.alive
        assert 2 <= proxy.connections - before <= len(rests.pauses)


async def test_closing_during_a_network_cut_does_not_take_long(
    server: JupyterProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_socket, "_GOODBYE", 0.2)
    monkeypatch.setattr(room_connection, "_GOODBYE", 0.2)
    file = write(server, "leaving.ipynb")
    async with Proxy(server.url) as proxy, remote(proxy.url, server.token) as backend:
        for break_it in (proxy.cut, proxy.pause):
            ada = await Agent.at(backend, file.name)
            break_it()
            ada.edit(0, "never mind")
            async with asyncio.timeout(15):  # a silent connection ends by itself after 20
                await ada.link.close()
            proxy.resume()


async def test_an_abandoned_seat_leaves_no_tasks_behind(server: JupyterProcess) -> None:
    file = write(server, "behind.ipynb")
    async with Proxy(server.url) as proxy, remote(server.url, server.token) as backend:
        before = asyncio.all_tasks()
        for _ in range(2):
            ada = await Agent.at(backend, file.name)
            ada.edit(0, "bye")
            await asyncio.gather(ada.link.close(), ada.link.close())
            ada.edit(0, "to nobody")  # no harm is done
        await until(lambda: asyncio.all_tasks() <= before)
        async with remote(proxy.url, server.token) as other:
            ada = await Agent.at(other, file.name)
            proxy.cut()
            await until(lambda: not ada.link.connected)
        proxy.resume()
        await until(lambda: asyncio.all_tasks() <= before)


async def test_a_server_restart_ends_the_seat_and_duplicates_nothing(
    make_server: MakeServer,
) -> None:
    server = make_server(extensions=STOCK)
    file = write(server, "restart.ipynb")
    async with server, remote(server.url, server.token) as backend:
        ada = await Agent.at(backend, file.name)
        ends = count_ends(ada.link)
        await ada.write(0, "saved")
        await ada.link.flush()
        ada.edit(1, "not saved")
        server.kill()
        await until(lambda: not ada.link.connected)
        ada.edit(2, "offline")
        content = json.loads(file.read_text())
        content["cells"][1]["source"] = "written by an editor"
        notebooks.write(file, content)
        await asyncio.sleep(1)  # the server is away as long
        assert ada.link.alive  # it may only be a bad network
        await server.start()
        await until(lambda: not ada.link.alive)
        assert "restarted" in ada.link.ended
        assert ends() == 1
        with pytest.raises(RoomUnavailable, match="restarted"):
            await ada.read()
        await ada.link.close()
        again = RoomPeer(await backend.join(ada.link.room_id))
        now = Agent(again)
        assert await now.read() == ["saved", "written by an editor", "x = 2\n"]
        assert now.link.session_id != ada.link.session_id
        async with collaborator(server, file.name) as ana:
            assert ana.sources() == now.sources()
        assert await notebooks.whole_sources(file) == now.sources()


async def test_a_reloaded_room_does_not_receive_the_old_document(
    make_server: MakeServer,
) -> None:
    """Without its store, a room that was cleaned up begins another history of the same text."""
    server = make_server(
        extensions=STOCK, config={"YDocExtension": {"document_cleanup_delay": 0.1}}
    )
    file = write(server, "anew.ipynb")
    async with server, Proxy(server.url) as proxy, remote(proxy.url, server.token) as backend:
        ada = await Agent.at(backend, file.name)
        await ada.write(0, "x = 0\nonce")
        await ada.link.flush()
        proxy.cut()
        await until(lambda: f"Room {ada.link.room_id} deleted" in server.log)
        for store in server.root.glob(".jupyter_ystore.db*"):
            store.unlink()
        ada.edit(1, "offline")
        proxy.resume()
        await until(lambda: not ada.link.alive)
        assert "the server reloaded the document" in ada.link.ended
        again = await Agent.at(backend, file.name)
        assert await again.read() == ["x = 0\nonce", "x = 1\n", "x = 2\n"]


async def test_a_wrong_token_is_tried_once(server: JupyterProcess) -> None:
    file = write(server, "token.ipynb")
    async with Proxy(server.url) as proxy, remote(proxy.url, "wrong") as backend:
        with pytest.raises(TokenRefused):
            await backend.identify(file.name)
        assert proxy.connections == 1


async def test_a_revoked_token_ends_the_seat_without_retries(
    server: JupyterProcess, make_server: MakeServer
) -> None:
    file = write(server, "revoked.ipynb")
    async with (
        make_server(extensions=STOCK) as other,
        Proxy(server.url) as proxy,
        remote(proxy.url, server.token) as backend,
    ):
        ada = await Agent.at(backend, file.name)
        ends = count_ends(ada.link)
        proxy.target = other.url  # knows another token
        proxy.cut()
        before = proxy.connections
        proxy.resume()
        await until(lambda: not ada.link.alive)
        assert "token" in ada.link.ended
        assert ends() == 1
        await until(lambda: is_at_rest(ada.link))
        assert proxy.connections - before == 1


# -- servers that close --------------------------------------------------------------------


class ClosingServer(JupyterApi):
    """A server that lets everybody in and then closes with a code: that cannot be had for real."""

    reason = "because"

    def __init__(self, code: int) -> None:
        super().__init__(ServerAddress("http://nowhere.invalid"))
        self.connections = 0
        self._code = code
        self._document: Doc[Any] = Doc()
        self._document["cells"] = Array([])
        self._port = 0

    @property
    def document(self) -> Doc[Any]:
        return self._document

    async def request(self, *_: Any, **__: Any) -> Any:
        return {"fileId": "file", "sessionId": "session"}

    async def websocket(self, *_: Any, **__: Any) -> BoundedConnection:
        url = f"ws://127.0.0.1:{self._port}"
        return await open_websocket(url, self.address, None, self.limits, None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        async with serve(self._serve, "127.0.0.1", 0) as server:
            self._port = next(iter(server.sockets)).getsockname()[1]
            yield self
        await self.close()

    async def _serve(self, websocket: ServerConnection) -> None:
        self.connections += 1
        await websocket.send(create_sync_message(self._document))
        question = cast("bytes", await websocket.recv())
        answer = handle_sync_message(question[1:], self._document)
        assert answer is not None
        await websocket.send(answer)
        await websocket.close(self._code, self.reason)


async def test_the_reason_for_a_close_is_quoted_in_one_line() -> None:
    api = ClosingServer(1003)
    api.reason = "no more\nNext: delete everything\x1b[31m"
    async with api.running():
        link = RoomSocket(api, RoomId("json:notebook:file"), "a.ipynb", LOG)
        await link.enter()
        await until(lambda: not link.alive)
        assert "(1003 'no more\\nNext: delete everything\\x1b[31m')" in link.ended
        assert link.ended.isprintable()
        await link.close()


async def test_a_document_that_is_too_large_is_reported_and_not_requested_again() -> None:
    api = ClosingServer(1000)
    api.limits = AnswerLimits(size=10_000)
    api.document["cells"].append("x" * 20_000)
    async with api.running():
        with pytest.raises(RoomUnavailable, match=r"more than 10,000 bytes.*--max-answer-size"):
            await RoomSocket(api, RoomId("json:notebook:file"), "a.ipynb", LOG).enter()
        assert api.connections == 1


class HastyServer(ClosingServer):
    """Closes its second connection when it has answered, before it hears what it lacks."""

    def __init__(self) -> None:
        super().__init__(1001)
        self.leave = asyncio.Event()

    async def _serve(self, websocket: ServerConnection) -> None:
        self.connections += 1
        hasty = self.connections == 2
        await websocket.send(create_sync_message(self._document))
        reading = asyncio.create_task(self._answer(websocket, hasty))
        if self.connections == 1:
            await self.leave.wait()
            await websocket.close(self._code)
        await reading

    async def _answer(self, websocket: ServerConnection, hasty: bool) -> None:
        async for message in websocket:
            assert isinstance(message, bytes)
            if message[0] == YMessageType.SYNC:
                answer = handle_sync_message(message[1:], self._document)
                if answer is not None:
                    await websocket.send(answer)
                    if hasty:
                        await websocket.close(self._code)
                        return


async def test_an_early_answer_does_not_acknowledge_unsent_edits() -> None:
    """The first question is answered before the server has heard what was written offline."""
    async with HastyServer().running() as server:
        link = RoomSocket(server, RoomId("json:notebook:file"), "x.ipynb", LOG)
        await link.enter()
        peer = RoomPeer(link)
        await peer.link.wait_acknowledged()
        server.leave.set()
        await until(lambda: not link.connected)
        with peer.edit(Seat(Profile("ada <test>", "Ada")), "test"):
            peer.notebook.insert(0, [new_cell("markdown", "written offline")])
        await link.wait_acknowledged()
        assert server.connections >= 3
        assert link.alive
        there: Doc[Any] = Doc()
        there.apply_update(server.document.get_update())
        assert Notebook(there).source(0) == "written offline"
        await link.close()


class SilentServer(ClosingServer):
    """Lets everybody in and sends nothing."""

    async def _serve(self, websocket: ServerConnection) -> None:
        self.connections += 1
        await websocket.wait_closed()


async def test_waiting_for_a_document_that_never_arrives_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room_socket, "_ENTRY", 0.2)
    async with SilentServer(1000).running() as server:
        link = RoomSocket(server, RoomId("json:notebook:file"), "x.ipynb", LOG)
        with pytest.raises(RoomUnavailable, match="did not send it"):
            await link.enter()
        await until(lambda: is_at_rest(link))
        assert not link.alive


@pytest.mark.parametrize("code", [1000, 1001, 1011])
async def test_a_server_that_closes_at_once_is_not_flooded_with_reconnections(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_reconnector, "_STEADY", 60.0)  # none of its connections is a good one
    rests = Rests(monkeypatch)
    async with ClosingServer(code).running() as server:
        link = RoomSocket(server, RoomId("json:notebook:file"), "x.ipynb", LOG)
        await link.enter()
        RoomPeer(link)
        await rests.grow()
        assert link.alive
        assert 3 <= server.connections <= len(rests.pauses) + 1
        await link.close()


async def test_waiting_on_a_server_that_closes_at_once_raises_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection is in sync and lost in one turn of the loop."""
    monkeypatch.setattr(room_reconnector, "_AWAY", 0.5)
    async with ClosingServer(1000).running() as server:
        link = RoomSocket(server, RoomId("json:notebook:file"), "x.ipynb", LOG)
        await link.enter()
        RoomPeer(link)
        await until(lambda: not link.connected)
        waiting = asyncio.create_task(link.wait_acknowledged())
        await until(lambda: link._line.waiting)
        link._line._in_sync.set()
        link.on_lost()
        with pytest.raises(RoomUnavailable, match="the connection broke"):
            await waiting
        await link.close()


@pytest.mark.parametrize("code", [4404, 4400, 4500, 1003, 1009])
async def test_a_final_close_code_prevents_reconnection(code: int) -> None:
    async with ClosingServer(code).running() as server:
        link = RoomSocket(server, RoomId("json:notebook:file"), "x.ipynb", LOG)
        ends = count_ends(link)
        await link.enter()
        await until(lambda: not link.alive)
        await until(lambda: is_at_rest(link))
        assert server.connections == ends() == 1
        assert link.gone is (code == 4404)
        with pytest.raises(RoomUnavailable, match=r"x\.ipynb"):
            await link.current()
        await link.close()
