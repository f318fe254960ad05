"""Forks of documents, as agents and people use them, over both ways to a server."""

from __future__ import annotations

import pytest

from jupyter_collaboration_mcp.documents.addresses import CellOutput
from jupyter_collaboration_mcp.errors import InvalidArgument
from jupyter_collaboration_mcp.tools.places import stated
from tests.conftest import MakeServer
from tests.harness import forks
from tests.harness.agents import agent
from tests.harness.collaborator import Collaborator
from tests.harness.forks import fork_of, write
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import KernelApi, eventually

pytestmark = pytest.mark.anyio


def in_fork(server: JupyterProcess, path: str, fork: str, name: str = "Ana") -> Collaborator:
    """A person in a fork."""
    return Collaborator(server.url, server.token, path, name, fork=fork.removeprefix("fork:"))


async def test_a_fork_is_edited_and_its_document_stays_as_it_is(server: JupyterProcess) -> None:
    ids = write(server, "apart.ipynb", "a = 1", "b = 2")
    async with agent(server) as ada:
        fork = await fork_of(ada, "apart.ipynb")
        done = await ada.ask(
            "batch_update_notebook_cells",
            path=fork,
            updates=[{"cell_id": ids[0], "content": "a = 5"}],
            exec=False,
        )
        assert done["path"] == fork
        assert done["saved"]
        assert await ada.sources(fork) == ["a = 5", "b = 2"]
        assert await ada.sources("apart.ipynb") == ["a = 1", "b = 2"]
        await ada.ask("undo_agent_changes", path=fork)
        assert await ada.sources(fork) == ["a = 1", "b = 2"]


async def test_every_tool_takes_a_fork_where_it_takes_a_path(server: JupyterProcess) -> None:
    write(server, "tools.ipynb", "a = 1", "b = 2")
    (server.root / "tools.txt").write_text("one\ntwo\n")
    async with agent(server) as ada:
        fork = await fork_of(ada, "tools.ipynb")
        text = await fork_of(ada, "tools.txt")
        assert fork in await ada.say("create_notebook_session", path=fork)
        outline = await ada.say("get_notebook", path=fork, format="outline")
        assert outline.startswith(fork)
        await ada.ask(
            "batch_insert_notebook_cells", path=fork, cells=[{"content": "c"}], exec=False
        )
        await ada.ask("move_notebook_cells", path=fork, cell_ids=[2], to_index=0)
        await ada.ask("batch_delete_notebook_cells", path=fork, cell_ids=[0])
        assert await ada.sources(fork) == ["a = 1", "b = 2"]
        assert (await ada.ask("get_notebook_status", path=fork))["path"] == fork
        read = await ada.ask("get_document", path=text)
        handle = f"{text}@{read['revision']}"
        await ada.ask(
            "batch_update_document", path=handle, operations=[{"old_text": "two", "new_text": "2"}]
        )
        assert (await ada.ask("get_document", path=text))["content"] == "one\n2\n"
        stale = [{"old_text": "2", "new_text": "3"}]
        error = await ada.refused("batch_update_document", path=handle, operations=stale)
        assert error["code"] == "stale_revision"
        position = {"line": 0, "column": 1}
        await ada.ask("update_cursor_position", document_path=text, position=position)
        assert (await ada.ask("get_user_cursors", document_path=text))["cursors"]
        assert (await ada.ask("get_online_users", document_path=fork))["users"]
        sessions = (await ada.ask("get_active_sessions", document_path=fork))["sessions"]
        assert [each["path"] for each in sessions] == [fork]
        joined = await ada.ask("join_session", session_id=sessions[0]["session_id"])
        assert joined["path"] == fork
        assert (await ada.ask("get_user_activity", document_path=fork))["activities"]


