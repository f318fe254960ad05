"""Output that is kept beside the documents."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.documents.output_log import Overflow
from jupyter_collaboration_mcp.errors import OutputGone
from jupyter_collaboration_mcp.execution.side_files import SideFiles, SideLimits, page_of

pytestmark = pytest.mark.anyio

LARGE = 1_000_000


def text(index: int, content: str, begins: bool = False) -> Overflow:
    return Overflow(index, content, begins)


def age(directory: Path, seconds: float) -> None:
    """Make all that is there older."""
    for file in directory.rglob("*.*"):
        written = time.time() - seconds
        os.utime(file, (written, written))


async def whole(files: SideFiles, run: str = "run-1", index: int = 0, length: int = 1000) -> str:
    """All pages of a text."""
    found, start = "", 0
    while True:
        page = await files.page("book", run, index, start, length)
        assert page.start == start
        found += page.text
        if page.end >= page.size:
            return found
        assert page.end > start
        start = page.end


async def test_a_text_is_stored_in_pieces_and_read_in_pages(tmp_path: Path) -> None:
    files = SideFiles(tmp_path / "outputs", SideLimits())
    pieces = ["héllo\n", "😀" * 50, "€uro"]
    for number, piece in enumerate(pieces):
        await files.keep("book", "run-1", [text(0, piece, begins=number == 0)])
    for length in (1, 2, 3, 5, 7, 1000):
        assert await whole(files, length=length) == "".join(pieces)
    assert await files.kind("book", "run-1", 0) == "text"
    assert await files.kind("book", "run-1", 1) is None
    assert await files.kind("other", "run-1", 0) is None


async def test_a_page_may_start_anywhere(tmp_path: Path) -> None:
    files = SideFiles(tmp_path, SideLimits())
    await files.keep("book", "run-1", [text(0, "a😀b", begins=True)])
    assert (await files.page("book", "run-1", 0, 2, 100)).text == "b"
    assert (await files.page("book", "run-1", 0, -5, 100)).text == "a😀b"
    after = await files.page("book", "run-1", 0, 10**30, 100)
    assert (after.text, after.start, after.end, after.size) == ("", 6, 6, 6)


@given(st.text(st.sampled_from("aé€😀e\u0301"), max_size=60), st.integers(1, 20))
def test_pages_of_any_size_add_up_to_the_whole(content: str, length: int) -> None:
    encoded, found, start = content.encode(), "", 0
    while start < len(encoded):
        page = page_of(encoded[start : start + length + 4], start, length, len(encoded))
        assert page.start == start < page.end
        assert len(page.text.encode()) <= max(length, 4)
        found += page.text
        start = page.end
    assert found == content


async def test_an_output_is_kept_whole_and_replaced_whole(tmp_path: Path) -> None:
    files = SideFiles(tmp_path, SideLimits())
    first: dict[str, Any] = {"output_type": "display_data", "data": {"text/html": "é\ud83d"}}
    await files.keep("book", "run-1", [Overflow(3, first)])
    assert await files.output("book", "run-1", 3) == first
    await files.keep("book", "run-1", [Overflow(3, {**first, "data": {}})])
    assert await files.output("book", "run-1", 3) == {**first, "data": {}}
    await files.keep("book", "run-1", [text(3, "text instead", begins=True)])
    assert await files.kind("book", "run-1", 3) == "text"
    with pytest.raises(OutputGone):
        await files.output("book", "run-1", 3)


async def test_a_restarted_text_replaces_the_previous_one(tmp_path: Path) -> None:
    files = SideFiles(tmp_path, SideLimits(run=20))
    for _ in range(5):  # what was replaced does not count any more
        await files.keep("book", "run-1", [text(0, "first", begins=True), text(0, " second")])
    assert await whole(files) == "first second"


async def test_the_stored_output_of_a_run_is_limited(tmp_path: Path) -> None:
    files = SideFiles(tmp_path, SideLimits(run=10))
    await files.keep("book", "run-1", [text(0, "aaaaaaa😀", begins=True), text(0, "lost")])
    await files.keep("book", "run-1", [text(0, "lost too"), Overflow(1, {"a": 1})])
    assert await whole(files) == "aaaaaaa\n[not kept beyond 10 bytes of one run]\n"
    assert await files.kind("book", "run-1", 1) is None
    await files.keep("book", "run-2", [text(0, "1234567890", begins=True)])
    assert await whole(files, "run-2") == "1234567890"
    await files.keep("book", "run-2", [text(0, "1")])
    assert await whole(files, "run-2") == "1234567890\n[not kept beyond 10 bytes of one run]\n"


async def test_an_output_that_does_not_fit_is_not_kept_in_part(tmp_path: Path) -> None:
    files = SideFiles(tmp_path, SideLimits(run=100))
    await files.keep("book", "run-1", [Overflow(0, {"data": "x" * 200}), Overflow(1, {"a": 1})])
    with pytest.raises(OutputGone):
        await files.output("book", "run-1", 0)
    assert await files.output("book", "run-1", 1) == {"a": 1}


async def test_the_oldest_run_is_deleted_beyond_the_total_limit(tmp_path: Path) -> None:
    files = SideFiles(tmp_path, SideLimits(total=25))
    for number in range(3):
        await files.keep(f"book{number % 2}", f"run-{number}", [text(0, "0123456789", True)])
        age(tmp_path / f"book{number % 2}" / f"run-{number}", 100 - 10 * number)
    await files.sweep()
    assert await files.kind("book0", "run-0", 0) is None
    assert await files.kind("book1", "run-1", 0) == "text"
    assert await files.kind("book0", "run-2", 0) == "text"


async def test_old_output_is_deleted_and_young_output_is_not(tmp_path: Path) -> None:
    files = SideFiles(tmp_path, SideLimits(age=3600))
    await files.keep("book", "run-1", [text(0, "old", begins=True)])
    age(tmp_path, 3700)
    await files.keep("book", "run-2", [text(0, "young", begins=True)])
    await files.sweep()
    with pytest.raises(OutputGone) as caught:
        await files.page("book", "run-1", 0, 0, LARGE)
    assert "kept for 1 hours" in str(caught.value)
    assert await whole(files, "run-2") == "young"


async def test_reading_deletes_expired_output(tmp_path: Path) -> None:
    await SideFiles(tmp_path, SideLimits()).keep("book", "run-1", [text(0, "old", begins=True)])
    age(tmp_path, 3700)
    restarted = SideFiles(tmp_path, SideLimits(age=3600))
    assert await restarted.kind("book", "run-1", 0) is None
    assert not list(tmp_path.rglob("*.text"))


async def test_the_rest_of_a_deleted_text_is_not_stored_as_if_it_were_complete(
    tmp_path: Path,
) -> None:
    files = SideFiles(tmp_path, SideLimits(total=5))
    await files.keep("book", "run-1", [text(0, "0123456789", begins=True)])
    await files.sweep()
    await files.keep("book", "run-1", [text(0, "more")])
    assert await files.kind("book", "run-1", 0) is None


async def test_another_process_finds_what_was_kept(tmp_path: Path) -> None:
    await SideFiles(tmp_path, SideLimits()).keep("book", "run-1", [text(0, "kept", begins=True)])
    assert await whole(SideFiles(tmp_path, SideLimits())) == "kept"


@pytest.mark.parametrize(
    ("notebook", "run"),
    [
        ("book", ".."),
        ("..", "run-1"),
        ("book", "../../secret"),
        ("book", ""),
        ("", "run-1"),
        ("/etc", "run-1"),
        ("book", "run-1/0"),
        ("book", "run-1\0"),
        ("book", "run-1\n"),
        ("book", "x" * 81),
        ("book.d", "run-1"),
    ],
)
async def test_names_that_leave_the_directory_are_refused(
    tmp_path: Path, notebook: str, run: str
) -> None:
    root = tmp_path / "outputs"
    (tmp_path / "0.text").write_text("secret")
    files = SideFiles(root, SideLimits())
    with pytest.raises(OutputGone):
        await files.keep(notebook, run, [text(0, "x", begins=True)])
    with pytest.raises(OutputGone):
        await files.page(notebook, run, 0, 0, LARGE)
    with pytest.raises(OutputGone):
        await files.output(notebook, run, 0)
    with pytest.raises(OutputGone):
        await files.kind(notebook, run, 0)
    assert not root.exists()


async def test_many_runs_are_kept_and_swept_at_once(tmp_path: Path) -> None:
    files = SideFiles(tmp_path, SideLimits())

    async def run(number: int) -> None:
        for piece in range(10):
            await files.keep("book", f"run-{number}", [text(0, f"{piece}😀", piece == 0)])
            await files.sweep()

    await asyncio.gather(*(run(number) for number in range(10)))
    expected = "".join(f"{piece}😀" for piece in range(10))
    for number in range(10):
        assert await whole(files, f"run-{number}") == expected


async def test_only_the_owner_can_read_a_run(tmp_path: Path) -> None:
    files = SideFiles(tmp_path, SideLimits())
    await files.keep("book", "run-1", [text(0, "private", begins=True)])
    assert (tmp_path / "book" / "run-1").stat().st_mode & 0o077 == 0


async def test_stray_files_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "stray").write_text("x")
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "stray").write_text("x")
    files = SideFiles(tmp_path, SideLimits())
    await files.keep("book", "run-1", [text(0, "kept", begins=True)])
    assert await whole(files) == "kept"
    assert (tmp_path / "book" / "stray").exists()
