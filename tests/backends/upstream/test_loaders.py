"""Files that rooms load and save: each fault is there without its workaround, and only then."""

from __future__ import annotations

import asyncio
import errno
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server_ydoc.rooms import DocumentRoom
from jupyter_ydoc import YNotebook
from pycrdt import Doc, Text

from jupyter_collaboration_mcp.backends.disk.open_files import opened_files
from jupyter_collaboration_mcp.backends.upstream.loadable_notebooks import LoadableNotebooks
from tests.harness import notebooks
from tests.harness.waiting import until

from .conftest import MakeStage

pytestmark = pytest.mark.anyio

#: Each scenario once with all workarounds and once without the one that it is about. If the second
#: half fails, upstream has fixed the fault, and the workaround can be dropped.
with_and_without = pytest.mark.parametrize("works", [True, False], ids=["with", "without"])


def text_of(room: DocumentRoom) -> str:
    return str(room._document.get())


def write_into(room: DocumentRoom, text: str) -> None:
    """As somebody's client does: with a client id that is not the room's."""
    theirs: Doc[Any] = Doc()
    theirs.apply_update(room.ydoc.get_update())
    before = theirs.get_state()
    theirs.get("source", type=Text).insert(0, text)
    room.ydoc.apply_update(theirs.get_update(before))


@with_and_without
async def test_line_endings_are_kept(make_stage: MakeStage, works: bool) -> None:
    stage = make_stage(*([] if works else ["line_endings"]))
    file = stage.root / "a.md"
    file.write_bytes(b"one\r\ntwo\r\n")
    room = await stage.open("a.md")
    write_into(room, "new ")
    await stage.save(room)
    assert file.read_bytes() == (b"new one\r\ntwo\r\n" if works else b"new one\ntwo\n")


@with_and_without
async def test_an_older_file_that_replaced_a_newer_one_is_not_overwritten(
    make_stage: MakeStage, works: bool
) -> None:
    stage = make_stage(*([] if works else ["external_changes"]))
    file = stage.root / "a.md"
    file.write_text("mine\n")
    room = await stage.open("a.md")
    file.write_text("restored from a backup\n")
    os.utime(file, (1, 1))
    await room._file.maybe_notify()
    await stage.save(room)
    assert (file.read_text() == "restored from a backup\n") is works
    assert (file.read_text() == "mine\n") is not works


@with_and_without
async def test_a_cancelled_save_that_was_written_anyway_counts_as_saved(
    make_stage: MakeStage, works: bool
) -> None:
    """Where somebody types faster than a large file is written, each save is cancelled."""
    stage = make_stage(*([] if works else ["external_changes"]), contents=SlowPen)
    (stage.root / "a.md").write_text("old\n")
    room = await stage.open("a.md")
    write_into(room, "new ")
    save = room._save_to_disc()
    await until(stage.contents.half_way.is_set)
    save.cancel()
    stage.contents.go_on.set()
    await save
    assert (stage.root / "a.md").read_text() == "new old\n"
    assert stage.watch(room).saved is works


