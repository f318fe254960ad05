"""Somebody changes a file on disk that is open: it is seen at once, and nothing is lost by it.

Jupyter lets such a file overwrite what is unsaved in the room. The servers of these tests save
only when they are told to, so that an edit surely is unsaved.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until
from tests.harness.ways import WAYS, served

pytestmark = pytest.mark.anyio

#: Looks at the files more often than once a second, which tests would wait for in vain.
SAVE_NEVER = {"YDocExtension": {"document_save_delay": 600, "file_poll_interval": 0.25}}

PARTS = ("the top é😀", "the middle", "the bottom")

#: Cells, so that a server takes a while to take them over.
LARGE = 1500

CHANGED = "The file was changed on disk"


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    """A server that saves when it is told to, with the two ways to it."""
    async with served(make_server, request.param, config=SAVE_NEVER) as process:
        yield process


class TextFile:
    """A Markdown file of some paragraphs."""

    kind: Literal["notebook", "file"] = "file"
    ending = ".md"
    read_with = "get_document"
    broken = "café, in Latin-1\n".encode("latin-1")
    refusal = "not_text"

    def content(self, parts: Sequence[str]) -> str:
        return "\n\n".join(parts) + "\n"

    def parts(self, content: str) -> list[str]:
        return content.removesuffix("\n").split("\n\n")

    def shown(self, facts: dict[str, Any]) -> list[str]:
        return self.parts(facts["content"])

    def seen_by(self, person: Collaborator) -> list[str]:
        return self.parts(person.source())

    def place(self, person: Collaborator, number: int) -> tuple[str | None, int]:
        """Where a part is: the cell, and its first character."""
        return None, sum(len(part) + 2 for part in self.seen_by(person)[:number])

    async def change(
        self, client: AgentClient, file: Path, number: int, old: str, new: str
    ) -> dict[str, Any]:
        operations = [{"old_text": old, "new_text": new}]
        return await client.ask("batch_update_document", path=file.name, operations=operations)

    async def add(self, client: AgentClient, file: Path, text: str) -> dict[str, Any]:
        operations = [{"content": f"\n{text}\n"}]
        return await client.ask("batch_update_document", path=file.name, operations=operations)


class NotebookFile:
    """A notebook of some cells with ids `cell-0`, `cell-1`, ..."""

    kind: Literal["notebook", "file"] = "notebook"
    ending = ".ipynb"
    read_with = "get_notebook"
    broken = b"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> theirs\n"
    refusal = "corrupt_document"

    def content(self, parts: Sequence[str]) -> str:
        cells = [notebooks.markdown(f"cell-{n}", part) for n, part in enumerate(parts)]
        return json.dumps(notebooks.notebook(cells), indent=1)

    def parts(self, content: str) -> list[str]:
        return ["".join(cell["source"]) for cell in json.loads(content)["cells"]]

    def shown(self, facts: dict[str, Any]) -> list[str]:
        return [cell["source"] for cell in facts["cells"]]

    def seen_by(self, person: Collaborator) -> list[str]:
        return person.sources()

    def place(self, person: Collaborator, number: int) -> tuple[str | None, int]:
        return f"cell-{number}", 0

    async def change(
        self, client: AgentClient, file: Path, number: int, old: str, new: str
    ) -> dict[str, Any]:
        return dict(await client.replace(file.name, f"cell-{number}", old, new))

    async def add(self, client: AgentClient, file: Path, text: str) -> dict[str, Any]:
        cells = [{"content": text, "cell_type": "markdown"}]
        return await client.ask(
            "batch_insert_notebook_cells", path=file.name, cells=cells, exec=False
        )


Kind = TextFile | NotebookFile


class Open:
    """A file that is open, which somebody changes on disk."""

    def __init__(self, server: JupyterProcess, kind: Kind, name: str) -> None:
        self.server, self.kind = server, kind
        self.file = Path(server.root) / f"{name}{kind.ending}"
        self.write(PARTS)

    def write(
        self, parts: Sequence[str], by_replacing: bool = False, modified: int | None = None
    ) -> None:
        """Change the file on disk, in place or as git does."""
        self._put(self.kind.content(parts).encode(), by_replacing, modified)

    def make_unloadable(self) -> None:
        """Change the file on disk into what it cannot be."""
        self._put(self.kind.broken)

    def _put(self, content: bytes, by_replacing: bool = False, modified: int | None = None) -> None:
        target = self.file.with_name("written-beside") if by_replacing else self.file
        before = self._modified()
        while self._modified() == before:  # on some systems, times have steps of some ms
            target.write_bytes(content)
            if modified is not None:
                os.utime(target, (modified, modified))
            if by_replacing:
                target.replace(self.file)

    def _modified(self) -> int | None:
        return self.file.stat().st_mtime_ns if self.file.exists() else None

    def on_disk(self) -> list[str]:
        return self.kind.parts(self.file.read_text())

    async def read(self, client: AgentClient) -> tuple[list[str], str]:
        """What an agent reads, and what it is told beside."""
        facts = await client.ask(self.kind.read_with, path=self.file.name)
        return self.kind.shown(facts), told(facts)

    async def break_it(self) -> None:
        """Write what cannot be loaded; from then on, the server itself would save over it."""
        self.make_unloadable()
        said = f"Error loading content from file: {self.file.name}"
        await until(lambda: said in self.server.log, timeout=20)

    def tab(self, name: str = "Ana") -> Collaborator:
        address, token = self.server.url, self.server.token
        return Collaborator(address, token, self.file.name, name, kind=self.kind.kind)

    async def settles_as(self, client: AgentClient, *parts: str) -> None:
        """See that it stays so: for the agent, for who comes, and on disk, over some saves."""
        expected = list(parts)
        async with self.tab("Fay") as fay:
            for _ in range(3):
                assert await self.read(client) == (expected, "")
                await fay.flush()  # she has all that the room has
                assert self.kind.seen_by(fay) == expected
                assert await fay.save() == "success"
                assert self.on_disk() == expected
        async with self.tab("Gus") as gus:
            assert self.kind.seen_by(gus) == expected


def told(facts: dict[str, Any]) -> str:
    """What is said, but for that a server which never saves has not saved for long."""
    return " ".join(said for said in facts.get("notices", ()) if "has not saved" not in said)


@pytest.fixture(params=[TextFile, NotebookFile], ids=["text", "notebook"])
def document(server: JupyterProcess, request: pytest.FixtureRequest) -> Open:
    """A document of three parts."""
    return Open(server, request.param(), re.sub(r"\W+", "-", request.node.name))


# -- seen at once ----------------------------------------------------------------------------


@pytest.mark.parametrize("by_replacing", [False, True], ids=["written", "replaced"])
async def test_the_very_next_read_shows_a_change_on_disk(
    ada: AgentClient, document: Open, by_replacing: bool
) -> None:
    assert await document.read(ada) == (list(PARTS), "")
    for n in range(3):
        changed = [f"{n} é😀", *PARTS[1:], f"new {n}"]
        document.write(changed, by_replacing)
        assert await document.read(ada) == (changed, "")


async def test_an_agent_that_joins_an_open_document_reads_a_change_on_disk_too(
    ada: AgentClient, document: Open
) -> None:
    async with document.tab():
        changed = [*PARTS, "new"]
        document.write(changed)
        found = await document.read(ada)
        if document.server.standalone is not None:
            # From outside nobody knows at first whether the server has noticed it.
            async with asyncio.timeout(20):
                while found[0] != changed:
                    found = await document.read(ada)
        assert found == (changed, "")


async def test_a_person_and_an_agent_both_see_a_change_on_disk(
    ada: AgentClient, document: Open
) -> None:
    async with document.tab() as ana:
        await document.read(ada)
        changed = ["other", *PARTS[1:]]
        document.write(changed)
        await document.read(ada)
        await ana.until(lambda: document.kind.seen_by(ana) == changed, timeout=20)


async def test_a_replacement_by_an_older_file_is_not_overlooked(
    ada: AgentClient, document: Open
) -> None:
    """Jupyter looks for files that are newer than what it knows."""
    await document.read(ada)
    changed = ["other", *PARTS[1:]]
    document.write(changed, by_replacing=True, modified=1_000_000_000)
    parts, said = await document.read(ada)
    if document.server.standalone is None:
        assert (parts, said) == (changed, "")
    else:
        assert said == f"{CHANGED}; the server has not noticed it yet."


async def test_a_change_of_a_links_target_is_not_overlooked(
    ada: AgentClient, document: Open
) -> None:
    """Jupyter shows the time of the link itself, which stays as it is; and saves over the file."""
    server = document.server
    if server.standalone is not None:
        pytest.skip("from outside of a server, a link looks like a file")
    link = document.file.with_name(f"link-to-{document.file.name}")
    link.symlink_to(document.file.name)
    async with Collaborator(server.url, server.token, link.name, kind=document.kind.kind) as ana:
        for n in range(2):
            changed = [*PARTS[:2], f"changed {n}"]
            document.write(changed)
            assert await document.read(ada) == (changed, "")
            await ana.until(lambda expected=changed: document.kind.seen_by(ana) == expected)  # type: ignore[misc]
            cell, place = document.kind.place(ana, 0)
            ana.insert(cell, place, "Ana's ")
            await ana.flush()
            assert await ana.save() == "success"
            assert document.on_disk() == [f"Ana's {PARTS[0]}", *changed[1:]]
        # A save that meets a change that nobody has seen does not overwrite it either.
        ana.insert(cell, place, "lost ")
        await ana.flush()
        document.write(["other", *PARTS[1:]])
        await ana.save()
        await ana.until(lambda: document.kind.seen_by(ana) == ["other", *PARTS[1:]])
        assert document.on_disk() == ["other", *PARTS[1:]]


# -- unsaved edits ---------------------------------------------------------------------------


@pytest.mark.parametrize("by_replacing", [False, True], ids=["written", "replaced"])
async def test_an_unsaved_edit_and_a_change_on_disk_elsewhere_are_both_kept(
    ada: AgentClient, document: Open, by_replacing: bool
) -> None:
    top, middle, _bottom = PARTS
    await document.read(ada)
    await document.kind.change(ada, document.file, 0, "top", "top of Ada")
    assert document.on_disk() == list(PARTS)
    document.write([top, middle, "changed on disk"], by_replacing)
    parts, said = await document.read(ada)
    assert parts == ["the top of Ada é😀", middle, "changed on disk"]
    assert said.startswith(f"{CHANGED}: lost edits were reapplied in ")
    await document.settles_as(ada, *parts)
    assert (await document.read(ada))[1] == ""  # it is said once


async def test_an_edit_made_after_a_save_survives_a_change_on_disk(
    ada: AgentClient, document: Open
) -> None:
    """A server that takes over a notebook forgets the hash of the last save, which is no save."""
    await document.kind.change(ada, document.file, 0, "top", "top of Ada")
    async with document.tab() as ana:
        assert await ana.save() == "success"
    await document.kind.change(ada, document.file, 1, "middle", "middle of Ada")
    document.write(["the top of Ada é😀", "the middle", "changed on disk"])
    expected = ["the top of Ada é😀", "the middle of Ada", "changed on disk"]
    assert (await document.read(ada))[0] == expected
    await document.settles_as(ada, *expected)


async def test_a_person_sees_a_lost_edit_come_back_without_a_call_by_an_agent(
    ada: AgentClient, document: Open
) -> None:
    top, middle, _bottom = PARTS
    async with document.tab() as ana:
        await document.kind.change(ada, document.file, 0, "top", "top of Ada")
        await document.kind.add(ada, document.file, "a new part")
        document.write([top, middle, "changed on disk"])
        expected = ["the top of Ada é😀", middle, "changed on disk", "a new part"]
        await ana.until(lambda: document.kind.seen_by(ana) == expected, timeout=20)
    parts, said = await document.read(ada)
    assert parts == expected
    assert said.startswith(CHANGED)
    await document.settles_as(ada, *expected)


async def test_a_save_that_collides_with_a_change_on_disk_loses_nothing(
    ada: AgentClient, document: Open
) -> None:
    top, middle, _bottom = PARTS
    async with document.tab() as ana:
        await document.read(ada)
        await document.kind.change(ada, document.file, 0, "top", "top of Ada")
        document.write([top, middle, "changed on disk"])
        await ana.save()
        expected = ["the top of Ada é😀", middle, "changed on disk"]
        await ana.until(lambda: document.kind.seen_by(ana) == expected, timeout=20)
    assert CHANGED in (await document.read(ada))[1]
    await document.settles_as(ada, *expected)


async def test_an_edit_made_before_the_server_notices_the_change_is_kept_too(
    ada: AgentClient, document: Open
) -> None:
    top, middle, _bottom = PARTS
    await document.read(ada)
    document.write([top, middle, "changed on disk"])
    await document.kind.change(ada, document.file, 0, "top", "top of Ada")
    expected = ["the top of Ada é😀", middle, "changed on disk"]
    assert (await document.read(ada))[0] == expected
    await document.settles_as(ada, *expected)


async def test_edits_made_while_the_server_reloads_a_large_file_are_kept(
    ada: AgentClient, server: JupyterProcess
) -> None:
    """A server does so cell by cell, and answers questions in the middle of it."""
    large = Open(server, NotebookFile(), "large")
    expected = [f"part {n}" for n in range(LARGE)]
    large.write(expected)
    await ada.ask("get_notebook", path=large.file.name, cell_ids=["cell-0"])
    edited = 0
    async with large.tab() as ana:
        large.write([*expected[:-1], "changed on disk"])
        while ana.sources()[-1] != "changed on disk" and edited < LARGE - 1:
            number = edited * 7919 % (LARGE - 1)  # all over the file
            await large.kind.change(ada, large.file, number, "part", "part of Ada")
            expected[number] = f"part of Ada {number}"
            edited += 1
        expected[-1] = "changed on disk"
        await large.read(ada)
        await ana.until(lambda: ana.sources() == expected, timeout=30)
        assert edited
        assert await ana.save() == "success"
    assert large.on_disk() == expected


async def test_edits_of_two_agents_and_an_undo_survive_a_change_on_disk(
    ada: AgentClient, bob: AgentClient, document: Open
) -> None:
    top, _middle, _bottom = PARTS
    await document.kind.change(ada, document.file, 0, "top", "top of Ada")
    await document.kind.change(bob, document.file, 1, "middle", "middle of Bob")
    await document.kind.change(ada, document.file, 2, "bottom", "taken back")
    await ada.ask("undo_agent_changes", path=document.file.name)
    document.write([*PARTS, "from disk"])
    expected = ["the top of Ada é😀", "the middle of Bob", "the bottom", "from disk"]
    assert (await document.read(bob))[0] == expected
    assert (await document.read(ada))[0] == expected
    await document.settles_as(ada, *expected)
    await ada.ask("undo_agent_changes", path=document.file.name)
    await document.settles_as(bob, top, "the middle of Bob", "the bottom", "from disk")


async def test_edits_survive_repeated_changes_on_disk(ada: AgentClient, document: Open) -> None:
    expected = list(PARTS)
    for n in range(3):
        on_disk = [*document.on_disk(), f"from disk {n}"]
        await document.kind.change(ada, document.file, 0, "top", f"{n} top")
        document.write(on_disk)
        expected = [expected[0].replace("top", f"{n} top"), *on_disk[1:]]
        assert (await document.read(ada))[0] == expected
    await document.settles_as(ada, *expected)


async def test_an_agents_deletion_is_reapplied(ada: AgentClient, document: Open) -> None:
    top, middle, _bottom = PARTS
    await document.kind.change(ada, document.file, 0, " é😀", "")
    document.write([top, middle, "changed on disk"])
    parts, said = await document.read(ada)
    assert parts == ["the top", middle, "changed on disk"]
    assert "reapplied" in said
    await document.settles_as(ada, *parts)


async def test_a_conflict_at_the_same_place_is_reported_and_the_file_wins(
    ada: AgentClient, document: Open
) -> None:
    top, _middle, bottom = PARTS
    await document.read(ada)
    await document.kind.change(ada, document.file, 1, "the middle", "words of Ada")
    document.write([top, "words from disk", bottom])
    parts, said = await document.read(ada)
    assert said.startswith(f"{CHANGED}: these could not be")
    assert "somebody wrote at the same place" in said
    assert parts == [top, "words from disk", bottom]
    await document.settles_as(ada, *parts)


async def test_line_endings_survive_a_change_on_disk(
    server: JupyterProcess, ada: AgentClient
) -> None:
    file = Path(server.root) / "windows.txt"
    file.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    operations = [{"old_text": "one", "new_text": "one of Ada"}]
    await ada.ask("batch_update_document", path=file.name, operations=operations)
    file.write_bytes(b"one\r\ntwo\r\nfrom disk\r\n")
    facts = await ada.ask("get_document", path=file.name)
    assert facts["content"] == "one of Ada\ntwo\nfrom disk\n"
    async with Collaborator(server.url, server.token, file.name, kind="file") as ana:
        assert await ana.save() == "success"
    kept = b"one of Ada\r\ntwo\r\nfrom disk\r\n"
    stock = server.standalone is not None
    assert file.read_bytes() == (kept.replace(b"\r\n", b"\n") if stock else kept)


async def test_every_agent_present_is_notified_not_only_the_first_to_ask(
    ada: AgentClient, bob: AgentClient, document: Open
) -> None:
    top, _middle, bottom = PARTS
    await document.read(bob)
    await document.kind.change(ada, document.file, 1, "the middle", "words of Ada")
    document.write([top, "words from disk", bottom])
    assert CHANGED in (await document.read(bob))[1]
    assert CHANGED in (await document.read(ada))[1]
    assert (await document.read(bob))[1] == ""


async def test_edits_without_a_conflict_are_reapplied_even_if_others_conflict(
    ada: AgentClient, document: Open
) -> None:
    """And it is still known to be unsaved: the next change on disk does not take it."""
    _top, middle, bottom = PARTS
    await document.kind.change(ada, document.file, 0, "the top", "words of Ada")
    await document.kind.change(ada, document.file, 1, "middle", "middle of Ada")
    document.write(["words from disk é😀", middle, bottom])
    parts, said = await document.read(ada)
    assert parts == ["words from disk é😀", "the middle of Ada", bottom]
    assert "reapplied" in said
    assert "could not be" in said
    document.write(["words from disk é😀", middle, "once more"])
    expected = ["words from disk é😀", "the middle of Ada", "once more"]
    assert (await document.read(ada))[0] == expected
    await document.settles_as(ada, *expected)


@pytest.mark.parametrize("noticed", [False, True], ids=["at once", "later"])
async def test_text_that_a_person_deleted_is_not_brought_back(
    ada: AgentClient, document: Open, noticed: bool
) -> None:
    top, middle, _bottom = PARTS
    async with document.tab() as ana:
        await document.kind.change(ada, document.file, 0, "top", "top of Ada")
        await ana.until(lambda: "Ada" in document.kind.seen_by(ana)[0])
        cell, start = document.kind.place(ana, 0)
        ana.delete(cell, start + len("the top"), len(" of Ada"))
        await ana.flush()
        document.write([top, middle, "changed on disk"])
        expected = [top, middle, "changed on disk"]
        if noticed:
            await ana.until(lambda: document.kind.seen_by(ana) == expected, timeout=20)
        assert (await document.read(ada))[0] == expected
    await document.settles_as(ada, *expected)


async def test_touching_a_file_loses_nothing(ada: AgentClient, document: Open) -> None:
    await document.kind.change(ada, document.file, 0, "top", "top of Ada")
    document.write(PARTS)
    expected = ["the top of Ada é😀", *PARTS[1:]]
    assert (await document.read(ada))[0] == expected
    await document.settles_as(ada, *expected)


async def test_an_edit_that_the_changed_file_already_has_is_not_duplicated(
    ada: AgentClient, document: Open
) -> None:
    await document.kind.change(ada, document.file, 0, "top", "top of Ada")
    await document.kind.change(ada, document.file, 1, "middle", "middle of Ada")
    changed = ["the top of Ada é😀", "the middle", "changed on disk"]
    document.write(changed)
    expected = ["the top of Ada é😀", "the middle of Ada", "changed on disk"]
    assert (await document.read(ada))[0] == expected
    await document.settles_as(ada, *expected)


async def test_a_cell_that_a_person_deleted_is_not_brought_back(
    server: JupyterProcess, ada: AgentClient
) -> None:
    document = Open(server, NotebookFile(), "deleted cell")
    async with document.tab() as ana:
        facts = await document.kind.add(ada, document.file, "a new part")
        new = facts["cells"][0]["id"]
        await document.kind.change(ada, document.file, 0, "top", "top of Ada")
        await ana.until(lambda: new in ana.ids() and "Ada" in ana.source(0))
        ana.delete_cell(new)
        await ana.flush()
        document.write([*PARTS[:2], "changed on disk"])
        expected = ["the top of Ada é😀", "the middle", "changed on disk"]
        assert (await document.read(ada))[0] == expected
    await document.settles_as(ada, *expected)


async def test_a_file_deleted_on_disk_is_reported_as_missing(
    ada: AgentClient, document: Open
) -> None:
    await document.read(ada)
    document.file.unlink()
    error = await ada.refused(document.kind.read_with, path=document.file.name)
    assert error["code"] == "document_not_found"
    if document.server.standalone is None:  # from outside it is noticed some seconds later
        with pytest.raises(AssertionError, match="document_not_found"):
            await document.kind.change(ada, document.file, 0, "top", "top of Ada")
    assert not document.file.exists()
    document.write(["another one"])
    assert (await document.read(ada))[0] == ["another one"]
    await document.kind.change(ada, document.file, 0, "one", "of Ada")
    await document.settles_as(ada, "another of Ada")


# -- what cannot be loaded -------------------------------------------------------------------


async def test_a_file_that_became_unloadable_is_neither_shown_nor_edited_until_repaired(
    ada: AgentClient, document: Open
) -> None:
    await document.read(ada)
    document.make_unloadable()
    error = await ada.refused(document.kind.read_with, path=document.file.name)
    assert error["code"] == document.kind.refusal
    with pytest.raises(AssertionError, match=document.kind.refusal):
        await document.kind.change(ada, document.file, 0, "top", "top of Ada")
    assert document.file.read_bytes() == document.kind.broken
    document.write(["mended"])
    assert (await document.read(ada))[0] == ["mended"]
    await document.kind.change(ada, document.file, 0, "mended", "mended, and edited")
    await document.settles_as(ada, "mended, and edited")


async def test_an_agent_that_joins_a_document_that_became_unloadable_cannot_edit_it(
    ada: AgentClient, document: Open
) -> None:
    async with document.tab():
        await document.break_it()
        with pytest.raises(AssertionError, match=document.kind.refusal):
            await document.kind.add(ada, document.file, "of Ada")
        assert document.file.read_bytes() == document.kind.broken


async def test_copying_an_unloadable_file_copies_its_bytes_unchanged(
    ada: AgentClient, document: Open
) -> None:
    copy = document.file.with_name(f"copy-of-{document.file.name}")
    await document.read(ada)
    await document.break_it()
    place = {"path": document.file.name, "copyPath": copy.name}
    if document.server.standalone is not None and document.kind.kind == "notebook":
        await ada.refused("copy_document", **place)  # a server copies no notebook that is none
        assert not copy.exists()
    else:
        await ada.ask("copy_document", **place)
        assert copy.read_bytes() == document.kind.broken
    assert document.file.read_bytes() == document.kind.broken


async def test_renaming_an_unloadable_file_does_not_restore_its_old_content(
    ada: AgentClient, document: Open
) -> None:
    renamed = document.file.with_name(f"renamed-{document.file.name}")
    rename = {"path": document.file.name, "newPath": renamed.name}
    async with document.tab() as ana:
        await document.read(ada)
        await document.break_it()
        if document.server.standalone is None:
            await ada.ask("rename_document", **rename)
            await ana.save()
            assert renamed.read_bytes() == document.kind.broken
        else:  # a stock server saves when a document has another path, and cannot be kept from it
            error = await ada.refused("rename_document", **rename)
            assert error["code"] == document.kind.refusal
            assert document.file.read_bytes() == document.kind.broken


async def test_an_edit_made_before_a_broken_file_was_noticed_waits_for_its_repair(
    ada: AgentClient, document: Open
) -> None:
    if document.server.standalone is not None:
        pytest.skip("a stock server saves over what it cannot load")
    async with document.tab() as ana:
        await document.read(ada)
        await document.kind.change(ada, document.file, 0, "top", "top of Ada")
        document.make_unloadable()
        for _ in range(3):
            await ana.save()
            assert document.file.read_bytes() == document.kind.broken
        error = await ada.refused(document.kind.read_with, path=document.file.name)
        assert error["code"] == document.kind.refusal
        document.write([*PARTS[:2], "mended"])
        expected = ["the top of Ada é😀", "the middle", "mended"]
        assert (await document.read(ada))[0] == expected
    await document.settles_as(ada, *expected)
