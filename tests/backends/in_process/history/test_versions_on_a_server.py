"""The history of documents on a real server: who wrote what, and what each version said."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
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
from jupyter_collaboration_mcp.errors import (
    DocumentNotFound,
    InvalidArgument,
    NeedsExtension,
    UnknownVersion,
)
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.standalone import StandaloneProcess
from tests.harness.waiting import until
from tests.harness.ways import WAYS

NUMBERED = [cell["source"] for cell in notebooks.numbered(3)["cells"]]

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

    async def wait_for(self, names: Sequence[str]) -> None:
        """Wait until these are the authors of all versions but the first.

        A command reports who made its edits, but nobody waits for that.
        """
        async with asyncio.timeout(10):
            while [name for _, name in (await self.authors())[1:]] != names:
                await asyncio.sleep(0.05)

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
        await history.wait_for(["Ada", "Ana", "Bob"])
        versions = await history.all()
        assert [each.source for each in versions] == ["file", "agent", "person", "agent"]
        assert [await history.says(version.id) for version in versions] == seen
        assert versions[1].calls == ("batch_update_notebook_cells",)
        assert (versions[0].counts.added, versions[1].counts.edited) == (3, 1)
        cells = await history.versions.authors(history.room_id)
        names = {cell: each.author.name if each.author else "" for cell, each in cells.items()}
        assert names == {"cell-00000": "Ada", "cell-00001": "Ana", "cell-00002": "Bob"}


@pytest.mark.parametrize("way", WAYS)
async def test_deletions_have_authors_although_no_update_names_them(
    server: JupyterProcess, way: str
) -> None:
    path = f"deletions-{way}.ipynb"
    write(server, path, 4)
    async with (
        reached(server, way) as door,
        agent(door, "Ada") as ada,
        Collaborator(server.url, server.token, path, "Ana") as ana,
        historian(server, path) as history,
    ):
        await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["cell-00003"])
        await ana.until(lambda: len(ana.ids()) == 3)
        await history.versions.current(history.room_id)
        ana.delete_cell("cell-00001")
        await ana.flush()
        await history.wait_for(["Ada", "Ana"])
        versions = await history.all()
        assert [version.counts.deleted for version in versions] == [0, 1, 1]


async def test_of_two_people_each_is_credited_with_their_own_deletions(
    server: JupyterProcess,
) -> None:
    write(server, "two.ipynb", 4)
    async with (
        Collaborator(server.url, server.token, "two.ipynb", "Ana") as ana,
        Collaborator(server.url, server.token, "two.ipynb", "Ben") as ben,
        historian(server, "two.ipynb") as history,
    ):
        for person, cell in ((ana, "cell-00003"), (ben, "cell-00002"), (ana, "cell-00001")):
            person.delete_cell(cell)
            await person.flush()
            await ana.until(lambda cell=cell: cell not in ana.ids())  # type: ignore[misc]
            await ben.until(lambda cell=cell: cell not in ben.ids())  # type: ignore[misc]
            await history.versions.current(history.room_id)
        assert [name for _, name in await history.authors()] == ["", "Ana", "Ben", "Ana"]


async def test_old_history_is_thinned_where_that_is_configured(
    make_server: MakeServer, tmp_path: Path
) -> None:
    """At a start, and the last days are left alone."""
    store = tmp_path / "store.db"
    config = {
        "JupyterCollaborationMCP": {"history_days": 7},
        "SQLiteYStore": {"db_path": str(store)},
    }
    server = make_server(config=config)
    write(server, "old.ipynb")
    async with server:
        async with agent(server, "Ada") as ada, historian(server, "old.ipynb") as history:
            for number in range(10):
                await ada.write("old.ipynb", "cell-00000", f"old {number}")
            await history.versions.current(history.room_id)
        await server.terminate()
        with contextlib.closing(sqlite3.connect(store)) as database, database:
            database.execute("UPDATE yupdates SET timestamp = timestamp - 8 * 86400")
            (rows,) = database.execute("SELECT count(*) FROM yupdates").fetchone()
        await server.start()
        await until(lambda: "rows of old history" in server.log)
        async with agent(server, "Ada") as ada, historian(server, "old.ipynb") as history:
            await ada.write("old.ipynb", "cell-00001", "new")
            versions = await history.all()
            says = [(await history.says(version.id))[:2] for version in versions]
            assert says[-2:] == [["old 9", NUMBERED[1]], ["old 9", "new"]]
        with contextlib.closing(sqlite3.connect(store)) as database:
            query = "SELECT count(*) FROM yupdates WHERE timestamp < ?"
            (left,) = database.execute(query, (time.time() - 7 * 86400,)).fetchone()
            assert left < rows - 5


async def test_the_history_of_a_text_file_counts_lines(server: JupyterProcess) -> None:
    file = Path(server.root) / "notes.md"
    file.write_text("one\ntwo\n")
    async with agent(server, "Ada") as ada, historian(server, "notes.md", "file") as history:
        await ada.ask(
            "batch_update_document",
            path="notes.md",
            operations=[{"old_text": "two", "new_text": "2\nthree"}],
        )
        loaded, edited = await history.all()
        assert author_of(edited) == ("agent", "Ada")
        assert (loaded.counts.lines_added, loaded.counts.lines_removed) == (2, 0)
        assert (edited.counts.lines_added, edited.counts.lines_removed) == (2, 1)
        assert await history.says(loaded.id) == "one\ntwo\n"
        assert await history.says(edited.id) == "one\n2\nthree\n"
        written = await history.versions.authors(history.room_id)
        assert written[""].author is not None
        assert written[""].author.name == "Ada"


@pytest.mark.parametrize("killed", [False, True], ids=["terminated", "killed"])
async def test_authors_and_versions_survive_a_restart(
    make_server: MakeServer, tmp_path: Path, killed: bool
) -> None:
    """Also with a store elsewhere (B15); and what a crash interrupted is recovered with authors."""
    store = tmp_path / "store.db"
    config = {"SQLiteYStore": {"db_path": str(store)}}
    server = make_server(config=config, env=NOT_MEASURED if killed else {})
    write(server, "kept.ipynb")
    async with server:
        async with (
            agent(server, "Ada") as ada,
            Collaborator(server.url, server.token, "kept.ipynb", "Ana") as ana,
            historian(server, "kept.ipynb") as history,
        ):
            await ada.write("kept.ipynb", "cell-00000", "by Ada")
            await ana.until(lambda: "by Ada" in ana.sources())
            before = await history.all()
            ana.insert("cell-00001", 0, "by Ana ")
            await ana.flush()
            await ada.ask("batch_delete_notebook_cells", path="kept.ipynb", cell_ids=["cell-00002"])
            if killed:
                server.kill()
        if not killed:
            await server.terminate()
        await server.start()
        async with historian(server, "kept.ipynb") as history:
            versions = await history.all()
            assert store.exists()
            assert versions[:2] == before
            assert [author_of(version) for version in versions] == [
                ("file", ""),
                ("agent", "Ada"),
                ("person", "Ana"),
                ("agent", "Ada"),
            ]
            assert await history.says(versions[1].id) == ["by Ada", *NUMBERED[1:]]
            assert await history.says(versions[3].id) == ["by Ada", f"by Ana {NUMBERED[1]}"]


async def test_a_file_that_never_had_a_room_has_one_version(server: JupyterProcess) -> None:
    write(server, "new.ipynb")
    async with historian(server, "new.ipynb") as history:
        (only,) = await history.all()
        assert author_of(only) == ("file", "")
        assert await history.versions.current(history.room_id) == only.id
        assert await history.says(only.id) == NUMBERED


async def test_a_renamed_document_keeps_its_history_and_a_recreated_one_has_none(
    server: JupyterProcess,
) -> None:
    write(server, "old.ipynb")
    async with agent(server, "Ada") as ada:
        await ada.write("old.ipynb", "cell-00000", "by Ada")
        await ada.ask("rename_document", path="old.ipynb", new_path="moved.ipynb")
        async with historian(server, "moved.ipynb") as history:
            assert await history.authors() == [("file", ""), ("agent", "Ada")]
            await ada.ask("delete_document", path="moved.ipynb")
            with pytest.raises(DocumentNotFound):
                await history.all()
        write(server, "moved.ipynb")
        async with historian(server, "moved.ipynb") as history:
            assert await history.authors() == [("file", "")]


async def test_a_change_on_disk_is_a_version_of_the_file(server: JupyterProcess) -> None:
    file = write(server, "disk.ipynb")
    async with (
        Collaborator(server.url, server.token, "disk.ipynb", "Ana") as ana,
        historian(server, "disk.ipynb") as history,
    ):
        notebooks.write(file, notebooks.numbered(2))
        await ana.until(lambda: len(ana.ids()) == 2)
        versions = await history.all()
        assert {author_of(version) for version in versions} == {("file", "")}
        assert await history.says(versions[-1].id) == NUMBERED[:2]


async def test_names_are_kept_and_unique_and_end_a_version(server: JupyterProcess) -> None:
    write(server, "named.ipynb")
    async with agent(server, "Ada") as ada, historian(server, "named.ipynb") as history:
        versions, room_id = history.versions, history.room_id
        await ada.write("named.ipynb", "cell-00000", "draft")
        draft = await versions.current(room_id)
        await ada.write("named.ipynb", "cell-00000", "better")
        better = await versions.current(room_id)
        assert draft not in [each.id for each in await history.all()]
        await versions.name(room_id, draft, "first draft")
        assert await versions.named(room_id) == {"first draft": draft}
        assert [(each.id, each.name) for each in (await history.all())[1:]] == [
            (draft, "first draft"),
            (better, None),
        ]
        assert (await history.says(draft))[0] == "draft"
        with pytest.raises(InvalidArgument, match="first draft"):
            await versions.name(room_id, better, "first draft")
        await versions.name(room_id, draft, "")
        assert await versions.named(room_id) == {}
        for ask in (versions.state_at(room_id, draft + 1), versions.name(room_id, 12345, "no")):
            with pytest.raises(UnknownVersion):
                await ask


async def test_what_a_run_shows_is_its_agents(server: JupyterProcess) -> None:
    write(server, "run.ipynb")
    async with agent(server, "Ada") as ada, historian(server, "run.ipynb") as history:
        cells = [{"content": "print('hello')"}]
        await ada.ask("batch_insert_notebook_cells", path="run.ipynb", cells=cells)
        loaded, ran = await history.all()
        assert author_of(ran) == ("agent", "Ada")
        assert ran.calls == ("batch_insert_notebook_cells", "run")
        assert ran.counts.added == 1
        assert loaded.kept == "before the first edit of the day by Ada"


async def test_another_kind_of_store_has_a_history_too(make_server: MakeServer) -> None:
    config = {"YDocExtension": {"ystore_class": "jupyter_server_ydoc.stores.TempFileYStore"}}
    server = make_server(config=config)
    write(server, "temporary.ipynb")
    async with (
        server,
        agent(server, "Ada") as ada,
        historian(server, "temporary.ipynb") as history,
    ):
        await ada.write("temporary.ipynb", "cell-00000", "by Ada")
        loaded, edited = await history.all()
        assert author_of(edited) == ("agent", "Ada")
        assert await history.says(loaded.id) == NUMBERED


async def test_a_server_without_our_extension_has_no_history_to_read(
    make_server: MakeServer,
) -> None:
    server = make_server(extensions={"jupyter_collaboration_mcp": False})
    write(server, "stock.ipynb")
    async with server, historian(server, "stock.ipynb") as history:
        with pytest.raises(NeedsExtension, match="not installed there"):
            await history.all()


async def test_a_lost_index_is_made_again_with_authors_of_people_at_least(
    make_server: MakeServer,
) -> None:
    server = make_server()
    write(server, "lost.ipynb")
    async with server, agent(server, "Ada") as ada, historian(server, "lost.ipynb") as history:
        await ada.write("lost.ipynb", "cell-00000", "by Ada")
        before = await history.all()
        (index,) = Path(server.home).rglob("history.db")
        index.unlink()
        again = await history.all()
        assert [version.id for version in again] == [version.id for version in before]
        assert [await history.says(version.id) for version in again] == [
            NUMBERED,
            ["by Ada", *NUMBERED[1:]],
        ]
