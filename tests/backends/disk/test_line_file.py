"""Lines that are appended to a file: all of them, in order, in files of bounded size and number."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_collaboration_mcp.backends.disk.line_file import KEPT, LineFile
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "audit.jsonl"


@pytest.fixture
def file(path: Path) -> Iterator[LineFile]:
    file = LineFile(path, 1_000_000)
    yield file
    file.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_no_line_is_lost_at_the_end(file: LineFile, path: Path) -> None:
    lines = [f"line {number}" for number in range(5_000)]
    for line in lines:
        file.append(line)
    file.close()
    assert path.read_text().splitlines() == lines


async def test_the_file_and_its_directory_are_their_owners_only(file: LineFile, path: Path) -> None:
    await until(path.exists)
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700


def test_what_was_there_stays_and_is_no_longer_open_to_others(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("before\n")
    path.chmod(0o644)
    file = LineFile(path, 1_000_000)
    file.append("after")
    file.close()
    assert path.read_text() == "before\nafter\n"
    assert mode(path) == 0o600


def test_a_full_file_is_renamed_and_so_many_are_kept(path: Path) -> None:
    for number in range(KEPT + 3):
        file = LineFile(path, 10)
        file.append(f"line {number}")
        file.close()
    newest = KEPT + 2
    assert path.read_text() == f"line {newest}\n"
    names = [f"audit.jsonl.{number}" for number in range(1, KEPT + 1)]
    assert sorted(each.name for each in path.parent.iterdir()) == ["audit.jsonl", *names]
    for number, name in enumerate(names, 1):
        assert (path.parent / name).read_text() == f"line {newest - number}\n"
        assert mode(path.parent / name) == 0o600


async def test_a_file_that_others_rename_is_begun_anew(file: LineFile, path: Path) -> None:
    file.append("first")
    await until(lambda: path.exists() and path.read_text() == "first\n")
    path.rename(path.with_name("rotated"))
    file.append("second")
    file.close()
    assert path.read_text() == "second\n"
    assert path.with_name("rotated").read_text() == "first\n"


async def test_a_disk_that_fails_is_one_warning_and_is_tried_again(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.write_text("in the way")
    file = LineFile(path, 1_000_000)
    file.append("first")
    await until(lambda: bool(caplog.messages))
    file.append("second")
    path.parent.unlink()
    await until(lambda: path.exists() and path.read_text() == "first\nsecond\n")
    file.close()
    assert [message.partition("audit.jsonl")[2] for message in caplog.messages] == [
        ": File exists. This is tried again.",
        " can be written again",
    ]


def test_an_end_with_a_disk_that_fails_says_what_is_lost(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.write_text("in the way")
    file = LineFile(path, 1_000_000)
    file.append("first")
    file.close()
    assert caplog.messages[-1].startswith("1 lines for")


async def test_a_line_of_which_the_disk_took_a_part_is_written_again(
    file: LineFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await until(path.exists)
    write, calls = os.write, 0

    def half(fd: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            return write(fd, data[: len("first\nsec")])
        if calls == 2:
            raise OSError(28, "No space left on device")
        return write(fd, data)

    monkeypatch.setattr(os, "write", half)
    file.append("first")
    file.append("second")
    file.append("third")
    await until(lambda: path.read_text().endswith("third\n"))
    lines = path.read_text().splitlines()
    assert lines.count("first") == lines.count("second") == lines.count("third") == 1
