"""What a person sees in JupyterLab while an agent runs cells of their notebook.

One server and one page for all tests; each has a notebook, a kernel and a directory of its own.
Cells wait for files that the test makes, so that nothing depends on how fast the machine is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import WebSocket

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.browser import EXPOSE_APP, LabPage, open_notebook
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(120)]

# JupyterLab draws what replaces an output at the end, and changes the text of the last one only.
#: Characters that a cell may print before the rest is put aside.
STREAM = 2_000

PICTURE = """\
import struct, zlib
from IPython.display import HTML, Image, display

def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

head = struct.pack(">IIBBBBB", 80, 40, 8, 2, 0, 0, 0)
rows = zlib.compress((b"\\0" + b"\\x20\\x80\\xff" * 80) * 40)
png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
display(Image(png))
script = "document.currentScript.previousSibling.textContent = 6 * 7"
display(HTML(f"<p>0</p><script>{script}</script>"))
"""


def wait_for(name: str) -> str:
    """Code that goes on when a file is there."""
    return f"import pathlib, time\nwhile not pathlib.Path({name!r}).exists(): time.sleep(0.02)\n"


@dataclass
class Scene:
    """A notebook that a person looks at and an agent works in."""

    server: JupyterProcess
    page: LabPage
    ada: AgentClient
    path: str

    async def start(self, *cell_ids: str) -> list[str]:
        """Let the agent run cells; returns the runs at once."""
        answer = await self.ada.ask(
            "batch_execute_notebook_cells", path=self.path, cell_ids=list(cell_ids), timeout=0
        )
        return [run["run_id"] for run in answer["runs"]]

    async def end(self, run_id: str) -> dict[str, Any]:
        """How a run has ended."""
        result = await self.ada.call("get_run", run_id=run_id, wait=20)
        run: dict[str, Any] = result.structured_content
        return run

    def go(self, name: str) -> None:
        """Make the file that a cell waits for."""
        (Path(self.server.root) / self.path).with_name(name).touch()


Show = Callable[..., Awaitable[Scene]]


@pytest.fixture(scope="module")
async def lab(
    make_server: MakeServer, anyio_backend: str
) -> AsyncIterator[tuple[JupyterProcess, LabPage, AgentClient]]:
    extensions = {"jupyterlab": True, "notebook_shim": True}
    limit = f"--JupyterCollaborationMCP.max_stream_size={STREAM}"
    server = make_server(EXPOSE_APP, limit, app="lab", extensions=extensions)
    first = notebooks.notebook([notebooks.code("a", "1")])
    notebooks.write(Path(server.root) / "first.ipynb", first)
    async with (
        server,
        open_notebook(server, "first.ipynb") as page,
        agent(server, "Ada") as ada,
    ):
        yield server, page, ada


@pytest.fixture
async def show(
    lab: tuple[JupyterProcess, LabPage, AgentClient], request: pytest.FixtureRequest
) -> AsyncIterator[Show]:
    """Opens a notebook of code cells, given by id, in the person's page."""
    server, page, ada = lab
    page.errors.clear()

    async def open_new(**sources: str) -> Scene:
        directory = Path(server.root) / request.node.name
        directory.mkdir()
        cells = [notebooks.code(cell_id, source) for cell_id, source in sources.items()]
        notebooks.write(directory / "notebook.ipynb", notebooks.notebook(cells))
        path = f"{directory.name}/notebook.ipynb"
        await page.show(path)
        return Scene(server, page, ada, path)

    yield open_new
    assert page.errors == []


async def test_output_appears_line_by_line_while_the_cell_has_a_star(show: Show) -> None:
    lines = [f"{wait_for(f'go{number}')}print('line {number}')\n" for number in (1, 2, 3)]
    scene = await show(lines=f"{''.join(lines)}'end'")
    page = scene.page
    await page.record(0)
    (run,) = await scene.start("lines")
    await page.wait_for_prompts({0: "[*]:"})
    scene.go("go1")
    await page.wait_for_output("line 1", 0)
    assert await page.prompts() == {0: "[*]:"}
    assert await page.outputs(0) == ["line 1\n"]
    await page.wait_for_kernel("busy")
    scene.go("go2")
    await page.wait_for_output("line 2", 0)
    assert await page.prompts() == {0: "[*]:"}
    scene.go("go3")
    await page.wait_for_prompts({0: "[1]:"})
    assert await page.outputs(0) == ["line 1\nline 2\nline 3\n", "'end'"]
    await page.wait_for_kernel("idle")
    assert (await scene.end(run))["state"] == "completed"
    # Nothing flickered, and the count did not come before the last output. What a slow kernel
    # says last may be drawn in parts.
    whole = ["line 1\nline 2\nline 3\n", "'end'"]
    *before, last = await page.recorded(0)
    assert before[:4] == [
        ["[ ]:"],
        ["[*]:"],
        ["[*]:", "line 1\n"],
        ["[*]:", "line 1\nline 2\n"],
    ]
    parts = [["[*]:", whole[0]], ["[*]:", *whole]]
    assert before[4:] == [part for part in parts if part in before[4:]]
    assert last == ["[1]:", *whole]


