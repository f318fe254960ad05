"""Agents as a person sees them in JupyterLab, and the person as agents see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, AgentClient, agent
from tests.harness.browser import EXPOSE_APP, LabPage, open_notebook
from tests.harness.jupyter import REPOSITORY, JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.ways import WAYS, served

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(180)]

#: Where pictures of the page are kept, to be looked at.
PICTURES = REPOSITORY / "build" / "screenshots"

EXTENSIONS = {"jupyterlab": True, "notebook_shim": True}

SOURCES = {"first": "é😀 = 'hello'\nprint(é😀)", "empty": "", "third": "x = 1"}

# What JupyterLab draws, by cell and place in its text: `view` is the cell's CodeMirror.
_DRAWN = """() => {
  const cells = window.jupyterapp.shell.currentWidget.content.widgets;
  const place = (view, element) => {
    const box = element.getBoundingClientRect();
    const near = (at) => {
      const drawn = view.coordsAtPos(at);
      return drawn ? Math.hypot(drawn.left - box.left, drawn.top - box.top) : Infinity;
    };
    const places = [...Array(view.state.doc.length + 1).keys()];
    const at = places.reduce((best, next) => (near(next) < near(best) ? next : best), 0);
    return near(at) < 3 ? at : null;
  };
  return cells.map((cell) => {
    const view = cell.editor?.editor;
    if (!view) return null;
    const all = (selector) => [...cell.node.querySelectorAll(selector)];
    return {
      carets: all(".jp-remote-cursor").map((caret) => place(view, caret)),
      selections: all(".jp-remote-selection").length,
      flags: all(".jp-remote-userFlag-name").map((flag) => flag.textContent),
    };
  });
}"""

_PANEL = """() => [...document.querySelectorAll(".jp-CollaboratorsList .jp-Collaborator")]
  .map((person) => [
    person.querySelector(".jp-CollaboratorHeader > span").textContent,
    person.querySelector(".jp-CollaboratorIcon").textContent,
  ])"""

_OWN_CARET = """() => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const { line, column } = notebook.activeCell.editor.getCursorPosition();
  return [notebook.activeCell.model.id, line, column];
}"""


@pytest.fixture(params=WAYS)
async def lab(
    make_server: MakeServer, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    way: str = request.param
    async with served(make_server, way, EXPOSE_APP, app="lab", extensions=EXTENSIONS) as server:
        write(server, "a.ipynb")
        yield server


def write(server: JupyterProcess, path: str) -> None:
    cells = [notebooks.code(cell_id, source) for cell_id, source in SOURCES.items()]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebooks.write(Path(server.root) / path, notebooks.notebook(cells, metadata=kernel))


async def point(client: AgentClient, cell: str, column: int, end: int | None = None) -> None:
    """Put an agent's caret into the first line of a cell, or select something there."""
    start = {"line": 0, "column": column}
    more = {} if end is None else {"selection": {"start": start, "end": {"line": 0, "column": end}}}
    await client.ask(
        "update_cursor_position", document_path="a.ipynb", cell_id=cell, position=start, **more
    )


async def drawn(page: LabPage) -> list[dict[str, Any]]:
    return list(await page.page.evaluate(_DRAWN))


async def panel(page: LabPage) -> dict[str, str]:
    """The avatars in the panel, by name."""
    return dict(await page.page.evaluate(_PANEL))


async def show_panel(page: LabPage) -> None:
    await page.page.evaluate("() => window.jupyterapp.shell.activateById('jp-collaboration-panel')")


