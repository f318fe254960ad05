"""What an agent is told, and what becomes of its work, when a server or the way to it fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from mcp_types import CallToolResult

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, over_stdio, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.http_proxy import Front
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate, KernelApi, eventually, install_kernel
from tests.harness.proxy import Proxy
from tests.harness.runs import outputs_of, printed
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

STOCK = {"jupyter_collaboration_mcp": False}
PATH = "work.ipynb"

#: Seconds that a network is away.
CUT = 10.0


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


def write(server: JupyterProcess, code: str, kernel: str = "python3") -> Path:
    cells = [
        notebooks.code("long", code),
        notebooks.code("next", "print('known' in globals())"),
        notebooks.markdown("text", "before"),
    ]
    whole = notebooks.notebook(cells)
    whole["metadata"]["kernelspec"] = {"name": kernel, "display_name": kernel}
    file = Path(server.root) / PATH
    notebooks.write(file, whole)
    return file


@asynccontextmanager
async def joined(
    server: JupyterProcess,
    home: Path,
    url: str = "",
    module: str = "jupyter_collaboration_mcp.cli",
) -> AsyncIterator[AgentClient]:
    """An agent whose command is joined to a server, perhaps by another way."""
    named = f"--server={url or server.url}"
    async with over_stdio(home, named, module=module, JUPYTER_TOKEN=server.token) as ada:
        yield ada


async def begun(ada: AgentClient, said: str) -> tuple[str, asyncio.Task[CallToolResult]]:
    """Run the long cell until it shows what it printed; the run's id, and the call that waits."""
    call = ada.call("execute_notebook_cell", path=PATH, cell_id="long", timeout=120)
    waiting = asyncio.create_task(call)

    async def under_way() -> list[dict[str, Any]]:
        facts = await ada.ask("get_notebook_status", path=PATH)
        return list(facts["runs"])

    (run,) = await eventually(under_way, bool)
    run_id = str(run["run_id"])

    async def look() -> dict[str, Any]:
        return await ada.ask("get_run", run_id=run_id, wait=0)

    async def read() -> str:
        return await ada.say("get_notebook", path=PATH, include_outputs=True)

    await eventually(look, lambda facts: "outputs" in facts and printed(facts) == said)
    await eventually(read, lambda text: f"1 output:\n```\n{said}\n```" in text)
    return run_id, waiting


def shows_the_loss(person: Collaborator) -> bool:
    return bool(outputs_of(person, "long")[-1].get("ename") == "KernelLost")


# -- servers that die ----------------------------------------------------------------------


