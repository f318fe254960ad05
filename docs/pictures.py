"""Takes the pictures for the documentation: `python -m docs.pictures [running] [presence]`.

It writes docs/images/running.png and presence.png, from a real JupyterLab with real agents in it.
Chromium has to be installed, and matplotlib for the first.
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


async def _tidy(page: LabPage, height: int = 800) -> None:
    """No side bar, no news."""
    await page.page.set_viewport_size({"width": 1280, "height": height})
    await page.page.add_style_tag(content=_STYLE)
    await page.page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["running", "presence"]
    if "running" in wanted and importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("The picture has a plot in it: install matplotlib first.")
    for name, take in (("running", running), ("presence", presence)):
        if name in wanted:
            asyncio.run(take(IMAGES / f"{name}.png"))