async def test_what_makes_no_sense_with_a_fork_names_what_does(server: JupyterProcess) -> None:
    write(server, "refusals.ipynb", "a = 1")
    async with agent(server) as ada:
        fork = await fork_of(ada, "refusals.ipynb")
        for tool, more in (
            ("delete_document", {}),
            ("rename_document", {"newPath": "b.ipynb"}),
            ("get_document_info", {}),
            ("document_exists", {}),
        ):
            error = await ada.refused(tool, path=fork, **more)
            assert error["code"] == "fork_refused"
            assert "merge_document_fork" in error["next_step"]
        error = await ada.refused("fork_document", path=fork, title="Again")
        assert error["code"] == "fork_refused"
        assert "is a fork itself" in error["message"]
        error = await ada.refused("get_document", path=fork)
        assert error["code"] == "not_text"


async def test_what_makes_no_sense_about_forks_is_refused_and_says_why(
    server: JupyterProcess,
) -> None:
    write(server, "sense.ipynb", "a = 1")
    async with agent(server) as ada:
        fork = await fork_of(ada, "sense.ipynb")
        for tool in ("merge_document_fork", "discard_document_fork"):
            assert (await ada.refused(tool, fork="sense.ipynb:x"))["code"] == "fork_not_found"
        error = await ada.refused("list_document_forks", path=fork)
        assert "is a fork itself" in error["message"]
        updates = [{"cell_id": "cell-0", "content": "a = 2"}]
        error = await ada.refused(
            "batch_update_notebook_cells", path=fork, updates=updates, exec=False, propose="Again"
        )
        assert "is a fork already" in error["message"]
        assert await ada.sources(fork) == ["a = 1"]
        for before in (0, 2**63):
            error = await ada.refused("get_document_history", path="sense.ipynb", before=before)
            assert error["code"] == "invalid_argument"
        assert "would change nothing" in await ada.say(
            "merge_document_fork", fork=fork, preview=True
        )


async def test_a_fork_has_a_history_of_its_own(server: JupyterProcess) -> None:
    write(server, "lived.ipynb", "a = 1", "b = 2")
    async with agent(server) as ada, agent(server, "Bob") as bob:
        fork = (await ada.ask("fork_document", path="lived.ipynb", title="Try"))["fork"]
        if server.standalone is not None:
            error = await ada.refused("get_document_history", path=fork)
            assert error["code"] == "needs_extension"
            return
        await ada.write(fork, "cell-0", "a = 10")
        await bob.write(fork, "cell-1", "b = 20")
        versions = (await ada.ask("get_document_history", path=fork))["versions"]
        assert [(each["source"], each["author"]) for each in versions] == [
            ("agent", "Bob"),
            ("agent", "Ada"),
            ("document", None),
        ]
        assert versions[0]["changes"] == {"edited": 1, "lines_added": 1, "lines_removed": 1}
        authors = (await ada.ask("get_notebook", path=fork, authors=True))["authors"]
        assert [authors[f"cell-{n}"]["author"] for n in (0, 1)] == ["Ada", "Bob"]
        middle = versions[1]["version"]
        await bob.ask("restore_document_version", path=fork, version=middle)
        assert await ada.sources(fork) == ["a = 10", "b = 2"]
        said = await ada.say("diff_document_versions", path=fork, from_version=middle)
        assert "say the same" in said
        assert await ada.sources("lived.ipynb") == ["a = 1", "b = 2"]


@pytest.mark.parametrize("name", ["fork:0123", "fork:", "fork:../a", "fork:a b", "fork:ä%2F\n"])
async def test_a_fork_that_is_not_there_is_not_opened(server: JupyterProcess, name: str) -> None:
    async with agent(server) as ada:
        for tool in ("get_notebook", "get_document"):
            error = await ada.refused(tool, path=name)
            assert error["code"] == "fork_not_found"
            assert "list_document_forks" in error["next_step"]
        error = await ada.refused("discard_document_fork", fork=name)
        assert error["code"] == "fork_not_found"


