"""Runs against a real server and real kernels: what they show, how they wait, how they end."""

from __future__ import annotations

import asyncio
import json
import re
import textwrap
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, AgentClient, agent, text_of
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import KernelApi, Person, eventually
from tests.harness.runs import (
    busy_for_a_person,
    finish,
    outputs_of,
    printed_in,
    run,
    run_cells,
    shows,
    start,
    states_of,
    works,
)
from tests.tools.conftest import MakeGate, New, Tab, Warm

pytestmark = pytest.mark.anyio

OLD = {"output_type": "stream", "name": "stdout", "text": "of old\n"}


# -- what a run leaves in its cell ------------------------------------------------------------


async def test_a_cell_shows_everything_that_jupyterlab_would_show(
    server: JupyterProcess, api: KernelApi, ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    code = "import sys\nprint('öut', flush=True)\nprint('err', file=sys.stderr)\n40 + 2"
    path = await warm(notebooks.code("cell-0", code, outputs=[OLD], execution_count=7))
    ana = await tab(path)
    began = time.monotonic()
    told = await run(ada, path, "cell-0")
    assert told["state"] == "completed"
    assert told["index"] == 0
    assert 0 <= told["seconds"] <= time.monotonic() - began + 0.001  # it is rounded
    await ana.flush()
    cell = ana.cell(0)
    count = told["execution_count"]
    assert cell["execution_count"] == count
    assert cell["execution_state"] == "idle"
    result = {"text/plain": "42"}
    assert cell["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": "öut\n"},
        {"output_type": "stream", "name": "stderr", "text": "err\n"},
        {
            "output_type": "execute_result",
            "data": result,
            "metadata": {},
            "execution_count": count,
        },
    ]
    assert cell["metadata"]["trusted"] is True
    times = cell["metadata"]["execution"]
    assert set(times) == {
        "iopub.status.busy",
        "iopub.execute_input",
        "shell.execute_reply.started",
        "shell.execute_reply",
        "iopub.status.idle",
    }
    assert times["iopub.status.busy"] <= times["iopub.execute_input"] <= times["iopub.status.idle"]

    async def saved() -> dict[str, Any]:
        return await api.contents(path)

    content = await eventually(saved, lambda c: c["cells"][0]["execution_count"] == count)
    trusted = await api.notebook(path)
    assert trusted["cells"][0]["metadata"]["trusted"] is True
    assert [output["output_type"] for output in content["cells"][0]["outputs"]] == [
        "stream",
        "stream",
        "execute_result",
    ]

    async def written() -> Any:
        try:
            return json.loads((Path(server.root) / path).read_text())
        except ValueError:  # Jupyter writes in place
            return None

    file = await eventually(written, lambda file: file is not None)
    assert file["cells"][0]["execution_count"] == count
    assert "of old" not in str(file)
    nbformat.validate(file)


