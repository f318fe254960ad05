"""The history of documents on a real server: who wrote what, and what each version said."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_ydoc import ydocs
from pycrdt import Doc

from jupyter_collaboration_mcp.backends.protocols.room_ids import Kind, RoomId
from jupyter_collaboration_mcp.backends.protocols.versions import Version
from jupyter_collaboration_mcp.backends.remote.backend import RemoteBackend
from jupyter_collaboration_mcp.backends.remote.jupyter_api import JupyterApi
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.errors import InvalidArgument, NeedsExtension, UnknownVersion
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.standalone import StandaloneProcess
from tests.harness.ways import WAYS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


class Historian:
    """Somebody who reads the history of one document over REST, as the command does."""

    def __init__(self, backend: RemoteBackend, room_id: RoomId) -> None:
        self.versions = backend.versions
        self.room_id = room_id

    async def all(self) -> list[Version]:
        """All versions, the oldest first."""
        found = await self.versions.list(self.room_id, 500)
        return list(reversed(found.versions))

    async def authors(self) -> list[tuple[str, str]]:
        """The authors of all versions, the oldest first."""
        return [author_of(version) for version in await self.all()]

    async def says(self, version: int) -> Any:
        """What the document said at a version: the sources of its cells, or its text."""
        doc: Doc[Any] = Doc()
        document = ydocs[self.room_id.kind](doc)
        doc.apply_update(await self.versions.state_at(self.room_id, version))
        content = document.get()
        return [cell["source"] for cell in content["cells"]] if "cells" in content else content


def author_of(version: Version) -> tuple[str, str]:
    return version.source, version.author.name if version.author else ""


@asynccontextmanager
async def historian(
    server: JupyterProcess, path: str, kind: Kind = "notebook"
) -> AsyncIterator[Historian]:
    api = JupyterApi(ServerAddress(server.url, server.token))
    backend = RemoteBackend(api, logging.getLogger("test"))
    try:
        yield Historian(backend, await backend.identify(path, kind))
    finally:
        await backend.close()
        await api.close()


@asynccontextmanager
async def reached(server: JupyterProcess, way: str) -> AsyncIterator[Any]:
    """Where agents connect: the server's extension, or a command beside it."""
    if way == "extension":
        yield server
    else:
        async with StandaloneProcess([server]) as command:
            yield command


def write(server: JupyterProcess, path: str, count: int = 3) -> Path:
    file = Path(server.root) / path
    notebooks.write(file, notebooks.numbered(count))
    return file


@pytest.mark.parametrize("way", WAYS)
async def test_versions_have_their_authors_and_say_what_was_seen(
    server: JupyterProcess, way: str
) -> None:
    path = f"{way}.ipynb"
    write(server, path)
    seen: list[list[str]] = []
    async with (
        reached(server, way) as door,
        agent(door, "Ada") as ada,
        agent(door, "Bob") as bob,
        Collaborator(server.url, server.token, path, "Ana") as ana,
        historian(server, path) as history,
    ):

        async def settle(source: str) -> None:
            await ana.until(lambda: source in ana.sources())
            seen.append(ana.sources())
            await history.versions.current(history.room_id)

        seen.append(ana.sources())
        await ada.write(path, "cell-00000", "by Ada")
        await settle("by Ada")
        await ana.type("cell-00001", 0, "by Ana ")
        await ana.flush()
        seen.append(ana.sources())
        await history.versions.current(history.room_id)
        await bob.write(path, "cell-00002", "by Bob")
        await settle("by Bob")
        versions = await history.all()
        assert [author_of(version) for version in versions] == [
            ("file", ""),
            ("agent", "Ada"),
            ("person", "Ana"),
            ("agent", "Bob"),
        ]
        assert [await history.says(version.id) for version in versions] == seen
        assert versions[1].calls == ("batch_update_notebook_cells",)
        assert (versions[0].counts.added, versions[1].counts.edited) == (3, 1)
        cells = await history.versions.authors(history.room_id)
        names = {cell: each.author.name if each.author else "" for cell, each in cells.items()}
        assert names == {"cell-00000": "Ada", "cell-00001": "Ana", "cell-00002": "Bob"}
