"""Takes the pictures for the documentation: `python -m docs.pictures [running] [presence] [panel]`.

It writes docs/images/running.png, presence.png and panel.png with its neighbours, from a real
JupyterLab with real agents in it. Chromium has to be installed, and matplotlib for the first.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import tempfile
from pathlib import Path

from tests.conftest import EXTENSIONS
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.browser import EXPOSE_APP, LabPage, open_notebook
from tests.harness.jupyter import JupyterProcess
from tests.harness.panel_page import PanelPage, open_panel

IMAGES = Path(__file__).resolve().parent / "images"

_PATH = "rain.ipynb"

_CELLS = [
    notebooks.markdown(
        "title", "# A year of rain\n\nPat has the numbers, Claude looks for what is in them."
    ),
    notebooks.code(
        "data",
        'months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()\n'
        "rain = [243, 190, 196, 127, 94, 110, 138, 199, 239, 235, 236, 247]\n"
        'f"{sum(rain):,} mm in a year"',
    ),
]

_WETTEST = notebooks.code(
    "wettest",
    "by_month = dict(zip(months, rain))\n"
    "wettest = sorted(by_month.items(), key=lambda month: -month[1])[:3]\n"
    "wettest",
)

_PLOT = """\
import matplotlib.pyplot as plt

plt.figure(figsize=(8, 1.8))
plt.bar(months, rain, color=["#1f77b4" if mm > 150 else "#9ecae1" for mm in rain])
plt.ylabel("mm");"""

_FIT = """\
for model in []:
    print(f"{model.name:7} error {model.fit(rain):4.1f} mm", flush=True)"""

#: What the last cell works with: not in the picture, and slow enough for one.
_MODELS = """\
import time

class Model:
    def __init__(self, name, error):
        self.name, self.error = name, error

    def fit(self, numbers):
        time.sleep(0.7)
        return self.error

