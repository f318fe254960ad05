"""The panel in JupyterLab: what a person sees of agents, and what they do about it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Route, expect

from tests.conftest import MakeServer, Times
from tests.harness import measuring, notebooks
from tests.harness.agents import AgentClient, agent, text_of
from tests.harness.browser import EXPOSE_APP, LabPage, new_page
from tests.harness.jupyter import NOT_MEASURED, REPOSITORY, JupyterProcess
from tests.harness.panel import Panel
from tests.harness.panel_page import PanelPage, ProxiedServer, open_panel
from tests.harness.proxy import Proxy
from tests.harness.standalone import StandaloneProcess
from tests.test_agent_tokens import holder

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(180)]

#: Where pictures of the page are kept, to be looked at.
PICTURES = REPOSITORY / "build" / "screenshots"

EXTENSIONS = {"jupyterlab": True, "notebook_shim": True}

SOURCES = {
    "load": "def load():\n    rows = [1, 2]\n    return rows",
    "total": "total = 0\nfor row in load():\n    total += row",
    "show": "print(total)",
    "last": "# nothing yet",
}

#: As the panel writes it: a true minus sign.
MINUS = "\N{MINUS SIGN}"

SHORTER = "def load():\n    return [1, 2]"


@pytest.fixture(scope="module")
async def lab(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A JupyterLab that the tests share; each has a notebook and agents of its own."""
    options = {"extensions": EXTENSIONS, "env": measuring.shared_server()}
    async with make_server(EXPOSE_APP, app="lab", base_url="/user/me/", **options) as server:
        yield server


@pytest.fixture(scope="module")
async def shared_page(lab: JupyterProcess, browser: None) -> AsyncIterator[PanelPage]:
    write(lab, "first.ipynb")
    async with open_panel(lab, "first.ipynb") as page:
        yield page


@pytest.fixture
async def page(lab: JupyterProcess, shared_page: PanelPage) -> AsyncIterator[PanelPage]:
    """A page that the tests share, and in which nothing is to be reviewed."""
    yield shared_page
    async with Panel(lab) as panel:
        await panel.post("review", action="keep")
    await expect(shared_page.marks).to_have_count(0)
    errors = shared_page.lab.errors[:]
    shared_page.lab.errors.clear()
    assert errors == []


