"""Documents are opened while others, which nobody is at any more, are left and forgotten."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_collaboration_mcp.errors import RoomUnavailable
from jupyter_collaboration_mcp.workspace import workspace as module
from jupyter_collaboration_mcp.workspace.agent import Agent
from jupyter_collaboration_mcp.workspace.permissions import PathRules
from jupyter_collaboration_mcp.workspace.workspace import Limits, Workspace
from tests.harness.memory_room import MemoryLink, MemoryRoom

pytestmark = pytest.mark.anyio

ADA = Agent("token", "Ada")
PATH = MemoryLink.path


class Link(MemoryLink):
    """Says when it is left."""

    async def close(self) -> None:
        assert self.alive, "left twice"
        self.alive = False


class Server:
    """A backend whose rooms are in memory."""

    def __init__(self) -> None:
        self.files = SimpleNamespace(forget=lambda _path: None)
        self.links: list[Link] = []

    def known(self, path: str, kind: str) -> str:
        return f"json:notebook:{path}"

    async def identify(self, path: str, kind: str) -> str:
        return self.known(path, kind)

    async def join(self, room_id: str) -> Link:
        await asyncio.sleep(0)
        self.links.append(Link(MemoryRoom(["x"]).doc))
        return self.links[-1]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def workspace(server: Server) -> Workspace:
    backend: Any = server
    return Workspace(backend, PathRules((), ()), Limits(), 300.0, logging.getLogger())


async def test_a_document_is_not_left_before_who_opened_it_has_sat_down(
    server: Server, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT", 0.0)  # looks for idle agents whenever it can
    await workspace.open(ADA, "first.ipynb")
    opened = await workspace.open(ADA, PATH)
    again = await workspace.open(ADA, PATH)
    assert again.peer is opened.peer
    assert [link.alive for link in server.links] == [True, True]
    await workspace.close()


async def test_a_document_that_is_forgotten_while_it_is_opened_is_opened_anew(
    server: Server, workspace: Workspace
) -> None:
    forgetting: list[asyncio.Task[None]] = []

    async def forget_once(_peer: object) -> None:
        if not forgetting:  # it runs when the room is joined, before who waits for that goes on
            forgetting.append(asyncio.ensure_future(workspace.forget(PATH)))

    workspace.on_join = forget_once
    opened = await workspace.open(ADA, PATH)
    assert opened.peer.link.alive
    assert [link.alive for link in server.links] == [False, True]
    await workspace.close()


async def test_a_room_that_cannot_be_made_use_of_is_left(
    server: Server, workspace: Workspace
) -> None:
    async def fail(_peer: object) -> None:
        raise RoomUnavailable("It went away.", "Try again.")

    workspace.on_join = fail
    with pytest.raises(RoomUnavailable):
        await workspace.open(ADA, PATH)
    assert [link.alive for link in server.links] == [False]
    workspace.on_join = None
    assert (await workspace.open(ADA, PATH)).peer.link.alive
    await workspace.close()
