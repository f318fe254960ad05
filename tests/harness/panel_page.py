"""The panel in JupyterLab, as a person uses it with mouse and keyboard."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Locator, expect

from .browser import LabPage, open_notebook
from .jupyter import JupyterProcess

_SOURCE = """(id) => window.jupyterapp.shell.currentWidget.content.widgets
  .find((cell) => cell.model.id === id)?.model.sharedModel.source ?? null"""

_IDS = (
    """() => window.jupyterapp.shell.currentWidget.content.widgets.map((cell) => cell.model.id)"""
)

# Of an editor in which a person would click and press Home or End.
_CARET = """([id, line, column]) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const cell = notebook.widgets.find((cell) => cell.model.id === id);
  notebook.activeCellIndex = notebook.widgets.indexOf(cell);
  notebook.mode = "edit";
  cell.editor.focus();
  cell.editor.setCursorPosition({ line, column });
}"""

_SET = """async ([name, value]) => {
  const tokens = [...window.jupyterapp.pluginRegistry._services.keys()];
  const token = tokens.find((each) => each.name === "@jupyterlab/coreutils:ISettingRegistry");
  const registry = await window.jupyterapp.resolveRequiredService(token);
  await registry.set("@jupyter-collaboration-mcp/panel:panel", name, value);
}"""

# When each call is first drawn, by the page's clock, which is the server's.
_WATCH = """() => {
  window.drawn = {};
  const look = () => {
    for (const call of document.querySelectorAll(".jp-McpCall"))
      window.drawn[call.dataset.call] ??= Date.now();
  };
  new MutationObserver(look).observe(document.querySelector(".jp-McpPanel"),
    { subtree: true, childList: true });
  look();
}"""


class PanelPage:
    """One tab of JupyterLab with the panel open."""

    def __init__(self, lab: LabPage) -> None:
        self.lab = lab
        self.page = lab.page
        self.sidebar = lab.page.locator("#collaboration-mcp-panel")
        self.cards = self.sidebar.locator(".jp-McpCard")
        self.calls = self.sidebar.locator(".jp-McpCall")
        self.notebook = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        self.marks = self.notebook.locator(".jp-McpMark")
        self.toolbar = self.notebook.locator(".jp-McpToolbar")
        self.notices = self.page.locator("#react-toastify-container")
        self.dialog = self.page.locator(".jp-Dialog")

    def mark(self, cell_id: str) -> Locator:
        """What stands below a cell that an agent changed."""
        return self.marks.and_(self.page.locator(f'[data-cell="{cell_id}"]'))

    def card(self, text: str) -> Locator:
        """A call to review."""
        return self.cards.filter(has_text=text)

    def agent(self, name: str) -> Locator:
        return self.sidebar.locator(f'.jp-McpAgent[data-agent="{name}"]')

    async def command(self, name: str) -> None:
        await self.page.evaluate("(id) => window.jupyterapp.commands.execute(id)", name)

    async def set(self, name: str, value: object) -> None:
        """Change a setting of the panel, as the Settings Editor does."""
        await self.page.evaluate(_SET, [name, value])

    async def show(self) -> None:
        await self.command("collaboration-mcp:show-panel")
        await expect(self.sidebar.locator(".jp-McpConnection")).to_contain_text("live")

    async def source(self, cell_id: str) -> str | None:
        """What a cell says in this tab."""
        found: str | None = await self.page.evaluate(_SOURCE, cell_id)
        return found

    async def ids(self) -> list[str]:
        ids: list[str] = await self.page.evaluate(_IDS)
        return ids

    async def put_caret(self, cell_id: str, line: int, column: int) -> None:
        await self.page.evaluate(_CARET, [cell_id, line, column])

    async def wait_for_source(self, cell_id: str, text: str) -> None:
        await self.page.wait_for_function(
            f"([id, text]) => ({_SOURCE})(id) === text", arg=[cell_id, text], timeout=20_000
        )

    async def watch_calls(self) -> None:
        """From now on remember when each call is first drawn."""
        await self.page.evaluate(_WATCH)

    async def drawn_calls(self) -> dict[str, int]:
        """When each call was first drawn, by its id, in milliseconds."""
        found: dict[str, int] = await self.page.evaluate("window.drawn")
        return found

    async def faults(self, axe: str, *parts: str) -> list[tuple[str, Any]]:
        """What axe-core finds serious in parts of the page."""
        if not await self.page.evaluate("'axe' in window"):
            await self.page.add_script_tag(content=axe)
        found = await self.page.evaluate(
            """async (parts) => (await axe.run({ include: parts.map((part) => [part]) })).violations
              .filter(({ impact }) => ["serious", "critical"].includes(impact))
              .map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) =>
                [html.slice(0, 200), failureSummary])])""",
            list(parts),
        )
        return [(name, nodes) for name, nodes in found]


@asynccontextmanager
async def open_panel(server: Any, path: str) -> AsyncIterator[PanelPage]:
    """JupyterLab at a notebook, with the panel open and nothing in front of it.

    Args:
        server: A server of JupyterLab, or a proxy before one with its token.
    """
    async with open_notebook(server, path, workspace=secrets.token_hex(4)) as lab:
        await lab.page.set_viewport_size({"width": 1280, "height": 860})
        await lab.page.add_style_tag(content="#react-toastify-container { display: none; }")
        panel = PanelPage(lab)
        await panel.command("application:toggle-left-area")
        await panel.show()
        yield panel


class ProxiedServer:
    """A server as it is reached through a proxy."""

    def __init__(self, server: JupyterProcess, url: str) -> None:
        self.url, self.token = url, server.token
