"""A command that was told of no server has one all the same, also after that has ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from mcp_types import ResourceLink, TextResourceContents

from jupyter_collaboration_mcp.standalone.discovery import is_alive
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import over_stdio
from tests.harness.waiting import until

from .held import Command

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

STOCK = {"jupyter_collaboration_mcp": False}
PATH = "work.ipynb"


def write(root: Path, source: str = "1 + 1") -> None:
    root.mkdir(exist_ok=True)
    cells = [notebooks.code("one", source), notebooks.markdown("two", "text")]
    notebooks.write(root / PATH, notebooks.notebook(cells))


def servers(home: Path) -> list[dict[str, object]]:
    """What the runtime files say, of servers that are alive."""
    found = []
    for file in (home / "runtime").glob("jpserver-*.json"):
        with contextlib.suppress(OSError, ValueError):  # of a server that just comes or goes
            found.append(json.loads(file.read_text()))
    return [server for server in found if is_alive(server["pid"])]


async def kill(pid: object) -> None:
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    # Until the command looks at it, it stays as a zombie, without threads at last.
    await until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    await until(lambda: len(list(Path(f"/proc/{pid}/task").iterdir())) <= 1)


async def test_the_commands_own_server_is_restarted_if_it_ended(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root)
    async with over_stdio(tmp_path, cwd=root) as ada:
        await ada.write(PATH, "two", "before the end")
        (server,) = servers(tmp_path)
        (listed,) = (await ada.ask("list_servers"))["servers"]
        assert listed["root"] == str(root)
        await kill(server["pid"])
        assert (await ada.sources(PATH))[1] == "before the end"
        (again,) = servers(tmp_path)
        assert again["pid"] != server["pid"]
        assert (again["url"], again["token"]) == (server["url"], server["token"])
        await ada.write(PATH, "two", "after it")


async def test_the_server_of_another_command_is_shared_only_within_its_root(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    write(root, "in the root")
    write(root / "below", "below")
    write(elsewhere, "elsewhere")
    other = Command(tmp_path)
    try:
        await until(lambda: "Jupyter runs at" in other.said, timeout=60)
        (first,) = servers(tmp_path)
        async with over_stdio(tmp_path, cwd=elsewhere) as ben:
            assert (await ben.sources(PATH))[0] == "elsewhere"
            assert len(servers(tmp_path)) == 2
        # A client waits two seconds for its command, which may need more to end its server.
        await until(lambda: servers(tmp_path) == [first], timeout=60)
        async with over_stdio(tmp_path, cwd=root / "below") as ada:
            assert (await ada.sources(PATH))[0] == "in the root"
            assert servers(tmp_path) == [first]
            other.process.send_signal(signal.SIGTERM)
            await other.ends_with(143)
            # Whose server it was is gone; the next call gets one of its own.
            assert (await ada.sources(PATH))[0] == "below"
            (second,) = servers(tmp_path)
            assert second["pid"] != first["pid"]
    finally:
        other.close()


async def test_commands_started_together_in_one_directory_share_a_server(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root)
    async with AsyncExitStack() as stack:
        agents = [
            await stack.enter_async_context(over_stdio(tmp_path, f"--agent-name={name}", cwd=root))
            for name in ("Ada", "Bob", "Cleo")
        ]
        told = await asyncio.gather(*(each.ask("list_servers") for each in agents))
        assert len({facts["servers"][0]["url"] for facts in told}) == 1
        assert len(servers(tmp_path)) == 1
        await agents[0].write(PATH, "two", "by Ada")
        assert (await agents[1].sources(PATH))[1] == "by Ada"


async def test_an_edit_just_before_exit_is_in_the_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root)
    async with over_stdio(tmp_path, cwd=root) as ada:
        await ada.write(PATH, "two", "the last word")
    # Its client waits for a while for the command, and then kills it; its server ends in its time.
    await until(lambda: not servers(tmp_path), timeout=60)
    assert notebooks.sources(root / PATH)[1] == "the last word"


async def test_a_link_to_side_output_outlives_the_server(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, "print('line\\n' * 400_000)")
    async with over_stdio(tmp_path, cwd=root) as ada:
        ran = await ada.call("execute_notebook_cell", path=PATH, cell_id="one", timeout=60)
        (link,) = [part for part in ran.content if isinstance(part, ResourceLink)]
    await until(lambda: not servers(tmp_path), timeout=60)
    async with over_stdio(tmp_path, cwd=root) as ada:
        await ada.sources(PATH)
        (page,) = (await ada.client.read_resource(f"{link.uri}?offset=1500000")).contents
        assert isinstance(page, TextResourceContents)
        assert page.text.startswith("line\nline\n")


async def test_outputs_of_abandoned_servers_are_deleted(tmp_path: Path) -> None:
    aside = tmp_path / "data" / "collaboration-mcp"
    runs = {age: aside / f"remote-{age}" / "outputs" / "book" / "run" for age in ("old", "new")}
    for age, run in runs.items():
        run.mkdir(parents=True)
        (run / "0.text").write_text("printed")
        if age == "old":
            os.utime(run / "0.text", (1, 1))
    async with over_stdio(tmp_path, "--server=http://127.0.0.1:1/") as ada:
        await ada.ask("list_servers")
        await until(lambda: not runs["old"].exists())
        assert runs["new"].exists()


async def test_servers_can_be_connected_and_discovered_after_a_failed_start(
    make_server: MakeServer, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "jupyter_server_config.py").write_text("import os; os._exit(3)")
    async with make_server(extensions=STOCK) as server, make_server(extensions=STOCK) as other:
        write(Path(server.root), "found")
        write(Path(other.root), "connected")
        server.kill()
        runtime = str(server.home / "runtime")
        async with over_stdio(tmp_path, cwd=tmp_path, JUPYTER_RUNTIME_DIR=runtime) as ada:
            for tool in ("list_notebooks", "list_kernels", "list_notebooks"):
                error = await ada.refused(tool)
                assert error["code"] == "server_unreachable"
                assert "could not be started" in error["message"]
            assert (await ada.ask("list_servers"))["servers"] == []
            url = f"{other.url}?token={other.token}"
            await ada.ask("connect_server", url=url, alias="other")
            assert (await ada.sources(f"other:{PATH}"))[0] == "connected"
            await ada.ask("disconnect_server", alias="other")
            await server.start()
            assert (await ada.sources(PATH))[0] == "found"


async def test_a_failed_start_is_reported_to_the_person(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "jupyter_server_config.py").write_text("import os; os._exit(3)")
    command = Command(tmp_path)
    try:
        await until(lambda: "could not be started: it ended with exit code 3" in command.said, 60)
        assert "Traceback" not in command.said
    finally:
        command.close()


async def test_a_named_server_that_is_unreachable_is_reported_at_startup(
    tmp_path: Path,
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # kept from others, not listened at
        url = f"http://127.0.0.1:{probe.getsockname()[1]}/"
        command = Command(tmp_path, f"--server={url}", f"--server=lab={url}lab2/")
        try:
            await until(lambda: command.said.count("\n") == 2, 60)
            first, second = command.said.splitlines()
            port = probe.getsockname()[1]
            assert first.startswith(f"local-{port}: The Jupyter server at {url} cannot be reached")
            assert first.endswith(
                "Check that it runs and that the URL is right, http:// or https://."
            )
            assert second.startswith(f"lab: The Jupyter server at {url}lab2/ cannot be reached")
            await command.answers()  # it serves all the same: the servers may come later
        finally:
            command.close()


async def test_a_server_restarted_with_another_token_stays_usable(
    make_server: MakeServer, tmp_path: Path
) -> None:
    async with make_server(extensions=STOCK) as server:
        root = Path(server.root)
        write(root)
        runtime = str(server.home / "runtime")
        async with over_stdio(tmp_path, cwd=root, JUPYTER_RUNTIME_DIR=runtime) as ada:
            await ada.ask("execute_notebook_cell", path=PATH, cell_id="one", timeout=60)
            server.kill()
            server.change_token("another")
            await server.start()
            await ada.write(PATH, "two", "with the new token")
            assert (await ada.sources(PATH))[1] == "with the new token"
            ran = await ada.ask("execute_notebook_cell", path=PATH, cell_id="one", timeout=60)
            assert ran["runs"][0]["state"] == "completed"
