"""Runs when things change around them: what is run, in which order, how often, and what is not."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pycrdt import Map

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate, KernelApi, eventually, install_kernel
from tests.harness.runs import (
    finish,
    outputs_of,
    printed,
    run,
    run_cells,
    shows,
    start,
    states_of,
)
from tests.harness.ways import WAYS, served
from tests.tools.conftest import MakeGate, New, Tab, Warm

pytestmark = pytest.mark.anyio

LAUNCH = "from ipykernel.kernelapp import launch_new_instance\nlaunch_new_instance()"

#: As IRkernel: what comes on the control channel is not answered, nor is anything said about it.
DEAF = """
from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

class Deaf(Kernel):
    implementation, implementation_version, banner = "deaf", "1", ""
    language_info = {"name": "echo", "mimetype": "text/plain", "file_extension": ".txt"}

    def __init__(self, **more):
        super().__init__(**more)
        del self.control_handlers["kernel_info_request"]

    def _publish_status(self, status, channel, parent=None):
        if channel == "shell" and status != "starting":
            super()._publish_status(status, channel, parent)

    async def do_execute(self, code, silent, *more, **options):
        if not silent:
            self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": code})
        count = self.execution_count
        return {"status": "ok", "execution_count": count, "payload": [], "user_expressions": {}}

