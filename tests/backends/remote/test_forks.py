"""Forks from outside: what a stock server cannot do, and what our extension there adds."""

from __future__ import annotations

import pytest

from tests.conftest import MakeServer
from tests.harness import forks, notebooks
from tests.harness.agents import agent
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.standalone import StandaloneProcess

pytestmark = pytest.mark.anyio


def write(server: JupyterProcess) -> None:
    cells = [notebooks.code("a", "a = 1"), notebooks.code("b", "b = 1")]
    notebooks.write(server.root / "a.ipynb", notebooks.notebook(cells))


async def test_a_server_with_our_extension_knows_forks_that_came_from_outside(
    make_server: MakeServer,
) -> None:
    async with make_server(env=NOT_MEASURED) as server:
        write(server)
        async with StandaloneProcess([server]) as command, agent(command) as ada:
            said = await ada.say("fork_document", path="a.ipynb", title="Try")
            assert "forgets" not in said
            (found,) = (await ada.ask("list_document_forks"))["forks"]
            fork = found["fork"]
            await ada.write(fork, "a", "a = 2")
        server.kill()
        await server.start()
        async with (
            StandaloneProcess([server]) as command,
            agent(command, permission="write") as ada,
            agent(server, "Bob") as bob,
        ):
            (found,) = (await bob.ask("list_document_forks"))["forks"]
            assert (found["fork"], found["author"]) == (fork, "Ada")
            await bob.write("a.ipynb", "b", "b = 2")
            assert await ada.sources(fork) == ["a = 2", "b = 1"]
            await ada.ask("merge_document_fork", fork=fork)
            assert await bob.sources("a.ipynb") == ["a = 2", "b = 2"]
            assert (await bob.refused("get_notebook", path=fork))["code"] == "fork_not_found"


async def test_a_stock_server_forgets_its_forks_and_the_answer_says_so(
    make_server: MakeServer,
) -> None:
    stock = {"jupyter_collaboration_mcp": False}
    async with make_server(extensions=stock, env=NOT_MEASURED) as server:
        write(server)
        async with StandaloneProcess([server]) as command, agent(command) as ada:
            said = await ada.say("fork_document", path="a.ipynb", title="Try")
            assert "forgets its forks when it restarts" in said
            (fork_id,) = await forks.listed(server, "a.ipynb")
            await ada.write(f"fork:{fork_id}", "a", "a = 2")
            server.kill()
            await server.start()
            error = await ada.refused("get_notebook", path=f"fork:{fork_id}")
            assert error["code"] == "fork_not_found"
            assert await ada.sources("a.ipynb") == ["a = 1", "b = 1"]


async def test_where_the_base_is_not_known_only_differences_need_a_decision(
    make_server: MakeServer,
) -> None:
    stock = {"jupyter_collaboration_mcp": False}
    async with make_server(extensions=stock) as server:
        write(server)
        async with StandaloneProcess([server]) as command, agent(command) as ada:
            await ada.ask("fork_document", path="a.ipynb", title="Try")
            (fork_id,) = await forks.listed(server, "a.ipynb")
            await ada.write(f"fork:{fork_id}", "a", "a = 2")
        async with StandaloneProcess([server]) as command, agent(command) as ada:
            (found,) = (await ada.ask("list_document_forks", path="a.ipynb"))["forks"]
            fork = found["fork"]
            error = await ada.refused("merge_document_fork", fork=fork)
            assert [each["cell_id"] for each in error["conflicts"]] == ["a"]
            await ada.ask("merge_document_fork", fork=fork, prefer="fork")
            assert await ada.sources("a.ipynb") == ["a = 2", "b = 1"]