@pytest.mark.parametrize("survives", [False, True], ids=["kernel-ends", "kernel-survives"])
async def test_killing_the_server_during_a_run_loses_only_that_run(
    make_server: MakeServer, tmp_path: Path, gate: Gate, survives: bool
) -> None:
    """Jupyter's kernels end with it, unless they are kept from it; it never takes them up again."""
    async with make_server(extensions=STOCK) as server:
        launch = (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
        install_kernel(server.home, "orphan", "env", "-u", "JPY_PARENT_PID", *launch)
        ran, ended = tmp_path / "ran", tmp_path / "ended"
        note = f"import os\nwith open({str(ran)!r}, 'a') as f: print(os.getpid(), file=f)\n"
        code = (
            f"{note}known = 1\nprint('begun', flush=True)\n{gate.code}\nopen({str(ended)!r}, 'w')"
        )
        write(server, code, "orphan" if survives else "python3")
        async with joined(server, tmp_path) as ada:
            run_id, call = await begun(ada, "begun")
            await ada.replace(PATH, "text", "before", "before, after")
            server.kill()
            await server.start()
            result = await call

            assert result.is_error
            error = result.structured_content["error"]
            assert (error["code"], error["fate"]) == ("kernel_lost", "gone")
            (run,) = result.structured_content["runs"]
            assert (run["run_id"], run["state"]) == (run_id, "failed")
            assert "variables are lost" in text_of(result)
            assert "cannot be read now" not in text_of(result)
            told = await ada.call("get_run", run_id=run_id, wait=0)
            assert told.structured_content["error"]["code"] == "kernel_lost"

            notebook = await ada.ask("get_notebook", path=PATH)
            assert notebook["cells"][2]["source"] == "before, after"
            following = await ada.ask(
                "execute_notebook_cell", path=PATH, cell_id="next", timeout=60
            )
            assert printed(following["runs"][0]) == "False"  # in a kernel of its own
            async with (
                KernelApi(server) as people,
                Collaborator(server.url, server.token, PATH) as ana,
            ):
                assert len(await people.kernels()) == 1
                await ana.until(lambda: ana.source("text") == "before, after")
                await ana.until(lambda: shows_the_loss(ana))

            (pid,) = ran.read_text().split()
            if survives:
                assert psutil.pid_exists(int(pid))
                gate.open()
                await until(ended.exists)
            else:
                await until(lambda: not psutil.pid_exists(int(pid)), timeout=60)
                assert not ended.exists()
            assert ran.read_text().split() == [pid]


async def test_the_end_of_a_lost_run_is_shown_in_the_reopened_room(
    make_server: MakeServer, tmp_path: Path, gate: Gate
) -> None:
    async with (
        make_server(extensions=STOCK) as server,
        Front(server.url, {}) as front,
    ):
        write(server, f"print('begun', flush=True)\n{gate.code}")
        async with joined(server, tmp_path, front.url) as ada:
            run_id, call = await begun(ada, "begun")
            front.answers = {"PUT api/collaboration/session": 503}
            server.kill()
            await server.start()

            async def look() -> CallToolResult:
                return await ada.call("get_run", run_id=run_id, wait=0)

            # The kernel is known to be lost before the room is: its seat seems to come back.
            await eventually(look, lambda told: "KernelLost" in text_of(told))
            front.answers = {}
            assert (await call).structured_content["error"]["code"] == "kernel_lost"
            async with Collaborator(server.url, server.token, PATH) as ana:
                await ana.until(lambda: shows_the_loss(ana))


async def test_every_answer_names_a_server_that_stays_unreachable(
    make_server: MakeServer, tmp_path: Path, gate: Gate
) -> None:
    async with make_server(extensions=STOCK) as server:
        write(server, f"print('begun', flush=True)\n{gate.code}")
        async with joined(server, tmp_path, module="tests.harness.impatient") as ada:
            (before,) = (await ada.ask("list_servers"))["servers"]
            assert before["state"] == "ok"
            run_id, call = await begun(ada, "begun")
            server.kill()
            result = await call
            error = result.structured_content["error"]
            assert (error["code"], error["fate"]) == ("kernel_lost", "unreachable")
            (run,) = result.structured_content["runs"]
            assert (run["run_id"], run["state"]) == (run_id, "failed")
            assert printed({"outputs": run["outputs"][:1]}) == "begun"
            assert "not known" in error["message"]
            assert server.url in text_of(result)

            for tool, arguments in (
                ("get_notebook", {"path": PATH}),
                ("list_notebooks", {}),
                ("list_kernels", {}),
            ):
                error = await ada.refused(tool, **arguments)
                assert f"{server.url} cannot be reached" in error["message"]
            (after,) = (await ada.ask("list_servers"))["servers"]
            assert (after["url"], after["state"]) == (server.url, "server_unreachable")
            assert "cannot be reached" in await ada.say("list_servers")


async def test_a_revoked_token_is_reported_and_not_retried_endlessly(
    make_server: MakeServer, tmp_path: Path
) -> None:
    async with make_server(extensions=STOCK) as server, Proxy(server.url) as way:
        write(server, "known = 1")
        async with joined(server, tmp_path, way.url) as ada:
            await ada.write(PATH, "text", "after")
            await ada.ask("execute_notebook_cell", path=PATH, cell_id="long", timeout=60)
            server.kill()
            log = len(server.log)
            server.change_token("another")
            await server.start()
            updates = [{"cell_id": "text", "content": "too late"}]
            calls: list[tuple[str, dict[str, Any]]] = [
                ("get_notebook", {"path": PATH}),
                ("execute_notebook_cell", {"path": PATH, "cell_id": "next"}),
                ("batch_update_notebook_cells", {"path": PATH, "updates": updates, "exec": False}),
                ("get_notebook_status", {"path": PATH}),
                ("list_notebooks", {}),
                ("list_kernels", {}),
            ]

            async def ask_all() -> None:
                for tool, arguments in calls:
                    error = await ada.refused(tool, **arguments)
                    assert error["code"] == "token_refused"
                    assert "does not accept the token" in error["message"]
                    assert "JUPYTER_TOKEN" in error["next_step"]

            await ask_all()  # the seat in the room is given up meanwhile
            # That at the kernel comes back by itself, once more, and is refused.
            await until(lambda: "/channels" in server.log[log:])
            attempts = way.connections
            await ask_all()
            await ask_all()
            assert way.connections - attempts <= 2
            (listed,) = (await ada.ask("list_servers"))["servers"]
            assert listed["state"] == "token_refused"
            async with KernelApi(server) as people:
                assert not await people.kernels()


# -- ways that break -----------------------------------------------------------------------


def _nobody_is_connected(kernels: Mapping[str, Any]) -> bool:
    return all(kernel["connections"] == 0 for kernel in kernels.values())


@pytest.mark.parametrize("how", ["cut", "pause"])
async def test_a_run_continues_during_a_network_failure_and_its_output_arrives_once(
    make_server: MakeServer, tmp_path: Path, how: str
) -> None:
    during, after = Gate(tmp_path / "during"), Gate(tmp_path / "after")
    lines = "for i in range({}, {}): print(i, flush=True)"
    async with make_server(extensions=STOCK) as server, Proxy(server.url) as way:
        write(
            server,
            "\n".join(
                [
                    lines.format(0, 10),
                    during.code,
                    lines.format(10, 20),
                    after.code,
                    lines.format(20, 30),
                ]
            ),
        )
        async with joined(server, tmp_path, way.url) as ada:
            run_id, call = await begun(ada, "\n".join(map(str, range(10))))
            if how == "cut":
                way.cut()
                async with KernelApi(server) as people:  # or what it sends is lost on the way
                    await eventually(people.kernels, _nobody_is_connected)
            else:
                way.pause()
            during.open()
            await after.reached()  # so that it went on without us
            await asyncio.sleep(CUT)  # the fault itself
            way.resume()
            after.open()
            result = await call
            assert not result.is_error, text_of(result)
            (run,) = result.structured_content["runs"]
            assert (run["run_id"], run["state"]) == (run_id, "completed")
            whole = "".join(f"{n}\n" for n in range(30))
            assert printed(run) == whole.rstrip()
            async with Collaborator(server.url, server.token, PATH) as ana:
                await ana.until(
                    lambda: [output["text"] for output in outputs_of(ana, "long")] == [whole]
                )
            following = await ada.ask("execute_notebook_cell", path=PATH, cell_id="next")
            assert following["runs"][0]["execution_count"] == 2  # it was run once