IPKernelApp.launch_instance(kernel_class=Deaf)
"""


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    """A server with more kernels to choose from."""

    def make(*arguments: str, **options: Any) -> JupyterProcess:
        process = make_server(*arguments, **options)
        install_python(process, "snake", LAUNCH)
        install_python(process, "deaf", DEAF, language="echo")
        return process

    async with served(make, request.param) as process:
        yield process


def install_python(server: JupyterProcess, name: str, code: str, language: str = "python") -> None:
    """Install a kernel that is a piece of Python."""
    command = (sys.executable, "-c", code, "-f", "{connection_file}")
    install_kernel(server.home, name, *command, language=language)


def metadata_for(kernel: str) -> dict[str, Any]:
    return {"metadata": {"kernelspec": {"name": kernel, "display_name": kernel}}}


async def revision_of(client: AgentClient, path: str, cell: str) -> str:
    facts = await client.ask("get_notebook", path=path, cell_ids=[cell])
    return str(facts["cells"][0]["revision"])


# -- what changes while the kernel starts -----------------------------------------------------


@pytest.mark.parametrize(
    ("how", "code"), [("edited", "stale_revision"), ("deleted", "cell_not_found")]
)
async def test_a_cell_changed_while_the_kernel_starts_is_not_run(
    server: JupyterProcess,
    ada: AgentClient,
    new: New,
    gate: MakeGate,
    tab: Tab,
    how: str,
    code: str,
) -> None:
    door = gate()
    install_python(server, f"late-{how}", f"{door.code}\n{LAUNCH}")
    path = new("ran = True", "ran = True", **metadata_for(f"late-{how}"))
    ana = await tab(path)
    revision = await revision_of(ada, path, "cell-0")
    call = asyncio.create_task(
        ada.refused("execute_notebook_cell", path=path, cell_id="cell-0", if_revision=revision)
    )
    await door.reached()  # by the kernel, which starts when it is let through
    if how == "edited":
        await ana.type("cell-0", None, "  # and more")
    else:
        ana.delete_cell("cell-0")
    await ana.flush()
    door.open()
    error = await call
    assert error["code"] == code
    if how == "edited":
        assert error["source"] == "ran = True  # and more"
    status = await ada.ask("get_notebook_status", path=path)
    assert (status["running_cells"], status["runs"]) == ([], [])
    facts = await ada.ask("inspect_variables", path=path, names=["ran"])
    assert facts["missing"] == ["ran"]
    await ana.flush()
    assert ana.cell(0)["execution_count"] is None
    assert (await run(ada, path, "cell-1"))["execution_count"] == 1


# -- which runs are joined, and which are made again ------------------------------------------


async def test_a_running_cell_is_run_again_after_a_new_cell(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    train = f"order.append('train')\n{door.code}"
    path = await warm("order = []", "order.append('config')", train, "print(order)")
    await run(ada, path, 0)
    first = await start(ada, path, 2, door)
    config, again = await run_cells(bob, path, cell_ids=[1, 2], timeout=0)
    assert states_of([config, again]) == ["queued", "queued"]
    assert again["run_id"] != first
    door.open()
    assert (await finish(bob, again["run_id"]))["state"] == "completed"
    assert (await finish(bob, first))["state"] == "completed"
    assert printed(await run(ada, path, 3)) == "['train', 'config', 'train']"


async def test_a_running_cell_is_run_again_after_a_queued_cell(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    train = f"order.append('train')\n{door.code}"
    path = await warm("order = []", "order.append('config')", train, "print(order)")
    await run(ada, path, 0)
    first = await start(ada, path, 2, door)
    waiting = await run(ada, path, 1, timeout=0)
    config, again = await run_cells(bob, path, cell_ids=[1, 2], timeout=0)
    assert config["run_id"] == waiting["run_id"]
    assert again["run_id"] != first
    joined = await run_cells(ada, path, cell_ids=[1, 2], timeout=0)
    assert [told["run_id"] for told in joined] == [config["run_id"], again["run_id"]]
    door.open()
    assert (await finish(bob, again["run_id"]))["state"] == "completed"
    assert printed(await run(ada, path, 3)) == "['train', 'config', 'train']"


async def test_a_batch_that_joined_a_run_stops_if_that_run_fails(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm(f"{door.code}\n1 / 0", "print('stopped')", "print('run all the same')")
    ana = await tab(path)
    before = ana.cell(1)
    first = await start(ada, path, 0, door)
    joined, stopped = await run_cells(bob, path, cell_ids=[0, 1], timeout=0)
    also, last = await run_cells(bob, path, cell_ids=[0, 2], timeout=0, stop_on_error=False)
    assert joined["run_id"] == also["run_id"] == first
    await ana.until(lambda: ana.cell(1)["execution_state"] == "running")
    door.open()
    assert (await finish(bob, last["run_id"]))["state"] == "completed"
    assert (await finish(bob, first))["state"] == "failed"
    facts = await finish(bob, stopped["run_id"])
    assert (facts["state"], facts["reason"]) == ("cancelled", "a cell before it failed")
    await ana.until(lambda: ana.cell(1) == before)
    await shows(ana, 2, "run all the same\n")


async def test_a_cell_named_twice_runs_once(ada: AgentClient, warm: Warm) -> None:
    path = await warm("times = 0", "times += 1\nprint(times)")
    runs = await run_cells(ada, path, cell_ids=[0, "cell-1", 1, "cell-0"])
    assert [told["cell_id"] for told in runs] == ["cell-0", "cell-1"]
    assert states_of(runs) == ["completed", "completed"]
    assert printed(runs[1]) == "1"


# -- cells that are run and then deleted ------------------------------------------------------


async def test_a_cell_named_twice_is_run_once_and_deleted_once(
    ada: AgentClient, warm: Warm
) -> None:
    path = await warm("times = 0", "times += 1", "print(times)")
    await run(ada, path, 0)
    facts = await ada.ask(
        "batch_delete_notebook_cells", path=path, cell_ids=["cell-1", 1], exec=True
    )
    assert states_of(facts["runs"]) == ["completed"]
    assert facts["deleted"] == ["cell-1"]
    assert await ada.sources(path) == ["times = 0", "print(times)"]
    assert printed(await run(ada, path, "cell-2")) == "1"


async def test_cells_without_code_can_be_deleted_without_permission_to_run(
    server: JupyterProcess, api: KernelApi, new: New
) -> None:
    path = new("print('never')", notebooks.markdown("words", "#"), notebooks.markdown("more", "#"))
    async with agent(server, permission="write") as writer:
        facts = await writer.ask(
            "batch_delete_notebook_cells", path=path, cell_ids=["words", 1, "more"], exec=True
        )
        assert facts["deleted"] == ["words", "more"]
        assert facts["cell_count"] == 1
        error = await writer.refused(
            "batch_delete_notebook_cells", path=path, cell_ids=["cell-0"], exec=True
        )
        assert error["code"] == "permission_refused"
        assert await writer.sources(path) == ["print('never')"]
    assert await api.sessions(path) == []


async def test_a_cell_edited_by_a_person_while_it_runs_is_not_deleted(
    ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm(door.code, notebooks.markdown("words", "# to go with it"))
    ana = await tab(path)
    call = asyncio.create_task(
        ada.refused("batch_delete_notebook_cells", path=path, cell_ids=[0, 1], exec=True)
    )
    await door.reached()
    await ana.type(0, None, "\n# do not delete this")
    await ana.flush()
    door.open()
    error = await call
    assert (error["code"], error["cell_id"]) == ("stale_revision", "cell-0")
    assert "# do not delete this" in error["source"]
    await ana.flush()
    assert ana.cell(0)["execution_state"] == "idle"
    assert ana.ids() == ["cell-0", "words"]


# -- displays that are updated late -----------------------------------------------------------


@pytest.fixture(scope="module")
async def impatient(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A server where agents leave notebooks that they do not use."""
    config = {
        "JupyterCollaborationMCP": {"idle_timeout": 0.5},
        "YDocExtension": {"document_cleanup_delay": 0.1},
    }
    async with make_server(config=config) as process:
        yield process


