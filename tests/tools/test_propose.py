"""Agents that propose edits instead of making them."""

from __future__ import annotations

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import KernelApi
from tests.harness.standalone import StandaloneProcess

pytestmark = pytest.mark.anyio


def write(server: JupyterProcess, path: str, *sources: str) -> list[str]:
    """A notebook of code cells; returns their ids."""
    ids = [f"cell-{number}" for number in range(len(sources))]
    cells = list(map(notebooks.code, ids, sources))
    notebooks.write(server.root / path, notebooks.notebook(cells))
    return ids


async def forks_of(ada: AgentClient, path: str) -> list[str]:
    return [each["fork"] for each in (await ada.ask("list_document_forks", path=path))["forks"]]


async def test_a_connection_that_proposes_edits_a_fork_of_its_own(
    server: JupyterProcess, api: KernelApi
) -> None:
    ids = write(server, "propose.ipynb", "a = 1", "b = 2")
    async with (
        agent(server, "Bob", works="propose") as bob,
        agent(server, "Ada") as ada,
    ):
        update = {"cell_id": ids[0], "content": "print('proposed')"}
        said = await bob.say("batch_update_notebook_cells", path="propose.ipynb", updates=[update])
        (fork,) = await forks_of(ada, "propose.ipynb")
        assert f"Proposed in {fork}; propose.ipynb is unchanged." in said
        assert "merge_document_fork" in said
        more = {"cells": [{"content": "c"}], "exec": False}
        done = await bob.ask("batch_insert_notebook_cells", path="propose.ipynb", **more)
        assert done["path"] == fork
        assert await forks_of(bob, "propose.ipynb") == [fork]
        assert await bob.sources("propose.ipynb") == ["a = 1", "b = 2"]
        assert await bob.sources(fork) == ["print('proposed')", "b = 2", "c"]
        await bob.ask("run_code", path="propose.ipynb", code="1")
        assert await api.sessions("propose.ipynb") == []
        error = await bob.refused("merge_document_fork", fork=fork)
        assert error["code"] == "fork_refused"
        assert "a person decides" in error["message"]
        preview = await bob.ask("merge_document_fork", fork=fork, preview=True)
        assert {"id": ids[0], "change": "edited"} in preview["cells"]
        for tool, arguments in (
            ("delete_document", {"path": "propose.ipynb"}),
            ("rename_document", {"path": "propose.ipynb", "newPath": "other.ipynb"}),
            ("create_document", {"path": "propose.ipynb", "type": "notebook", "overwrite": True}),
        ):
            assert (await bob.refused(tool, **arguments))["code"] == "fork_refused"
        await ada.ask("merge_document_fork", fork=fork)
        assert await bob.sources("propose.ipynb") == ["print('proposed')", "b = 2", "c"]


async def test_a_connection_that_proposes_answers_no_run_in_the_peoples_kernel(
    server: JupyterProcess,
) -> None:
    write(server, "question.ipynb", "a = 1")
    asks = {"path": "question.ipynb", "code": "print('heard', input())"}
    async with (
        agent(server, "Bob", works="propose") as bob,
        agent(server, "Ada") as ada,
    ):
        run_id = (await ada.ask("run_code", **asks))["runs"][0]["run_id"]
        error = await bob.refused("reply_to_input", run_id=run_id, text="from Bob")
        assert error["code"] == "fork_refused"
        assert "heard from Ada" in await ada.say("reply_to_input", run_id=run_id, text="from Ada")
        run_id = (await bob.ask("run_code", **asks))["runs"][0]["run_id"]
        assert "heard from Bob" in await bob.say("reply_to_input", run_id=run_id, text="from Bob")


async def test_a_connection_that_proposes_discards_only_its_own_forks(
    server: JupyterProcess,
) -> None:
    ids = write(server, "keep.ipynb", "a = 1")
    async with (
        agent(server, "Bob", works="propose") as bob,
        agent(server, "Ada") as ada,
    ):
        fork = (await ada.ask("fork_document", path="keep.ipynb", title="Of Ada"))["fork"]
        error = await bob.refused("discard_document_fork", fork=fork)
        assert error["code"] == "fork_refused"
        assert await forks_of(ada, "keep.ipynb") == [fork]
        await bob.write("keep.ipynb", ids[0], "a = 2")
        (own,) = [each for each in await forks_of(bob, "keep.ipynb") if each != fork]
        await bob.ask("discard_document_fork", fork=own)
        assert await forks_of(ada, "keep.ipynb") == [fork]