async def test_pictures_and_html_are_rendered_also_after_a_reload(show: Show) -> None:
    # A notebook of unknown origin is not trusted: JupyterLab cleans its HTML until somebody has
    # run the cell, and sees that another one did only when it loads the notebook again.
    scene = await show(old=PICTURE)

    async def draws(page: LabPage, cell: int) -> None:
        await page.wait_for_output("42", cell)  # written by a script
        await draws_the_picture(page, cell)

    async def draws_the_picture(page: LabPage, cell: int) -> None:
        image = page.cell(cell).locator("img")
        await image.wait_for(timeout=10_000)
        size = await image.evaluate("(image) => [image.naturalWidth, image.naturalHeight]")
        assert size == [80, 40]

    await scene.ada.ask(
        "batch_insert_notebook_cells", path=scene.path, cells=[{"content": PICTURE}]
    )
    await draws(scene.page, 1)
    (run,) = await scene.start("old")
    await draws_the_picture(scene.page, 0)
    assert (await scene.end(run))["state"] == "completed"
    # Not a reload of the page that others use: its tab would come back in front of theirs.
    async with open_notebook(scene.server, scene.path) as page:
        await draws(page, 0)
        await draws(page, 1)
        assert await page.is_trusted()
        assert await page.prompts() == {0: "[2]:", 1: "[1]:"}
        assert page.errors == []


async def test_a_cell_that_waits_for_its_turn_has_a_star_too(show: Show) -> None:
    scene = await show(first=wait_for("go") + "'first'", second="'second'")
    page = scene.page
    runs = await scene.start("first", "second")
    await page.wait_for_prompts({0: "[*]:", 1: "[*]:"})
    scene.go("go")
    await page.wait_for_prompts({0: "[1]:", 1: "[2]:"})
    assert [await page.outputs(0), await page.outputs(1)] == [["'first'"], ["'second'"]]
    assert [(await scene.end(run))["state"] for run in runs] == ["completed", "completed"]


async def test_a_failure_leaves_the_rest_of_the_batch_unchanged(show: Show) -> None:
    scene = await show(
        fails=wait_for("go") + "raise ValueError('no such luck')", after="print('ran')"
    )
    page = scene.page
    await scene.start("after")
    await page.wait_for_prompts({1: "[1]:"})
    runs = await scene.start("fails", "after")
    await page.wait_for_prompts({0: "[*]:", 1: "[*]:"})
    assert await page.outputs(1) == ["ran\n"]  # it is still shown while the cell waits
    scene.go("go")
    await page.wait_for_prompts({0: "[2]:", 1: "[1]:"})
    (traceback,) = await page.outputs(0)
    assert "Traceback (most recent call last)" in traceback
    assert "ValueError: no such luck" in traceback
    assert await page.outputs(1) == ["ran\n"]
    assert [(await scene.end(run))["state"] for run in runs] == ["failed", "cancelled"]


async def test_a_progress_bar_stays_one_line(show: Show) -> None:
    source = """\
import pathlib, time
for percent in range(0, 101, 20):
    print(f"\\r{percent:3}% {'█' * (percent // 10)}", end="", flush=True)
    while not pathlib.Path(f"go{percent}").exists(): time.sleep(0.02)
print("\\ndone")
"""
    scene = await show(bar=source)
    page = scene.page
    await page.record(0)
    await scene.start("bar")
    bars = []
    for percent in range(0, 101, 20):
        await page.wait_for_output(f"{percent}%", 0)
        scene.go(f"go{percent}")
        bars.append(f"{percent:3}% {'█' * (percent // 10)}".rstrip())
    await page.wait_for_prompts({0: "[1]:"})
    assert await page.outputs(0) == [f"{bars[-1]}\ndone\n"]
    # Each was whole when it was drawn, in the place of the one before.
    drawn = [state[1].rstrip() for state in await page.recorded(0) if len(state) > 1]
    assert [bar for bar, _ in groupby(drawn)] == [*bars, f"{bars[-1]}\ndone"]


async def test_an_updated_display_keeps_its_place(show: Show) -> None:
    source = f"""\
from IPython.display import HTML, display
print("before")
handle = display(HTML("<b>old</b>"), display_id=True)
print("after", flush=True)
{wait_for("go1")}
handle.update(HTML("<b>new</b>"))
{wait_for("go2")}
print("at the end")
"""
    scene = await show(display=source)
    page = scene.page
    await scene.start("display")
    await page.wait_for_output("after", 0)
    assert await page.outputs(0) == ["before\n", "old", "after\n"]
    scene.go("go1")
    await page.wait_for_output("new", 0)
    assert await page.outputs(0) == ["before\n", "new", "after\n"]
    scene.go("go2")
    await page.wait_for_prompts({0: "[1]:"})
    assert await page.outputs(0) == ["before\n", "new", "after\nat the end\n"]


