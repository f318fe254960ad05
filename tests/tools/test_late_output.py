"""What threads and tasks put out after the end of the run that started them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from tests.harness.agents import AgentClient, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate, eventually
from tests.harness.runs import outputs_of, printed, printed_in, run, shows
from tests.tools.conftest import MakeGate, Tab, Warm

pytestmark = pytest.mark.anyio


def thread(gate: Gate, code: str) -> str:
    """Code that starts a thread, which goes on when the gate is opened."""
    body = indent(f"{gate.code}\n{code}", "    ")
    return f"import threading\ndef later():\n{body}\nthreading.Thread(target=later).start()"


def task(gate: Gate, code: str) -> str:
    """The same as a task of the kernel's event loop."""
    body = indent(f"{gate.code}\n{code}", "    ").replace("time.sleep", "await asyncio.sleep")
    return f"import asyncio\nasync def later():\n{body}\nleft = asyncio.create_task(later())"


async def run_shows(client: AgentClient, run_id: str, said: str) -> dict[str, Any]:
    """Wait until a run has put something out; what is said of it then."""

    async def look() -> dict[str, Any]:
        return await client.ask("get_run", run_id=run_id, wait=0)

    facts = await eventually(look, lambda facts: said in str(facts.get("outputs")))
    return dict(facts)


@pytest.mark.parametrize("later", [thread, task])
@pytest.mark.parametrize(("ending", "state"), [("", "completed"), ("1 / 0", "failed")])
async def test_late_output_reaches_the_cell_the_file_and_the_run(
    server: JupyterProcess,
    ada: AgentClient,
    warm: Warm,
    gate: MakeGate,
    tab: Tab,
    later: Callable[[Gate, str], str],
    ending: str,
    state: str,
) -> None:
    first, second = gate(), gate()
    code = later(first, f"print('late', flush=True)\n{second.code}\nprint('later', flush=True)")
    path = await warm(f"{code}\n{ending}", "print('between')")
    ana = await tab(path)
    told = await run(ada, path, 0)
    assert told["state"] == state
    await ana.flush()
    before = outputs_of(ana, 0)
    first.open()
    await ana.until(lambda: printed_in(ana, 0) == "late\n")
    if later is task:
        await run(ada, path, 1)
    else:  # of its output the kernel says that the latest request has caused it
        await ada.ask("inspect_variables", path=path, names=["later"])
    second.open()
    await ana.until(lambda: printed_in(ana, 0) == "late\nlater\n")
    assert printed_in(ana, 1) == ("between\n" if later is task else "")
    assert len(outputs_of(ana, 0)) == len(before) + 1
    assert ana.cell(0)["execution_count"] == told["execution_count"]
    assert ana.cell(0)["execution_state"] == "idle"
    facts = await ada.ask("get_run", run_id=told["run_id"])
    assert facts["state"] == state
    assert facts["outputs"][-1]["text"] == "late\nlater"
    assert len(facts["outputs"]) == len(before) + 1
    file = Path(server.root) / path

    async def saved() -> str:
        return file.read_text()

    await eventually(saved, lambda text: r"later\n" in text)


BEGINS = "print('begin', flush=True)\n"


async def agent_runs(ada: AgentClient, ana: Collaborator) -> None:
    await run(ada, ana.path, 0)


async def agent_clears(ada: AgentClient, ana: Collaborator) -> None:
    await ada.ask("clear_notebook_outputs", path=ana.path, cell_ids=[0])


async def person_runs(ada: AgentClient, ana: Collaborator) -> None:
    """As JupyterLab does it; the count is that of the kernel."""
    await person_clears(ada, ana)
    ana.notebook.ycells[0]["execution_count"] = 1_000
    await ana.flush()


async def person_clears(ada: AgentClient, ana: Collaborator) -> None:
    with ana.notebook.ydoc.transaction():
        cell = ana.notebook.ycells[0]
        cell["outputs"].clear()
        cell["execution_count"] = None
        cell["execution_state"] = "idle"
    await ana.flush()


async def person_deletes(ada: AgentClient, ana: Collaborator) -> None:
    ana.delete_cell(0)
    await ana.flush()


