"""What recovery makes of a file, a store and a journal, without a server.

`test_server_recovery.py` has the same with real servers that are killed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from jupyter_ydoc import YFile, YNotebook
from pycrdt import Doc, Text
from pycrdt.store import FileYStore

from jupyter_collaboration_mcp.backends.disk.local_disk import LocalDisk
from jupyter_collaboration_mcp.backends.in_process.journal import Journal
from jupyter_collaboration_mcp.backends.in_process.journal_records import UnsavedRoom
from jupyter_collaboration_mcp.backends.in_process.recovery import Recovery, TornFile, recover
from jupyter_collaboration_mcp.backends.in_process.replay import Replay, without_trust
from jupyter_collaboration_mcp.backends.protocols.room_ids import Kind, RoomId
from tests.harness import notebooks

pytestmark = pytest.mark.anyio

LOG = logging.getLogger("recovery")


class Crash:
    """A document that a server had open when it died: its file, its store and its journal."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.root.mkdir()
        self.contents: Any = AsyncFileContentsManager(root_dir=str(self.root))
        self.journal = Journal(directory / "journal-0.db")
        self._stores = directory / "stores"

    def make_store(self, path: str, log: Any) -> FileYStore:
        return FileYStore(str(self._stores / path), log=log)

    async def opens(self, path: str, kind: Kind = "file") -> Room:
        """Have the document at a path in a room, with what its file has, and in the store."""
        room = Room(self, path, kind)
        content = (self.root / path).read_bytes().decode().replace("\r\n", "\n")
        room.load(content)
        await room.store(room.document.ydoc.get_update())
        return room

    async def recovered(self) -> None:
        await self.journal.durable()
        await Recovery(self.journal, self.contents, self.make_store, LOG).run()

    def beside(self, path: str) -> list[Path]:
        """What recovery has kept beside a file."""
        stem, _, ending = path.rpartition(".")
        return list(self.root.glob(f"{stem}.recovered-????????-??????.{ending}"))


class Room:
    """One room, whose updates go to the journal, and to the store if a test has it so."""

    def __init__(self, crash: Crash, path: str, kind: Kind) -> None:
        self.id = RoomId.of(kind, f"id-of-{path}")
        self.path = path
        self.base: str | None = None
        self.base_time = time.time()
        self.updates: list[bytes] = []
        self.document: Any = (YNotebook if kind == "notebook" else YFile)(Doc())
        self._crash = crash

    def load(self, content: str) -> None:
        if isinstance(self.document, YNotebook):
            self.document.set(json.loads(content))
        else:
            self.document.set(content)
        self.document.ydoc.observe(lambda event: self.updates.append(event.update))

    async def store(self, update: bytes) -> None:
        async with self._crash.make_store(
            f".{self.id.file_type}:{self.id.file_id}.y", LOG
        ) as store:
            await store.write(update)

    async def stored(self) -> Any:
        """What the store says now."""
        doc: Doc[Any] = Doc()
        async with self._crash.make_store(
            f".{self.id.file_type}:{self.id.file_id}.y", LOG
        ) as store:
            await store.apply_updates(doc)
        return type(self.document)(doc).get()

    def write(self, text: str) -> None:
        """Edit a text; the journal gets it, and the mark that it is unsaved."""
        self.edit(lambda document: document.set(text))

    def edit(self, change: Callable[[Any], None]) -> None:
        del self.updates[:]
        change(self.document)
        for update in self.updates:
            self._crash.journal.append(self.id, update)
        self.mark()

    def mark(self) -> None:
        self._crash.journal.mark(UnsavedRoom(self.id, self.path, self.base, self.base_time))


@pytest.fixture
async def crash(tmp_path: Path) -> AsyncIterator[Crash]:
    crash = Crash(tmp_path)
    yield crash
    await crash.journal.close()


