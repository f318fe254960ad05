"""Merging forks into their documents, over both ways to a server."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from typing import Any

import pytest

from tests.harness import forks, notebooks
from tests.harness.agents import agent
from tests.harness.collaborator import Collaborator
from tests.harness.forks import fork_of, write
from tests.harness.jupyter import JupyterProcess

pytestmark = pytest.mark.anyio


def changes(facts: dict[str, Any]) -> dict[str, str]:
    return {cell["id"]: cell["change"] for cell in facts["cells"]}


async def test_what_changed_in_a_fork_comes_into_the_document_as_one_step(
    server: JupyterProcess,
) -> None:
    ids = write(server, "merge.ipynb", "a", "b", "c", "d", "e")
    async with (
        agent(server) as ada,
        Collaborator(server.url, server.token, "merge.ipynb") as ana,
    ):
        fork = await fork_of(ada, "merge.ipynb")
        await ada.write(fork, ids[0], "a in the fork")
        await ada.ask("batch_delete_notebook_cells", path=fork, cell_ids=[ids[1]])
        await ada.ask("move_notebook_cells", path=fork, cell_ids=[ids[4]], to_index=0)
        new = await ada.ask(
            "batch_insert_notebook_cells",
            path=fork,
            cells=[{"content": "new", "cell_type": "markdown"}],
            after_cell_id=ids[2],
            exec=False,
        )
        ana.insert(ids[3], 1, " of Ana")
        await ana.flush()
        preview = await ada.ask("merge_document_fork", fork=fork, preview=True)
        assert changes(preview) == {
            ids[0]: "edited",
            ids[1]: "deleted",
            ids[4]: "moved",
            new["cells"][0]["id"]: "added",
        }
        said = await ada.say("merge_document_fork", fork=fork, preview=True)
        assert "would change this: cells: " in said
        assert "-a\n+a in the fork" in said
        assert await ada.sources("merge.ipynb") == ["a", "b", "c", "d of Ana", "e"]
        done = await ada.ask("merge_document_fork", fork=fork)
        assert changes(done) == changes(preview)
        wanted = ["e", "a in the fork", "c", "new", "d of Ana"]
        await ana.until(lambda: ana.sources() == wanted)
        assert ana.ids() == [ids[4], ids[0], ids[2], new["cells"][0]["id"], ids[3]]
        await ada.ask("undo_agent_changes", path="merge.ipynb")
        await ana.until(lambda: ana.sources() == ["a", "b", "c", "d of Ana", "e"])


async def test_a_fork_is_merged_once(server: JupyterProcess) -> None:
    ids = write(server, "once.ipynb", "a")
    async with agent(server) as ada:
        fork = await fork_of(ada, "once.ipynb")
        await ada.write(fork, ids[0], "b")
        await ada.ask("merge_document_fork", fork=fork)
        for tool in ("merge_document_fork", "discard_document_fork"):
            error = await ada.refused(tool, fork=fork)
            assert error["code"] == "fork_not_found"
            assert "was merged" in error["message"]
        assert not await forks.listed(server, "once.ipynb")
        assert await ada.sources("once.ipynb") == ["b"]


async def test_a_cell_that_both_changed_is_refused_until_one_side_is_preferred(
    server: JupyterProcess,
) -> None:
    ids = write(server, "conflict.ipynb", "x = 'sync me'", "b")
    async with agent(server) as ada:
        for prefer, wins in (("document", "x = 'sink me'"), ("fork", "x = 'sync you'")):
            await ada.write("conflict.ipynb", ids[0], "x = 'sync me'")
            fork = await fork_of(ada, "conflict.ipynb")
            await ada.write(fork, ids[0], "x = 'sync you'")
            await ada.write(fork, ids[1], f"b {prefer}")
            await ada.write("conflict.ipynb", ids[0], "x = 'sink me'")
            before = await ada.sources("conflict.ipynb")
            error = await ada.refused("merge_document_fork", fork=fork)
            assert error["code"] == "merge_conflict"
            (conflict,) = error["conflicts"]
            assert conflict["cell_id"] == ids[0]
            assert "-x = 'sink me'\n+x = 'sync you'" in conflict["diff"]
            assert await ada.sources("conflict.ipynb") == before
            said = await ada.say("merge_document_fork", fork=fork, preview=True)
            assert "would be refused" in said
            assert "sync you" in said
            assert f"+b {prefer}" in said
            await ada.ask("merge_document_fork", fork=fork, prefer=prefer)
            assert await ada.sources("conflict.ipynb") == [wins, f"b {prefer}"]


async def test_outputs_come_along_with_what_the_fork_ran(server: JupyterProcess) -> None:
    ids = write(server, "outputs.ipynb", "a = 1", "print('kept')")
    async with agent(server) as ada:
        fork = await fork_of(ada, "outputs.ipynb")
        update = {"cell_id": ids[0], "content": "print('from the fork')"}
        await ada.ask("batch_update_notebook_cells", path=fork, updates=[update])
        await ada.ask("merge_document_fork", fork=fork)
        read = await ada.say("get_notebook", path="outputs.ipynb", include_outputs=True)
        assert read.count("from the fork") == 2


async def test_text_files_are_merged_by_lines(server: JupyterProcess) -> None:
    (server.root / "merge.txt").write_text("one\ntwo\nthree\nfour\n")
    async with agent(server) as ada:
        fork = await fork_of(ada, "merge.txt")

        async def replace(path: str, old: str, new: str) -> None:
            operations = [{"old_text": old, "new_text": new}]
            await ada.ask("batch_update_document", path=path, operations=operations)

        await replace(fork, "one", "1")
        await replace("merge.txt", "four", "4")
        await ada.ask("merge_document_fork", fork=fork)
        assert (await ada.ask("get_document", path="merge.txt"))["content"] == "1\ntwo\nthree\n4\n"
        fork = await fork_of(ada, "merge.txt")
        await replace(fork, "two", "zwei")
        await replace("merge.txt", "two", "deux")
        error = await ada.refused("merge_document_fork", fork=fork)
        assert error["code"] == "merge_conflict"
        await ada.ask("merge_document_fork", fork=fork, prefer="fork")
        read = await ada.ask("get_document", path="merge.txt")
        assert read["content"] == "1\nzwei\nthree\n4\n"


async def test_a_synchronized_fork_is_merged_without_conflict(server: JupyterProcess) -> None:
    ids = write(server, "in-sync.ipynb", "a", "b")
    async with agent(server) as ada:
        fork = await fork_of(ada, "in-sync.ipynb", synchronize=True)
        await ada.write("in-sync.ipynb", ids[0], "a later")
        await ada.sources(fork)
        await ada.write(fork, ids[1], "b in the fork")
        await ada.ask("merge_document_fork", fork=fork)
        assert await ada.sources("in-sync.ipynb") == ["a later", "b in the fork"]


async def test_a_fork_survives_its_document_and_can_be_made_a_file(
    server: JupyterProcess,
) -> None:
    ids = write(server, "orphan.ipynb", "a")
    async with agent(server) as ada:
        fork = await fork_of(ada, "orphan.ipynb")
        await ada.write(fork, ids[0], "kept")
        await ada.ask("delete_document", path="orphan.ipynb")
        error = await ada.refused("merge_document_fork", fork=fork)
        assert error["code"] == "document_not_found"
        assert "is gone" in error["message"]
        assert await ada.sources(fork) == ["kept"]
        await ada.ask("copy_document", path=fork, copyPath="rescued.ipynb")
        assert notebooks.sources(server.root / "rescued.ipynb") == ["kept"]
        error = await ada.refused("copy_document", path=fork, copyPath="rescued.ipynb")
        assert error["code"] == "already_exists"
        await ada.ask("discard_document_fork", fork=fork)


async def test_nothing_is_lost_that_a_person_types_while_a_fork_is_merged(
    server: JupyterProcess,
) -> None:
    ids = write(server, "typing.ipynb", *(f"cell {number}" for number in range(40)))
    async with (
        agent(server) as ada,
        Collaborator(server.url, server.token, "typing.ipynb") as ana,
    ):
        fork = await fork_of(ada, "typing.ipynb")
        await ada.ask(
            "batch_update_notebook_cells",
            path=fork,
            updates=[{"cell_id": each, "content": "changed"} for each in ids[1:]],
            exec=False,
        )
        await ada.ask("move_notebook_cells", path=fork, cell_ids=[ids[5], ids[9]], to_index=2)
        typing = asyncio.create_task(ana.type(ids[0], None, "x" * 300, delay=0.002))
        await ana.until(lambda: "xxx" in ana.source(ids[0]))
        await ada.ask("merge_document_fork", fork=fork)
        await typing
        await ana.flush()
        assert ana.source(ids[0]) == "cell 0" + "x" * 300
        assert ana.sources().count("changed") == 39
        assert ana.ids()[:3] == [ids[0], ids[1], ids[5]]
        await ana.until(lambda: True)
        assert (await ada.sources("typing.ipynb"))[0] == "cell 0" + "x" * 300


async def test_people_in_a_merged_fork_are_told(server: JupyterProcess) -> None:
    if server.standalone is not None:
        pytest.skip("a stock server tells nobody")
    ids = write(server, "told.ipynb", "a")
    async with agent(server) as ada:
        fork = await fork_of(ada, "told.ipynb")
        fork_id = fork.removeprefix("fork:")
        with contextlib.suppress(TimeoutError):
            async with Collaborator(server.url, server.token, "told.ipynb", fork=fork_id) as ana:
                ana.insert(ids[0], 1, "na")
                await ana.flush()
                await ada.ask("merge_document_fork", fork=fork)
                await ana.until(lambda: ana.last_error is not None)
                assert "was merged by Ada" in str(ana.last_error)
        assert await ada.sources("told.ipynb") == ["ana"]


async def test_what_people_type_into_a_fork_until_it_ends_is_merged(
    server: JupyterProcess,
) -> None:
    if server.standalone is not None:
        pytest.skip("a stock server does not compare before it deletes")
    ids = write(server, "until.ipynb", "x", "a = 1")
    async with agent(server) as ada:
        fork = await fork_of(ada, "until.ipynb")
        update = {"cell_id": ids[1], "content": "a = 2"}
        await ada.ask("batch_update_notebook_cells", path=fork, updates=[update])  # a kernel
        fork_id = fork.removeprefix("fork:")
        in_fork = functools.partial(
            Collaborator, server.url, server.token, "until.ipynb", fork=fork_id
        )
        seen = ""
        with contextlib.suppress(TimeoutError):
            async with in_fork() as ana, in_fork() as ben:

                def is_out() -> bool:
                    nonlocal seen
                    if ben.last_error is None:  # later they meet in another room
                        seen = ben.source(ids[0])
                    return ben.last_error is not None

                typing = asyncio.create_task(ana.type(ids[0], None, "y" * 200, delay=0.03))
                await ben.until(lambda: "yy" in ben.source(ids[0]))
                leaving = asyncio.create_task(ben.until(is_out))
                await ada.ask("merge_document_fork", fork=fork)
                await leaving
                typing.cancel()
        assert "yy" in seen
        first, second = await ada.sources("until.ipynb")
        assert first.startswith(seen)
        assert second == "a = 2"


async def test_a_fork_that_never_rests_is_merged_so_far_and_can_be_merged_again(
    server: JupyterProcess,
) -> None:
    if server.standalone is not None:
        pytest.skip("a stock server does not stop synchronizing")
    ids = write(server, "restless.ipynb", *(f"cell {number}" for number in range(300)))
    async with agent(server) as ada:
        fork = await fork_of(ada, "restless.ipynb", synchronize=True)
        await ada.write(fork, ids[1], "in the fork")
        fork_id = fork.removeprefix("fork:")
        async with Collaborator(server.url, server.token, "restless.ipynb", fork=fork_id) as ana:
            typing = asyncio.create_task(ana.type(ids[0], None, "x" * 3_000, delay=0.001))
            await ana.until(lambda: "xx" in ana.source(ids[0]))
            error = await ada.refused("merge_document_fork", fork=fork)
            assert error["code"] == "document_busy"
            assert "was merged as it was" in error["message"]
            assert "no longer gets the edits" in error["message"]
            assert not typing.done()
            typing.cancel()
            await ana.flush()
            merged = await ada.sources("restless.ipynb")
            assert merged[0].startswith("cell 0xx")
            assert merged[1] == "in the fork"
            in_fork = await ada.sources(fork)
            assert in_fork[1:] == merged[1:]
            assert in_fork[0] == ana.source(ids[0])
            (known,) = (await ada.ask("list_document_forks", path="restless.ipynb"))["forks"]
            assert not known["synchronize"]
            await ada.write("restless.ipynb", ids[2], "later in the document")
            await ada.write("restless.ipynb", ids[1], "changed again")
        done = await ada.ask("merge_document_fork", fork=fork)
        assert not done["conflicts"]
        again = await ada.sources("restless.ipynb")
        assert again[:3] == [in_fork[0], "changed again", "later in the document"]


async def test_only_one_call_at_a_time_merges_a_fork(server: JupyterProcess) -> None:
    ids = write(server, "twice.ipynb", *(f"cell {number}" for number in range(800)))
    async with (
        agent(server) as ada,
        agent(server, "Bob") as bob,
        Collaborator(server.url, server.token, "twice.ipynb") as ana,
    ):
        fork = await fork_of(ada, "twice.ipynb", synchronize=server.standalone is None)
        updates = [{"cell_id": each, "content": f"merged {each}"} for each in ids]
        await ada.ask("batch_update_notebook_cells", path=fork, updates=updates, exec=False)
        both = [each.call("merge_document_fork", fork=fork) for each in (ada, bob)]
        (error,) = [
            each.structured_content["error"]
            for each in await asyncio.gather(*both)
            if each.is_error
        ]
        assert error["code"] in ("document_busy", "fork_not_found")
        assert (
            f"merging {fork} at this moment" in error["message"] or "was merged" in error["message"]
        )
        wanted = [f"merged {each}" for each in ids]
        await ana.until(lambda: ana.sources() == wanted)
