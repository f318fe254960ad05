"""Many commands, the extension and people in one notebook: nothing lost, doubled or misplaced."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conftest import MakeServer, Times
from tests.harness import notebooks
from tests.harness.agents import agent, over_stdio
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.kernels import KernelApi
from tests.harness.runs import outputs_of, printed, run, shows
from tests.harness.standalone import StandaloneProcess
from tests.harness.together import SharedCell, edit_while_cells_come_above, everybody_reads, read

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
async def stock(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A Jupyter server that has nothing of ours."""
    async with make_server(extensions={"jupyter_collaboration_mcp": False}) as process:
        yield process


async def test_many_commands_and_a_person_share_one_cell(
    stock: JupyterProcess, tmp_path: Path, times: Times
) -> None:
    path, count = "shared.ipynb", times(4, 8)
    cell = SharedCell(agents=count, edits=25)
    notebooks.write(stock.root / path, cell.notebook())
    async with AsyncExitStack() as stack:
        ana = await stack.enter_async_context(Collaborator(stock.url, stock.token, path))
        agents = [
            await stack.enter_async_context(
                over_stdio(
                    tmp_path,
                    f"--server={stock.url}",
                    f"--agent-name=Agent {n}",
                    JUPYTER_TOKEN=stock.token,
                )
            )
            for n in range(count)
        ]
        for client in agents:  # they are all in the room when the first one writes
            await client.ask("create_notebook_session", path=path)
        await cell.write(path, agents, ana)
        for client in agents:
            assert await client.sources(path) == [cell.whole]
        await ana.until(lambda: ana.sources() == [cell.whole])
        await everybody_reads(stock, path, [(cell.id, cell.whole)])


async def test_guarded_edits_hit_their_cell_while_cells_are_inserted_above(
    stock: JupyterProcess,
) -> None:
    path = "moving.ipynb"
    cells = [notebooks.code(f"target-{n:02d}", f"value = {n}") for n in range(40)]
    notebooks.write(stock.root / path, notebooks.notebook(cells))
    async with (
        StandaloneProcess([stock]) as command,
        agent(command) as ada,
        Collaborator(stock.url, stock.token, path) as ana,
    ):
        expected = await edit_while_cells_come_above(ada, ana, path)
        assert await read(ada, path) == expected
        await everybody_reads(stock, path, expected)


@pytest.fixture(scope="module")
async def both(
    make_server: MakeServer, anyio_backend: str
) -> AsyncIterator[tuple[JupyterProcess, StandaloneProcess]]:
    """A server with our extension, and the command joined to it all the same."""
    async with make_server() as server, StandaloneProcess([server]) as command:
        yield server, command


async def test_the_command_and_the_extension_share_one_cell_and_undo_their_own_edits(
    both: tuple[JupyterProcess, StandaloneProcess],
) -> None:
    server, command = both
    path = "shared.ipynb"
    cell = SharedCell(agents=2, edits=25)
    notebooks.write(server.root / path, cell.notebook())
    async with (
        agent(command, "Outside") as outside,
        agent(server, "Inside") as inside,
        Collaborator(server.url, server.token, path) as ana,
    ):
        await cell.write(path, [outside, inside], ana)
        assert await outside.sources(path) == await inside.sources(path) == [cell.whole]
        _, second, typed = cell.whole.split("\n")
        await outside.ask("undo_agent_changes", path=path, steps=25)
        without_first = "\n".join(["line0:é😀|", second, typed])
        assert await outside.sources(path) == await inside.sources(path) == [without_first]
        await inside.ask("undo_agent_changes", path=path, steps=24)
        left = "\n".join(["line0:é😀|", "line1:1.00;é😀|", typed])
        assert await outside.sources(path) == await inside.sources(path) == [left]
        assert (await outside.refused("undo_agent_changes", path=path))["code"] == "nothing_to_undo"
        await everybody_reads(server, path, [(cell.id, left)])