async def test_forks_of_what_is_not_there_or_has_no_title_are_refused(
    server: JupyterProcess,
) -> None:
    write(server, "titled.ipynb", "a = 1")
    async with agent(server) as ada:
        error = await ada.refused("fork_document", path="missing.ipynb", title="Try")
        assert error["code"] == "document_not_found"
        error = await ada.refused("fork_document", path="titled.ipynb", title=" ")
        assert error["code"] == "invalid_argument"
        assert not (await ada.ask("list_document_forks", path="titled.ipynb"))["forks"]


async def test_a_file_whose_name_begins_like_a_fork_is_still_a_file(
    server: JupyterProcess,
) -> None:
    (server.root / "fork:x.txt").write_text("a file\n")
    async with agent(server) as ada:
        read = await ada.ask("get_document", path="./fork:x.txt")
        assert read["content"] == "a file\n"
        assert read["path"] == "./fork:x.txt"
        listed = await ada.ask("list_documents", path_filter="fork:x")
        assert [each["path"] for each in listed["documents"]] == ["./fork:x.txt"]


async def test_forks_are_listed_for_agents_and_people(server: JupyterProcess) -> None:
    write(server, "listed.ipynb", "a = 1")
    async with agent(server) as ada, agent(server, "Bob") as bob:
        made = await ada.ask(
            "fork_document", path="listed.ipynb", title="Try\nthis", description="Why"
        )
        fork = made["fork"]
        for listing in (
            await bob.ask("list_document_forks", path="listed.ipynb"),
            await bob.ask("list_document_forks"),
        ):
            (found,) = [each for each in listing["forks"] if each["fork"] == fork]
            assert (found["title"], found["description"]) == ("Try this", "Why")
            assert found["root"] == "listed.ipynb"
        people = await forks.listed(server, "listed.ipynb")
        assert people[fork.removeprefix("fork:")]["title"] == "Try this"


async def test_a_person_and_an_agent_meet_in_a_fork(server: JupyterProcess) -> None:
    ids = write(server, "meet.ipynb", "a = 1", "b = 2")
    async with agent(server) as ada:
        fork = await fork_of(ada, "meet.ipynb")
        await ada.ask("get_notebook", path=fork)
        async with in_fork(server, "meet.ipynb", fork) as ana:
            await ana.until(lambda: ana.awareness_users())
            ana.insert(ids[0], 5, "0")
            await ana.flush()
            assert await ada.sources(fork) == ["a = 10", "b = 2"]
            await ada.write(fork, ids[1], "b = 3")
            await ana.until(lambda: ana.source(ids[1]) == "b = 3")
            here = (await ada.ask("get_notebook", path=fork))["collaboration"]["people"]
            assert here == ["Ana"]
        assert await ada.sources("meet.ipynb") == ["a = 1", "b = 2"]


async def test_code_of_a_fork_runs_in_a_kernel_of_its_own(
    server: JupyterProcess, api: KernelApi
) -> None:
    (server.root / "folder").mkdir(exist_ok=True)
    (server.root / "folder" / "data.txt").write_text("beside")
    write(server, "folder/kernel.ipynb", "a = 1", "print(open('data.txt').read(), a)")
    async with agent(server) as ada:
        await ada.ask("run_code", path="folder/kernel.ipynb", code="a = 'of people'")
        (people,) = await api.sessions("folder/kernel.ipynb")
        fork = await fork_of(ada, "folder/kernel.ipynb")
        ran = await ada.say("batch_execute_notebook_cells", path=fork)
        assert "beside 1" in ran
        assert "of people" in await ada.say("run_code", path="folder/kernel.ipynb", code="print(a)")
        assert "1" in await ada.say("inspect_variables", path=fork, names=["a"])
        status = await ada.ask("get_notebook_status", path=fork)
        assert status["kernel"]["id"] != people["kernel"]["id"]
        await ada.ask("restart_notebook_kernel", path=fork)
        assert "NameError" in await ada.say("run_code", path=fork, code="print(a)")
        await ada.ask("discard_document_fork", fork=fork)
        kernels = await api.kernels()
        assert status["kernel"]["id"] not in kernels
        assert people["kernel"]["id"] in kernels