async def test_truncated_output_shows_a_notice_above_later_output(show: Show) -> None:
    source = f"print('y\\n' * {STREAM})\ndisplay('after it')\n{wait_for('go')}"
    scene = await show(much=source)
    page = scene.page
    await scene.start("much")
    await page.wait_for_output("still running", 0)
    await page.wait_for_output("after it", 0)
    scene.go("go")
    await page.wait_for_prompts({0: "[1]:"})
    text, after = await page.outputs(0)
    assert text.startswith("y\ny\n")
    assert text.count("[Only a part is kept here") == 1
    assert "4.0 kB in all" in text
    assert after == "'after it'"


async def test_late_output_is_shown_until_the_person_runs_the_cell_again(show: Show) -> None:
    source = """\
import asyncio, pathlib
times = globals().get("times", 0) + 1
async def later(run):
    for name in "late", "later":
        while not pathlib.Path(name).exists(): await asyncio.sleep(0.02)
        print(name, run, flush=True)
left = asyncio.create_task(later(times))
"""
    scene = await show(task=source, witness="print('seen')")
    page = scene.page
    (run,) = await scene.start("task")
    assert (await scene.end(run))["state"] == "completed"
    await page.wait_for_prompts({0: "[1]:"})
    scene.go("late")
    await page.wait_for_output("late 1", 0)
    assert await page.outputs(0) == ["late 1\n"]
    await page.run(0)
    await page.wait_for_output("late 2", 0)  # JupyterLab's own doing
    scene.go("later")
    await page.wait_for_output("later 2", 0)
    (witness,) = await scene.start("witness")
    await page.wait_for_output("seen", 1)
    assert await page.outputs(0) == ["late 2\nlater 2\n"]
    facts = await scene.end(run)
    assert (facts["state"], facts["outputs"][0]["text"]) == ("completed", "late 1\nlater 1")
    assert (await scene.end(witness))["state"] == "completed"


async def test_an_interrupted_run_loses_its_star(show: Show) -> None:
    scene = await show(forever="print('begun')\n" + wait_for("never"), after="1")
    page = scene.page
    runs = await scene.start("forever", "after")
    await page.wait_for_output("begun", 0)
    await page.wait_for_prompts({0: "[*]:", 1: "[*]:"})
    await scene.ada.ask("interrupt_notebook_kernel", path=scene.path)
    await page.wait_for_prompts({0: "[1]:", 1: "[ ]:"}, timeout=30)
    assert "KeyboardInterrupt" in (await page.outputs(0))[-1]
    assert [(await scene.end(run))["state"] for run in runs] == ["cancelled", "cancelled"]


async def test_the_persons_run_and_the_agents_queue_share_a_kernel(
    lab: tuple[JupyterProcess, LabPage, AgentClient], show: Show
) -> None:
    sent: list[str | bytes] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framesent", lambda frame: sent.append(frame))

    lab[1].page.on("websocket", listen)
    scene = await show(
        waits=wait_for("go") + "print('for the agent')",
        queued="print('person' in globals())",
        mine="person = 'Pat'\nprint('for', person)",
    )
    page = scene.page
    runs = await scene.start("waits", "queued")
    await page.wait_for_prompts({0: "[*]:", 1: "[*]:"})
    await page.run(2)
    await page.wait_for_prompts({2: "[*]:"})
    # The star comes before the request, which has to be with the kernel when the first cell ends.
    await until(lambda: any("execute_request" in str(frame) for frame in sent))
    await scene.ada.ask("get_notebook_status", path=scene.path)
    scene.go("go")
    # The person asked before the agent's second cell was sent, and comes first.
    await page.wait_for_prompts({0: "[1]:", 1: "[3]:", 2: "[2]:"})
    assert await page.outputs(0) == ["for the agent\n"]
    assert await page.outputs(1) == ["True\n"]
    assert await page.outputs(2) == ["for Pat\n"]
    assert [(await scene.end(run))["state"] for run in runs] == ["completed", "completed"]
    assert "Pat" in await scene.ada.say("run_code", path=scene.path, code="print(person)")
    assert await page.outputs(2) == ["for Pat\n"]


async def test_no_star_is_left_when_the_kernel_dies(show: Show) -> None:
    scene = await show(dies=f"print('begun')\n{wait_for('go')}import os\nos._exit(1)", after="1")
    page = scene.page
    runs = await scene.start("dies", "after")
    await page.wait_for_output("begun", 0)
    await page.wait_for_prompts({0: "[*]:", 1: "[*]:"})
    scene.go("go")
    # Jupyter looks every three seconds whether a kernel lives.
    await page.wait_for_prompts({0: "[1]:", 1: "[ ]:"}, timeout=60)
    outputs = await page.outputs(0)
    assert outputs[0] == "begun\n"
    assert "The kernel died" in outputs[1]
    assert [(await scene.end(run))["state"] for run in runs] == ["failed", "cancelled"]
    assert "appears to have died" in await page.accept_dialog(timeout=30)
    await scene.start("after")  # in the kernel that Jupyter has started instead
    await page.wait_for_prompts({0: "[1]:", 1: "[1]:"}, timeout=60)
    await page.wait_for_kernel("idle", timeout=30)
