"""Kernels against a real server: whose they are, how they are lost, changed and looked at."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import KernelApi, Person, eventually, install_kernel
from tests.harness.runs import finish, printed, run, shows, start, works
from tests.harness.waiting import until
from tests.harness.ways import WAYS, served
from tests.tools.conftest import MakeGate, New, Tab, Warm

pytestmark = pytest.mark.anyio

OLD = {"output_type": "stream", "name": "stdout", "text": "of old\n"}


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    """A server with more kernels to choose from."""

    def make(*arguments: str, **options: Any) -> JupyterProcess:
        process = make_server(*arguments, **options)
        python = (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
        install_kernel(process.home, "snake", *python)
        bash = (sys.executable, "-m", "bash_kernel", "-f", "{connection_file}")
        install_kernel(process.home, "bash", *bash, language="bash")
        broken = (sys.executable, "-c", "raise SystemExit(3)", "{connection_file}")
        install_kernel(process.home, "broken", *broken)
        return process

    async with served(make, request.param) as process:
        yield process


def metadata_for(kernel: str) -> dict[str, Any]:
    return {"metadata": {"kernelspec": {"name": kernel, "display_name": kernel}}}


async def idle(client: AgentClient, path: str) -> dict[str, Any]:
    """The status of a notebook when Jupyter knows that its kernel is idle, later than we do."""

    async def look() -> dict[str, Any]:
        return await client.ask("get_notebook_status", path=path)

    return dict(await eventually(look, lambda facts: facts["kernel"]["state"] == "idle"))


def cells_of(person: Collaborator) -> list[dict[str, Any]]:
    return [person.cell(cell_id) for cell_id in person.ids()]


# -- whose kernel -----------------------------------------------------------------------------


async def test_the_agent_works_in_the_persons_own_kernel(
    server: JupyterProcess, api: KernelApi, ada: AgentClient, new: New
) -> None:
    path = new("print(theirs + 1)\nmine = 'of the agent'")
    before = await api.kernels()
    async with Person(server, path) as person:
        await person.execute("theirs = 41")
        assert printed(await run(ada, path, 0)) == "42"
        request = await person.send("print(mine)")
        await person.done(request)
        assert person.printed(request) == "of the agent\n"
        assert set(await api.kernels()) - set(before) == {person.kernel_id}


async def test_a_notebook_without_a_kernel_gets_its_own_and_the_person_finds_it(
    api: KernelApi, ada: AgentClient, new: New
) -> None:
    path = new("print('of the first run')", **metadata_for("snake"))
    before = await api.kernels()
    assert printed(await run(ada, path, 0)) == "of the first run"
    (session,) = await api.sessions(path)
    assert session["kernel"]["name"] == "snake"
    assert session["type"] == "notebook"
    opened = await api.open(path, "snake")
    assert opened["id"] == session["id"]
    assert opened["kernel"]["id"] == session["kernel"]["id"]
    assert set(await api.kernels()) - set(before) == {session["kernel"]["id"]}


async def test_a_notebook_that_names_no_kernel_gets_the_default_one_and_says_so(
    api: KernelApi, ada: AgentClient, server: JupyterProcess, new: New
) -> None:
    path = new("1", metadata={})
    await run(ada, path, 0)
    (session,) = await api.sessions(path)
    assert session["kernel"]["name"] == "python3"

    async def kernelspec() -> Any:
        return (await api.contents(path))["metadata"].get("kernelspec")

    spec = await eventually(kernelspec, lambda spec: spec and spec["name"])
    assert (spec["name"], spec["language"]) == ("python3", "python")


async def test_a_person_and_an_agent_that_start_at_once_share_one_kernel(
    server: JupyterProcess, api: KernelApi, ada: AgentClient, bob: AgentClient, new: New
) -> None:
    if server.standalone is not None:
        pytest.skip("a server without the extension may give each of them one")
    before = await api.kernels()
    for path in [new("1"), new("1"), new("1")]:
        first, second, told, other = await asyncio.gather(
            api.open(path),
            api.open(path),
            run(ada, path, 0),
            run(bob, path, 0),
        )
        assert told["state"] == other["state"] == "completed"
        # A kernel that is fresh publishes before everybody listens.
        assert printed(told) == printed(other) == "1"
        assert first["id"] == second["id"]
        (session,) = await api.sessions(path)
        assert session["kernel"]["id"] == first["kernel"]["id"]
        await asyncio.gather(*(api.open(path) for _ in range(2)))
    assert len(set(await api.kernels()) - set(before)) == 3


# -- kernels that are lost --------------------------------------------------------------------


async def test_a_kernel_that_dies_is_reported_at_once_and_the_next_run_works(
    server: JupyterProcess, ada: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    deadly = f"import os\nprint('last words', flush=True)\n{door.code}\nos._exit(1)"
    path = await warm(deadly, "print('next')")
    async with Collaborator(server.url, server.token, path) as ana:
        call = asyncio.create_task(
            ada.call("execute_notebook_cell", path=path, cell_id=0, timeout=100)
        )
        await shows(ana, 0, "last words\n")
        door.open()
        result = await call
        assert result.is_error
        error = result.structured_content["error"]
        assert (error["code"], error["fate"]) == ("kernel_lost", "died")
        assert "died" in error["message"]
        assert "variables are lost" in error["message"]
        assert result.structured_content["runs"][0]["state"] == "failed"
        assert "last words" in text_of(result)
        await ana.flush()
        assert ana.cell(0)["execution_state"] == "idle"
        assert "last words" in ana.cell(0)["outputs"][0]["text"]
        # Jupyter starts it again by itself; nothing of what ran is taken for running.
        seen = await eventually(
            lambda: ada.call("inspect_variables", path=path), lambda result: not result.is_error
        )
        assert seen.structured_content["variables"] == []
        await idle(ada, path)
        assert (await run(ada, path, 1))["state"] == "completed"


async def test_a_kernel_that_dies_is_reported_before_jupyter_notices(
    make_server: MakeServer,
) -> None:
    """From outside of a server nobody can know it sooner than Jupyter says so."""
    path = "dies.ipynb"
    rarely = {"KernelRestarter": {"time_to_dead": 300}}
    async with make_server(config=rarely) as server, agent(server) as ada:
        cells = [notebooks.code("dies", "import os\nos._exit(1)")]
        notebooks.write(Path(server.root) / path, notebooks.notebook(cells))
        result = await ada.call("execute_notebook_cell", path=path, cell_id="dies", timeout=200)
        assert result.structured_content["error"]["code"] == "kernel_lost"


async def test_a_kernel_that_ran_code_is_idle_although_jupyter_did_not_notice(
    make_server: MakeServer,
) -> None:
    """From outside of a server nobody reaches a kernel before Jupyter has noticed."""
    deaf = "--ServerApp.kernel_manager_class=tests.harness.held_kernels.DeafKernels"
    path = "a.ipynb"
    async with make_server(deaf) as server, agent(server) as ada, KernelApi(server) as api:
        notebooks.write(Path(server.root) / path, notebooks.notebook([notebooks.code("a", "1")]))
        await run(ada, path, 0)
        (kernel,) = (await api.kernels()).values()
        assert kernel["execution_state"] == "starting"
        assert (await ada.ask("get_notebook_status", path=path))["kernel"]["state"] == "idle"
        assert [each["state"] for each in (await ada.ask("list_kernels"))["running"]] == ["idle"]


async def test_a_restart_by_a_person_ends_running_and_waiting_runs(
    server: JupyterProcess,
    ada: AgentClient,
    bob: AgentClient,
    warm: Warm,
    gate: MakeGate,
) -> None:
    door = gate()
    last = notebooks.code("cell-2", "print('new')", outputs=[OLD], execution_count=7)
    path = await warm(door.code, "print('same batch')", last)
    async with (
        Person(server, path) as person,
        Collaborator(server.url, server.token, path) as ana,
    ):
        before = cells_of(ana)
        call = asyncio.create_task(
            ada.call("batch_execute_notebook_cells", path=path, cell_ids=[0, 1])
        )
        await door.reached()
        waiting = await run(bob, path, 2, timeout=0)
        await person.restart()
        result = await call
        error = result.structured_content["error"]
        assert (error["code"], error["fate"]) == ("kernel_lost", "restarted")
        assert "was restarted" in error["message"]
        first, second = result.structured_content["runs"]
        assert (first["state"], second["state"]) == ("failed", "cancelled")
        result = await bob.call("get_run", run_id=waiting["run_id"])
        assert result.structured_content["error"]["code"] == "kernel_lost"
        assert result.structured_content["state"] == "cancelled"
        assert "was restarted" in result.structured_content["reason"]
        assert "before this could run" in text_of(result)
        await ana.flush()
        await ana.until(lambda: ana.cell(0)["execution_state"] == "idle")
        await ana.until(lambda: cells_of(ana)[1:] == before[1:])
        assert (await run(bob, path, 2))["state"] == "completed"


async def test_the_end_of_a_session_ends_its_runs(
    api: KernelApi, ada: AgentClient, bob: AgentClient, new: New, gate: MakeGate
) -> None:
    door = gate()
    path = new(door.code, "print('next')")
    call = asyncio.create_task(ada.call("execute_notebook_cell", path=path, cell_id=0))
    await door.reached()
    waiting = await run(bob, path, 1, timeout=0)
    (session,) = await api.sessions(path)
    await api.close(session["id"])
    result = await call
    facts = result.structured_content
    if "error" in facts:
        assert (facts["error"]["code"], facts["error"]["fate"]) == ("kernel_lost", "gone")
        assert "was shut down" in facts["error"]["message"]
    else:  # Jupyter interrupts a kernel before it ends it, and the kernel may still say so
        assert facts["runs"][0]["state"] == "failed"
        assert "KeyboardInterrupt" in text_of(result)
    assert (await bob.refused("get_run", run_id=waiting["run_id"]))["code"] == "kernel_lost"
    status = await ada.ask("get_notebook_status", path=path)
    assert status["kernel"] is None
    assert status["running_cells"] == []
    assert (await run(ada, path, 1))["state"] == "completed"


# -- restarting -------------------------------------------------------------------------------


async def test_a_restart_forgets_variables_and_keeps_the_notebook(
    api: KernelApi, ada: AgentClient, bob: AgentClient, warm: Warm
) -> None:
    path = await warm("remembered = 1\nprint('kept')", "'remembered' in globals()")
    await run(ada, path, 0)
    (session,) = await api.sessions(path)
    text = await ada.say("restart_notebook_kernel", path=path)
    assert "all variables are gone" in text
    assert "kept\n" in await ada.say("get_notebook", path=path, include_outputs=True)
    told = await run(bob, path, 1)
    assert (printed(told), told["execution_count"]) == ("False", 1)
    assert (await api.sessions(path))[0]["kernel"]["id"] == session["kernel"]["id"]


async def test_a_restart_can_clear_outputs_and_run_everything(
    server: JupyterProcess, ada: AgentClient, warm: Warm
) -> None:
    stale = notebooks.code("cell-1", "1 / 0", outputs=[OLD], execution_count=7)
    late = notebooks.code("cell-3", "print('late')", outputs=[OLD], execution_count=8)
    path = await warm("print('first')", stale, notebooks.markdown("words", "#"), late)
    async with Collaborator(server.url, server.token, path) as ana:
        facts = await ada.ask("restart_notebook_kernel", path=path, clear_outputs=True, exec=True)
        assert facts["cleared"] == ["cell-1", "cell-3"]
        states = [told["state"] for told in facts["runs"]]
        assert states == ["completed", "failed", "cancelled"]
        assert facts["runs"][0]["execution_count"] == 1
        await ana.until(lambda: "ZeroDivisionError" in str(ana.cell(1)["outputs"]))
        assert ana.cell("cell-3")["outputs"] == []
        assert ana.cell("cell-3")["execution_count"] is None
        assert ana.sources() == ["print('first')", "1 / 0", "#", "print('late')"]


async def test_tools_that_need_a_kernel_say_if_there_is_none(
    api: KernelApi, ada: AgentClient, new: New
) -> None:
    path = new("1")
    for tool in ("restart_notebook_kernel", "interrupt_notebook_kernel", "inspect_variables"):
        error = await ada.refused(tool, path=path)
        assert error["code"] == "kernel_unavailable"
        assert "no running kernel" in error["message"]
    assert await api.sessions(path) == []


# -- another kernel ---------------------------------------------------------------------------


async def test_a_notebook_can_change_to_another_language(
    server: JupyterProcess, api: KernelApi, ada: AgentClient, new: New
) -> None:
    path = new("echo hi")
    before = await api.kernels()
    await run(ada, path, 0)
    (old,) = await api.sessions(path)
    text = await ada.say("change_notebook_kernel", path=path, kernel_name="bash")
    assert "now has the kernel bash" in text
    (session,) = await api.sessions(path)
    assert (session["id"], session["kernel"]["name"]) == (old["id"], "bash")
    assert set(await api.kernels()) - set(before) == {session["kernel"]["id"]}
    told = await run(ada, path, 0)
    assert (told["state"], printed(told)) == ("completed", "hi")
    error = await ada.refused("inspect_variables", path=path)
    assert error["code"] == "kernel_unavailable"
    assert "Python kernel" in error["message"]
    assert "run_code" in error["next_step"]

    async def kernelspec() -> Any:
        return (await api.contents(path))["metadata"]["kernelspec"]

    spec = await eventually(kernelspec, lambda spec: spec["name"] != "python3")
    assert spec == {"name": "bash", "display_name": "Bash", "language": "bash"}


async def test_a_change_of_kernel_ends_runs_in_the_old_one(
    ada: AgentClient, bob: AgentClient, new: New, gate: MakeGate
) -> None:
    door = gate()
    path = new(door.code, "print('next')")
    call = asyncio.create_task(ada.call("execute_notebook_cell", path=path, cell_id=0))
    await door.reached()
    await bob.ask("change_notebook_kernel", path=path, kernel_name="snake")
    error = (await call).structured_content["error"]
    assert error["code"] == "kernel_lost"
    assert (await run(ada, path, 1))["state"] == "completed"


async def test_an_unknown_kernel_is_refused_with_the_installed_ones(
    api: KernelApi, ada: AgentClient, new: New
) -> None:
    path = new("1")
    error = await ada.refused("change_notebook_kernel", path=path, kernel_name="cobol")
    assert error["code"] == "kernel_unavailable"
    assert {"python3", "snake", "bash"} <= set(error["installed"])
    assert "snake" in error["next_step"]
    assert await api.sessions(path) == []
    facts = await ada.ask("get_notebook_status", path=path)
    assert facts["kernel"] is None


async def test_a_notebook_for_a_kernel_that_is_not_installed_is_not_run(
    api: KernelApi, ada: AgentClient, new: New
) -> None:
    path = new("print(1)", **metadata_for("cobol"))
    before = set(await api.kernels())
    calls: list[tuple[str, dict[str, Any]]] = [
        ("execute_notebook_cell", {"cell_id": 0}),
        ("run_code", {"code": "1"}),
        ("batch_update_notebook_cells", {"updates": [{"index": 0, "content": "x"}]}),
        ("batch_insert_notebook_cells", {"cells": [{"content": "x"}]}),
        ("batch_delete_notebook_cells", {"cell_ids": [0], "exec": True}),
    ]
    for tool, arguments in calls:
        error = await ada.refused(tool, path=path, **arguments)
        assert error["code"] == "kernel_unavailable", tool
        assert "'cobol' is not installed here" in error["message"]
    assert await ada.sources(path) == ["print(1)"]
    assert set(await api.kernels()) == before
    await ada.ask("change_notebook_kernel", path=path, kernel_name="snake")
    assert (await run(ada, path, 0))["state"] == "completed"


async def test_a_kernel_that_dies_while_starting_is_reported_as_unavailable(
    ada: AgentClient, new: New
) -> None:
    path = new("print(1)", **metadata_for("broken"))
    async with asyncio.timeout(50):  # a kernel that says nothing is waited for for 60 s
        error = await ada.refused("execute_notebook_cell", path=path, cell_id=0)
    assert error["code"] == "kernel_unavailable"
    facts = await ada.ask("get_notebook_status", path=path)
    assert facts["running_cells"] == []


# -- outputs that are cleared -----------------------------------------------------------------


async def test_cleared_outputs_come_back_with_an_undo(
    server: JupyterProcess, ada: AgentClient, new: New
) -> None:
    outputs = [OLD, {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "x"}}]
    path = new(
        notebooks.code("cell-0", "1", outputs=outputs, execution_count=7),
        notebooks.code("cell-1", "2", outputs=[OLD], execution_count=8),
        notebooks.code("cell-2", "3"),
        notebooks.markdown("words", "#"),
    )
    async with Collaborator(server.url, server.token, path) as ana:
        before = cells_of(ana)
        facts = await ada.ask("clear_notebook_outputs", path=path, cell_ids=["cell-0"])
        assert facts["cleared"] == ["cell-0"]
        await ana.until(lambda: ana.cell(0)["outputs"] == [])
        assert ana.cell(0)["execution_count"] is None
        assert cells_of(ana)[1:] == before[1:]
        assert (await ada.ask("clear_notebook_outputs", path=path))["cleared"] == ["cell-1"]
        await ana.until(lambda: ana.cell(1)["outputs"] == [])
        assert (await ada.ask("clear_notebook_outputs", path=path))["cleared"] == []
        await ada.ask("undo_agent_changes", path=path, steps=2)
        await ana.until(lambda: cells_of(ana) == before)
        error = await ada.refused("clear_notebook_outputs", path=path, cell_ids=["words"])
        assert error["code"] == "not_code"
        assert cells_of(ana) == before


async def test_the_outputs_of_a_running_cell_are_not_cleared(
    server: JupyterProcess, ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    other = notebooks.code("cell-1", "1", outputs=[OLD], execution_count=7)
    path = await warm(f"print('before')\n{door.code}", other)
    told = await run(ada, path, 0, timeout=0)
    await door.reached()
    error = await bob.refused("clear_notebook_outputs", path=path, cell_ids=[0])
    assert error["code"] == "kernel_busy"
    assert (await bob.ask("clear_notebook_outputs", path=path))["cleared"] == ["cell-1"]
    door.open()
    assert printed(await ada.ask("get_run", run_id=told["run_id"], wait=20)) == "before"


# -- code that is not stored ------------------------------------------------------------------


async def test_scratch_code_leaves_nothing_in_the_notebook(
    server: JupyterProcess, ada: AgentClient, warm: Warm
) -> None:
    path = await warm("count = 1", notebooks.code("cell-1", "2", outputs=[OLD]))
    told = await run(ada, path, 0)
    async with Collaborator(server.url, server.token, path) as ana:
        assert ana.cell(0)["execution_count"] == told["execution_count"]
        file = Path(server.root) / path
        # Takes the place of the save that is due; skipped if the server takes something over.
        await eventually(ana.save, lambda status: status == "success")
        before, saved, events = cells_of(ana), file.read_bytes(), list[Any]()
        ana.notebook.ycells.observe_deep(events.extend)
        facts = await ada.ask("run_code", path=path, code="count += 1\nprint(count)\nlen(In)")
        (ran,) = facts["runs"]
        assert [output["text"] for output in ran["outputs"]] == [
            "2",
            str(told["execution_count"] + 1),
        ]
        assert "cell_id" not in ran
        assert "execution_count" not in ran
        failed = (await ada.ask("run_code", path=path, code="1 / 0"))["runs"][0]
        assert failed["state"] == "failed"
        await ana.flush()
        assert events == []
        assert cells_of(ana) == before
        await until(lambda: file.read_bytes() == saved)  # Jupyter writes in place
    after = await run(ada, path, 0)
    assert after["execution_count"] == told["execution_count"] + 1
    error = await ada.refused("run_code", path=path, code=" \n")
    assert error["code"] == "invalid_argument"
    error = await ada.refused("run_code", path=path, code="1", timeout=-1)
    assert error["code"] == "invalid_argument"


async def test_long_scratch_code_is_a_run_like_any_other(
    ada: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm("1")
    facts = await ada.ask("run_code", path=path, code=f"{door.code}\nprint('end')", timeout=0)
    (told,) = facts["runs"]
    await works(ada, told["run_id"])
    status = await ada.say("get_notebook_status", path=path)
    assert f"busy with {told['run_id']} of Ada (scratch code" in status
    door.open()
    assert printed(await ada.ask("get_run", run_id=told["run_id"], wait=20)) == "end"


# -- code that asks ---------------------------------------------------------------------------


async def test_an_input_request_can_be_answered(ada: AgentClient, warm: Warm, tab: Tab) -> None:
    path = await warm("name = input('Your name? ')\nprint('Hello', name)")
    ana = await tab(path)
    result = await ada.call("execute_notebook_cell", path=path, cell_id=0)
    (told,) = result.structured_content["runs"]
    assert (told["state"], told["prompt"]) == ("input_required", "Your name? ")
    assert 'asks for input: "Your name? "' in text_of(result)
    assert f'reply_to_input(run_id="{told["run_id"]}")' in text_of(result)
    await ana.until(lambda: ana.cell(0)["execution_state"] == "running")
    facts = await ada.ask("reply_to_input", run_id=told["run_id"], text="Grace 😀")
    assert facts["state"] == "completed"
    assert "prompt" not in facts
    await shows(ana, 0, "Your name? Grace 😀\nHello Grace 😀\n")
    error = await ada.refused("reply_to_input", run_id=told["run_id"], text="again")
    assert (error["code"], error["state"]) == ("no_input_wanted", "completed")


async def test_an_input_request_can_be_answered_once_and_only_while_it_waits(
    ada: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm(f"{door.code}\nfirst = input('1? ')\nsecond = input('2? ')\nfirst + second")
    run_id = await start(ada, path, 0, door)
    error = await ada.refused("reply_to_input", run_id=run_id, text="early")
    assert error["code"] == "no_input_wanted"
    door.open()
    assert (await finish(ada, run_id))["prompt"] == "1? "
    facts = await ada.ask("reply_to_input", run_id=run_id, text="a")
    assert (facts["state"], facts["prompt"]) == ("input_required", "2? ")
    facts = await ada.ask("reply_to_input", run_id=run_id, text="b")
    assert facts["outputs"][-1]["text"] == "'ab'"


async def test_an_input_request_can_be_interrupted(ada: AgentClient, warm: Warm) -> None:
    path = await warm("input('Well? ')", "'next'")
    told = await run(ada, path, 0)
    (told,) = (await ada.ask("interrupt_notebook_kernel", path=path))["runs"]
    assert told["state"] == "cancelled"
    assert "prompt" not in told
    assert (await run(ada, path, 1))["state"] == "completed"


async def test_an_agent_is_not_asked_for_a_secret(ada: AgentClient, warm: Warm) -> None:
    path = await warm("import getpass\ngetpass.getpass('Token: ')", "'next'")
    error = await ada.refused("execute_notebook_cell", path=path, cell_id=0)
    assert error["code"] == "secret_refused"
    assert "Token:" in error["message"]
    assert (await run(ada, path, 1))["state"] == "completed"


async def test_an_unanswered_input_request_ends_and_frees_the_kernel(
    make_server: MakeServer,
) -> None:
    async with make_server("--JupyterCollaborationMCP.input_timeout=1") as server:
        content = notebooks.notebook(
            [notebooks.code("ask", "input('Anyone? ')"), notebooks.code("next", "'next'")]
        )
        notebooks.write(Path(server.root) / "ask.ipynb", content)
        async with agent(server) as ada:
            told = await run(ada, "ask.ipynb", "ask")
            assert told["state"] == "input_required"

            async def look() -> Any:
                return await ada.call("get_run", run_id=told["run_id"], wait=0)

            result = await eventually(
                look, lambda result: result.structured_content["state"] != "input_required"
            )
            error = result.structured_content["error"]
            assert error["code"] == "input_missing"
            assert "'Anyone? '" in error["message"]
            assert "nobody answered for 1 s" in error["message"]
            assert result.structured_content["state"] == "failed"
            assert (await run(ada, "ask.ipynb", "next"))["state"] == "completed"


# -- looking ----------------------------------------------------------------------------------


async def test_interrupting_an_idle_kernel_reports_that_nothing_was_interrupted(
    ada: AgentClient, warm: Warm
) -> None:
    path = await warm("1")
    await run(ada, path, 0)
    facts = await ada.ask("interrupt_notebook_kernel", path=path)
    assert facts["interrupted"] is False
    assert "nothing was interrupted" in await ada.say("interrupt_notebook_kernel", path=path)


async def test_only_undefined_names_are_reported_if_none_is_defined(
    ada: AgentClient, warm: Warm
) -> None:
    path = await warm("there = 1")
    await run(ada, path, 0)
    text = await ada.say("inspect_variables", path=path, names=["nobody"])
    assert text.splitlines()[0] == "Not defined: nobody."


async def test_inspecting_variables_leaves_no_trace(ada: AgentClient, warm: Warm) -> None:
    path = await warm("numbers = [1, 2, 3]\nname = 'Grace'", "print(len(In), '_' in globals())")
    told = await run(ada, path, 0)
    facts = await ada.ask("inspect_variables", path=path, names=["numbers", "name", "nobody"])
    seen = {variable["name"]: variable for variable in facts["variables"]}
    assert seen["numbers"]["type"] == "list"
    assert "[1, 2, 3]" in seen["numbers"]["preview"]
    assert seen["name"]["type"] == "str"
    assert facts["missing"] == ["nobody"]
    every = await ada.ask("inspect_variables", path=path)
    assert {"numbers", "name"} <= {variable["name"] for variable in every["variables"]}
    after = await run(ada, path, 1)
    assert after["execution_count"] == told["execution_count"] + 1


async def test_variables_cannot_be_inspected_during_a_run(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm(door.code)
    told = await run(ada, path, 0, timeout=0)
    await door.reached()
    error = await bob.refused("inspect_variables", path=path)
    assert error["code"] == "kernel_busy"
    assert "busy with a run" in error["message"]
    door.open()
    await ada.ask("get_run", run_id=told["run_id"], wait=20)
    assert "variables" in await bob.ask("inspect_variables", path=path)


async def test_kernels_are_listed_with_their_notebooks(
    api: KernelApi, ada: AgentClient, new: New
) -> None:
    path = new("1", **metadata_for("snake"))
    await run(ada, path, 0)
    (session,) = await api.sessions(path)
    facts = await ada.ask("list_kernels")
    specs = {spec["name"]: spec for spec in facts["specs"]}
    assert specs["bash"] == {"name": "bash", "display_name": "Bash", "language": "bash"}
    assert facts["default"] == "python3"
    mine = [kernel for kernel in facts["running"] if kernel["path"] == path]
    assert [(kernel["id"], kernel["name"]) for kernel in mine] == [
        (session["kernel"]["id"], "snake")
    ]
    await idle(ada, path)
    text = await ada.say("list_kernels")
    assert "snake: Snake, python" in text
    assert "(default)" in text
    assert f"snake {session['kernel']['id']} idle, {path}" in text


async def test_the_status_shows_cells_kernel_people_and_runs(
    server: JupyterProcess, api: KernelApi, ada: AgentClient, new: New, gate: MakeGate
) -> None:
    door = gate()
    path = new(f"{door.code}", notebooks.markdown("words", "#"))
    facts = await ada.ask("get_notebook_status", path=path)
    assert (facts["path"], facts["cell_count"], facts["kernel"]) == (path, 2, None)
    assert (facts["runs"], facts["running_cells"]) == ([], [])
    assert "No kernel is running (the notebook is for python3)" in await ada.say(
        "get_notebook_status", path=path
    )
    assert await api.sessions(path) == []
    async with Collaborator(server.url, server.token, path, name="Ana") as ana:
        await ana.flush()  # she says who she is when she is in already
        run_id = await start(ada, path, 0, door)
        facts = await ada.ask("get_notebook_status", path=path)
        (session,) = await api.sessions(path)
        assert facts["kernel"]["id"] == session["kernel"]["id"]
        assert (facts["kernel"]["name"], facts["kernel"]["state"]) == ("python3", "busy")
        assert facts["kernel"]["busy_for"] == "Ada"
        assert facts["running_cells"] == ["cell-0"]
        assert facts["runs"] == [
            {
                "run_id": run_id,
                "state": "working",
                "agent": "Ada",
                "cell_id": "cell-0",
            }
        ]
        assert "Ana" in facts["people"]
        assert facts["last_modified"]
        text = await ada.say("get_notebook_status", path=path)
        assert f"busy with {run_id} of Ada ([0] cell-0" in text
        door.open()
        await finish(ada, run_id)
        facts = await idle(ada, path)
        assert facts["runs"] == []