FIRST = "from IPython.display import display\nhandle = display('first', display_id=True)"


class Late:
    """Notebooks with one kernel: in one the agent still works, the others it has left."""

    def __init__(self, server: JupyterProcess, ada: AgentClient, api: KernelApi) -> None:
        self.server = server
        self.ada = ada
        self.api = api
        self._kernel: str | None = None

    async def notebook(self, path: str, *sources: str) -> str:
        cells = [notebooks.code(f"cell-{n}", source) for n, source in enumerate(sources)]
        notebooks.write(Path(self.server.root) / path, notebooks.notebook(cells))
        session = await self.api.open(path, kernel_id=self._kernel)
        if self._kernel is None:
            # A kernel takes longer to start than an agent may be idle here.
            await self.ada.ask("inspect_variables", path=path)
        self._kernel = session["kernel"]["id"]
        return path

    async def update(self, path: str, code: str, run_id: str, arrived: Gate, shown: Gate) -> None:
        """Update a display from another notebook; returns when that would have been shown."""
        code = f"{code}\n{arrived.code}\nprint('one')\n{shown.code}"
        await self.notebook(path, code)
        async with Collaborator(self.server.url, self.server.token, path) as other:
            working = await start(self.ada, path, 0, arrived)

            async def look() -> str:
                return await self.ada.say("get_run", run_id=run_id, wait=0)

            await eventually(look, lambda text: "'late'" in text)
            # What is put out later than the update is shown later than the update.
            arrived.open()
            await shows(other, 0, "one\n")
            shown.open()
            assert (await finish(self.ada, working))["state"] == "completed"

    async def leave(self) -> None:
        """Return when the agent has left all notebooks that it was in."""
        path = "witness.ipynb"
        notebooks.write(Path(self.server.root) / path, notebooks.notebook([]))
        async with Collaborator(self.server.url, self.server.token, path) as witness:
            seen: list[Any] = []  # by now it may have gone again
            witness.awareness.observe(lambda *_: seen.extend(witness.awareness_users()))
            # Notebooks are left in the order in which they were opened.
            await self.ada.ask("create_notebook_session", path=path)
            await witness.until(lambda: seen and not witness.awareness_users())

    async def is_open(self, path: str) -> bool:
        facts = await self.ada.ask("list_notebooks")
        (entry,) = (entry for entry in facts["notebooks"] if entry["path"] == path)
        return bool(entry["open"])


@pytest.fixture
async def late(impatient: JupyterProcess) -> AsyncIterator[Late]:
    async with agent(impatient, "Ada") as ada, KernelApi(impatient) as api:
        yield Late(impatient, ada, api)


@pytest.mark.parametrize("how", ["cleared", "run again"])
async def test_a_late_update_does_not_restore_output_that_a_person_removed(
    late: Late, gate: MakeGate, how: str
) -> None:
    path = await late.notebook(f"late-{how}.ipynb", FIRST)
    theirs = {"output_type": "display_data", "data": {"text/plain": "theirs"}, "metadata": {}}
    async with Collaborator(late.server.url, late.server.token, path) as ana:
        told = await run(late.ada, path, 0)
        await ana.until(lambda: "first" in str(outputs_of(ana, 0)))
        await late.leave()
        outputs = ana.notebook.ycells[0]["outputs"]
        outputs.clear()
        if how == "run again":
            outputs.append(Map(theirs))
        await ana.flush()
        other = f"late-{how}-other.ipynb"
        await late.update(other, "handle.update('late')", told["run_id"], gate(), gate())
        await ana.flush()
        assert outputs_of(ana, 0) == ([theirs] if how == "run again" else [])
        assert ana.awareness_users() == []