async def test_the_kernel_of_a_fork_ends_with_it_wherever_its_document_is_by_then(
    server: JupyterProcess, api: KernelApi
) -> None:
    write(server, "moving.ipynb", "a = 1")
    async with agent(server) as ada:
        fork = await fork_of(ada, "moving.ipynb")
        await ada.ask("run_code", path=fork, code="x = 'still there'")
        kernel = (await ada.ask("get_notebook_status", path=fork))["kernel"]["id"]
        await ada.ask("rename_document", path="moving.ipynb", newPath="moved/to.ipynb")
        assert "still there" in await ada.say("run_code", path=fork, code="print(x)")
        await ada.ask("discard_document_fork", fork=fork)
        assert kernel not in await api.kernels()


async def test_the_kernel_of_a_fork_ends_when_a_person_deletes_it(
    server: JupyterProcess, api: KernelApi
) -> None:
    if server.standalone is not None:
        pytest.skip("the command is not told of what people delete")
    write(server, "delete.ipynb", "a = 1")
    async with agent(server) as ada:
        fork = await fork_of(ada, "delete.ipynb")
        await ada.ask("run_code", path=fork, code="1")
        kernel = (await ada.ask("get_notebook_status", path=fork))["kernel"]["id"]
        await forks.delete(server, fork.removeprefix("fork:"))
        await eventually(api.kernels, lambda kernels: kernel not in kernels)


async def test_a_discarded_fork_is_gone_for_everybody(server: JupyterProcess) -> None:
    write(server, "discard.ipynb", "a = 1")
    async with agent(server) as ada:
        fork = await fork_of(ada, "discard.ipynb")
        await ada.ask("discard_document_fork", fork=fork)
        for tool, arguments in (
            ("discard_document_fork", {"fork": fork}),
            ("get_notebook", {"path": fork}),
        ):
            error = await ada.refused(tool, **arguments)
            assert error["code"] == "fork_not_found"
            assert "was discarded" in error["message"]
        assert not await forks.listed(server, "discard.ipynb")


async def test_only_an_admin_discards_a_fork_of_somebody_else(server: JupyterProcess) -> None:
    write(server, "others.ipynb", "a = 1")
    async with agent(server) as ada, agent(server, "Bob", permission="write") as bob:
        fork = await fork_of(ada, "others.ipynb")
        assert (await bob.refused("discard_document_fork", fork=fork))["level"] == "admin"
        own = await fork_of(bob, "others.ipynb")
        await bob.ask("discard_document_fork", fork=own)
        await ada.ask("discard_document_fork", fork=fork)


async def test_a_synchronized_fork_gets_later_edits_of_its_document(
    server: JupyterProcess,
) -> None:
    ids = write(server, "sync.ipynb", "a = 1", "b = 2")
    async with agent(server) as ada:
        fork = await fork_of(ada, "sync.ipynb", synchronize=True)
        await ada.write(fork, ids[0], "a = 5")
        await ada.write("sync.ipynb", ids[1], "b = 3")
        assert await ada.sources(fork) == ["a = 5", "b = 3"]
        assert await ada.sources("sync.ipynb") == ["a = 1", "b = 3"]