async def test_an_exception_is_an_outcome_and_not_an_error_of_the_call(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    path = await warm("1 / 0")
    ana = await tab(path)
    told = await run(ada, path, 0)
    assert told["state"] == "failed"
    await ana.flush()
    (output,) = outputs_of(ana, 0)
    assert (output["output_type"], output["ename"]) == ("error", "ZeroDivisionError")
    assert ana.cell(0)["execution_state"] == "idle"
    assert ana.cell(0)["execution_count"] == told["execution_count"]
    text = text_of(await ada.call("get_run", run_id=told["run_id"]))
    assert "FAILED" in text
    assert "ZeroDivisionError: division by zero" in text


async def test_output_appears_while_the_cell_runs(
    ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm(f"print('before')\n{door.code}\nprint('after')")
    ana = await tab(path)
    run_id = await start(ada, path, 0, door)
    await shows(ana, 0, "before\n")
    assert ana.cell(0)["execution_state"] == "running"
    assert ana.cell(0)["execution_count"] is None
    door.open()
    assert (await finish(ada, run_id))["state"] == "completed"
    await shows(ana, 0, "before\nafter\n")
    assert len(outputs_of(ana, 0)) == 1


async def test_displays_are_updated_and_cleared_outputs_disappear(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    code = (
        "from IPython.display import clear_output, display\n"
        "print('gone')\nclear_output()\n"
        "handle = display('first', display_id=True)\nhandle.update('second')"
    )
    path = await warm(code, "handle.update('third')")
    ana = await tab(path)
    await run(ada, path, 0)
    await ana.until(lambda: "second" in str(outputs_of(ana, 0)))
    assert len(outputs_of(ana, 0)) == 1
    await run(ada, path, 1)
    await ana.until(lambda: "third" in str(outputs_of(ana, 0)))


# -- code that does not end -------------------------------------------------------------------

PRINTING = "import time\nwhile True:\n    print('tick')\n    time.sleep(0.01)"


@pytest.mark.parametrize("code", ["while True: pass", PRINTING, "import time\ntime.sleep(100)"])
async def test_endless_code_is_answered_in_time_and_can_be_interrupted(
    ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab, code: str
) -> None:
    door = gate()
    door.open()
    path = await warm(f"{door.code}\n{code}", "print('next')")
    ana = await tab(path)
    run_id = await start(ada, path, 0, door)
    began = time.monotonic()
    # Joins the run, which is known to be under way; a call without a limit takes 30 s.
    async with asyncio.timeout(20):
        result = await ada.call("execute_notebook_cell", path=path, cell_id=0, timeout=0.5)
    assert time.monotonic() - began >= 0.5
    assert not result.is_error
    (told,) = result.structured_content["runs"]
    assert (told["state"], told["run_id"]) == ("working", run_id)
    assert "still running" in text_of(result)
    assert run_id in text_of(result)
    facts = await ada.ask("interrupt_notebook_kernel", path=path)
    (told,) = facts["runs"]
    assert (told["state"], told["reason"]) == ("cancelled", "it was interrupted")
    await ana.flush()
    assert ana.cell(0)["execution_state"] == "idle"
    assert "KeyboardInterrupt" in str(outputs_of(ana, 0)[-1])
    assert (await run(ada, path, 1))["state"] == "completed"
    await shows(ana, 1, "next\n")


@pytest.mark.parametrize("wait", ["time.sleep(0.01)", "await asyncio.sleep(0.01)"])
async def test_ten_simultaneous_interrupts_cancel_one_run_at_once(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate, tab: Tab, wait: str
) -> None:
    door = gate()
    door.open()
    path = await warm(f"{door.code}\nimport asyncio\nwhile True:\n    {wait}", "print('never')")
    ana = await tab(path)
    first, behind = await run_cells(bob, path, cell_ids=[0, 1], timeout=0)
    await door.reached()
    await works(ada, first["run_id"])
    calls = [agent.ask("interrupt_notebook_kernel", path=path) for agent in [ada, bob] * 5]
    answers = await asyncio.gather(*calls)
    # One that comes when all is over has nothing to interrupt.
    (*told,) = (run for facts in answers if facts["interrupted"] for run in facts["runs"])
    assert {run["run_id"] for run in told} == {first["run_id"]}
    assert {(run["state"], run["reason"]) for run in told} == {("cancelled", "it was interrupted")}
    assert all(run["seconds"] < 3 for run in told)  # a lost reply is waited for longer
    facts = await finish(bob, behind["run_id"])
    assert (facts["state"], facts["reason"]) == ("cancelled", "a cell before it failed")
    await ana.until(lambda: [ana.cell(n)["execution_state"] for n in (0, 1)] == ["idle"] * 2)
    assert (await run(ada, path, 1))["state"] == "completed"


async def test_code_that_swallows_the_interrupt_needs_a_restart(
    ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    # It is at the gate when nothing can be interrupted any more.
    stubborn = (
        f"while True:\n    try:\n{textwrap.indent(door.code, ' ' * 8)}\n        time.sleep(1)\n"
        "    except KeyboardInterrupt:\n        pass"
    )
    door.open()
    path = await warm(stubborn, "print('next')")
    ana = await tab(path)
    run_id = await start(ada, path, 0, door)
    error = await ada.refused("interrupt_notebook_kernel", path=path)
    assert error["code"] == "interrupt_ignored"
    assert "restart_notebook_kernel" in error["next_step"]
    assert (await ada.ask("get_run", run_id=run_id, wait=0))["state"] == "working"
    await ada.ask("restart_notebook_kernel", path=path)
    error = await ada.refused("get_run", run_id=run_id, wait=5)
    assert error["code"] == "kernel_lost"
    assert "was restarted" in error["message"]
    await ana.until(lambda: ana.cell(0)["execution_state"] == "idle")
    assert (await run(ada, path, 1))["state"] == "completed"


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_run_survives_the_client_that_started_it(
    server: JupyterProcess, ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab, mode: str
) -> None:
    door = gate()
    path = await warm(f"{door.code}\nprint('arrived')")
    ana = await tab(path)
    async with agent(server, "Bob", mode=mode) as bob:
        call = asyncio.create_task(run(bob, path, 0, timeout=60))
        await door.reached()
        call.cancel()
        await asyncio.wait([call])

    async def look() -> dict[str, Any]:
        return await ada.ask("get_notebook_status", path=path)

    status = await eventually(look, lambda facts: states_of(facts["runs"]) == ["working"])
    (told,) = status["runs"]
    assert told["agent"] == "Bob"
    facts = await ada.ask("get_run", run_id=told["run_id"], wait=0)
    assert facts["state"] == "working"
    door.open()
    await shows(ana, 0, "arrived\n")
    assert (await finish(ada, told["run_id"]))["state"] == "completed"


async def test_a_long_call_reports_its_progress(
    ada: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm(f"print('12345', flush=True)\n{door.code}")
    reports: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, message))
        door.open()

    run_id = await start(ada, path, 0, door)
    arguments = {"path": path, "cell_id": 0}
    result = await ada.client.call_tool("execute_notebook_cell", arguments, progress_callback=note)
    (told,) = result.structured_content["runs"]
    assert (told["state"], told["run_id"]) == ("completed", run_id)
    progress, message = reports[0]
    assert progress >= 5
    assert message is not None
    assert re.search(r"has been working for \d+ s, 6 characters printed", message)


# -- asking for a run -------------------------------------------------------------------------


async def test_a_run_can_be_waited_for_later_and_by_another_agent(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm(f"{door.code}\n'the result'")
    run_id = await start(ada, path, 0, door)
    async with asyncio.timeout(20):  # else it waits for 30 s
        facts = await ada.ask("get_run", run_id=run_id, wait=0)
    assert (facts["state"], facts["cell_id"], facts["path"]) == ("working", "cell-0", path)
    waiting = asyncio.create_task(bob.say("get_run", run_id=run_id, wait=20))
    door.open()
    text = await waiting
    assert "completed" in text
    assert "the result" in text
    facts = await ada.ask("get_run", run_id=run_id)
    assert facts["state"] == "completed"


async def test_an_unknown_run_is_reported_as_unknown(ada: AgentClient) -> None:
    for tool, more in (("get_run", {}), ("reply_to_input", {"text": "x"})):
        error = await ada.refused(tool, run_id="run-000000000000", **more)
        assert error["code"] == "run_not_found"


async def test_a_cell_that_is_already_running_is_not_run_again(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm("times = 0", f"times += 1\n{door.code}", "print(times)")
    await run(ada, path, 0)
    run_id = await start(ada, path, 1, door)
    assert (await run(bob, path, 1, timeout=0))["run_id"] == run_id
    (again,) = await run_cells(bob, path, cell_ids=[1, "cell-1"], timeout=0)
    assert again["run_id"] == run_id
    door.open()
    await finish(ada, run_id)
    counted = await run(ada, path, 2)
    assert counted["outputs"][0]["text"] == "1"
    assert (await run(ada, path, 1))["run_id"] != run_id


async def test_an_edited_cell_runs_again_after_its_current_run(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm("order = []", f"order.append('first')\n{door.code}")
    ana = await tab(path)
    await run(ada, path, 0)
    first = await start(ada, path, 1, door)
    await bob.write(path, "cell-1", "order.append('second')\nprint(order)")
    second = await run(bob, path, 1, timeout=0)
    assert second["run_id"] != first
    assert second["state"] == "queued"
    door.open()
    assert (await finish(bob, second["run_id"]))["state"] == "completed"
    assert (await finish(bob, first))["state"] == "completed"
    await ana.flush()
    assert printed_in(ana, 1) == "['first', 'second']\n"
    assert ana.cell(1)["execution_state"] == "idle"


# -- several runs -----------------------------------------------------------------------------


async def test_runs_of_two_agents_are_queued_and_each_output_goes_to_its_own_cell(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm(
        f"order = [0]\n{door.code}",
        *(f"order.append({n})\nprint({n}, order)" for n in range(1, 7)),
    )
    ana = await tab(path)
    await start(ada, path, 0, door)
    calls = [
        asyncio.create_task(run_cells(ada, path, cell_ids=[1, 3, 5])),
        asyncio.create_task(run_cells(bob, path, cell_ids=[2, 4, 6])),
    ]

    async def status() -> dict[str, Any]:
        return await ada.ask("get_notebook_status", path=path)

    facts = await eventually(status, lambda facts: len(facts["runs"]) == 7)
    assert states_of(facts["runs"]) == ["working"] + ["queued"] * 6
    assert facts["running_cells"] == [f"cell-{n}" for n in range(7)]
    assert facts["kernel"]["busy_for"] == "Ada"
    await ana.until(lambda: ana.cell(6)["execution_state"] == "running")
    expected = [int(told["cell_id"][-1]) for told in facts["runs"]]
    door.open()
    for call in calls:
        assert states_of(await call) == ["completed"] * 3
    assert expected in ([0, 1, 3, 5, 2, 4, 6], [0, 2, 4, 6, 1, 3, 5])
    await ana.flush()
    for place, number in enumerate(expected[1:], 2):
        assert printed_in(ana, number) == f"{number} {expected[:place]}\n"
        assert len(outputs_of(ana, number)) == 1
        assert ana.cell(number)["execution_state"] == "idle"


async def test_a_batch_stops_at_the_first_error_and_leaves_the_rest_unchanged(
    ada: AgentClient, warm: Warm, tab: Tab
) -> None:
    last = notebooks.code("cell-2", "print('new')", outputs=[OLD], execution_count=7)
    path = await warm("print('fine')", "1 / 0", last)
    ana = await tab(path)
    before = ana.cell(2)
    text = await ada.say("batch_execute_notebook_cells", path=path)
    assert "was not run: a cell before it failed" in text
    await ana.until(lambda: outputs_of(ana, 1) and ana.cell(2) == before)
    runs = await run_cells(ada, path)
    assert states_of(runs) == ["completed", "failed", "cancelled"]
    assert runs[2]["reason"] == "a cell before it failed"
    assert "execution_count" not in runs[2]
    await ana.flush()
    await ana.until(lambda: ana.cell(2) == before)
    runs = await run_cells(ada, path, stop_on_error=False)
    assert states_of(runs) == ["completed", "failed", "completed"]
    await shows(ana, 2, "new\n")


async def test_cells_to_run_can_be_selected_by_range_or_id_or_default_to_all(
    ada: AgentClient, warm: Warm
) -> None:
    path = await warm("1", notebooks.markdown("words", "# no code"), "2", "3")

    async def ran(**choice: Any) -> list[str]:
        return [told["cell_id"] for told in await run_cells(ada, path, **choice)]

    assert await ran() == ["cell-0", "cell-2", "cell-3"]
    assert await ran(start_index=0, end_index=3) == ["cell-0", "cell-2"]
    assert await ran(start_index=2) == ["cell-2"]
    assert await ran(start_index=-2, end_index=4) == ["cell-2", "cell-3"]
    assert await ran(cell_ids=["cell-3", 0]) == ["cell-3", "cell-0"]


async def test_a_batch_that_times_out_reports_what_is_done_and_what_is_queued(
    ada: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm("print('done')", door.code, "print('later')")
    for timeout in (1, 5, 25):  # until it is enough for the first cell and a bit of the second
        runs = await run_cells(ada, path, timeout=timeout)
        if states_of(runs) == ["completed", "working", "queued"]:
            break
        door.open()
        await finish(ada, runs[2]["run_id"])
        door.close()
    else:
        raise AssertionError(states_of(runs))
    door.open()
    assert (await finish(ada, runs[2]["run_id"]))["state"] == "completed"


async def test_an_interrupt_cancels_the_rest_of_its_batch_but_not_other_runs(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm(door.code, "print('same batch')", "print('of Bob')")
    runs = await run_cells(ada, path, cell_ids=[0, 1], timeout=0)
    await door.reached()
    await works(ada, runs[0]["run_id"])
    other = await run(bob, path, 2, timeout=0)
    await ada.ask("interrupt_notebook_kernel", path=path)
    assert (await finish(ada, runs[1]["run_id"]))["state"] == "cancelled"
    assert (await finish(bob, other["run_id"]))["state"] == "completed"


# -- cells that change while they run ---------------------------------------------------------


async def test_output_follows_a_moved_cell(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm(f"print('before')\n{door.code}\nprint('after')", "'other'", "'last'")
    ana = await tab(path)
    run_id = await start(ada, path, 0, door)
    await shows(ana, 0, "before\n")
    await bob.ask("move_notebook_cells", path=path, cell_ids=["cell-0"], to_index=-1)
    door.open()
    assert (await finish(ada, run_id))["index"] == 2
    await ana.flush()
    assert ana.ids() == ["cell-1", "cell-2", "cell-0"]
    assert printed_in(ana, 2) == "before\nafter\n"
    assert len(outputs_of(ana, 2)) == 1
    assert ana.cell(2)["execution_state"] == "idle"
    assert outputs_of(ana, 0) == []


async def test_text_that_a_person_types_into_a_running_cell_stays(
    ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm(f"{door.code}\nprint('as it was')")
    ana = await tab(path)
    run_id = await start(ada, path, 0, door)
    await ana.type(0, None, "\nprint('added')")
    await ana.flush()
    door.open()
    assert (await finish(ada, run_id))["state"] == "completed"
    await shows(ana, 0, "as it was\n")
    assert ana.source(0).endswith("print('added')")
    assert await ada.sources(path) == [ana.source(0)]


async def test_the_run_of_a_cell_deleted_while_running_completes(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm(f"print('before')\n{door.code}\nkept = 'value'", "print(kept)")
    ana = await tab(path)
    run_id = await start(ada, path, 0, door)
    await bob.ask("batch_delete_notebook_cells", path=path, cell_ids=["cell-0"])
    door.open()
    assert (await finish(ada, run_id))["state"] == "completed"
    assert "(deleted)" in await ada.say("get_run", run_id=run_id)
    assert (await run(ada, path, "cell-1"))["state"] == "completed"
    await shows(ana, 0, "value\n")
    assert ana.ids() == ["cell-1"]


async def test_a_cell_deleted_while_running_comes_back_without_a_star(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm(door.code)
    ana = await tab(path)
    run_id = await start(ada, path, 0, door)
    await bob.ask("batch_delete_notebook_cells", path=path, cell_ids=["cell-0"])
    await ana.until(lambda: ana.ids() == [])
    door.open()
    await finish(ada, run_id)
    await bob.ask("undo_agent_changes", path=path)
    await ana.flush()
    assert ana.ids() == ["cell-0"]
    assert ana.cell(0)["execution_state"] == "idle"


async def test_a_cell_deleted_before_its_turn_is_not_run(
    ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm(f"ran = False\n{door.code}", "ran = True", "print(ran)")
    ana = await tab(path)
    await start(ada, path, 0, door)
    waiting = await run(ada, path, 1, timeout=0)
    after = await run(bob, path, 2, timeout=0)
    ana.delete_cell("cell-1")
    await ana.flush()
    door.open()
    assert (await finish(ada, after["run_id"]))["outputs"][0]["text"] == "False"
    error = await ada.refused("get_run", run_id=waiting["run_id"])
    assert error["code"] == "cell_not_found"


async def test_only_new_output_appears_after_a_person_cleared_the_outputs(
    ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    first, second = gate(), gate()
    code = f"print('one')\n{first.code}\nprint('two')\n{second.code}\nprint('three')\n'end'"
    path = await warm(code)
    ana = await tab(path)
    run_id = await start(ada, path, 0, first)
    await shows(ana, 0, "one\n")
    ana.notebook.ycells[0]["outputs"].clear()
    await ana.flush()
    first.open()
    await shows(ana, 0, "two\n")
    await second.reached()
    second.open()
    assert (await finish(ada, run_id))["state"] == "completed"
    await ana.until(lambda: len(outputs_of(ana, 0)) == 2)
    assert printed_in(ana, 0) == "two\nthree\n"
    assert outputs_of(ana, 0)[1]["data"] == {"text/plain": "'end'"}


# -- beside a person --------------------------------------------------------------------------


async def test_an_agents_run_waits_for_a_persons_run(
    server: JupyterProcess, ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm("print(theirs)")
    ana = await tab(path)
    async with Person(server, path) as person:
        request = await person.send(f"{door.code}\ntheirs = 'of the person'")
        await door.reached()
        assert "busy" in await busy_for_a_person(ada, path)
        told = await run(ada, path, 0, timeout=0)
        assert told["state"] == "queued"
        text = await ada.say("get_notebook_status", path=path)
        assert "busy with something that no agent started; 1 of agents wait" in text
        facts = await ada.ask("get_notebook_status", path=path)
        assert facts["kernel"]["state"] == "busy"
        assert states_of(facts["runs"]) == ["queued"]
        assert (await ada.refused("inspect_variables", path=path))["code"] == "kernel_busy"
        error = await ada.refused("interrupt_notebook_kernel", path=path)
        assert error["code"] == "kernel_busy"
        assert "force=true" in error["next_step"]
        door.open()
        assert (await finish(ada, told["run_id"]))["state"] == "completed"
        assert (await person.done(request))["status"] == "ok"
    await shows(ana, 0, "of the person\n")


async def test_a_kernel_kept_busy_by_a_person_is_recognized_at_once(
    server: JupyterProcess, ada: AgentClient, new: New, gate: MakeGate
) -> None:
    door = gate()
    path = new("print('mine')")
    async with Person(server, path) as person:
        await person.send(door.code)
        await door.reached()
        assert "busy with something" in await busy_for_a_person(ada, path)
        facts = await ada.ask("get_notebook_status", path=path)
        assert facts["kernel"]["busy_for"] == "somebody else"
        assert (await ada.refused("inspect_variables", path=path))["code"] == "kernel_busy"
        assert (await ada.refused("interrupt_notebook_kernel", path=path))["code"] == "kernel_busy"
        told = await run(ada, path, 0, timeout=0)
        assert told["state"] == "queued"
        door.open()
        assert (await finish(ada, told["run_id"]))["state"] == "completed"


async def test_a_persons_code_is_interrupted_only_by_force_and_the_agents_run_continues(
    server: JupyterProcess, ada: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm("print('still run')")
    await run(ada, path, 0)
    async with Person(server, path) as person:
        request = await person.send(door.code)
        await door.reached()
        await busy_for_a_person(ada, path)
        told = await run(ada, path, 0, timeout=0)
        assert (await ada.refused("interrupt_notebook_kernel", path=path))["code"] == "kernel_busy"
        await ada.ask("interrupt_notebook_kernel", path=path, force=True)
        reply = await person.done(request)
        assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
        # The kernel throws away all that waits when something fails; the agent's run is made.
        facts = await finish(ada, told["run_id"])
        assert facts["state"] == "completed"
        assert facts["outputs"][0]["text"] == "still run"


async def test_a_run_survives_the_failure_of_a_persons_cell_before_it(
    server: JupyterProcess, ada: AgentClient, bob: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm("count = 0", "count += 1\nprint(count)", "count += 10\nprint(count)")
    await run(ada, path, 0)
    async with Person(server, path) as person:
        request = await person.send(f"{door.code}\n1 / 0")
        await door.reached()
        told = await run(ada, path, 1, timeout=0)
        other = await run(bob, path, 2, timeout=0)
        door.open()
        assert (await person.done(request))["ename"] == "ZeroDivisionError"
        facts = await finish(ada, told["run_id"])
        assert facts["state"] == "completed"
        assert facts["outputs"][0]["text"] == "1"
        facts = await finish(ada, other["run_id"])
        assert facts["outputs"][0]["text"] == "11"


async def test_an_agents_error_does_not_cancel_a_persons_queued_runs(
    server: JupyterProcess, ada: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm(f"{door.code}\n1 / 0")
    async with Person(server, path) as person:
        run_id = await start(ada, path, 0, door)
        request = await person.send("print('mine')")
        door.open()
        assert (await finish(ada, run_id))["state"] == "failed"
        assert (await person.done(request))["status"] == "ok"
        assert person.printed(request) == "mine\n"


# -- running after an edit, and before a deletion ---------------------------------------------


async def test_inserted_cells_run_in_order(ada: AgentClient, warm: Warm) -> None:
    path = await warm("seen = []")
    await run(ada, path, 0)
    cells = [
        {"content": "seen.append('a')"},
        {"content": "# words", "cell_type": "markdown"},
        {"content": "seen.append('b')\nprint(seen)"},
    ]
    facts = await ada.ask("batch_insert_notebook_cells", path=path, cells=cells)
    ids = [cell["id"] for cell in facts["cells"]]
    assert [told["cell_id"] for told in facts["runs"]] == [ids[0], ids[2]]
    assert facts["runs"][1]["outputs"][0]["text"] == "['a', 'b']"


async def test_updated_cells_run_in_the_order_of_the_updates(ada: AgentClient, warm: Warm) -> None:
    path = await warm("seen = []", "x", "y", notebooks.markdown("words", "z"))
    await run(ada, path, 0)
    updates = [
        {"index": 2, "content": "seen.append('a')"},
        {"index": 1, "content": "seen.append('b')\nprint(seen)"},
        {"index": 3, "content": "only words"},
    ]
    facts = await ada.ask("batch_update_notebook_cells", path=path, updates=updates)
    assert [told["index"] for told in facts["runs"]] == [2, 1]
    assert facts["runs"][1]["outputs"][0]["text"] == "['a', 'b']"
    updates = [{"index": 3, "content": "other words"}]
    facts = await ada.ask("batch_update_notebook_cells", path=path, updates=updates)
    assert "runs" not in facts


async def test_cells_are_deleted_only_after_they_ran_successfully(
    ada: AgentClient, warm: Warm
) -> None:
    path = await warm("done = ['a']", notebooks.markdown("words", "#"), "1 / 0", "print(done)")
    facts = await ada.ask(
        "batch_delete_notebook_cells", path=path, start_index=0, end_index=3, exec=True
    )
    assert facts["deleted"] == []
    assert states_of(facts["runs"]) == ["completed", "failed"]
    assert len(await ada.sources(path)) == 4
    facts = await ada.ask(
        "batch_delete_notebook_cells", path=path, start_index=0, end_index=2, exec=True
    )
    assert facts["deleted"] == ["cell-0", "words"]
    assert states_of(facts["runs"]) == ["completed"]
    assert await ada.sources(path) == ["1 / 0", "print(done)"]
    assert (await run(ada, path, 1))["outputs"][0]["text"] == "['a']"


# -- calls that make no sense -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"cell_id": "words"}, "not_code"),
        ({"cell_id": "nobody"}, "cell_not_found"),
        ({"cell_id": 9}, "cell_not_found"),
        ({"cell_id": "cell-0", "if_revision": "000000"}, "stale_revision"),
        ({"cell_id": "cell-0", "if_revision": "0000"}, "invalid_argument"),
        ({"cell_id": "cell-0", "timeout": -1}, "invalid_argument"),
        ({"cell_id": "cell-0", "timeout": "long"}, "invalid_argument"),
        ({}, "invalid_argument"),
    ],
)
async def test_a_cell_that_cannot_be_run_is_refused_and_no_kernel_is_started(
    api: KernelApi, ada: AgentClient, new: New, arguments: dict[str, Any], code: str
) -> None:
    path = new("print('never')", notebooks.markdown("words", "# no code"))
    error = await ada.refused("execute_notebook_cell", path=path, **arguments)
    assert error["code"] == code
    assert await api.sessions(path) == []
    status = await ada.ask("get_notebook_status", path=path)
    assert status["running_cells"] == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"cell_ids": ["cell-0", "words"]}, "not_code"),
        ({"cell_ids": ["cell-0", "nobody"]}, "cell_not_found"),
        ({"cell_ids": []}, "invalid_argument"),
        ({"cell_ids": [0], "start_index": 0}, "invalid_argument"),
        ({"end_index": 1}, "invalid_argument"),
        ({"start_index": 1, "end_index": 1}, "invalid_argument"),
        ({"start_index": 0, "end_index": 9}, "invalid_argument"),
        ({"start_index": 1, "end_index": 2}, "not_code"),
        ({"start_index": 1}, "not_code"),
        ({"cell_ids": [0], "if_revision": ["000000"]}, "stale_revision"),
        ({"cell_ids": [0], "if_revision": ["0000", "0000"]}, "invalid_argument"),
    ],
)
async def test_a_batch_with_one_bad_cell_is_refused_whole(
    api: KernelApi, ada: AgentClient, new: New, arguments: dict[str, Any], code: str
) -> None:
    path = new("print('never')", notebooks.markdown("words", "# no code"))
    error = await ada.refused("batch_execute_notebook_cells", path=path, **arguments)
    assert error["code"] == code
    assert await api.sessions(path) == []


async def test_a_guarded_run_happens_only_at_the_revision_that_was_read(
    ada: AgentClient, warm: Warm
) -> None:
    path = await warm("print('first')")
    (cell,) = (await ada.ask("get_notebook", path=path))["cells"]
    told = await run(ada, path, 0, if_revision=cell["revision"])
    assert told["state"] == "completed"
    await ada.write(path, "cell-0", "print('second')")
    error = await ada.refused(
        "execute_notebook_cell", path=path, cell_id=0, if_revision=cell["revision"]
    )
    assert error["code"] == "stale_revision"
    assert error["source"] == "print('second')"
    assert "print('first')" in error["diff"]


async def test_an_empty_cell_completes(ada: AgentClient, warm: Warm) -> None:
    path = await warm("", "print('next')")
    assert states_of(await run_cells(ada, path)) == ["completed", "completed"]


async def test_a_write_level_connection_cannot_run_code(
    server: JupyterProcess, api: KernelApi, new: New
) -> None:
    path = new("print('never')")
    async with agent(server, permission="write") as writer:
        names = {tool.name for tool in (await writer.client.list_tools()).tools}
        assert not names & {
            "execute_notebook_cell",
            "batch_execute_notebook_cells",
            "run_code",
            "inspect_variables",
            "interrupt_notebook_kernel",
            "restart_notebook_kernel",
            "change_notebook_kernel",
            "reply_to_input",
        }
        calls: list[tuple[str, dict[str, Any]]] = [
            ("execute_notebook_cell", {"cell_id": 0}),
            ("run_code", {"code": "1"}),
            ("batch_update_notebook_cells", {"updates": [{"index": 0, "content": "x"}]}),
            ("batch_insert_notebook_cells", {"cells": [{"content": "x"}]}),
            ("batch_delete_notebook_cells", {"cell_ids": [0], "exec": True}),
        ]
        for tool, arguments in calls:
            error = await writer.refused(tool, path=path, **arguments)
            assert (error["code"], error["level"]) == ("permission_refused", "execute"), tool
        assert await writer.sources(path) == ["print('never')"]
        facts = await writer.ask(
            "batch_insert_notebook_cells", path=path, cells=[{"content": "x"}], exec=False
        )
        assert "runs" not in facts
    assert await api.sessions(path) == []