async def test_the_command_and_the_extension_run_each_cell_once_in_one_kernel(
    both: tuple[JupyterProcess, StandaloneProcess], tmp_path: Path
) -> None:
    server, command = both
    path = "running.ipynb"
    ran = tmp_path / "ran.txt"
    names = ("outside", "inside", "taken in turns")
    cells = [notebooks.code(name, tells(ran, name)) for name in names]
    notebooks.write(server.root / path, notebooks.notebook(cells))
    async with (
        agent(command, "Outside") as outside,
        agent(server, "Inside") as inside,
        Collaborator(server.url, server.token, path) as ana,
        KernelApi(server) as api,
    ):
        counts = []
        for _ in range(5):
            both_told = await asyncio.gather(
                run(outside, path, "outside", timeout=60), run(inside, path, "inside", timeout=60)
            )
            assert [printed(told) for told in both_told] == ["outside", "inside"]
            counts += [told["execution_count"] for told in both_told]
        for client in (outside, inside, outside, inside):
            told = await run(client, path, "taken in turns", timeout=60)
            counts.append(told["execution_count"])
        assert sorted(counts) == list(range(1, 15))
        assert Counter(ran.read_text().splitlines()) == dict(zip(names, (5, 5, 4), strict=True))
        assert len(await api.sessions(path)) == 1
        for name in names:
            await shows(ana, name, f"{name}\n")
            assert len(outputs_of(ana, name)) == 1
        assert ana.sources() == [cell["source"] for cell in cells]


def tells(file: Path, name: str) -> str:
    """Code that leaves a line in a file each time it is run, and prints one."""
    return f"print('{name}', file=open({str(file)!r}, 'a'))\nprint('{name}')"


@pytest.mark.parametrize(
    ("extension", "kills"), [(True, 3), (False, 1)], ids=["journal and tab", "stock"]
)
async def test_edits_appear_once_after_a_crash(
    make_server: MakeServer, extension: bool, kills: int
) -> None:
    """The journal, the command and a tab left open bring the same back; a stock server nothing."""
    path = "killed.ipynb"
    expected = {"log": "# end", "rewritten": "nothing", "undone": "kept"}
    expected |= {f"deleted-{number}": "" for number in range(kills)}
    enabled = {"jupyter_collaboration_mcp": extension}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(make_server(extensions=enabled, env=NOT_MEASURED))
        cells = [notebooks.code(*cell) for cell in expected.items()]
        notebooks.write(server.root / path, notebooks.notebook(cells))
        command = await stack.enter_async_context(StandaloneProcess([server]))
        outside = await stack.enter_async_context(agent(command))
        ana = Collaborator(server.url, server.token, path)
        if extension:
            await stack.enter_async_context(ana)
        await outside.ask("create_notebook_session", path=path)
        for number in range(kills):
            await outside.write(path, "rewritten", f"{number} at first")
            await outside.write(path, "rewritten", f"{number} then")
            await outside.write(path, "undone", "something else")
            await outside.ask("undo_agent_changes", path=path)
            deleted = f"deleted-{number}"
            await outside.ask("batch_delete_notebook_cells", path=path, cell_ids=[deleted])
            for _ in range(2):
                await outside.replace(path, "log", "# end", f"{number}\n# end")
            server.kill()
            del expected[deleted]
            expected["rewritten"] = f"{number} then"
            expected["log"] = expected["log"].replace("# end", f"{number}\n{number}\n# end")
            await ana.until(lambda: not ana.connected)
            await server.start()
            if extension:
                await ana.flush(timeout=30)
            answer = await outside.ask("get_notebook", path=path)
            assert [(cell["id"], cell["source"]) for cell in answer["cells"]] == [*expected.items()]
            assert "could not be" not in " ".join(answer.get("notices", []))
            if extension:
                await ana.until(lambda: ana.sources() == [*expected.values()])
        await everybody_reads(server, path, [*expected.items()])