async def test_forks_that_people_make_are_forks_for_agents(server: JupyterProcess) -> None:
    ids = write(server, "stock.ipynb", "a = 1", "b = 2")
    async with agent(server) as ada, Collaborator(server.url, server.token, "stock.ipynb") as ana:
        fork_id = await forks.create(server, "stock.ipynb", title="Of Ana", synchronize=True)
        (found,) = (await ada.ask("list_document_forks", path="stock.ipynb"))["forks"]
        assert (found["fork"], found["title"]) == (f"fork:{fork_id}", "Of Ana")
        await ada.write(f"fork:{fork_id}", ids[1], "b = 3")
        ana.insert(ids[0], 5, "0")
        await ana.flush()
        assert await ada.sources(f"fork:{fork_id}") == ["a = 10", "b = 3"]
        await forks.delete(server, fork_id, merge=True)
        await ana.until(lambda: ana.sources() == ["a = 10", "b = 3"])

        error = await ada.refused("get_notebook", path=f"fork:{fork_id}")
        assert error["code"] == "fork_not_found"
        assert not (await ada.ask("list_document_forks", path="stock.ipynb"))["forks"]


async def test_forks_of_documents_that_agents_may_not_read_are_not_visible(
    make_server: MakeServer,
) -> None:
    async with make_server("--JupyterCollaborationMCP.denied_paths=secret/*") as server:
        (server.root / "secret").mkdir()
        write(server, "secret/a.ipynb", "a = 1")
        write(server, "open.ipynb", "a = 1")
        async with (
            Collaborator(server.url, server.token, "secret/a.ipynb"),
            agent(server) as ada,
            agent(server, "Bob", permission="read") as bob,
        ):
            hidden = await forks.create(server, "secret/a.ipynb", title="Hidden")
            shown = await fork_of(ada, "open.ipynb")
            listed = (await ada.ask("list_document_forks"))["forks"]
            assert [each["fork"] for each in listed] == [shown]
            for tool in ("get_notebook", "get_notebook_status"):
                error = await ada.refused(tool, path=f"fork:{hidden}")
                assert error["code"] == "fork_not_found"
            error = await ada.refused("discard_document_fork", fork=f"fork:{hidden}")
            assert error["code"] == "fork_not_found"
            assert (await bob.ask("get_notebook", path=shown))["cells"]
            update = [{"cell_id": "cell-0", "content": "b"}]
            arguments = {"path": shown, "updates": update, "exec": False}
            error = await bob.refused("batch_update_notebook_cells", **arguments)
            assert error["code"] == "permission_refused"


async def test_who_wrote_what_in_a_fork_is_known_after_the_merge(make_server: MakeServer) -> None:
    async with make_server() as server:
        ids = write(server, "authors.ipynb", "a = 1", "b = 2", "c = 3")
        async with agent(server) as ada, agent(server, "Bob") as bob:
            fork = await fork_of(ada, "authors.ipynb")
            await ada.write(fork, ids[0], "a = 'of Ada'")
            async with in_fork(server, "authors.ipynb", fork) as ana:
                ana.insert(ids[1], 5, "0")
                await ana.flush()
            await bob.ask("merge_document_fork", fork=fork)
            read = await bob.ask("get_notebook", path="authors.ipynb", authors=True)
            known = read["authors"]
            assert (known[ids[0]]["source"], known[ids[0]]["author"]) == ("agent", "Ada")
            assert (known[ids[1]]["source"], known[ids[1]]["author"]) == ("person", "Ana")


async def test_outputs_of_a_fork_are_read_by_their_address(server: JupyterProcess) -> None:
    ids = write(server, "address.ipynb", "print('in the fork')")
    async with agent(server) as ada:
        fork = await fork_of(ada, "address.ipynb")
        ran = await ada.ask("batch_execute_notebook_cells", path=fork)
        fork_id = fork.removeprefix("fork:")
        uri = CellOutput("s", fork_id, ids[0], 0).format()
        read = await ada.client.read_resource(uri)
        assert "in the fork" in str(read.contents)
        run = await ada.ask("get_run", run_id=ran["runs"][0]["run_id"])
        assert run["path"] == fork


@pytest.mark.parametrize("given", [("half \ud800", ""), ("A title", "half \ud800")])
def test_a_title_that_no_document_can_hold_is_refused(given: tuple[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="surrogate"):
        stated(*given)
