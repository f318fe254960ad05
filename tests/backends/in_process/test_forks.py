"""Forks inside the server: what survives a restart, and what is released."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from pycrdt import Doc, Text

from jupyter_collaboration_mcp.assembly.journal import journal_directory
from jupyter_collaboration_mcp.backends.in_process.fork_store import ForkStore
from jupyter_collaboration_mcp.backends.protocols.forks import Fork
from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.documents.members import Member
from jupyter_collaboration_mcp.settings.settings import Settings
from tests.conftest import MakeServer, Times
from tests.harness import forks, notebooks
from tests.harness.agents import agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess

pytestmark = pytest.mark.anyio


async def test_forks_survive_the_death_of_the_server(make_server: MakeServer) -> None:
    async with make_server(env=NOT_MEASURED) as server:
        cells = [notebooks.code("a", "a = 1"), notebooks.code("b", "b = 1")]
        notebooks.write(server.root / "a.ipynb", notebooks.notebook(cells))
        async with agent(server) as ada, Collaborator(server.url, server.token, "a.ipynb") as ana:
            made = await ada.ask("fork_document", path="a.ipynb", title="Try", synchronize=True)
            fork = made["fork"]
            await ada.write(fork, "a", "a = 'in the fork'")
            adopted = await forks.create(server, "a.ipynb", title="Of Ana")
            async with Collaborator(
                server.url, server.token, "a.ipynb", fork=adopted
            ) as in_adopted:
                in_adopted.insert("b", 5, "2")
                await in_adopted.flush()
            await asyncio.sleep(0)
            found = (await ada.ask("list_document_forks", path="a.ipynb"))["forks"]
            assert {each["fork"] for each in found} == {fork, f"fork:{adopted}"}
            server.kill()
            await server.start()
            assert set(await forks.listed(server, "a.ipynb")) == {
                fork.removeprefix("fork:"),
                adopted,
            }
            await ana.synced()
        async with agent(server) as ada, Collaborator(server.url, server.token, "a.ipynb") as ana:
            assert await ada.sources(f"fork:{adopted}") == ["a = 1", "b = 12"]
            assert await ada.sources(fork) == ["a = 'in the fork'", "b = 1"]
            ana.insert("b", 5, "3")
            await ana.flush()
            assert await ada.sources(fork) == ["a = 'in the fork'", "b = 13"]
            (found,) = [
                each
                for each in (await ada.ask("list_document_forks"))["forks"]
                if each["fork"] == fork
            ]
            assert (found["author"], found["title"]) == ("Ada", "Try")
            await ada.ask("merge_document_fork", fork=fork)
            await ana.until(lambda: ana.sources() == ["a = 'in the fork'", "b = 13"])
            server.kill()
            await server.start()
        async with agent(server) as ada:
            assert await ada.sources("a.ipynb") == ["a = 'in the fork'", "b = 13"]
            error = await ada.refused("get_notebook", path=fork)
            assert "was merged" in error["message"]


async def test_a_fork_of_which_nobody_knows_the_path_hides_no_others(
    make_server: MakeServer, tmp_path: Path
) -> None:
    process = make_server(f"--JupyterCollaborationMCP.journal_dir={tmp_path}", env=NOT_MEASURED)
    directory = journal_directory(Settings(journal_dir=str(tmp_path)), str(process.root))
    store = ForkStore(directory / "forks.db")
    store.add(Fork("0" * 12, RoomId("json:notebook:gone"), "Lost"), Doc().get_update())
    store.close()
    async with process as server, agent(server) as ada:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(1))
        made = await ada.ask("fork_document", path="a.ipynb", title="Try")
        listed = (await ada.ask("list_document_forks"))["forks"]
        assert [each["fork"] for each in listed] == [made["fork"]]
        lost = f"fork:{'0' * 12}"
        assert (await ada.refused("get_notebook", path=lost))["code"] == "fork_not_found"


async def test_a_fork_stays_where_its_root_was_last_when_that_is_gone(
    make_server: MakeServer,
) -> None:
    denied = "--JupyterCollaborationMCP.denied_paths=secret/*"
    async with make_server(denied, env=NOT_MEASURED) as server:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(1))
        (server.root / "secret").mkdir()
        async with (
            agent(server) as ada,
            httpx.AsyncClient(
                base_url=f"{server.url}api/contents/", headers=server.headers, trust_env=False
            ) as people,
        ):
            made = await ada.ask("fork_document", path="a.ipynb", title="Try", synchronize=True)
            fork = made["fork"]
            moved = await people.patch("a.ipynb", json={"path": "secret/a.ipynb"})
            moved.raise_for_status()
            listed = await forks.listed(server, "secret/a.ipynb")
            assert listed[fork.removeprefix("fork:")]["path"] == "secret/a.ipynb"
            (await people.delete("secret/a.ipynb")).raise_for_status()
            assert (await ada.refused("get_notebook", path=fork))["code"] == "fork_not_found"
            assert not (await ada.ask("list_document_forks"))["forks"]
        server.kill()
        await server.start()
        async with agent(server) as ada:
            assert (await ada.refused("get_notebook", path=fork))["code"] == "fork_not_found"


async def test_no_more_forks_are_made_than_people_can_keep_track_of(
    make_server: MakeServer,
) -> None:
    async with make_server(env=NOT_MEASURED) as server, agent(server) as ada:
        names = [f"{number}.ipynb" for number in range(5)]
        for name in names:
            notebooks.write(server.root / name, notebooks.numbered(1))
            await ada.ask("get_notebook", path=name)
        room, *others = [await forks.root_room(server, name) for name in names]
        await fill(server, room, 50)
        error = await ada.refused("fork_document", path=names[0], title="One more")
        assert "0.ipynb has 50 forks, of at most 50." in error["message"]
        assert "discard_document_fork" in error["next_step"]
        more = {"path": names[0], "cell_ids": [0], "propose": "One more"}
        error = await ada.refused("batch_delete_notebook_cells", **more)
        assert error["code"] == "fork_refused"
        await ada.ask("fork_document", path=names[4], title="Room for it")
        for other in others[:3]:
            await fill(server, other, 50 - (other == others[0]))
        error = await ada.refused("fork_document", path=names[4], title="One more")
        assert "The server has 200 forks, of at most 200." in error["message"]


async def fill(server: JupyterProcess, room: str, count: int) -> None:
    """Fork a document several times."""
    url, wanted = f"{server.url}api/collaboration/fork/{room}", {"title": "One of many"}
    async with httpx.AsyncClient(headers=server.headers, trust_env=False, timeout=30) as http:
        for made in await asyncio.gather(*(http.put(url, json=wanted) for _ in range(count))):
            made.raise_for_status()


def test_the_store_keeps_who_wrote_what_when_it_compacts(tmp_path: Path) -> None:
    store = ForkStore(tmp_path / "forks.db")
    doc: Doc[Any] = Doc()
    text = doc.get("source", type=Text)
    updates: list[bytes] = []
    doc.observe(lambda event: updates.append(event.update))
    fork = Fork("f", RoomId("text:file:1"), "Try", synchronize=True)
    store.add(fork, doc.get_update())
    ada, ana = Member("agent-0", "Ada", True), Member("ana", "Ana")
    for number in range(1_200):
        text += str(number)
        row = store.append("f", updates[-1], None)
        store.attribute(row, ada if number < 700 else ana)
        store.append_base("f", updates[-1])
        if number % 100 == 0:
            store.commit()
    store.commit()
    kept = store.updates("f")
    assert len(kept) < 700
    assert [each.writer for each in kept if each.writer is not None][-1] == ana
    copy: Doc[Any] = Doc()
    for each in kept:
        copy.apply_update(each.update)
    assert str(copy.get("source", type=Text)) == str(text)
    base = store.base("f")
    assert base is not None
    whole: Doc[Any] = Doc()
    whole.apply_update(base)
    assert str(whole.get("source", type=Text)) == str(text)
    store.close()
    again = ForkStore(tmp_path / "forks.db")
    assert again.forks() == [fork]
    again.end("f", "merged")
    again.commit()
    assert (again.forks(), again.ending("f"), again.updates("f")) == ([], "merged", [])
    again.close()


def test_a_file_that_is_no_database_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "forks.db").write_bytes(b"no database, and longer than a header " * 50)
    store = ForkStore(tmp_path / "forks.db")
    assert store.forks() == []
    store.add(Fork("f", RoomId("text:file:1")), b"\0\0")
    store.commit()
    store.close()
    assert len(list(tmp_path.glob("set-aside-*-forks.db"))) == 1


async def test_a_merge_is_all_or_nothing_when_the_server_dies_in_the_middle(
    make_server: MakeServer, times: Times
) -> None:
    async with make_server(env=NOT_MEASURED) as server:
        count = 1_000
        before = [f"cell {number}" for number in range(count)]
        ids = [f"c{number}" for number in range(count)]
        cells = list(map(notebooks.code, ids, before))
        notebooks.write(server.root / "a.ipynb", notebooks.notebook(cells))
        async with agent(server) as ada:
            fork = (await ada.ask("fork_document", path="a.ipynb", title="Try"))["fork"]
            for start in range(0, count, 1_000):
                updates = [
                    {"cell_id": cell_id, "content": "merged"}
                    for cell_id in ids[start : start + 1_000]
                ]
                await ada.ask("batch_update_notebook_cells", path=fork, updates=updates, exec=False)
        for kill in range(times(2, 20)):
            # Somewhere between the first slice and the end.
            wanted = 1 + kill * count // times(2, 20)
            async with Collaborator(server.url, server.token, "a.ipynb") as ana:
                merging = asyncio.create_task(_merge(server, fork))
                await ana.until(partial(_has_merged, ana, wanted), 30)
                server.kill()
                await asyncio.gather(merging, return_exceptions=True)
            await server.start()
            async with agent(server) as ada:
                found = set(notebooks.sources(server.root / "a.ipynb"))
                assert found in ({"merged"}, set(before))
                known = [each["fork"] for each in (await ada.ask("list_document_forks"))["forks"]]
                if not known:
                    assert found == {"merged"}
                    break
                assert known == [fork]


async def _merge(server: JupyterProcess, fork: str) -> None:
    async with agent(server) as ada:
        await ada.call("merge_document_fork", fork=fork)


def _has_merged(ana: Collaborator, cells: int) -> bool:
    return ana.sources().count("merged") >= cells
