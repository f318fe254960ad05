"""The sample notebook of `scripts/lab`: it runs, and what it says is true."""

from __future__ import annotations

import re
import shutil

import nbformat
import pytest

from tests.harness.agents import agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import REPOSITORY, JupyterProcess

SAMPLE = REPOSITORY / "scripts" / "sample" / "welcome.ipynb"

NOTEBOOK = nbformat.read(SAMPLE, as_version=4)  # type: ignore[no-untyped-call]

#: Each sentence, and the test that shows it. One that is added or changed needs one.
SHOWN_BY = {
    "Welcome": "",
    "You and an AI agent can work in this notebook at the same time.": "work_in_it_together",
    "The agent is a collaborator like any other person: you see its name, its cursor and its edits "
    "as they happen, it can undo them without touching yours, and nothing you type is lost.": (
        "work_in_it_together"
    ),
    "`scripts/lab` printed how to connect your agent.": "says_how_to_connect",
    "Once it is connected, leave this page open and watch.": "work_in_it_together",
    "A cell for you": "",
    "Run it with Shift+Enter, and keep editing it while the agent works in the next one.": (
        "work_in_it_together"
    ),
    "A cell for the agent": "",
    "Ask it, for example:": "",
    "In welcome.ipynb, write the last cell so that it shows the areas of circles with radius 1 to "
    "5 as a small table, and run it.": "work_in_it_together",
    "You see the code as it is written and the output as it comes.": "work_in_it_together",
    "The agent runs its cells in this notebook's kernel, so your cells and its cells share their "
    "variables.": "work_in_it_together",
}

TABLE = """\
import math

print(f"yours: {radius}")
for r in range(1, 6):
    print(f"{r}  {math.pi * r**2:6.2f}")"""


def test_every_sentence_is_backed_by_a_test() -> None:
    said = []
    for cell in NOTEBOOK.cells:
        if cell.cell_type == "markdown":
            for paragraph in cell.source.split("\n\n"):
                said += re.split(r"(?<=[.:])\s+(?=[A-Z`])", paragraph.lstrip("#> "))
    assert said == list(SHOWN_BY)
    tests = [name for name in globals() if name.startswith("test_")]
    for shown_by in filter(None, SHOWN_BY.values()):
        assert any(name.endswith(shown_by) for name in tests), shown_by


def test_the_sample_is_a_valid_notebook_that_was_never_run() -> None:
    nbformat.validate(NOTEBOOK)
    assert len({cell.id for cell in NOTEBOOK.cells}) == len(NOTEBOOK.cells)
    code = [cell for cell in NOTEBOOK.cells if cell.cell_type == "code"]
    assert NOTEBOOK.cells[-1] is code[-1]
    assert all(cell.execution_count is None and not cell.outputs for cell in code)


def test_the_script_that_opens_it_says_how_to_connect() -> None:
    script = (REPOSITORY / "scripts" / "lab").read_text()
    assert "scripts/sample/welcome.ipynb" in script
    assert "config claude-code" in script  # test_lab.py uses what that prints


@pytest.mark.anyio
async def test_a_person_and_an_agent_work_in_it_together(server: JupyterProcess) -> None:
    shutil.copy(SAMPLE, server.root)
    path = SAMPLE.name
    async with (
        Collaborator(server.url, server.token, path, name="Ana") as ana,
        agent(server, "Ada") as ada,
    ):
        ran = await ada.ask("batch_execute_notebook_cells", path=path)
        assert [run["state"] for run in ran["runs"]] == ["completed", "completed"]
        (area,) = ran["runs"][0]["outputs"]
        assert area["text"] == "'A circle of radius 2 has an area of 12.57.'"

        before, own = ana.source("circle"), "  # mine"
        ana.insert("circle", len(before), own[:4])
        last = NOTEBOOK.cells[-1].id
        updates = [{"cell_id": last, "content": TABLE}]
        written = await ada.ask("batch_update_notebook_cells", path=path, updates=updates)
        ana.insert("circle", len(before) + 4, own[4:])
        areas = "yours: 2\n1    3.14\n2   12.57\n3   28.27\n4   50.27\n5   78.54"
        assert written["runs"][0]["outputs"][0]["text"] == areas

        await ana.until(
            lambda: any(
                state["user"]["name"] == "Ada" and state["cursors"]
                for state in ana.awareness.states.values()
                if "cursors" in state
            )
        )
        await ana.until(lambda: ana.source(last) == TABLE)
        await ana.until(lambda: ana.cell(last)["outputs"][0]["text"] == f"{areas}\n")

        await ana.flush()
        await ada.ask("undo_agent_changes", path=path)
        await ana.until(lambda: ana.source(last) == NOTEBOOK.cells[-1].source)
        assert ana.source("circle") == before + own
        await ana.synced()
        assert (await ada.sources(path))[2] == before + own