async def test_calls_that_edit_nothing_begin_no_proposal(server: JupyterProcess) -> None:
    ids = write(server, "nothing.ipynb", "a = 1")
    calls = [
        "inspect_variables",
        "interrupt_notebook_kernel",
        "restart_notebook_kernel",
        "undo_agent_changes",
    ]
    async with agent(server, "Bob", works="propose") as bob:
        for tool in calls:
            error = await bob.refused(tool, path="nothing.ipynb")
            assert error["code"] == "fork_refused"
            assert "has not proposed any of nothing.ipynb yet" in error["message"]
        assert not await forks_of(bob, "nothing.ipynb")
        await bob.write("nothing.ipynb", ids[0], "a = 2")
        (fork,) = await forks_of(bob, "nothing.ipynb")
        done = await bob.ask("undo_agent_changes", path="nothing.ipynb")
        assert done["path"] == fork
        assert await bob.sources(fork) == ["a = 1"]


async def test_one_edit_is_proposed_by_an_argument(server: JupyterProcess) -> None:
    ids = write(server, "argument.ipynb", "a = 1")
    (server.root / "argument.txt").write_text("one\n")
    async with agent(server) as ada:
        for _ in range(2):
            await ada.ask(
                "batch_update_notebook_cells",
                path="argument.ipynb",
                updates=[{"cell_id": ids[0], "content": "a = 2"}],
                exec=False,
                propose="Two",
            )
        (fork,) = await forks_of(ada, "argument.ipynb")
        assert await ada.sources(fork) == ["a = 2"]
        assert await ada.sources("argument.ipynb") == ["a = 1"]
        more = {"path": "argument.ipynb", "cell_ids": [0]}
        await ada.ask("batch_delete_notebook_cells", **more, propose="Shorter")
        assert len(await forks_of(ada, "argument.ipynb")) == 2
        operations = [{"old_text": "one", "new_text": "1"}]
        await ada.ask(
            "batch_update_document", path="argument.txt", operations=operations, propose="Digits"
        )
        (fork,) = await forks_of(ada, "argument.txt")
        assert (await ada.ask("get_document", path=fork))["content"] == "1\n"
        assert (await ada.ask("get_document", path="argument.txt"))["content"] == "one\n"
        await ada.ask("merge_document_fork", fork=fork)
        assert (await ada.ask("get_document", path="argument.txt"))["content"] == "1\n"


async def test_a_call_that_is_refused_leaves_no_fork(server: JupyterProcess) -> None:
    (cell,) = write(server, "refused.ipynb", "a = 1")
    (server.root / "refused.md").write_text("text")
    wrong = {"cell_id": cell, "old_text": "not there", "new_text": "x"}
    async with agent(server, "Bob", works="propose") as bob, agent(server, "Ada") as ada:
        for who, more in ((bob, {}), (ada, {"propose": "A title"})):
            arguments = {"path": "refused.ipynb", "updates": [wrong], **more}
            await who.refused("batch_update_notebook_cells", **arguments)
            await who.refused("batch_delete_text", path="refused.md", operations=[], **more)
            for path in ("refused.ipynb", "refused.md"):
                assert await forks_of(ada, path) == []
        await bob.write("refused.ipynb", cell, "proposed")
        arguments = {"path": "refused.ipynb", "updates": [wrong]}
        await bob.refused("batch_update_notebook_cells", **arguments)
        (fork,) = await forks_of(ada, "refused.ipynb")  # it was there before
        assert await ada.sources(fork) == ["proposed"]


async def test_two_agents_propose_in_two_forks(server: JupyterProcess) -> None:
    ids = write(server, "two.ipynb", "a = 1")
    async with (
        agent(server, "Ada", works="propose") as ada,
        agent(server, "Bob", works="propose") as bob,
    ):
        await ada.write("two.ipynb", ids[0], "of Ada")
        await bob.write("two.ipynb", ids[0], "of Bob")
        forks = await forks_of(ada, "two.ipynb")
        assert sorted([await ada.sources(fork) for fork in forks]) == [["of Ada"], ["of Bob"]]


async def test_a_connection_cannot_leave_the_configured_mode(make_server: MakeServer) -> None:
    async with make_server("--JupyterCollaborationMCP.mode=propose") as server:
        ids = write(server, "mode.ipynb", "a = 1")
        async with (
            StandaloneProcess([server], "--mode", "propose") as command,
            agent(server, "Ada", works="edit") as ada,
            agent(command, "Bob", works="edit") as bob,
        ):
            for client in (ada, bob):
                await client.write("mode.ipynb", ids[0], "a = 2")
                assert await client.sources("mode.ipynb") == ["a = 1"]
            assert len(await forks_of(ada, "mode.ipynb")) == 2