class SlowPen(AsyncLargeFileManager):
    """Waits before it writes a file, until it is told to go on."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.half_way = asyncio.Event()
        self.go_on = asyncio.Event()

    async def save(self, model: Any, path: str = "") -> Any:
        self.half_way.set()
        async with asyncio.timeout(60):
            await self.go_on.wait()
        return await super().save(model, path)  # type: ignore[no-untyped-call]


class FullDisk(AsyncLargeFileManager):
    """A disk that is full once a file has been emptied, and fails again when that is closed."""

    full = False

    @contextmanager
    def atomic_writing(self, os_path: str, *arguments: Any, **options: Any) -> Iterator[Any]:
        if not self.full:
            with super().atomic_writing(os_path, *arguments, **options) as file:
                yield file
            return
        path = Path(os_path)
        path.with_name(f".~{path.name}").write_bytes(path.read_bytes())
        path.write_text("ha")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os_path)


@with_and_without
async def test_a_full_disk_leaves_the_file_unchanged(
    make_stage: MakeStage, works: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stage = make_stage(*([] if works else ["failed_saves"]), contents=FullDisk)
    file = stage.root / "a.md"
    file.write_text("old\n")
    room = await stage.open("a.md")
    write_into(room, "new ")
    stage.contents.full = True
    await stage.save(room)
    assert (file.read_text() == "old\n") is works
    assert (file.read_text() == "ha") is not works
    # What everybody is told: the reason alone, or Jupyter's words around it.
    said = [record.getMessage() for record in caplog.records if "Error saving" in record.message]
    assert [line.endswith("\nNo space left on device") for line in said] == [works]


@with_and_without
async def test_a_change_of_a_links_target_is_noticed(make_stage: MakeStage, works: bool) -> None:
    stage = make_stage(*([] if works else ["link_times"]))
    real = stage.root / "real.md"
    real.write_text("old\n")
    (stage.root / "link.md").symlink_to("real.md")
    room = await stage.open("link.md")
    real.write_text("changed elsewhere\n")
    await room._file.maybe_notify()
    assert text_of(room) == ("changed elsewhere\n" if works else "old\n")


@pytest.mark.parametrize(
    ("disabled", "known"),
    [([], True), (["load_records"], False), (["opened_files"], False)],
    ids=["with", "without load_records", "without opened_files"],
)
async def test_the_file_loaded_through_a_link_is_known(
    make_stage: MakeStage, disabled: list[str], known: bool
) -> None:
    stage = make_stage(*disabled)
    (stage.root / "one.md").write_text("one\n")
    (stage.root / "two.md").write_text("two\n")
    link = stage.root / "link.md"
    link.symlink_to("one.md")
    room = await stage.open("link.md")
    link.unlink()
    link.symlink_to("two.md")
    last = stage.watch(room).loads.last
    assert (None if last is None else Path(last.file).name) == ("one.md" if known else None)


@with_and_without
async def test_opened_files_are_reported(make_stage: MakeStage, works: bool) -> None:
    stage = make_stage(*([] if works else ["opened_files"]))
    (stage.root / "a.md").write_text("old\n")
    with opened_files() as opened:
        await stage.contents.get("a.md", type="file", format="text")
    assert [Path(file).name for file in opened] == (["a.md"] if works else [])


@with_and_without
async def test_a_notebook_with_a_64_bit_integer_can_be_opened(
    make_stage: MakeStage, works: bool
) -> None:
    stage = make_stage(*([] if works else ["loadable_notebooks"]))
    notebook = notebooks.notebook([notebooks.code("one", "1")])
    notebook["metadata"]["large"] = {"number": 2**64}
    notebooks.write(stage.root / "n.ipynb", notebook)
    if not works:
        with pytest.raises(BaseException, match=r"int|Any|panic|convert") as failure:
            await stage.open("n.ipynb")
        assert not isinstance(failure.value, asyncio.CancelledError)
        assert failure.type.__name__ != "HTTPError"
        return
    room = await stage.open("n.ipynb")
    assert len((await room._document.aget())["cells"]) == 1
    assert stage.workarounds.get(LoadableNotebooks).rounded("n.ipynb")


@with_and_without
async def test_a_notebook_with_infinite_numbers_can_be_saved(
    make_stage: MakeStage, works: bool
) -> None:
    make_stage(*([] if works else ["number_fidelity"]))
    document = YNotebook()
    notebook = notebooks.notebook([notebooks.code("one", "1")])
    notebook["metadata"]["scores"] = [math.inf, 1e30]
    document.set(notebook)
    if works:
        assert document.get()["metadata"]["scores"] == [math.inf, 1e30]
        assert isinstance(document.get()["metadata"]["scores"][1], float)
    else:
        with pytest.raises(OverflowError):
            document.get()


@with_and_without
async def test_a_file_renamed_during_a_save_does_not_reappear(
    make_stage: MakeStage, works: bool
) -> None:
    stage = make_stage(*([] if works else ["renames"]), contents=SlowPen)
    (stage.root / "old.md").write_text("text\n")
    room = await stage.open("old.md")
    write_into(room, "new ")
    save = room._save_to_disc()
    await until(stage.contents.half_way.is_set)
    rename = asyncio.create_task(stage.contents.rename("old.md", "new.md"))
    await asyncio.wait([rename], timeout=0.1 if works else 60)
    stage.contents.go_on.set()
    await asyncio.gather(save, rename)
    found = {file.name: file.read_text() for file in stage.root.iterdir() if file.is_file()}
    if works:
        assert found == {"new.md": "new text\n"}
    else:
        assert found == {"new.md": "text\n", "old.md": "new text\n"}


@with_and_without
async def test_files_keep_their_ids_when_another_folder_is_deleted(
    make_stage: MakeStage, works: bool
) -> None:
    stage = make_stage(*([] if works else ["file_id_folders"]))
    for folder in ("wh?", "who"):
        (stage.root / folder).mkdir()
        (stage.root / folder / "a.md").write_text("")
    ids = {path: stage.file_ids.index(path) for path in ("wh?", "wh?/a.md", "who", "who/a.md")}
    stage.file_ids.delete("wh?")
    assert stage.file_ids.get_path(ids["wh?/a.md"]) is None
    assert (stage.file_ids.get_path(ids["who/a.md"]) == "who/a.md") is works