models = [Model("mean", 54.2), Model("sine", 17.9), Model("spline", 12.3), Model("forest", 21.6)]"""

_STYLE = ".jp-toastContainer, .Toastify { display: none; }"


async def running(target: Path) -> None:
    """An agent has drawn a plot, and a cell of its own runs."""
    with tempfile.TemporaryDirectory(prefix="picture-") as root:
        notebooks.write(Path(root) / _PATH, notebooks.notebook(_CELLS))
        extensions = {**EXTENSIONS, "jupyterlab": True, "notebook_shim": True}
        lab = JupyterProcess(Path(root), extra_args=[EXPOSE_APP], app="lab", extensions=extensions)
        async with lab, open_notebook(lab, _PATH) as page, agent(lab, "Claude") as claude:
            await _tidy(page)
            await page.cell(1).locator(".cm-content").click()
            await page.page.keyboard.press("Control+Enter")
            await page.wait_for_prompts({1: "[1]:"})
            await claude.ask("run_code", path=_PATH, code=_MODELS)
            cells = [{"content": _PLOT}, {"content": _FIT}]
            inserted = await claude.ask(
                "batch_insert_notebook_cells", path=_PATH, cells=cells, exec=False
            )
            plot, fit = (cell["id"] for cell in inserted["cells"])
            await claude.ask("execute_notebook_cell", path=_PATH, cell_id=plot, timeout=60)
            await page.cell(2).locator("img").wait_for()
            update = {"cell_id": fit, "old_text": "[]", "new_text": "models"}
            await claude.ask("batch_update_notebook_cells", path=_PATH, updates=[update], timeout=0)
            await page.wait_for_output("sine", 3)
            await page.screenshot(target)


async def presence(target: Path) -> None:
    """Two agents in the notebook that a person has open, and in the list of collaborators."""
    with tempfile.TemporaryDirectory(prefix="picture-") as root:
        notebooks.write(Path(root) / _PATH, notebooks.notebook([*_CELLS, _WETTEST]))
        extensions = {**EXTENSIONS, "jupyterlab": True, "notebook_shim": True}
        lab = JupyterProcess(Path(root), extra_args=[EXPOSE_APP], app="lab", extensions=extensions)
        async with (
            lab,
            open_notebook(lab, _PATH) as page,
            agent(lab, "Claude") as claude,
            agent(lab, "Codex") as codex,
        ):
            await _tidy(page, height=420)
            await page.page.evaluate("jupyterapp.shell.activateById('jp-collaboration-panel')")
            await page.cell(1).locator(".cm-content").click()
            await claude.ask("set_user_presence", status="busy", message="checking the sums")
            await codex.ask("set_user_presence", message="looking for trends")
            start = {"line": 1, "column": 17}
            await claude.ask(
                "update_cursor_position",
                document_path=_PATH,
                cell_id="wettest",
                position=start,
                selection={"start": start, "end": {"line": 1, "column": 33}},
            )
            await codex.ask(
                "update_cursor_position",
                document_path=_PATH,
                cell_id="data",
                position={"line": 1, "column": 8},
            )
            await page.page.get_by_text("Codex (agent): looking for trends").wait_for()
            await page.page.get_by_text("Claude (agent): busy: checking the sums").wait_for()
            await page.page.locator(".jp-remote-selection").wait_for(state="attached")
            await page.screenshot(target)


_SALES = [
    notebooks.markdown("title", "# Sales"),
    notebooks.code(
        "load",
        "import math\n\nrows = [(1, 2.0), (2, 3.5), (3, 5.0)]\n\n\ndef total(rows):\n"
        "    result = 0\n    for _, price in rows:\n        result += price\n    return result",
    ),
    notebooks.code("mean", "total(rows) / len(rows)"),
    notebooks.code("old", "# an older way\nsum(price for _, price in rows)"),
    notebooks.code("last", "print(total(rows))"),
]

_LOOP = """\
    result = 0
    for _, price in rows:
        result += price
    return result"""


async def panel(target: Path) -> None:
    """The panel beside a notebook that two agents work in; a conflict; connecting an agent."""
    with tempfile.TemporaryDirectory(prefix="picture-") as root:
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        path = "sales.ipynb"
        notebooks.write(Path(root) / path, notebooks.notebook(_SALES, metadata=kernel))
        extensions = {**EXTENSIONS, "jupyterlab": True, "notebook_shim": True}
        lab = JupyterProcess(Path(root), extra_args=[EXPOSE_APP], app="lab", extensions=extensions)
        async with (
            lab,
            open_panel(lab, path) as page,
            agent(lab, "Claude") as claude,
            agent(lab, "Codex", permission="write") as codex,
        ):
            await page.page.add_style_tag(content=_STYLE)
            await codex.sources(path)
            await codex.ask("batch_delete_notebook_cells", path=path, cell_ids=["old"])
            shorter = "    return math.fsum(price for _, price in rows)"
            mean = 'mean = total(rows) / len(rows)\nprint(f"mean {mean:.2f}")'
            updates = [
                {"cell_id": "load", "old_text": _LOOP, "new_text": shorter},
                {"cell_id": "mean", "content": mean},
            ]
            await claude.ask("batch_update_notebook_cells", path=path, updates=updates, exec=False)
            await page.card("Claude").locator(".jp-McpCell-name").first.click()
            await page.sidebar.locator(".jp-McpDiff .cm-deletedChunk").wait_for()
            await page.mark("load").get_by_role("button", name="Diff").click()
            await page.page.locator(".jp-Notebook .cm-deletedChunk").wait_for()
            await page.page.wait_for_timeout(300)  # flags follow a moment later
            await page.page.screenshot(path=target)
            await _conflict(page, target.with_name("panel-conflict.png"))
            await _connect(page, target.with_name("panel-connect.png"))


async def _conflict(page: PanelPage, target: Path) -> None:
    await page.put_caret("mean", 1, len('print(f"mean'))
    await page.page.keyboard.type(" of all")
    await page.lab.wait_for_text("mean of all", 2)
    await page.mark("mean").get_by_role("button", name="Undo").click()
    await page.dialog.locator(".cm-changedText, .cm-deletedText").first.wait_for()
    await page.page.locator(".jp-Dialog-content").screenshot(path=target)
    await page.dialog.get_by_role("button", name="Leave it").click()


async def _connect(page: PanelPage, target: Path) -> None:
    section = page.sidebar.locator(".jp-McpSection").last
    await section.get_by_role("button", name="Connect an agent").click()
    await section.locator("option", has_text="Claude Code").wait_for(state="attached")
    await section.screenshot(path=target)


async def _tidy(page: LabPage, height: int = 800) -> None:
    """No side bar, no news."""
    await page.page.set_viewport_size({"width": 1280, "height": height})
    await page.page.add_style_tag(content=_STYLE)
    await page.page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["running", "presence", "panel"]
    if "running" in wanted and importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("The picture has a plot in it: install matplotlib first.")
    for name, take in (("running", running), ("presence", presence), ("panel", panel)):
        if name in wanted:
            asyncio.run(take(IMAGES / f"{name}.png"))
