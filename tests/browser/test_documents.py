"""What a person sees in JupyterLab while an agent works in the Markdown file that they type in."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import MakeServer
from tests.harness.agents import AgentClient, agent
from tests.harness.browser import EXPOSE_APP
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.text_page import TextPage, open_text
from tests.harness.waiting import until
from tests.harness.ways import WAYS, served

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(180)]

NOTES = "# Notes\n\nThe first line is old.\n\n"

#: What the agent appends, each time behind what the person is typing.
ITEMS = [f"\n- item {number:02d} 😀\n" for number in range(12)]

EXTENSIONS = {"jupyterlab": True, "notebook_shim": True}


@pytest.fixture(scope="module")
async def lab(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    async with make_server(EXPOSE_APP, app="lab", extensions=EXTENSIONS) as server:
        yield server


@pytest.fixture(scope="module")
async def shared_page(lab: JupyterProcess, browser: None) -> AsyncIterator[TextPage]:
    write(lab, "first.md")
    async with open_text(lab, "first.md") as page:
        yield page


@pytest.fixture
async def page(shared_page: TextPage) -> TextPage:
    """A page that the tests share, in which nothing is open."""
    await shared_page.close_all()
    shared_page.errors.clear()
    return shared_page


@pytest.fixture(params=WAYS)
async def any_lab(
    make_server: MakeServer, request: pytest.FixtureRequest, lab: JupyterProcess, page: TextPage
) -> AsyncIterator[tuple[JupyterProcess, TextPage]]:
    """One that agents reach through the extension, or through the command, and a page of it."""
    way: str = request.param
    if way == "extension":
        yield lab, page
        return
    async with served(make_server, way, EXPOSE_APP, app="lab", extensions=EXTENSIONS) as server:
        write(server, "first.md")
        async with open_text(server, "first.md") as page_of_its_own:
            await page_of_its_own.close_all()
            yield server, page_of_its_own


def write(server: JupyterProcess, path: str, text: str = NOTES) -> Path:
    file = Path(server.root) / path
    file.write_text(text)
    return file


async def update(ada: AgentClient, path: str, *operations: dict[str, object]) -> None:
    await ada.ask("batch_update_document", path=path, operations=list(operations))


async def reads(ada: AgentClient, path: str, ending: str) -> str:
    """Wait until the server has what a person typed in the page; returns the whole text."""

    async def read() -> str:
        return str((await ada.ask("get_document", path=path))["content"])

    return str(await eventually(read, lambda text: text.endswith(ending)))


class Person:
    """Somebody who goes on typing, word by word and always at the end, until told to stop."""

    def __init__(self, page: TextPage) -> None:
        self._page = page
        self._stopped = False
        self.words: list[str] = []

    async def type(self) -> None:
        await self._page.type("")
        while not self._stopped:
            word = f"word{len(self.words)} "
            await self._page.type_on(word, delay=0.01)
            self.words.append(word)

    async def next_word(self) -> None:
        """Return when they are in the middle of typing."""
        before = len(self.words)
        await until(lambda: len(self.words) > before)

    def stop(self) -> None:
        self._stopped = True


async def append_and_replace(
    ada: AgentClient, page: TextPage, path: str, person: Person
) -> list[float]:
    """Do so while a person types; returns the seconds from each answer to the screen."""
    times = []
    try:
        for number, item in enumerate(ITEMS):
            await person.next_word()
            old = "is old" if number == 0 else f"has edit {number - 1:02d}"
            await update(
                ada,
                path,
                {"old_text": old, "new_text": f"has edit {number:02d}"},
                {"content": item, "position": -1},
            )
            answered = time.monotonic()
            await page.wait_for_text(item.strip(), timeout=30)
            await page.wait_for_text(f"has edit {number:02d}", timeout=30)
            times.append(time.monotonic() - answered)
    finally:
        person.stop()
    return times


async def test_a_person_types_while_the_agent_appends_and_replaces(
    any_lab: tuple[JupyterProcess, TextPage], tmp_path: Path
) -> None:
    server, page = any_lab
    path = "typing.md"
    file = write(server, path)
    await page.show(path)
    async with agent(server, "Ada") as ada:
        person = Person(page)
        async with asyncio.TaskGroup() as group:
            typing = group.create_task(person.type())
            working = group.create_task(append_and_replace(ada, page, path, person))
        await typing
        # What else the machine does makes one of them late, but not most.
        assert statistics.median(working.result()) < 1
        flag = page.page.locator(".jp-remote-userFlag-name, .jp-remote-userFlag").first
        await flag.wait_for(state="attached", timeout=30_000)
        assert "Ada (agent)" in (await flag.text_content() or "")
        await page.screenshot(tmp_path / "markdown.png")
        shown = await page.text()
        rest = shown
        for item in ITEMS:
            assert rest.count(item) == 1
            rest = rest.replace(item, "")
        body = NOTES.replace("is old", f"has edit {len(ITEMS) - 1:02d}")
        assert rest == body + "".join(person.words)
        assert await reads(ada, path, shown) == shown
        assert page.errors == []
        await until(lambda: file.read_text() == shown)


async def test_a_rename_moves_the_open_tab(lab: JupyterProcess, page: TextPage) -> None:
    write(lab, "before.md")
    await page.show("before.md")
    async with agent(lab, "Ada") as ada:
        await page.type("typed before")
        await ada.ask("rename_document", path="before.md", newPath="moved/after.md")
        await page.wait_for_path("moved/after.md", timeout=30)
        await page.type(", typed after")
        # Else the agent would write at an end that is no longer the end.
        await reads(ada, "moved/after.md", "typed before, typed after")
        await update(ada, "moved/after.md", {"content": " and by the agent"})
        await page.wait_for_text("typed before, typed after and by the agent", timeout=30)
        file = Path(lab.root) / "moved/after.md"
        await until(lambda: file.read_text().endswith("typed after and by the agent"))
        assert not (Path(lab.root) / "before.md").exists()
        # JupyterLab may just have asked for the file where it was.
        assert [error for error in page.errors if "404 Not Found" not in error] == []


async def test_a_person_is_notified_that_their_file_was_deleted(
    lab: JupyterProcess, page: TextPage, tmp_path: Path
) -> None:
    file = write(lab, "doomed.md")
    await page.show("doomed.md")
    async with agent(lab, "Ada") as ada:
        await page.type("unsaved")
        await ada.ask("delete_document", path="doomed.md")
        assert "doomed.md was deleted" in await page.dialog(timeout=30)
        await page.screenshot(tmp_path / "deleted.png")
        # What would save it is long over when another file has been edited and saved.
        other = write(lab, "other.md")
        await update(ada, "other.md", {"content": "saved later"})
        await until(lambda: other.read_text().endswith("saved later"))
        assert not file.exists()
