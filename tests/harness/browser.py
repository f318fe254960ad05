"""A person's real browser: JupyterLab in Chromium, read as it is drawn in the page."""

import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.async_api import Browser, ConsoleMessage, Error, Locator, Page, async_playwright

from .yjs import Server

EXPOSE_APP = "--LabApp.expose_app_in_browser=True"
"""The server's argument without which it cannot be seen whether the page is connected."""

#: Parts of Chromium that Playwright switches off, and then two that no test sees: menus of the
#: address bar, each with a page of its own, which take a window half a CPU second.
_LEFT_OUT = (
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
)

FLAGS = [
    f"--disable-features={','.join(_LEFT_OUT)}",  # in place of Playwright's: the last one counts
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

_shared: Browser | None = None

_THROWN = re.compile(r"(Uncaught )?\w*Error: ")

_NOTEBOOK = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook"

# The kernel too: a server told to stop while a kernel starts may take longer than it is given.
_CONNECTED = """(path) => {
  const context = window.jupyterapp?.shell.currentWidget?.context;
  const notebook = context?.model?.sharedModel;
  if (!context?.path?.endsWith(path)) return false;
  if (!notebook?.ydoc.getMap("state").get("document_id")) return false;
  const wantsKernel = notebook.getMetadata("kernelspec") !== undefined;
  return !wantsKernel || context.sessionContext.kernelDisplayStatus === "idle";
}"""

# The cells in view with their true index: JupyterLab draws a long notebook only in part.
_DRAWN = """(notebook) => Object.fromEntries(
  [...document.querySelectorAll(`${notebook} .jp-Cell`)].map((cell) => [
    cell.dataset.windowedListIndex,
    [...cell.querySelectorAll(".jp-InputArea-editor .cm-content > .cm-line")]
      .map((line) => line.textContent).join("\\n"),
  ]))"""

_SHOWS = f"""([notebook, index, text]) => {{
  const drawn = ({_DRAWN})(notebook);
  return index === null
    ? Object.values(drawn).some((source) => source.includes(text))
    : (drawn[index] ?? "").includes(text);
}}"""

_OPEN = """async (path) => {
  await window.jupyterapp.restored;
  await window.jupyterapp.commands.execute("docmanager:open", { path });
}"""

_CLOSE_OTHERS = """() => {
  const shell = window.jupyterapp.shell;
  for (const tab of [...shell.widgets("main")]) if (tab !== shell.currentWidget) tab.dispose();
}"""

# After a reload another tab may come to the front late: that of the page's address.
_IN_FRONT = f"""(path) => {{
  const shell = window.jupyterapp.shell;
  const tab = [...shell.widgets("main")].find((tab) => tab.context?.path?.endsWith(path));
  if (tab && tab !== shell.currentWidget) shell.activateById(tab.id);
  return ({_CONNECTED})(path);
}}"""

_PROMPTS = """(notebook) => Object.fromEntries(
  [...document.querySelectorAll(`${notebook} .jp-CodeCell`)].map((cell) => [
    cell.dataset.windowedListIndex,
    cell.querySelector(".jp-InputPrompt")?.textContent ?? "",
  ]))"""

_OUTPUTS = """(cell) => [...document.querySelectorAll(`${cell} .jp-OutputArea-output`)]
  .map((output) => output.textContent)"""

_HAS_PROMPTS = f"""([notebook, wanted]) => {{
  const drawn = ({_PROMPTS})(notebook);
  return Object.entries(wanted).every(([index, prompt]) => drawn[index] === prompt);
}}"""

_STATUS = """(status) => window.jupyterapp.shell.currentWidget
  .context.sessionContext.kernelDisplayStatus === status"""

_TRUSTED = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells]
  .every((cell) => cell.trusted)"""

# Every state that is drawn, however short: what flickers is in the list.
_RECORD = f"""([cell, name]) => {{
  const states = ((window.recorded ??= {{}})[name] = []);
  const look = () => {{
    const prompt = document.querySelector(`${{cell}} .jp-InputPrompt`)?.textContent ?? "";
    const state = [prompt, ...({_OUTPUTS})(cell)];
    if (JSON.stringify(state) !== JSON.stringify(states.at(-1))) states.push(state);
  }};
  const options = {{ subtree: true, childList: true, characterData: true }};
  new MutationObserver(look).observe(document.querySelector(cell), options);
  look();
}}"""


@asynccontextmanager
async def open_notebook(
    server: Server, path: str, timeout: float = 60, workspace: str = ""
) -> AsyncIterator["LabPage"]:
    """JupyterLab at a notebook, connected to its room and its kernel.

    Args:
        server: A Jupyter server of JupyterLab, started with EXPOSE_APP.
        path: The notebook, relative to the server's root. Its metadata should name a kernel:
            otherwise JupyterLab asks for one, in a dialog that covers the page.
        timeout: Seconds until it has to be connected.
        workspace: Where JupyterLab remembers what is open; unless it is given, all pages of a
            server open what the others had opened, too.
    """
    async with new_page() as blank:
        page = LabPage(blank)
        await page.open(server, path, timeout, workspace)
        yield page


@asynccontextmanager
async def shared_browser() -> AsyncIterator[None]:
    """Have all pages meanwhile in one browser, which takes two CPU seconds to start."""
    global _shared
    async with _launched() as browser:
        _shared = browser
        try:
            yield
        finally:
            _shared = None


@asynccontextmanager
async def new_page() -> AsyncIterator[Page]:
    """An empty page of somebody whom the browser does not know yet."""
    async with AsyncExitStack() as stack:
        browser = _shared
        if browser is None:
            browser = await stack.enter_async_context(_launched())
        yield await stack.enter_async_context(await browser.new_page())


@asynccontextmanager
async def _launched() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(), headless=True, args=FLAGS
        )
        try:
            yield browser
        finally:
            await browser.close()


def find_chromium() -> str:
    """The machine's Chromium.

    Raises:
        RuntimeError: If there is none.
    """
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if found := shutil.which(name):
            return found
    raise RuntimeError("No Chromium: install the package chromium or google-chrome.")


class LabPage:
    """One tab of JupyterLab.

    Attributes:
        page: Playwright's page, for what has no method here.
        errors: What the page threw, in order.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", self._on_error)
        page.on("console", self._on_console)

    async def open(
        self, server: Server, path: str, timeout: float = 60, workspace: str = ""
    ) -> None:
        """Go to a notebook and wait until it is connected to its room and its kernel."""
        lab = f"lab/workspaces/{quote(workspace)}" if workspace else "lab"
        await self.page.goto(
            f"{server.url.rstrip('/')}/{lab}/tree/{quote(path)}?token={server.token}",
            timeout=timeout * 1000,
        )
        await self._connected(_CONNECTED, path, timeout)

    async def show(self, path: str, timeout: float = 60) -> None:
        """Open a notebook in a tab of the same page, as a click in the file browser would."""
        await self.page.evaluate(_OPEN, path)
        await self._connected(_IN_FRONT, path, timeout)

    async def close_others(self) -> None:
        """Close all tabs but the one in front; what agents have drawn in them goes, too."""
        await self.page.evaluate(_CLOSE_OTHERS)

    async def texts(self) -> dict[int, str]:
        """The sources of the cells as drawn, by index."""
        drawn = await self.page.evaluate(_DRAWN, _NOTEBOOK)
        return {int(index): text for index, text in drawn.items()}

    async def wait_for_text(self, text: str, cell: int | None = None, timeout: float = 20) -> None:
        """Wait until a text is drawn in a cell, or in any."""
        await self._wait(_SHOWS, [_NOTEBOOK, cell, text], timeout, repr(text))

    async def wait_for_output(self, text: str, cell: int, timeout: float = 30) -> None:
        """Wait until a text is drawn among the outputs of a cell."""
        output = self.page.locator(_cell(cell)).locator(".jp-OutputArea-output")
        await output.filter(has_text=text).first.wait_for(timeout=timeout * 1000)

    async def prompts(self) -> dict[int, str]:
        """The prompts of the code cells as drawn, by index: `[ ]:`, `[*]:` or `[1]:`."""
        drawn = await self.page.evaluate(_PROMPTS, _NOTEBOOK)
        return {int(index): prompt for index, prompt in drawn.items()}

    async def wait_for_prompts(self, prompts: Mapping[int, str], timeout: float = 20) -> None:
        """Wait until these cells have these prompts at the same time."""
        wanted = {str(index): prompt for index, prompt in prompts.items()}
        await self._wait(_HAS_PROMPTS, [_NOTEBOOK, wanted], timeout, f"the prompts {prompts}")

    async def outputs(self, cell: int) -> list[str]:
        """The texts of a cell's outputs as drawn, in order."""
        outputs: list[str] = await self.page.evaluate(_OUTPUTS, _cell(cell))
        return outputs

    async def record(self, cell: int) -> None:
        """From now on remember every prompt and output that is drawn in a cell."""
        await self.page.evaluate(_RECORD, [_cell(cell), str(cell)])

    async def recorded(self, cell: int) -> list[list[str]]:
        """All that was drawn in a cell since `record`: lists of the prompt and the outputs."""
        states: list[list[str]] = await self.page.evaluate("(name) => recorded[name]", str(cell))
        return states

    async def wait_for_kernel(self, status: str, timeout: float = 20) -> None:
        """Wait until JupyterLab shows the kernel as idle, busy, ..."""
        await self._wait(_STATUS, status, timeout, f"the kernel to be {status}")

    async def is_trusted(self) -> bool:
        """Whether JupyterLab draws all cells' outputs as they are, scripts too."""
        trusted: bool = await self.page.evaluate(_TRUSTED)
        return trusted

    async def run(self, cell: int) -> None:
        """Run a cell as a person does: Shift+Enter in it."""
        await self.page.locator(_cell(cell)).locator(".cm-content").click(timeout=20_000)
        await self.page.keyboard.press("Shift+Enter")

    async def type(self, cell: int, text: str, delay: float = 0) -> None:
        """Type at the end of a cell, with the keyboard."""
        await self.page.locator(_cell(cell)).locator(".cm-content").click(timeout=20_000)
        await self.page.keyboard.press("Control+End")
        await self.page.keyboard.type(text, delay=delay * 1000)

    async def dialog(self) -> str | None:
        """The text of the dialog that covers the page, if there is one."""
        dialogs = self.page.locator(".jp-Dialog")
        return await dialogs.first.inner_text() if await dialogs.count() else None

    async def accept_dialog(self, timeout: float = 20) -> str:
        """Wait for a dialog, accept it, and return what it said."""
        dialog = self.page.locator(".jp-Dialog").first
        text = await dialog.inner_text(timeout=timeout * 1000)
        await dialog.locator(".jp-mod-accept").click(timeout=timeout * 1000)
        await dialog.wait_for(state="detached", timeout=timeout * 1000)
        return text

    def cell(self, index: int) -> Locator:
        """A cell as it is drawn, for what has no method here."""
        return self.page.locator(_cell(index))

    async def screenshot(self, path: Path) -> None:
        """Write a picture of the page."""
        await self.page.screenshot(path=path)

    async def _connected(self, expression: str, path: str, timeout: float) -> None:
        await self._wait(expression, path, timeout, f"{path} to be connected")
        await self.page.wait_for_selector(f"{_NOTEBOOK} .jp-Cell", timeout=timeout * 1000)

    async def _wait(self, expression: str, argument: Any, timeout: float, wanted: str) -> None:
        try:
            await self.page.wait_for_function(expression, arg=argument, timeout=timeout * 1000)
        except Error as error:
            raise TimeoutError(
                f"Waited {timeout} s in vain for {wanted}; the page shows {await self.texts()} "
                f"with the prompts {await self.prompts()}, and threw {self.errors}"
            ) from error

    def _on_error(self, error: Error) -> None:
        self.errors.append(str(error))

    def _on_console(self, message: ConsoleMessage) -> None:
        # What a slot of a signal throws, JupyterLab catches: the page goes on, half up to date.
        if message.type == "error" and _THROWN.match(message.text):
            self.errors.append(message.text)


def _cell(index: int) -> str:
    return f'{_NOTEBOOK} .jp-Cell[data-windowed-list-index="{index}"]'