@pytest.mark.parametrize(
    ("act", "begins"),
    [
        (agent_runs, ""),
        (agent_runs, BEGINS),
        (agent_clears, BEGINS),
        (person_runs, ""),
        (person_runs, BEGINS),
        (person_clears, ""),
        (person_deletes, BEGINS),
    ],
)
async def test_a_cell_that_was_rerun_cleared_or_deleted_gets_no_late_output_of_the_old_run(
    ada: AgentClient,
    warm: Warm,
    gate: MakeGate,
    tab: Tab,
    act: Callable[[AgentClient, Collaborator], Awaitable[None]],
    begins: str,
) -> None:
    first, second = gate(), gate()
    # Only the thread of the first run prints.
    prints = "print('late', flush=True) if mine == 1 else None"
    code = f"{begins}count = globals().get('count', 0) + 1\nmine = count\n"
    body = task(first, prints).replace("def later():", "def later(mine=mine):")
    path = await warm(code + body, task(second, "print('witness', flush=True)"))
    await ada.ask("run_code", path=path, code="globals().pop('count', None)")
    ana = await tab(path)
    told = await run(ada, path, 0)
    await run(ada, path, 1)
    await ana.flush()
    await act(ada, ana)
    await ana.flush()
    before = [ana.cell(cell_id) for cell_id in ana.ids() if cell_id != "cell-1"]
    first.open()
    facts = await run_shows(ada, told["run_id"], "late")
    assert facts["state"] == "completed"
    second.open()
    # What was put out later is shown later.
    await ana.until(lambda: printed_in(ana, "cell-1") == "witness\n")
    await ana.flush()
    assert [ana.cell(cell_id) for cell_id in ana.ids() if cell_id != "cell-1"] == before


async def test_late_output_follows_a_moved_cell(
    ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm("1", "print('begin')\n" + thread(door, "print('late')"))
    ana = await tab(path)
    await run(ada, path, 1)
    await shows(ana, 1, "begin\n")
    await ada.ask("move_notebook_cells", path=path, cell_ids=[1], to_index=0)
    door.open()
    await ana.until(lambda: printed_in(ana, "cell-1") == "begin\nlate\n")
    assert ana.ids() == ["cell-1", "cell-0"]
    assert len(outputs_of(ana, "cell-1")) == 1


async def test_late_displays_and_clears_take_effect_too(
    ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    doors = [gate() for _ in range(3)]
    steps = [
        "handle.update('updated')",
        "display('another')",
        "clear_output(wait=True)\nprint('all that is left')",
    ]
    waiting = ["", *(f"{door.code}\n" for door in doors[1:])]
    code = "\n".join(wait + step for wait, step in zip(waiting, steps, strict=True))
    path = await warm(
        "from IPython.display import clear_output, display\nprint('begin')\n"
        f"handle = display('first', display_id=True)\n{task(doors[0], code)}"
    )
    ana = await tab(path)
    told = await run(ada, path, 0)
    doors[0].open()
    await ana.until(lambda: "updated" in str(outputs_of(ana, 0)))
    assert [output["output_type"] for output in outputs_of(ana, 0)] == ["stream", "display_data"]
    doors[1].open()
    await ana.until(lambda: "another" in str(outputs_of(ana, 0)))
    assert len(outputs_of(ana, 0)) == 3
    doors[2].open()
    await ana.until(lambda: outputs_of(ana, 0) and "left" in str(outputs_of(ana, 0)))
    (output,) = outputs_of(ana, 0)
    assert output["text"] == "all that is left\n"
    facts = await ada.ask("get_run", run_id=told["run_id"])
    assert printed(facts) == "all that is left"


async def test_scratch_code_shows_late_output_in_its_run(
    ada: AgentClient, warm: Warm, gate: MakeGate
) -> None:
    door = gate()
    path = await warm("1")
    facts = await ada.ask("run_code", path=path, code=thread(door, "print('late')"))
    (told,) = facts["runs"]
    assert told["state"] == "completed"
    assert "outputs" not in told
    door.open()
    facts = await run_shows(ada, told["run_id"], "late")
    assert (facts["state"], printed(facts)) == ("completed", "late")


async def test_late_output_that_is_too_large_is_kept_whole_in_a_side_file(
    ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door, end = gate(), gate()
    large = "print('x' * 79 + '\\n', end='')\n"
    code = f"for _ in range(15_000):\n    {large}{end.code}\nprint('the end')"
    path = await warm("print('begin')\n" + thread(door, code))
    ana = await tab(path)
    told = await run(ada, path, 0)
    door.open()
    await ana.until(lambda: "more came after the end of the run" in printed_in(ana, 0))
    assert len(outputs_of(ana, 0)) == 1
    assert 1_000_000 < len(printed_in(ana, 0)) < 1_001_000
    end.open()
    whole = len("begin\n") + 15_000 * 80 + len("the end\n")

    async def last_page() -> str:
        result = await ada.call("get_run", run_id=told["run_id"], output=0, offset=whole - 20)
        return text_of(result)

    text = await eventually(last_page, lambda text: "the end" in text)
    assert f"of {whole:,}" in text
    facts = await ada.ask("get_run", run_id=told["run_id"])
    assert facts["state"] == "completed"
    assert "the end" in json.dumps(facts)