def write(server: JupyterProcess, path: str, more: int = 0) -> None:
    cells = [
        notebooks.markdown("title", "# Sales"),
        *(notebooks.code(cell_id, source) for cell_id, source in SOURCES.items()),
        *(notebooks.code(f"more{number}", f"x{number} = {number}") for number in range(more)),
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebooks.write(server.root / path, notebooks.notebook(cells, metadata=kernel))


async def picture(panel: PanelPage, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    await panel.page.screenshot(path=PICTURES / f"{name}.png")


async def test_a_call_is_drawn_within_a_fifth_of_a_second_of_its_beginning(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "soon.ipynb"
    write(lab, path)
    await page.lab.show(path)
    async with agent(lab, "Ada") as ada:
        await ada.sources(path)
        await expect(page.agent("Ada")).to_contain_text(path)
        await page.watch_calls()
        for number in range(10):
            await ada.write(path, "show", f"print({number})")
        async with Panel(lab) as feed:
            calls = [call for call in feed.calls.values() if call["path"] == path][-10:]
        for call in calls:
            await page.page.wait_for_function("(id) => window.drawn[id]", arg=call["id"])
        drawn = await page.drawn_calls()
        took = sorted(drawn[call["id"]] - call["began"] for call in calls)
        assert took[len(took) // 2] < 200, took


async def test_a_person_reviews_cell_by_cell_in_the_panel_and_in_the_notebook(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "review.ipynb"
    write(lab, path)
    await page.lab.show(path)
    async with agent(lab, "Ada") as ada:
        await edit(ada, path, load=SHORTER, total="total = sum(load())")
        await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["show"])
        await expect(page.marks).to_have_count(3)
        await expect(page.mark("load")).to_contain_text(f"Ada edited +1{MINUS}2")
        await expect(page.mark("show")).to_contain_text("deleted")
        toolbar = page.toolbar
        await expect(toolbar).to_have_text("3")
        await expect(page.page.locator(".jp-McpStatus")).to_contain_text("3 cells to review")

        await page.set("marks", False)
        await expect(page.marks).to_have_count(0)
        await page.set("review", False)
        await expect(page.sidebar.get_by_text("To review", exact=True)).to_have_count(0)
        await expect(toolbar).to_have_text("")
        await page.set("marks", True)
        await page.set("review", True)
        await expect(page.marks).to_have_count(3)

        card = page.card("edited load")
        await card.get_by_role("button", name="Show diffs").click()
        diff = card.locator('.jp-McpDiff[data-cell="load"]')
        await expect(diff.locator(".cm-deletedChunk, .cm-changedLine").first).to_be_visible()
        await page.mark("load").get_by_role("button", name="Diff").click()
        inline = page.notebook.locator(".cm-deletedChunk")
        await expect(inline).to_contain_text("rows = [1, 2]")
        await picture(page, "panel-review")

        await card.get_by_role("button", name="Undo the change of load").click()
        await page.wait_for_source("load", SOURCES["load"])
        await expect(page.mark("load")).to_have_count(0)
        await expect(inline).to_have_count(0)
        assert await page.source("total") == "total = sum(load())"

        await page.mark("show").get_by_role("button", name="Undo").click()
        await page.wait_for_source("show", SOURCES["show"])
        assert await page.ids() == ["title", *SOURCES]

        await page.sidebar.get_by_label("Kind").select_option("edit")
        await page.sidebar.get_by_label("Document").select_option("this document")
        await expect(page.calls).to_have_count(2)
        async with page.page.expect_download() as download:
            await page.sidebar.get_by_role("button", name="Export").click()
        exported = json.loads((await (await download.value).path()).read_text())
        assert [call["tool"] for call in exported] == [
            "batch_delete_notebook_cells",
            "batch_update_notebook_cells",
        ]
        await page.sidebar.get_by_label("Kind").select_option("")
        await page.sidebar.get_by_label("Document").select_option("")

        # With the keyboard: nobody is left without a focus.
        await page.mark("total").get_by_role("button", name="Keep").focus()
        await page.page.keyboard.press("Enter")
        await expect(page.marks).to_have_count(0)
        assert await page.page.evaluate("document.activeElement.closest('.jp-Notebook') !== null")
        await expect(page.cards).to_have_count(0)
        await expect(toolbar).to_have_text("")
        assert await page.source("total") == "total = sum(load())"


async def edit(ada: AgentClient, path: str, **contents: str) -> None:
    """Change cells in one call."""
    updates = [{"cell_id": cell, "content": text} for cell, text in contents.items()]
    await ada.ask("batch_update_notebook_cells", path=path, updates=updates, exec=False)


async def test_a_person_who_types_during_a_review_loses_no_character(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "typing.ipynb"
    write(lab, path)
    typed = "".join(f"# word{number} " for number in range(30))
    await page.lab.show(path)
    async with agent(lab, "Ada") as ada:
        await edit(ada, path, load=SHORTER, total="total = sum(load())")
        await expect(page.marks).to_have_count(2)
        await page.put_caret("load", 0, len("def load():"))
        keyboard = page.page.keyboard
        typing = asyncio.create_task(keyboard.type(typed, delay=15))
        await page.lab.wait_for_text("word3", 1)
        await page.mark("load").get_by_role("button", name="Diff").click()
        await expect(page.notebook.locator(".cm-deletedChunk")).to_be_visible()
        # P8: what the person types is nobody else's change.
        added = page.notebook.locator(".cm-changedText")
        for _ in range(5):
            assert not any("word" in text for text in await added.all_text_contents())
        await page.mark("total").get_by_role("button", name="Keep").click()
        await page.lab.wait_for_text("word15", 1)
        await page.mark("load").get_by_role("button", name="Undo").click()
        await expect(page.mark("load")).to_have_count(0)
        await typing
        await page.wait_for_source("load", SOURCES["load"].replace(":", f":{typed}", 1))
        assert (await ada.sources(path))[1] == await page.source("load")


async def test_two_people_who_review_the_same_call_get_one_outcome(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "both.ipynb"
    write(lab, path)
    await page.lab.show(path)
    async with open_panel(lab, path) as other, agent(lab, "Ada") as ada:
        await edit(ada, path, load=SHORTER)
        for each in (page, other):
            await expect(each.mark("load")).to_be_visible()
        # Without waiting for a button that the other one has just made disappear.
        click = """(name) => [...document.querySelectorAll(".jp-McpMark button")]
          .find((button) => button.textContent === name)?.click()"""
        await asyncio.gather(page.page.evaluate(click, "Keep"), other.page.evaluate(click, "Undo"))
        for each in (page, other):
            await expect(each.marks).to_have_count(0)
            await expect(each.cards).to_have_count(0)
        rows = [each.calls.filter(has_text="both.ipynb") for each in (page, other)]
        outcomes = [await row.first.get_attribute("data-review") for row in rows]
        assert outcomes[0] == outcomes[1]
        wanted = {"kept": SHORTER, "undone": SOURCES["load"]}[str(outcomes[0])]
        for each in (page, other):
            await each.wait_for_source("load", wanted)
        # The panel is open again where it was open. JupyterLab saves that a moment later.
        async with other.page.expect_response(lambda reply: "/api/workspaces" in reply.url):
            await other.command("application:toggle-left-area")
        # JupyterLab does not wait for what the panel asks for.
        restored = asyncio.Event()

        async def answer_late(route: Route) -> None:
            await restored.wait()
            await route.continue_()

        await other.page.route(re.compile(r"/panel/state\b"), answer_late)
        await other.page.reload()
        await other.page.wait_for_function("window.jupyterapp?.restored?.then(() => true)")
        await expect(other.sidebar).to_be_visible()
        await expect(other.agent("Ada")).to_have_count(0)
        restored.set()
        await expect(other.agent("Ada")).to_be_visible()
        assert other.lab.errors == []


async def test_a_conflict_shows_all_texts_and_keeps_the_words_of_the_person(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "conflict.ipynb"
    write(lab, path)
    await page.lab.show(path)
    async with agent(lab, "Ada") as ada:
        await edit(ada, path, show="print('the total is', total)")
        await expect(page.mark("show")).to_be_visible()
        await page.put_caret("show", 0, len("print('the "))
        await page.page.keyboard.type("grand ")
        await page.lab.wait_for_text("the grand total", 3)
        undo = page.mark("show").get_by_role("button", name="Undo")
        await undo.click()
        await expect(page.dialog).to_contain_text("Others have written here")
        await expect(page.dialog.locator("pre")).to_have_text(
            ["print('the total is', total)", "print('the grand total is', total)", SOURCES["show"]]
        )
        await picture(page, "panel-conflict")
        await expect(page.dialog.locator(".cm-inlineChangedLine")).to_be_visible()
        await page.dialog.get_by_role("button", name="Leave it").click()
        assert await page.source("show") == "print('the grand total is', total)"
        await undo.click()
        await page.dialog.get_by_role("button", name="Undo, keep their words").click()
        await expect(page.marks).to_have_count(0)
        left = await page.source("show") or ""
        assert "grand " in left
        assert "the total" not in left


async def test_following_leaves_the_focus_alone_and_ends_when_the_person_types(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "follow.ipynb"
    write(lab, path, more=40)
    await page.lab.show(path)
    async with agent(lab, "Fay") as fay:
        await fay.write(path, "load", SHORTER)
        await page.agent("Fay").get_by_role("button", name="Follow Fay").click()
        await page.put_caret("total", 0, 0)
        await fay.write(path, "more35", "x35 = 'changed'")
        far = page.notebook.locator(".jp-Cell", has_text="x35 = 'changed'")
        await expect(far).to_be_in_viewport()
        await expect(page.page.locator(".jp-McpStatus")).to_contain_text("Following Fay")
        await page.page.keyboard.type("# mine\n")
        await page.wait_for_source("total", "# mine\n" + SOURCES["total"])
        await expect(page.agent("Fay").get_by_role("button", name="Follow Fay")).to_have_attribute(
            "aria-pressed", "false"
        )
        await fay.write(path, "more30", "x30 = 'changed'")
        await page.lab.wait_for_text("# mine", 2)
        await expect(page.notebook.locator(".jp-Cell", has_text="# mine")).to_be_in_viewport()


async def test_stopping_interrupts_the_run_and_refuses_the_agent(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "stop.ipynb"
    write(lab, path)
    await page.lab.show(path)
    async with agent(lab, "Eve") as eve:
        row = page.calls.filter(has_text="Eve").filter(has_text="under way")
        running = asyncio.create_task(
            eve.call("run_code", path=path, code="while True: pass", timeout=60)
        )
        await page.lab.wait_for_kernel("busy")
        await row.get_by_role("button", name="Interrupt").click()
        assert "KeyboardInterrupt" in text_of(await running)
        running = asyncio.create_task(
            eve.call("run_code", path=path, code="while True: pass", timeout=60)
        )
        await expect(row).to_be_visible()
        await expect(page.agent("Eve")).to_contain_text("running")
        async with asyncio.timeout(3):
            await page.agent("Eve").get_by_role("button", name="Stop Eve").click()
            await running
        assert (await eve.refused("run_code", path=path, code="1"))["code"] == "agent_stopped"
        refused = page.calls.filter(has_text="refused").first
        await expect(refused).to_contain_text("stopped")
        await page.agent("Eve").get_by_role("button", name="Let Eve go on").click()
        await expect(page.agent("Eve").get_by_role("button", name="Pause Eve")).to_be_visible()
        await eve.ask("run_code", path=path, code="1")
        await page.agent("Eve").get_by_role("button", name="Pause Eve").click()
        await expect(page.agent("Eve")).to_contain_text("paused")
        assert (await eve.refused("run_code", path=path, code="1"))["code"] == "agent_paused"
        await eve.sources(path)
        # Agents that are new would be held like her: she has no token of her own.
        await page.agent("Eve").get_by_role("button", name="Let Eve go on").click()
        await expect(page.agent("Eve").get_by_role("button", name="Pause Eve")).to_be_visible()


async def test_an_interrupt_ends_the_run_of_one_agent_and_no_other(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "waits.ipynb"
    write(lab, path)
    await page.lab.show(path)
    async with agent(lab, "Eve") as eve, agent(lab, "Bob") as bob:
        rows = page.calls.filter(has_text="under way")
        endless = {"path": path, "code": "while True: pass", "timeout": 60}
        running = asyncio.create_task(bob.call("run_code", **endless))
        await page.lab.wait_for_kernel("busy")
        waiting = asyncio.create_task(eve.call("run_code", **endless))
        await rows.filter(has_text="Eve").get_by_role("button", name="Interrupt").click()
        await expect(rows.filter(has_text="Eve")).to_have_count(0)
        await waiting
        assert not running.done()
        await rows.filter(has_text="Bob").get_by_role("button", name="Interrupt").click()
        assert "KeyboardInterrupt" in text_of(await running)


async def test_a_call_with_many_cells_shows_each_of_them(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "many.ipynb"
    write(lab, path, more=30)
    await page.lab.show(path)
    async with agent(lab, "Ada") as ada:
        await edit(ada, path, **{f"more{number}": f"changed = {number}" for number in range(30)})
        card = page.cards.filter(has_text=path)
        await expect(card.locator(".jp-McpCell")).to_have_count(25)
        await card.get_by_role("button", name="Show 5 more cells").click()
        for number, shown in ((29, 1), (3, 2)):
            cell = card.locator(f'.jp-McpCell[data-cell="more{number}"]')
            await cell.locator(".jp-McpCell-name").click()
            await expect(cell.locator(".cm-editor")).to_contain_text(f"changed = {number}")
            await expect(card.locator(".cm-editor")).to_have_count(shown)


async def test_commands_and_keys_lead_from_change_to_change(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "keys.ipynb"
    write(lab, path, more=40)
    await page.lab.show(path)
    async with agent(lab, "Ada") as ada:
        await edit(ada, path, load=SHORTER, more30="x30 = 'kept'", more35="x35 = 'undone'")
        await ada.ask(
            "batch_update_notebook_cells",
            path=path,
            exec=False,
            updates=[{"cell_id": "title", "content": "# Sales\n\nof May"}],
        )
        await expect(page.marks.first).to_be_visible()
        title = page.mark("title")
        await title.get_by_role("button", name="Diff").click()
        # A rendered cell stays rendered: its diff is below it.
        await expect(title.locator(".cm-editor")).to_contain_text("of May")
        await expect(page.notebook.locator(".jp-RenderedMarkdown h1")).to_be_visible()
        await page.put_caret("load", 0, 0)
        keyboard = page.page.keyboard
        active = """() => jupyterapp.shell.currentWidget.content.activeCell.model.id"""
        for wanted in ("more30", "more35", "title", "load", "more30"):
            await keyboard.press("Alt+F5")
            assert await page.page.evaluate(active) == wanted
        await expect(page.mark("more30")).to_be_in_viewport()
        await keyboard.press("Control+Alt+Enter")
        await expect(page.mark("more30")).to_have_count(0)
        await keyboard.press("Alt+F5")
        await page.page.wait_for_function(f"({active})() === 'more35'")
        await keyboard.press("Control+Alt+Backspace")
        await page.wait_for_source("more35", "x35 = 35")
        assert await page.source("more30") == "x30 = 'kept'"
        await keyboard.press("Shift+Alt+F5")
        assert await page.page.evaluate(active) == "load"
        await page.command("collaboration-mcp:keep-document")
        await expect(page.marks).to_have_count(0)
        assert await page.source("load") == SHORTER


async def test_a_proposal_is_merged_cell_by_cell(lab: JupyterProcess, page: PanelPage) -> None:
    path = "proposal.ipynb"
    write(lab, path)
    await page.lab.show(path)
    async with agent(lab, "Pia", works="propose") as pia:
        await edit(pia, path, load=SHORTER, show="print('total', total)")
        card = page.sidebar.locator(".jp-McpProposal")
        await expect(card).to_contain_text("Pia")
        await card.get_by_role("button", name="Show diff").click()
        await expect(card.locator(".jp-McpDiff .cm-editor")).to_have_count(2)
        await card.get_by_role("button", name="Open beside").click()
        beside = page.page.locator(".jp-McpAlone")
        await expect(beside.locator(".cm-editor")).to_have_count(2)
        await page.lab.show(path)
        await card.locator('.jp-McpCell[data-cell="show"] input').uncheck()
        await card.get_by_role("button", name="Merge").click()
        await page.wait_for_source("load", SHORTER)
        assert await page.source("show") == SOURCES["show"]
        await card.get_by_role("button", name="Discard").click()
        await page.dialog.get_by_role("button", name="Discard").click()
        await expect(card).to_have_count(0)
        await expect(beside).to_have_text("This proposal was discarded.")
        await page.page.evaluate(
            """() => [...jupyterapp.shell.widgets("main")]
              .find((tab) => tab.id.startsWith("collaboration-mcp-proposal")).close()"""
        )


async def test_a_person_connects_an_agent_with_a_token_of_its_own(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "connect.ipynb"
    write(lab, path)
    await page.lab.show(path)
    await page.sidebar.get_by_role("button", name="Connect an agent").click()
    await page.sidebar.get_by_label("Name").fill("Cleo")
    await page.sidebar.get_by_label("Level").select_option("read")
    await page.sidebar.get_by_role("button", name="Make a token").click()
    shown = page.sidebar.locator(".jp-McpMade")
    await expect(shown.locator("pre")).to_contain_text(f"{lab.url}mcp")
    await page.sidebar.locator(".jp-McpSections").evaluate("(e) => e.scrollTo(0, 1e6)")
    await picture(page, "panel-connect")
    await shown.get_by_role("button", name="Done").click()
    await expect(shown).to_have_count(0)
    await page.sidebar.get_by_role("button", name="Connect an agent").click()


async def test_an_agent_whose_token_was_revoked_can_only_be_forgotten(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "revoked.ipynb"
    write(lab, path)
    async with Panel(lab) as panel:
        made = await panel.post(
            "connect", 201, client="claude-code", agent="Tom", permission="write"
        )
    tom = page.agent("Tom")
    async with holder(lab, made["token"]) as client:
        await client.sources(path)
        await tom.get_by_role("button", name="Stop Tom").click()
        await expect(tom).to_contain_text("its token is gone")
        await expect(tom.get_by_role("button", name="Let Tom go on")).to_have_count(0)
    await tom.get_by_role("button", name="Forget Tom").click()
    await expect(tom).to_have_count(0)


async def test_an_agent_of_the_command_is_seen_and_reviewed_too(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "command.ipynb"
    write(lab, path)
    await page.lab.show(path)
    async with StandaloneProcess([lab]) as command, agent(command, "Cora") as cora:
        await edit(cora, path, load=SHORTER, total="total = sum(load())")
        await expect(page.agent("Cora")).to_contain_text(path)
        await expect(page.notices).to_contain_text("Cora has connected and may do everything.")
        await expect(page.mark("load")).to_contain_text("Cora edited")
        await page.mark("load").get_by_role("button", name="Undo").click()
        await page.wait_for_source("load", SOURCES["load"])
        await page.mark("total").get_by_role("button", name="Keep").click()
        await expect(page.marks).to_have_count(0)
        assert await page.source("total") == "total = sum(load())"


async def test_text_files_renamed_notebooks_and_cells_that_are_gone(
    lab: JupyterProcess, page: PanelPage
) -> None:
    path = "gone.ipynb"
    write(lab, path)
    (lab.root / "notes.md").write_text("one\ntwo\n")
    await page.lab.show(path)
    async with agent(lab, "Ada") as ada:
        await ada.ask(
            "batch_update_document",
            path="notes.md",
            operations=[{"old_text": "two", "new_text": "2"}],
        )
        card = page.cards.filter(has_text="notes.md")
        await card.locator(".jp-McpCell-name").click()
        await expect(card.locator(".cm-editor")).to_contain_text("two")
        await card.get_by_role("button", name="Undo").click()
        await expect(card).to_have_count(0)
        assert (await ada.ask("get_document", path="notes.md"))["content"] == "one\ntwo\n"

        await edit(ada, path, load=SHORTER, total="total = sum(load())")
        await ada.ask("rename_document", path=path, new_path="renamed.ipynb")
        card = page.cards.filter(has_text="renamed.ipynb")
        await expect(card).to_be_visible()
        await expect(page.marks).to_have_count(2)
        await page.put_caret("load", 0, 0)
        await page.command("notebook:delete-cell")
        await expect(page.marks).to_have_count(1)
        await card.get_by_role("button", name="Show diffs").click()
        await card.get_by_role("button", name="Undo the change of load").click()
        await expect(page.notices).to_contain_text("not in the notebook any more")
        await card.get_by_role("button", name="Keep the change of load").click()
        await page.mark("total").get_by_role("button", name="Undo").click()
        await page.wait_for_source("total", SOURCES["total"])
        await expect(card).to_have_count(0)
        assert await page.source("load") is None


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
async def test_axe_finds_no_serious_fault(lab: JupyterProcess, page: PanelPage, theme: str) -> None:
    path = f"axe-{theme[-4:].strip()}.ipynb"
    write(lab, path)
    axe = (REPOSITORY / "tests/node/node_modules/axe-core/axe.min.js").read_text()
    await page.lab.show(path)
    async with agent(lab, "Ada") as ada, agent(lab, "Pia", works="propose") as pia:
        await edit(ada, path, load=SHORTER, total="total = sum(load())")
        await edit(pia, path, show="print('total', total)")
        await ada.refused("run_code", path="missing.ipynb", code="1")
        change_theme = "(theme) => jupyterapp.commands.execute('apputils:change-theme', { theme })"
        await page.page.evaluate(change_theme, theme)
        await page.card("edited load").get_by_role("button", name="Show diffs").click()
        await page.sidebar.get_by_role("button", name="Connect an agent").click()
        await expect(page.sidebar.locator(".jp-McpProposal")).to_have_count(1)
        await page.mark("load").get_by_role("button", name="Diff").click()
        await expect(page.notebook.locator(".cm-deletedChunk")).to_be_visible()
        await expect(page.sidebar.locator(".jp-McpDiff .cm-editor")).to_have_count(2)
        await picture(page, f"panel-{theme[-5:].strip().lower()}")
        parts = ("#collaboration-mcp-panel", ".jp-McpMark", ".jp-McpStatus", ".jp-McpToolbar")
        assert await page.faults(axe, *parts) == []
        await pia.ask("list_document_forks")
        await page.command("collaboration-mcp:keep-document")
        card = page.sidebar.locator(".jp-McpProposal")
        await card.get_by_role("button", name="Discard").click()
        await page.dialog.get_by_role("button", name="Discard").click()
        await expect(card).to_have_count(0)
        await page.page.evaluate(change_theme, "JupyterLab Light")
        await page.sidebar.get_by_role("button", name="Connect an agent").click()


async def test_nothing_is_missed_in_a_cut_or_a_restart(
    make_server: MakeServer, times: Times
) -> None:
    path = "cut.ipynb"
    server = make_server(EXPOSE_APP, app="lab", extensions=EXTENSIONS, env=NOT_MEASURED)
    async with server:
        write(server, path)
        proxy = Proxy(server.url)
        async with (
            proxy,
            open_panel(ProxiedServer(server, proxy.url), path) as page,
        ):
            state = page.sidebar.locator(".jp-McpConnection")
            async with agent(server, "Ada") as ada:
                await ada.write(path, "load", SHORTER)
                await expect(page.mark("load")).to_be_visible()
                proxy.cut()
                await expect(state).to_contain_text("not connected")
                for number in range(5):
                    await ada.write(path, "show", f"print({number})")
                if times(0, 1):
                    await asyncio.sleep(10)
                proxy.resume()
                await expect(state).to_contain_text("live", timeout=8000)
                await expect(page.calls.filter(has_text="to review")).to_have_count(6)
            await server.terminate()
            await expect(state).to_contain_text("not connected")
            await server.start()
            async with agent(server, "Ada") as ada:
                await ada.write(path, "last", "# after the restart")
                await expect(state).to_contain_text("live", timeout=8000)
                await expect(page.calls.filter(has_text="to review")).to_have_count(7)
                await expect(page.mark("load")).to_be_visible()


async def test_without_the_endpoints_nothing_of_the_panel_shows(make_server: MakeServer) -> None:
    config: dict[str, Any] = {"JupyterCollaborationMCP": {"panel": False}}
    server = make_server(
        EXPOSE_APP, app="lab", extensions=EXTENSIONS, config=config, env=NOT_MEASURED
    )
    async with server:
        write(server, "a.ipynb")
        loaded: list[str] = []
        async with new_page() as blank:
            blank.on("request", lambda request: loaded.append(request.url))
            page = LabPage(blank)
            await page.open(server, "a.ipynb")
            panel = PanelPage(page)
            await expect(panel.sidebar).to_have_count(0)
            for part in (".jp-McpStatus", ".jp-McpToolbar", '[data-id="collaboration-mcp-panel"]'):
                await expect(page.page.locator(part)).to_have_count(0)
            commands = await page.page.evaluate(
                "jupyterapp.commands.listCommands().filter((id) => id.includes('mcp'))"
            )
            assert commands == []
        ours = [url for url in loaded if "jupyter-collaboration-mcp/panel/static" in url]
        assert len(ours) == 3, "more than the entry, the plugin that asks, and the style"
        assert page.errors == []