async def test_unsaved_edits_are_restored_to_the_file_and_the_store(
    crash: Crash, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (crash.root / "a.md").write_text("one\n")
    room = await crash.opens("a.md")
    room.write("one\ntwo\n")
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == "one\ntwo\n"
    assert await room.stored() == "one\ntwo\n"
    assert crash.journal.records.unsaved() == []
    assert crash.journal.records.updates(room.id) == []
    assert crash.journal.records.notices() == {}
    assert crash.beside("a.md") == []
    assert "Recovered a.md: unsaved edits are in the file again" in caplog.text


async def test_the_duration_of_a_recovery_is_logged_in_milliseconds(
    crash: Crash, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    (crash.root / "a.md").write_text("one\n")
    (await crash.opens("a.md")).write("two\n")
    moments = iter([10.0, 12.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    await crash.recovered()
    assert "(2500 ms)" in caplog.text


async def test_a_file_that_is_up_to_date_is_not_written(
    crash: Crash, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (crash.root / "a.md").write_text("one\n")
    room = await crash.opens("a.md")
    room.write("one\ntwo\n")
    (crash.root / "a.md").write_text("one\ntwo\n")
    os.utime(crash.root / "a.md", (1, 1))
    await crash.recovered()
    assert (crash.root / "a.md").stat().st_mtime == 1
    assert crash.journal.records.unsaved() == []
    assert "the file was up to date" in caplog.text


async def test_trust_metadata_does_not_make_a_notebook_differ(
    crash: Crash, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    file = crash.root / "a.ipynb"
    notebooks.write(file, notebooks.numbered(2))
    room = await crash.opens("a.ipynb", "notebook")

    def trust(document: Any) -> None:
        document.ycells[0]["metadata"]["trusted"] = True

    room.edit(trust)
    before = file.read_bytes()
    await crash.recovered()
    assert file.read_bytes() == before
    assert "the file was up to date" in caplog.text


async def test_a_room_without_stored_updates_is_forgotten(
    crash: Crash, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (crash.root / "a.md").write_text("one\n")
    room = Room(crash, "a.md", "file")
    room.mark()
    await crash.recovered()
    assert crash.journal.records.unsaved() == []
    assert (crash.root / "a.md").read_text() == "one\n"
    assert "nothing was stored" in caplog.text


async def test_a_journal_that_has_the_whole_document_needs_no_store(crash: Crash) -> None:
    (crash.root / "a.md").write_text("one\n")
    room = Room(crash, "a.md", "file")
    room.load("one\n")
    crash.journal.append(room.id, room.document.ydoc.get_update())
    room.write("one\ntwo\n")
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == "one\ntwo\n"
    assert await room.stored() == "one\ntwo\n"


async def test_a_journal_that_builds_on_a_lost_store_is_kept_aside(
    crash: Crash, caplog: pytest.LogCaptureFixture
) -> None:
    (crash.root / "a.md").write_text("one\n")
    room = Room(crash, "a.md", "file")
    room.load("one\n")
    room.write("one\ntwo\n")
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == "one\n"
    assert crash.journal.records.unsaved() == []
    (kept,) = crash.journal.path.parent.glob("unrecovered-*.db")
    assert f"they are kept in {kept}" in caplog.text
    with closing(sqlite3.connect(kept)) as database:
        assert database.execute("SELECT room FROM updates").fetchall() == [(room.id,)]
    assert crash.beside("a.md") == []


async def test_updates_that_lack_their_predecessor_are_incomplete(crash: Crash) -> None:
    """Of two updates the first is lost, so the second stands on nothing, at the next clock."""
    (crash.root / "a.md").write_text("")
    room = await crash.opens("a.md")
    room.write("a")
    room.write("ab")
    await crash.journal.durable()
    crash.journal.trim(room.id, 1)
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == ""
    assert len(list(crash.journal.path.parent.glob("unrecovered-*.db"))) == 1


async def test_a_clients_first_update_on_top_of_lost_content_is_incomplete(crash: Crash) -> None:
    """Yjs holds it back, so of this client nothing at all is in the document."""
    (crash.root / "a.md").write_text("one\n")
    room = Room(crash, "a.md", "file")
    room.load("one\n")
    other = YFile(Doc())
    other.ydoc.apply_update(room.document.ydoc.get_update())
    before = other.ydoc.get_state()
    other.ydoc.get("source", type=Text).insert(4, "two\n")
    crash.journal.append(room.id, other.ydoc.get_update(before))
    room.mark()
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == "one\n"
    assert len(list(crash.journal.path.parent.glob("unrecovered-*.db"))) == 1


async def test_a_room_that_cannot_be_kept_aside_stays_in_the_journal(
    crash: Crash, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(room: RoomId) -> Path:
        raise OSError("no space")

    monkeypatch.setattr(crash.journal.records, "keep_aside", refuse)
    monkeypatch.setattr(type(crash.journal.storage), "is_sound", False)
    (crash.root / "a.md").write_text("one\n")
    room = Room(crash, "a.md", "file")
    room.load("one\n")
    room.write("one\ntwo\n")
    await crash.recovered()
    assert "Could not keep a.md aside" in caplog.text
    (aside,) = crash.journal.path.parent.glob("set-aside-*-journal-0.db")
    with closing(sqlite3.connect(aside)) as database:
        assert database.execute("SELECT room FROM rooms").fetchall() == [(room.id,)]


@pytest.mark.parametrize("sound", [True, False])
async def test_a_room_that_fails_stays_in_the_journal_and_the_others_are_recovered(
    crash: Crash, sound: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(crash.journal.storage), "is_sound", sound)
    for name in ("a.md", "b.md"):
        (crash.root / name).write_text("one\n")
        (await crash.opens(name)).write("one\ntwo\n")
    save = crash.contents.save

    async def fail(model: Any, path: str = "") -> Any:
        if path == "a.md":
            raise OSError("a disk that fails")
        return await save(model, path)

    crash.contents.save = fail
    await crash.recovered()
    assert (crash.root / "b.md").read_text() == "one\ntwo\n"
    assert "Could not recover a.md" in caplog.text
    # A journal that can be read is tried again at the next start.
    left = [unsaved.path for unsaved in crash.journal.records.unsaved()]
    assert left == (["a.md"] if sound else [])
    assert len(list(crash.journal.path.parent.glob("set-aside-*.db"))) == (not sound)


async def test_an_unsound_journal_is_not_set_aside_when_everything_is_recovered(
    crash: Crash, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(crash.journal.storage), "is_sound", False)
    (crash.root / "a.md").write_text("one\n")
    (await crash.opens("a.md")).write("one\ntwo\n")
    await crash.recovered()
    assert list(crash.journal.path.parent.glob("set-aside-*")) == []


# -- whose file it is --------------------------------------------------------------------------


async def test_a_file_changed_by_others_stays_and_our_version_is_kept_beside_it_and_reported(
    crash: Crash, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (crash.root / "a.md").write_text("one\n")
    room = await crash.opens("a.md")
    room.write("one\ntwo\n")
    (crash.root / "a.md").write_text("theirs\n")
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == "theirs\n"
    (kept,) = crash.beside("a.md")
    assert kept.read_text() == "one\ntwo\n"
    ((notice,),) = crash.journal.records.notices().values()
    assert kept.name in notice
    assert notice in caplog.text
    assert "Recovered a.md: conflict" in caplog.text
    assert crash.journal.records.unsaved() == []


async def test_a_deleted_file_stays_deleted(crash: Crash) -> None:
    (crash.root / "a.md").write_text("one\n")
    (await crash.opens("a.md")).write("one\ntwo\n")
    (crash.root / "a.md").unlink()
    await crash.recovered()
    assert not (crash.root / "a.md").exists()
    assert len(crash.beside("a.md")) == 1


async def test_a_file_with_the_hash_of_the_last_save_is_ours(crash: Crash) -> None:
    """Whatever it says: only its hash was remembered."""
    (crash.root / "a.md").write_text("saved without a trace\n")
    model = await crash.contents.get("a.md", content=False, require_hash=True)
    room = Room(crash, "a.md", "file")
    room.load("one\n")
    await room.store(room.document.ydoc.get_update())
    room.base = model["hash"]
    room.write("one\ntwo\n")
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == "one\ntwo\n"
    assert crash.beside("a.md") == []


async def test_a_file_with_the_hash_that_the_document_has_is_ours(crash: Crash) -> None:
    (crash.root / "a.md").write_text("saved without a trace\n")
    model = await crash.contents.get("a.md", content=False, require_hash=True)
    room = Room(crash, "a.md", "file")
    room.load("one\n")
    await room.store(room.document.ydoc.get_update())
    room.base = "another"

    def save(document: Any) -> None:
        document.hash = model["hash"]
        document.set("one\ntwo\n")

    room.edit(save)
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == "one\ntwo\n"


async def test_missing_hashes_do_not_count_as_equal(
    crash: Crash, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = crash.contents.get

    async def without_hash(path: str, **options: Any) -> Any:
        return {**await get(path, **options), "hash": None}

    (crash.root / "a.md").write_text("one\n")
    (await crash.opens("a.md")).write("one\ntwo\n")
    (crash.root / "a.md").write_text("theirs\n")
    monkeypatch.setattr(crash.contents, "get", without_hash)
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == "theirs\n"
    assert len(crash.beside("a.md")) == 1


@pytest.mark.parametrize(("since_save", "ours"), [(0.0, True), (-1.0, True), (-1000.0, False)])
async def test_a_file_equal_to_any_state_since_the_last_save_is_ours(
    crash: Crash, since_save: float, ours: bool
) -> None:
    """The clocks of store and journal may differ by a little from that of the save."""
    (crash.root / "a.md").write_text("one\n")
    room = await crash.opens("a.md")
    room.base_time = time.time() - since_save
    room.write("one\ntwo\n")
    room.write("one\ntwo\nthree\n")
    (crash.root / "a.md").write_text("one\ntwo\n")  # an autosave in between, of no known hash
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == ("one\ntwo\nthree\n" if ours else "one\ntwo\n")
    assert len(crash.beside("a.md")) == (not ours)


async def test_updates_of_the_store_and_the_journal_are_replayed_in_order(
    crash: Crash,
) -> None:
    """The store was written after the journal, with what the journal builds on."""
    (crash.root / "a.md").write_text("")
    room = Room(crash, "a.md", "file")
    room.load("")
    room.base_time = time.time()
    room.write("one\n")
    await crash.journal.durable()
    first = room.updates[0]
    crash.journal.trim(room.id, 1)
    await room.store(first)
    room.write("one\ntwo\n")
    (crash.root / "a.md").write_text("one\n")
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("theirs", [False, True])
async def test_a_notebook_equal_to_a_state_between_two_edits_is_ours(
    crash: Crash, theirs: bool
) -> None:
    file = crash.root / "a.ipynb"
    notebooks.write(file, notebooks.numbered(3))
    room = await crash.opens("a.ipynb", "notebook")

    def write(index: int, text: str) -> None:
        def change(document: Any) -> None:
            source = document.ycells[index]["source"]
            source.clear()
            source += text

        room.edit(change)

    write(0, "first")
    write(2, "second")
    content = notebooks.numbered(3)
    content["cells"][0]["source"] = "first"
    if theirs:
        content["cells"][1]["source"] = "theirs"
    notebooks.write(file, content)
    await crash.recovered()
    sources = notebooks.sources(file)
    assert sources == (["first", "theirs", "x = 2\n"] if theirs else ["first", "x = 1\n", "second"])
    assert len(crash.beside("a.ipynb")) == theirs


# -- texts -------------------------------------------------------------------------------------


async def test_windows_line_endings_make_no_difference_and_are_kept(crash: Crash) -> None:
    (crash.root / "a.md").write_bytes(b"one\r\ntwo\r\n")
    room = await crash.opens("a.md")
    room.write("one\ntwo\nthree\n")
    await crash.recovered()
    assert (crash.root / "a.md").read_bytes() == b"one\r\ntwo\r\nthree\r\n"
    assert crash.beside("a.md") == []


@pytest.mark.parametrize("left", [b"", b"one\r\ntw", b"one\r", b"one\r\ntwo\r\nb\xc3"])
async def test_a_half_written_text_is_restored_and_written(crash: Crash, left: bytes) -> None:
    before = b"one\r\ntwo\r\n"
    (crash.root / "a.md").write_bytes(before)
    room = await crash.opens("a.md")
    room.write("one\ntwo\nb\xe9\n")
    (crash.root / ".~a.md").write_bytes(before)
    (crash.root / "a.md").write_bytes(left)
    await crash.recovered()
    assert (crash.root / "a.md").read_bytes() == "one\r\ntwo\r\nb\xe9\r\n".encode()
    assert not (crash.root / ".~a.md").exists()
    assert crash.beside("a.md") == []


async def test_a_different_text_beside_a_backup_copy_belongs_to_somebody_else(crash: Crash) -> None:
    (crash.root / "a.md").write_text("one\n")
    (await crash.opens("a.md")).write("one\ntwo\n")
    (crash.root / ".~a.md").write_text("one\n")
    (crash.root / "a.md").write_text("three\n")
    await crash.recovered()
    assert (crash.root / "a.md").read_text() == "three\n"
    assert (crash.root / ".~a.md").exists()
    assert len(crash.beside("a.md")) == 1


@pytest.mark.parametrize("missing", ["a.md", ".~a.md"])
async def test_a_torn_file_needs_both_the_file_and_its_backup_copy(
    crash: Crash, missing: str
) -> None:

    for name in ("a.md", ".~a.md"):
        (crash.root / name).write_text("one\n")
    disk = LocalDisk.below(crash.contents)
    assert TornFile.at(disk, "a.md") is not None
    (crash.root / missing).unlink()
    assert TornFile.at(disk, "a.md") is None
    assert TornFile.at(None, "a.md") is None


# -- renames -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [("a.md", "b.md"), ("folder", "other")])
async def test_rooms_follow_a_rename_that_the_crash_interrupted(
    crash: Crash, old: str, new: str
) -> None:
    path = old if old == "a.md" else f"{old}/a.md"
    (crash.root / path).parent.mkdir(exist_ok=True)
    (crash.root / path).write_text("one\n")
    (crash.root / "folders.md").write_text("one\n")
    (await crash.opens(path)).write("one\ntwo\n")
    (await crash.opens("folders.md")).write("beside\n")  # begins as the folder does
    crash.journal.renaming(old, new)
    await crash.journal.durable()
    (crash.root / old).rename(crash.root / new)
    assert await asyncio.to_thread(run_recover, crash) == [(old, new)]
    renamed = new if old == "a.md" else f"{new}/a.md"
    assert (crash.root / renamed).read_text() == "one\ntwo\n"
    assert (crash.root / "folders.md").read_text() == "beside\n"
    assert not (crash.root / old).exists()
    assert crash.journal.records.renames() == []


@pytest.mark.parametrize("there", [("a.md",), ("a.md", "b.md"), ()])
async def test_rooms_stay_in_place_if_the_rename_did_not_happen(
    crash: Crash, there: tuple[str, ...]
) -> None:
    (crash.root / "a.md").write_text("one\n")
    room = await crash.opens("a.md")
    room.write("one\ntwo\n")
    (crash.root / "a.md").unlink()
    for name in there:
        (crash.root / name).write_text("one\n")
    crash.journal.renaming("a.md", "b.md")
    await crash.journal.durable()
    assert await asyncio.to_thread(run_recover, crash) == []
    if "a.md" in there:
        assert (crash.root / "a.md").read_text() == "one\ntwo\n"
    assert crash.journal.records.renames() == []


async def test_a_rename_without_unsaved_rooms_is_followed_too(crash: Crash) -> None:
    (crash.root / "b.md").write_text("one\n")
    crash.journal.renaming("a.md", "b.md")
    await crash.journal.durable()
    assert await asyncio.to_thread(run_recover, crash) == [("a.md", "b.md")]


def run_recover(crash: Crash) -> list[tuple[str, str]]:
    """Recover as a start does, on a loop that does not run yet."""
    loop = asyncio.new_event_loop()
    try:
        return recover([crash.journal], crash.contents, crash.make_store, LOG, loop)
    finally:
        loop.close()


# -- replaying ---------------------------------------------------------------------------------


def history(*contents: dict[str, Any]) -> list[tuple[float, bytes]]:
    """The updates of a notebook that had one content after the other, at 0, 1, 2, ..."""
    document = YNotebook(Doc())
    rows: list[tuple[float, bytes]] = []
    before = document.ydoc.get_state()
    for number, content in enumerate(contents):
        document.set(content)
        rows.append((float(number), document.ydoc.get_update(before)))
        before = document.ydoc.get_state()
    return rows


def cells(*sources: str) -> dict[str, Any]:
    return notebooks.notebook(
        [notebooks.code(f"cell-{number}", source) for number, source in enumerate(sources)]
    )


HISTORY = [cells("a", "b"), cells("a", "c"), cells("a", "c", "d"), cells("e", "c", "d")]


async def passes(wanted: dict[str, Any], since: float = 0.0) -> tuple[bool, int]:
    """Whether a notebook ever had a content, and how often all of it was compared."""
    compared = 0

    def fits(content: Any) -> bool:
        nonlocal compared
        compared += 1
        return bool(content["cells"] == without_trust(wanted)["cells"])

    replay = Replay("notebook", wanted, fits)
    return await replay.passes(history(*HISTORY), since), compared


@pytest.mark.parametrize("index", range(len(HISTORY)))
async def test_replay_finds_each_past_state_of_a_notebook_with_one_comparison(
    index: int,
) -> None:
    assert await passes(HISTORY[index]) == (True, 1)


@pytest.mark.parametrize(
    "other", [cells("a"), cells("a", "x"), cells("x", "c"), cells("a", "c", "d", "e"), cells()]
)
async def test_replay_does_not_find_a_state_that_never_existed(other: dict[str, Any]) -> None:
    assert await passes(other) == (False, 0)


async def test_replay_finds_a_notebook_without_cells() -> None:
    document = YNotebook(Doc())
    document.set(cells("a"))
    document.ycells.clear()  # `set` would insert a cell
    rows = [(0.0, document.ydoc.get_update())]
    replay = Replay("notebook", cells(), lambda content: content["cells"] == [])
    assert await replay.passes(rows, 0.0)


async def test_states_before_the_last_save_do_not_count() -> None:
    assert await passes(HISTORY[1], since=1.0) == (True, 1)
    assert await passes(HISTORY[1], since=1.5) == (False, 0)


async def test_replay_compares_outputs_too() -> None:
    other = cells("a", "c")
    other["cells"][0]["execution_count"] = 7
    assert await passes(other) == (False, 1)


async def test_replay_compares_a_text_at_each_step() -> None:
    document = YFile(Doc())
    document.set("one")
    rows = [(0.0, document.ydoc.get_update())]
    assert await Replay("file", "one", "one".__eq__).passes(rows, 0.0)
    assert not await Replay("file", "two", "two".__eq__).passes(rows, 0.0)
    assert await Replay("unknown", "one", "one".__eq__).passes(rows, 0.0)


def test_only_trust_metadata_is_left_out() -> None:
    content = cells("a")
    content["cells"][0]["metadata"] = {"trusted": True, "tags": ["b"]}
    del content["cells"][0]["outputs"]
    assert without_trust(content)["cells"][0]["metadata"] == {"tags": ["b"]}
    assert content["cells"][0]["metadata"]["trusted"] is True
    assert without_trust("a text") == "a text"
