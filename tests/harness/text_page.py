"""A text file in a person's real browser: JupyterLab's editor in Chromium."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.async_api import Error, Page, expect

from .browser import new_page
from .yjs import Server

_EDITOR = ".jp-Document:not(.lm-mod-hidden) .jp-FileEditor"

_CONNECTED = """(path) => {
  const context = window.jupyterapp?.shell.currentWidget?.context;
  return Boolean(context?.path?.endsWith(path)
    && context.model.sharedModel?.ydoc.getMap("state").get("document_id"));
}"""

_DRAWN = """(editor) => [...document.querySelectorAll(`${editor} .cm-content > .cm-line`)]
  .map((line) => [...line.childNodes]
    .filter((node) => !node.classList?.contains("cm-widgetBuffer")
      && !node.classList?.contains("jp-remote-cursor"))
    .map((node) => node.textContent).join("")).join("\\n")"""

_SHOWS = f"([editor, text]) => ({_DRAWN})(editor).includes(text)"

_OPEN = """async (path) => {
  await window.jupyterapp.restored;
  await window.jupyterapp.commands.execute("docmanager:open", { path });
}"""

_CLOSE_ALL = """() => {
  document.querySelectorAll(".jp-Dialog .jp-mod-reject, .jp-Dialog .jp-mod-accept")
    .forEach((button) => button.click());
  for (const tab of [...window.jupyterapp.shell.widgets("main")]) tab.dispose();
}"""

_PATH = "() => window.jupyterapp.shell.currentWidget?.context?.path"


@asynccontextmanager
async def open_text(server: Server, path: str) -> AsyncIterator[TextPage]:
    """JupyterLab at a text file, connected to its room; the server needs EXPOSE_APP."""
    async with new_page() as blank:
        page = TextPage(blank)
        await page.open(server, path)
        yield page


class TextPage:
    """One tab of JupyterLab with a text editor."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    async def open(self, server: Server, path: str) -> None:
        address = f"{server.url.rstrip('/')}/lab/tree/{quote(path)}?token={server.token}"
        await self.page.goto(address, timeout=60_000)
        await self._connected(path)

    async def show(self, path: str) -> None:
        """Open a file in a tab of the same page, as a click in the file browser would."""
        await self.page.evaluate(_OPEN, path)
        await self._connected(path)

    async def close_all(self) -> None:
        """Close all tabs, and the dialogs in front of them, whatever is in them."""
        await self.page.evaluate(_CLOSE_ALL)
        await expect(self.page.locator(".jp-Dialog")).to_have_count(0)
        await expect(self.page.locator(".jp-FileEditor")).to_have_count(0)

    async def text(self) -> str:
        """What is drawn."""
        drawn: str = await self.page.evaluate(_DRAWN, _EDITOR)
        return drawn

    async def path(self) -> str:
        """Which file the tab says that it shows."""
        path: str = await self.page.evaluate(_PATH)
        return path

    async def wait_for_text(self, text: str, timeout: float = 20) -> None:
        """Wait until something is drawn."""
        await self._wait(_SHOWS, [_EDITOR, text], timeout, repr(text))

    async def wait_for_path(self, path: str, timeout: float = 20) -> None:
        """Wait until the tab is that of another file."""
        expression = f"(path) => ({_PATH})() === path"
        await self._wait(expression, path, timeout, path)

    async def type(self, text: str, delay: float = 0) -> None:
        """Type at the end, with the keyboard."""
        await self.page.locator(f"{_EDITOR} .cm-content").click(timeout=20_000)
        await self.type_on(text, delay)

    async def type_on(self, text: str, delay: float = 0) -> None:
        """Type at what is the end now, where one has typed before."""
        await self.page.keyboard.press("Control+End")
        await self.page.keyboard.type(text, delay=delay * 1000)

    async def dialog(self, timeout: float = 20) -> str:
        """Wait for a dialog; what it says."""
        dialog = self.page.locator(".jp-Dialog").first
        return await dialog.inner_text(timeout=timeout * 1000)

    async def screenshot(self, path: Path) -> None:
        """Write a picture of the page."""
        await self.page.screenshot(path=path)

    async def _connected(self, path: str) -> None:
        await self._wait(_CONNECTED, path, 60, f"{path} to be connected")
        await self.page.wait_for_selector(f"{_EDITOR} .cm-line", timeout=20_000)

    async def _wait(self, expression: str, argument: Any, timeout: float, wanted: str) -> None:
        try:
            await self.page.wait_for_function(expression, arg=argument, timeout=timeout * 1000)
        except Error as error:
            raise TimeoutError(
                f"Waited {timeout} s in vain for {wanted}; the page shows {await self.text()!r} "
                f"and threw {self.errors}"
            ) from error
