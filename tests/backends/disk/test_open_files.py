"""What is opened is what was decided on; a link is never followed by accident."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.backends.disk.copy_files import copy_opened
from jupyter_collaboration_mcp.backends.disk.open_files import (
    Load,
    Loads,
    opened_exactly,
    real_path,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be opened there")


def grow(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def copy(root: Path, path: str, target: Path, names: frozenset[str] | None = None) -> None:
    with opened_exactly(os.path.realpath(root), path) as file:
        copy_opened(file, target, names)


def all_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("path", ["link.txt", "linked/a.txt", "in/linked/a.txt"])
def test_a_link_or_a_file_below_one_is_not_opened(tmp_path: Path, path: str) -> None:
    grow(tmp_path, "a.txt", "folder/a.txt", "in/b.txt")
    (tmp_path / "link.txt").symlink_to("a.txt")
    (tmp_path / "linked").symlink_to("folder")
    (tmp_path / "in" / "linked").symlink_to("../folder")
    before = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(OSError, match="it became a link"), opened_exactly(str(tmp_path), path):
        pytest.fail("It was opened.")
    with opened_exactly(str(tmp_path), "in/b.txt") as file:
        assert os.read(file, 100) == b"in/b.txt"
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_the_real_path_of_an_open_file_is_known_however_it_was_opened(tmp_path: Path) -> None:
    grow(tmp_path, "a.txt", "other/b.txt")
    root = tmp_path.resolve()
    link = tmp_path / "link.txt"
    link.symlink_to("a.txt")
    with link.open() as file:
        link.unlink()
        link.symlink_to("other/b.txt")
        assert real_path(file.fileno(), str(link)) == str(root / "a.txt")
        (tmp_path / "a.txt").rename(tmp_path / "other" / "c.txt")
        assert real_path(file.fileno(), str(link)) == str(root / "other" / "c.txt")
        (tmp_path / "other" / "c.txt").unlink()
        assert real_path(file.fileno(), str(link)) == str(root / "other" / "c.txt")


def test_a_copy_keeps_times_modes_and_links_but_not_checkpoints(
    tmp_path: Path,
) -> None:
    grow(tmp_path, "top/a.sh", "top/in/b.txt", "top/.hidden", "top/.ipynb_checkpoints/a.ipynb")
    (tmp_path / "top" / "a.sh").chmod(0o750)
    os.utime(tmp_path / "top" / "a.sh", ns=(10**18, 10**18))
    os.utime(tmp_path / "top" / "in", ns=(10**18, 10**18))
    (tmp_path / "top" / "link").symlink_to("../nowhere")
    copy(tmp_path, "top", tmp_path / "copy")
    assert all_in(tmp_path / "copy") == {"a.sh", "in", "in/b.txt", ".hidden", "link"}
    assert (tmp_path / "copy" / "a.sh").stat().st_mode & 0o777 == 0o750
    for name in ("a.sh", "in"):
        assert (tmp_path / "copy" / name).stat().st_mtime_ns == 10**18
    assert (tmp_path / "copy" / "link").readlink() == Path("../nowhere")
    copy(tmp_path, "top/a.sh", tmp_path / "b.sh")
    assert (tmp_path / "b.sh").read_text() == "top/a.sh"
    with pytest.raises(FileExistsError):
        copy(tmp_path, "top/a.sh", tmp_path / "b.sh")


def test_only_the_approved_files_are_copied(tmp_path: Path) -> None:
    grow(tmp_path, "top/a.txt", "top/new.txt", "top/in/b.txt", "top/in/new.txt", "top/new/c.txt")
    copy(tmp_path, "top", tmp_path / "copy", frozenset({"a.txt", "in", "in/b.txt"}))
    assert all_in(tmp_path / "copy") == {"a.txt", "in", "in/b.txt"}
    copy(tmp_path, "top", tmp_path / "nothing", frozenset())
    assert all_in(tmp_path / "nothing") == set()


def test_a_file_that_becomes_a_link_during_the_copy_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(tmp_path, "top/a.txt", "secret.txt")
    stat = os.stat

    def become_a_link(name: Any, **options: Any) -> os.stat_result:
        facts = stat(name, **options)
        if name == "a.txt":
            (tmp_path / "top" / "a.txt").unlink()
            (tmp_path / "top" / "a.txt").symlink_to("../secret.txt")
        return facts

    monkeypatch.setattr(os, "stat", become_a_link)
    with pytest.raises(OSError, match="it became a link"):
        copy(tmp_path, "top", tmp_path / "copy")
    monkeypatch.undo()
    assert all_in(tmp_path / "copy") == set()


def test_copying_a_pipe_fails_without_blocking(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    os.mkfifo(tmp_path / "top" / "pipe")
    for path in ("top", "top/pipe"):
        with pytest.raises(shutil.SpecialFileError):
            copy(tmp_path, path, tmp_path / "copy")


def test_recent_loads_can_be_listed_from_a_given_number() -> None:
    loads = Loads()
    assert loads.last is None
    assert loads.since(0) == []
    for number in range(250):
        for _ in range(2):
            loads.add(Load(f"/{number}", linked=number % 2 == 1))
    assert loads.count == 250
    assert loads.last == Load("/249", True)
    assert loads.since(250) == []
    assert [load.file for load in loads.since(247) or ()] == ["/247", "/248", "/249"]
    assert len(loads.since(150) or ()) == 100
    assert loads.since(149) is None