@pytest.mark.parametrize("how", ["printed", "updated"])
async def test_late_output_reaches_a_notebook_after_everybody_has_left(
    late: Late, gate: MakeGate, how: str
) -> None:
    door = gate()
    says = "print('late')" if how == "printed" else "handle.update('late')"
    waiting = f"{door.code}\n{says}".replace("time.sleep", "await asyncio.sleep")
    body = textwrap.indent(waiting, "    ")
    task = f"import asyncio\nasync def later():\n{body}\nleft = asyncio.create_task(later())"
    path = await late.notebook(f"left-{how}.ipynb", f"{FIRST}\n{task}")
    await run(late.ada, path, 0)

    async def is_open() -> bool:
        return await late.is_open(path)

    await eventually(is_open, lambda opened: not opened)
    door.open()

    async def saved() -> list[dict[str, Any]]:
        content = await late.api.contents(path)
        return list(content["cells"][0]["outputs"])

    outputs = await eventually(saved, lambda outputs: "late" in str(outputs))
    assert len(outputs) == (2 if how == "printed" else 1)
    await eventually(is_open, lambda opened: not opened)  # and it is left again


async def test_a_late_update_is_shown_while_the_agent_is_still_present(
    late: Late, gate: MakeGate
) -> None:
    door = gate()
    path = await late.notebook("still.ipynb", FIRST, f"handle.update('late')\n{door.code}")
    async with Collaborator(late.server.url, late.server.token, path) as ana:
        # In one call: between two of them it might leave.
        runs = await run_cells(late.ada, path, cell_ids=[0, 1], timeout=0)
        await ana.until(lambda: "late" in str(outputs_of(ana, 0)))
        door.open()
        assert (await finish(late.ada, runs[1]["run_id"]))["state"] == "completed"


# -- kernels ----------------------------------------------------------------------------------


async def test_a_kernel_that_answers_only_on_the_shell_channel_can_be_used(
    ada: AgentClient, new: New
) -> None:
    path = new("as it is", **metadata_for("deaf"))
    told = await run(ada, path, 0)
    assert (told["state"], printed(told)) == ("completed", "as it is")
    error = await ada.refused("inspect_variables", path=path)
    assert "speaks echo" in error["message"]


async def test_two_simultaneous_changes_of_kernel_leave_one_kernel(
    api: KernelApi, ada: AgentClient, bob: AgentClient, new: New, gate: MakeGate
) -> None:
    door = gate()
    path = new(door.code, "print('next')")
    before = await api.kernels()
    run_id = await start(ada, path, 0, door)
    await asyncio.gather(
        ada.ask("change_notebook_kernel", path=path, kernel_name="snake"),
        bob.ask("change_notebook_kernel", path=path, kernel_name="snake"),
    )
    (session,) = await api.sessions(path)
    assert set(await api.kernels()) - set(before) == {session["kernel"]["id"]}
    assert session["kernel"]["name"] == "snake"
    # It is over by now: the cell is free for what comes.
    error = await ada.refused("get_run", run_id=run_id, wait=0)
    assert (error["code"], error["fate"]) == ("kernel_lost", "gone")
    assert "was shut down, culled or replaced" in error["message"]
    told = await run(bob, path, 1)
    assert (told["state"], printed(told)) == ("completed", "next")


# -- outputs in full --------------------------------------------------------------------------


async def test_a_large_output_of_many_types_can_be_read_in_pages(
    ada: AgentClient, warm: Warm
) -> None:
    code = (
        "from IPython.display import display\n"
        "html = '<td>1</td>' * 20_000\n"
        "plain = 'plain text ' * 18_000\n"
        "values = {'values': list(range(40_000))}\n"
        "bundle = {'text/html': html, 'text/plain': plain, 'application/json': values}\n"
        "display(bundle, raw=True)"
    )
    path = await warm(code)
    told = await run(ada, path, 0)
    found = {"text/html": "", "text/plain": "", "application/json": ""}
    offset: int | None = 0
    while offset is not None:
        result = await ada.call("get_run", run_id=told["run_id"], output=0, offset=offset)
        facts = result.structured_content
        assert len(text_of(result)) + len(json.dumps(facts)) < 100_000
        for part in facts["parts"]:
            found[part["mime"]] += part["text"]
        more = [part["offset"] for part in facts["parts"] if part["offset"] < part["size"]]
        offset = min(more, default=None)
    assert found["text/html"] == "<td>1</td>" * 20_000
    assert found["text/plain"] == "plain text " * 18_000
    assert json.loads(found["application/json"]) == {"values": list(range(40_000))}
