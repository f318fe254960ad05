"""Walking through folders that have to be asked for, with Jupyter's own contents manager."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from tornado.web import HTTPError

from jupyter_collaboration_mcp.backends.contents.folders import ContentsFolders
from jupyter_collaboration_mcp.backends.contents.models import entries_of
from jupyter_collaboration_mcp.backends.protocols.files import (
    FileEntry,
    FileQuery,
    FileType,
    Listing,
)
from jupyter_collaboration_mcp.errors import DocumentNotFound
from tests.backends.disk.test_folders import anything, everywhere, grow
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio


class Asked:
    """The folders below a root, and which of them were asked for."""

    def __init__(self, root: Path, at_once: int = 8) -> None:
        self._manager: Any = AsyncFileContentsManager(root_dir=str(root))
        self.folders = ContentsFolders(self.ask, at_once)
        self.asked: list[str] = []

    async def ask(self, path: str) -> Sequence[FileEntry]:
        self.asked.append(path)
        try:
            return entries_of(await self._manager.get(path, type="directory"))
        except HTTPError as error:
            raise DocumentNotFound.at(path) from error

    async def walk(self, limit: int = 1000, folders: bool = False) -> Listing:
        return await self.folders.walk("", FileQuery(anything, folders=folders), everywhere, limit)

    async def files(self) -> list[str]:
        listing = await self.walk()
        assert listing.complete
        return [entry.path for entry in listing.entries]


class Timeless(Asked):
    """All folders have the same time, as in an object store, which has none; or if made at once."""

    async def ask(self, path: str) -> Sequence[FileEntry]:
        return [_timeless(entry) for entry in await super().ask(path)]


def _timeless(entry: FileEntry) -> FileEntry:
    if entry.type != "directory":
        return entry
    return replace(entry, created=None, last_modified=None)


# -- links ------------------------------------------------------------------------------------


async def test_a_link_to_a_parent_folder_does_not_cause_endless_recursion(tmp_path: Path) -> None:
    grow(tmp_path, "a.md", "b/c.md", "b/d/e.md")
    (tmp_path / "b" / "d" / "up").symlink_to(tmp_path / "b")
    (tmp_path / "here").symlink_to(".")
    asked = Asked(tmp_path)
    assert await asked.files() == ["a.md", "b/c.md", "b/d/e.md"]
    assert len(asked.asked) == len(set(asked.asked)) < 16


@pytest.mark.parametrize("up", ["b", "b/c", "b/c/d"])
async def test_a_link_to_a_parent_folder_without_files_does_not_cause_endless_recursion(
    tmp_path: Path, up: str
) -> None:
    grow(tmp_path, "b/c/d/", "b/e/f.md")
    (tmp_path / up / "up").symlink_to(tmp_path)
    assert await Asked(tmp_path).files() == ["b/e/f.md"]


async def test_links_to_other_folders_are_followed(tmp_path: Path) -> None:
    grow(tmp_path, "a/1.md", "b/2.md")
    (tmp_path / "b" / "a").symlink_to(tmp_path / "a")
    assert await Asked(tmp_path).files() == ["a/1.md", "b/2.md", "b/a/1.md"]


async def test_nested_folders_of_the_same_name_are_not_mistaken_for_links(tmp_path: Path) -> None:
    files = ["a/a/a/1.md", "data/data/data/data/1.md"]
    grow(tmp_path, *files)
    for folder in (Asked, Timeless):
        assert await folder(tmp_path).files() == files


async def test_copying_follows_a_link_to_a_parent_folder_only_once(tmp_path: Path) -> None:
    grow(tmp_path, "b/c.md", "b/d/")
    (tmp_path / "b" / "d" / "up").symlink_to(tmp_path / "b")
    made: list[str] = []

    async def make(path: str) -> None:
        made.append(path)

    async def copy(path: str, new_path: str) -> None:
        made.append(new_path)

    await Asked(tmp_path).folders.copy("b", "new", make, copy)
    assert made == ["new", "new/c.md", "new/d", "new/d/up"]


# -- many folders -----------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 3, 8])
async def test_a_walk_is_breadth_first_and_by_name_whatever_the_order_of_answers(
    tmp_path: Path, at_once: int
) -> None:
    paths = [f"{a}/{b}/{n}.md" for a in "abc" for b in "xyz" for n in range(2)]
    grow(tmp_path, "top.md", "c/0.md", *paths)
    asked = Asked(tmp_path, at_once)
    waiting: list[str] = []

    async def last_first(path: str) -> Sequence[FileEntry]:
        waiting.append(path)
        await asyncio.sleep(0)  # all of them are there then
        await until(lambda: waiting[-1] == path)
        waiting.remove(path)
        return await asked.ask(path)

    folders = ContentsFolders(last_first, at_once)
    listing = await folders.walk("", FileQuery(anything), everywhere, 1000)
    assert [entry.path for entry in listing.entries] == ["top.md", "c/0.md", *paths]


async def test_a_walk_never_exceeds_its_limit_of_concurrent_requests(tmp_path: Path) -> None:
    grow(tmp_path, *(f"{n:02d}/in/" for n in range(20)))
    asked = Asked(tmp_path)
    now, most = 0, 0

    async def ask(path: str) -> Sequence[FileEntry]:
        nonlocal now, most
        now += 1
        most = max(most, now)
        children = await asked.ask(path)
        now -= 1
        return children

    await ContentsFolders(ask, 8).walk("", FileQuery(anything), everywhere, 9)
    assert most == 8


async def test_a_walk_stops_when_it_has_enough(tmp_path: Path) -> None:
    grow(tmp_path, "a.md", "b.md", *(f"{n:02d}/c.md" for n in range(20)))
    asked = Asked(tmp_path)
    assert not (await asked.walk(limit=1)).complete
    assert asked.asked == [""]


async def test_a_folder_lists_its_visible_entries_up_to_a_limit(tmp_path: Path) -> None:
    grow(tmp_path, "a.md", "b.md", "c/", "no.md")

    def shown(path: str, kind: FileType) -> bool:
        return path != "no.md"

    folders = Asked(tmp_path).folders
    for limit, complete in ((2, False), (3, True)):
        listing = await folders.children("", shown, limit)
        assert [entry.path for entry in listing.entries] == ["a.md", "b.md", "c"][:limit]
        assert listing.complete is complete
