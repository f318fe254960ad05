"""Walking through folders of this machine."""

from __future__ import annotations

import fnmatch
import os
import socket
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_collaboration_mcp.backends.disk.folders import Exclusions, Folders
from jupyter_collaboration_mcp.backends.protocols.files import (
    FileEntry,
    FileQuery,
    FileType,
    Listing,
    PathPair,
)

#: As Jupyter has them.
GLOBS = ["__pycache__", "*.pyc", "*.pyo", ".DS_Store", "*~"]

NAMES = st.text("aB.*~", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))


def anything(path: str, kind: FileType) -> bool:
    return True


def everywhere(path: str) -> bool:
    return True


def below(root: Path, hidden: bool = False, globs: Sequence[str] = GLOBS) -> Folders:
    return Folders.below(str(root), hidden, globs)


def grow(root: Path, *paths: str) -> None:
    """Make files, and folders where a path ends with a slash."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            (root / path).mkdir(exist_ok=True)
        else:
            (root / path).write_text(path)


def walked(
    folders: Folders,
    start: str = "",
    fits: Callable[[str, FileType], bool] = anything,
    limit: int = 1000,
    enter: Callable[[str], bool] = everywhere,
) -> list[str]:
    listing = folders.walk(start, FileQuery(fits), enter, limit)
    return [entry.path for entry in listing.entries]


def everything(folders: Folders, path: str) -> list[PathPair]:
    """All that is below a folder, by name."""
    return sorted(names for some in folders.everything(path) for names in some)


def listed(folders: Folders, path: str) -> tuple[FileEntry, ...]:
    listing = folders.children(path, anything, 1000)
    assert listing.complete
    return listing.entries


# -- one folder -------------------------------------------------------------------------------


def test_a_folder_is_listed_by_name_with_types_sizes_and_times(tmp_path: Path) -> None:
    grow(tmp_path, "b.ipynb", "a.md", "c/", "c/inside.md", "Ä.txt")
    entries = listed(below(tmp_path), "")
    assert [(entry.path, entry.type, entry.size) for entry in entries] == [
        ("a.md", "file", 4),
        ("b.ipynb", "notebook", 7),
        ("c", "directory", None),
        ("Ä.txt", "file", 6),
    ]
    stat = (tmp_path / "a.md").stat()
    assert entries[0].last_modified is not None
    assert datetime.fromisoformat(entries[0].last_modified).timestamp() == pytest.approx(
        stat.st_mtime
    )
    assert entries[0].mimetype == "text/markdown"
    assert entries[1].mimetype is None
    assert [entry.path for entry in listed(below(tmp_path), "c")] == ["c/inside.md"]


@pytest.mark.parametrize(("limit", "complete"), [(1, False), (2, False), (3, True), (4, True)])
def test_listing_a_folder_examines_only_the_entries_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, complete: bool
) -> None:
    grow(tmp_path, "a.md", "b.md", "c/", "no-1.md", "no-2.md", "a-no.md")
    asked: list[str] = []
    may_write = os.access

    def access(path: str, mode: int) -> bool:
        asked.append(Path(path).name)
        return may_write(path, mode)

    monkeypatch.setattr(os, "access", access)
    listing = below(tmp_path).children("", lambda path, kind: "no" not in path, limit)
    assert [entry.path for entry in listing.entries] == ["a.md", "b.md", "c"][:limit]
    assert listing.complete is complete
    assert asked == [entry.path for entry in listing.entries]


def test_only_a_folder_can_be_listed(tmp_path: Path) -> None:
    grow(tmp_path, "file.md")
    for path in ("nowhere", "file.md", "file.md/in"):
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            listed(below(tmp_path), path)


def test_hidden_and_excluded_files_are_left_out(tmp_path: Path) -> None:
    grow(tmp_path, ".env", ".git/config", "a.pyc", "a~", "__pycache__/b.py", "a.py", ".a.md")
    assert walked(below(tmp_path)) == ["a.py"]
    assert [entry.path for entry in listed(below(tmp_path), "")] == ["a.py"]


def test_a_server_that_shows_hidden_files_lists_them_but_does_not_walk_hidden_folders(
    tmp_path: Path,
) -> None:
    grow(tmp_path, ".env", ".git/config", ".ipynb_checkpoints/a.ipynb", "a.py")
    folders = below(tmp_path, hidden=True)
    assert [entry.path for entry in listed(folders, "")] == [".env", ".git", "a.py"]
    assert walked(folders) == [".env", "a.py"]
    assert [entry.path for entry in listed(folders, ".git")] == [".git/config"]


def test_a_name_that_is_not_valid_text_is_left_out(tmp_path: Path) -> None:
    grow(tmp_path, "good.md")
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.md")).touch()
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")).mkdir()
    except OSError:
        pytest.skip("this file system has only names that are text")
    assert [entry.path for entry in listed(below(tmp_path), "")] == ["good.md"]
    assert walked(below(tmp_path)) == ["good.md"]
    assert [path[:3] for path, _ in everything(below(tmp_path), "")] == ["bad", "bad", "goo"]


@pytest.mark.skipif(sys.platform == "win32", reason="has neither")
def test_pipes_and_sockets_are_left_out(tmp_path: Path) -> None:
    grow(tmp_path, "a.md")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        assert walked(below(tmp_path)) == ["a.md"]


# -- many folders -----------------------------------------------------------------------------


def test_a_walk_is_breadth_first_and_by_name(tmp_path: Path) -> None:
    grow(tmp_path, "z.md", "b/1.md", "a/deep/2.md", "a/3.md", "c/", "a/deep/er/4.md")
    assert walked(below(tmp_path)) == ["z.md", "a/3.md", "b/1.md", "a/deep/2.md", "a/deep/er/4.md"]
    assert walked(below(tmp_path), "a") == ["a/3.md", "a/deep/2.md", "a/deep/er/4.md"]
    assert walked(below(tmp_path), "nowhere") == []


def test_folders_are_found_on_request(tmp_path: Path) -> None:
    grow(tmp_path, "a/b/c/", "a/x.md")
    wanted = FileQuery(lambda path, kind: kind == "directory", folders=True)
    listing = below(tmp_path).walk("", wanted, everywhere, 10)
    assert [entry.path for entry in listing.entries] == ["a", "a/b", "a/b/c"]
    assert walked(below(tmp_path), fits=lambda path, kind: kind == "directory") == []


@pytest.mark.parametrize(("limit", "complete"), [(1, False), (2, False), (3, True), (4, True)])
def test_a_walk_reports_whether_it_is_complete(tmp_path: Path, limit: int, complete: bool) -> None:
    grow(tmp_path, "a.md", "b/c.md", "b/d.md", "b/other.txt", "z/other.txt")
    listing = below(tmp_path).walk(
        "", FileQuery(lambda path, kind: path.endswith(".md")), everywhere, limit
    )
    assert [entry.path for entry in listing.entries] == ["a.md", "b/c.md", "b/d.md"][:limit]
    assert listing.complete is complete


def test_a_walk_stops_as_soon_as_it_has_enough(tmp_path: Path) -> None:
    grow(tmp_path, "a.md", "b.md", *(f"folder-{n}/c.md" for n in range(10)))
    looked_at: list[str] = []

    def fits(path: str, kind: FileType) -> bool:
        looked_at.append(path)
        return True

    assert not below(tmp_path).walk("", FileQuery(fits), everywhere, 1).complete
    assert looked_at == ["a.md", "b.md"]


def test_a_walk_enters_only_the_folders_it_should(tmp_path: Path) -> None:
    grow(tmp_path, "a/1.md", "b/2.md", "b/in/3.md")
    assert walked(below(tmp_path), enter=lambda path: path != "b") == ["a/1.md"]
    assert walked(below(tmp_path), enter=lambda path: path != "b/in") == ["a/1.md", "b/2.md"]


def test_a_walk_skips_a_folder_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read everything, so that the refusal itself is made up."""
    grow(tmp_path, "a.md", "secret/b.md", "z/c.md")
    scan = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("secret"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert walked(below(tmp_path)) == ["a.md", "z/c.md"]
    with pytest.raises(PermissionError):
        listed(below(tmp_path), "secret")


# -- links ------------------------------------------------------------------------------------


def test_links_within_the_root_are_shown_without_looping(tmp_path: Path) -> None:
    grow(tmp_path, "a.md", "folder/b.md")
    (tmp_path / "link.md").symlink_to("a.md")
    (tmp_path / "linked").symlink_to("folder")
    (tmp_path / "folder" / "up").symlink_to("..")
    (tmp_path / "folder" / "itself").symlink_to("itself")
    folders = below(tmp_path)
    assert [(entry.path, entry.type) for entry in listed(folders, "")] == [
        ("a.md", "file"),
        ("folder", "directory"),
        ("link.md", "file"),
        ("linked", "directory"),
    ]
    assert [entry.path for entry in listed(folders, "linked")] == ["linked/b.md"]
    assert walked(folders) == ["a.md", "link.md", "folder/b.md"]
    assert dict(everything(folders, "")) == {
        "a.md": "a.md",
        "folder": "folder",
        "folder/b.md": "folder/b.md",
        "folder/itself": "folder/itself",
        "folder/up": "",
        "link.md": "a.md",
        "linked": "folder",
    }
    assert everything(folders, "linked") == [
        ("linked/b.md", "folder/b.md"),
        ("linked/itself", "folder/itself"),
        ("linked/up", ""),
    ]


def test_links_that_are_broken_or_leave_the_root_are_not_shown(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "root-outside"
    grow(tmp_path, "root/a.md", "root-outside/b.md")
    (root / "out").symlink_to(outside)
    (root / "out.md").symlink_to(outside / "b.md")
    (root / "top").symlink_to(tmp_path)
    (root / "nowhere.md").symlink_to("nothing")
    assert [entry.path for entry in listed(below(root), "")] == ["a.md"]
    assert walked(below(root)) == ["a.md"]


def test_the_root_may_itself_be_a_link(tmp_path: Path) -> None:
    grow(tmp_path, "real/a.md")
    (tmp_path / "real" / "b.md").symlink_to("a.md")
    (tmp_path / "root").symlink_to("real")
    assert walked(below(tmp_path / "root")) == ["a.md", "b.md"]


def test_a_file_that_disappears_during_listing_is_left_out(tmp_path: Path) -> None:
    grow(tmp_path, "a.md", "b.md")

    def fits(path: str, kind: FileType) -> bool:
        (tmp_path / "b.md").unlink(missing_ok=True)
        return True

    listing = below(tmp_path).walk("", FileQuery(fits), everywhere, 5)
    assert [entry.path for entry in listing.entries] == ["a.md"]
    assert listing.complete


# -- what no listing shows --------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["d/a.key", "d/.a.key", "d/in/.hidden/a.key", "d/__pycache__/a.key", "d/a.key~", "d/in/a.key/"],
)
def test_everything_finds_files_that_listings_hide(tmp_path: Path, path: str) -> None:
    grow(tmp_path, "d/in/other.md", path, "a.key")
    found = {at for at, _ in everything(below(tmp_path), "d")}
    assert {"d/in/other.md", path.rstrip("/")} <= found
    assert "a.key" not in found


def test_everything_skips_checkpoints_and_does_not_follow_links(
    tmp_path: Path,
) -> None:
    grow(tmp_path, "d/.ipynb_checkpoints/a.ipynb", "other/a.key")
    assert everything(below(tmp_path), "d") == []
    (tmp_path / "d" / "link").symlink_to("../other")
    assert everything(below(tmp_path), "d") == [("d/link", "other")]


def test_everything_in_a_large_folder_comes_in_batches(tmp_path: Path) -> None:
    grow(tmp_path, *(f"d/{n}.md" for n in range(2500)))
    assert [len(some) for some in below(tmp_path).everything("d")] == [1000, 1000, 500]


# -- shortcuts --------------------------------------------------------------------------------


@given(
    globs=st.lists(st.text("a.*?[]!~", max_size=4), max_size=4), names=st.lists(NAMES, max_size=9)
)
def test_excluded_names_are_those_that_match_a_glob(globs: list[str], names: list[str]) -> None:
    unlisted = Exclusions.by(globs)
    for name in names:
        assert (name in unlisted) == any(fnmatch.fnmatch(name, glob) for glob in globs)


@settings(max_examples=60, deadline=None)
@given(
    tree=st.lists(st.lists(NAMES, min_size=1, max_size=3), max_size=12),
    endings=st.lists(st.text("ab.", min_size=1, max_size=2), max_size=2).map(tuple),
    part=st.text("ab./", max_size=3),
    hidden=st.booleans(),
    globs=st.lists(st.text("aB*~", max_size=2), max_size=2),
    limit=st.integers(1, 6),
)
def test_shortcuts_do_not_change_the_result(
    tree: list[list[str]],
    endings: tuple[str, ...],
    part: str,
    hidden: bool,
    globs: list[str],
    limit: int,
) -> None:
    def fits(path: str, kind: FileType) -> bool:
        return (not endings or path.lower().endswith(endings)) and part in path.lower()

    def names(listing: Listing) -> tuple[list[str], bool]:
        return [entry.path for entry in listing.entries], listing.complete

    with TemporaryDirectory() as folder:
        for names_of_path in tree:
            try:
                grow(Path(folder), "/".join(names_of_path))
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # it is there as something else
        folders = below(Path(folder), hidden, globs)
        slow = folders.walk("", FileQuery(fits), everywhere, limit)
        quick = folders.walk("", FileQuery(fits, endings, part), everywhere, limit)
        assert names(quick) == names(slow)