async def test_a_person_sees_agents_and_agents_see_the_person(lab: JupyterProcess) -> None:
    async with open_notebook(lab, "a.ipynb") as page:
        await show_panel(page)
        # With sessions, whose end is noticed at once.
        async with (
            agent(lab, "Ada Lovelace", mode=LEGACY) as ada,
            agent(lab, "Bob", mode=LEGACY) as bob,
        ):
            await point(ada, "first", 6, 11)
            await point(bob, "empty", 0)
            await ada.ask("set_user_presence", status="busy", message="comparing models")
            names = {"Ada Lovelace (agent): busy: comparing models": "AL", "Bob (agent)": "BO"}
            await eventually(lambda: panel(page), lambda seen: seen == names)
            cells = await eventually(
                lambda: drawn(page), lambda seen: seen[0]["carets"] and seen[1]["carets"]
            )
            # After é and 😀, of which the second is two units of JavaScript.
            assert (cells[0]["carets"], cells[0]["selections"]) == ([7], 1)
            assert (cells[1]["carets"], cells[2]["carets"]) == ([0], [])
            flags = await page.page.locator(".jp-remote-userFlag-name").all_text_contents()
            assert sorted(flags) == ["Ada Lovelace (agent)", "Bob (agent)"]
            await bob.ask("broadcast_user_activity", activity_type="note", description="Plots done")
            await eventually(lambda: panel(page), lambda seen: "Bob (agent): Plots done" in seen)
            await page_picture(page, f"presence-{'command' if lab.standalone else 'extension'}")
            await point(ada, "first", 2)
            await eventually(lambda: drawn(page), lambda seen: seen[0]["carets"] == [3])
            await agents_see_the_caret(page, ada)
        async with asyncio.timeout(5):  # well before the 30 seconds after which anybody vanishes
            await eventually(lambda: panel(page), lambda seen: not seen)
        cells = await eventually(lambda: drawn(page), lambda seen: not seen[0]["carets"])
        assert [cell["carets"] for cell in cells] == [[], [], []]
        assert page.errors == []


async def agents_see_the_caret(page: LabPage, ada: AgentClient) -> None:
    """Move the caret by keys, and compare what an agent is told with what the page says."""
    keyboard = page.page.keyboard
    for cell, keys in (
        (0, ["Control+Home", "ArrowRight", "ArrowRight"]),
        (0, ["ArrowDown", "End"]),
        (1, []),
        (2, ["Control+End", "ArrowLeft"]),
    ):
        await page.cell(cell).locator(".cm-content").click(timeout=20_000)
        for key in keys:
            await keyboard.press(key)
        cell_id, line, units = await page.page.evaluate(_OWN_CARET)
        text = SOURCES[cell_id].split("\n")[line]
        # JavaScript counts UTF-16 units, we count characters.
        column = len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le"))

        expected = [(cell_id, line, column)]
        await eventually(lambda: carets_of_people(ada), partial(eq, expected))


async def carets_of_people(ada: AgentClient) -> list[tuple[str, int, int]]:
    facts = await ada.ask("get_user_cursors", document_path="a.ipynb")
    return [
        (each["cell_id"], each["position"]["line"], each["position"]["column"])
        for each in facts["cursors"]
        if not each["user_id"].startswith("agent-")
    ]


async def test_twenty_agents_in_one_notebook_break_no_page(make_server: MakeServer) -> None:
    async with (
        make_server(EXPOSE_APP, app="lab", extensions=EXTENSIONS) as server,
        AsyncExitStack() as stack,
    ):
        write(server, "a.ipynb")
        page = await stack.enter_async_context(open_notebook(server, "a.ipynb"))
        await show_panel(page)
        agents = [
            await stack.enter_async_context(agent(server, f"Agent {number:02d}"))
            for number in range(20)
        ]
        await asyncio.gather(
            *(point(each, "third", number % 6) for number, each in enumerate(agents))
        )
        seen = await eventually(lambda: panel(page), lambda found: len(found) == 20)
        assert {name.partition(":")[0] for name in seen} == {
            f"Agent {number:02d} (agent)" for number in range(20)
        }
        cells = await eventually(lambda: drawn(page), lambda found: len(found[2]["carets"]) == 20)
        assert sorted(cells[2]["carets"]) == sorted(number % 6 for number in range(20))
        await page_picture(page, "twenty-agents")
        assert page.errors == []


async def page_picture(page: LabPage, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    await page.screenshot(PICTURES / f"{name}.png")
