"""The paths of rooms, with the real table of file ids, which other servers may share."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_server_fileid.manager import ArbitraryFileIdManager

from jupyter_collaboration_mcp.backends.in_process import room_paths as module
from jupyter_collaboration_mcp.backends.in_process.room_paths import RoomPaths
from jupyter_collaboration_mcp.backends.in_process.server_parts import ServerParts

pytestmark = pytest.mark.anyio


class CountedFileIds(ArbitraryFileIdManager):
    """Counts how often it is asked for a path."""

    asked = 0

    def get_path(self, id: str) -> str | None:  # noqa: A002
        self.asked += 1
        return super().get_path(id)


class UnknownFileIds:
    """File ids of another make: nobody knows when they change."""

    def __init__(self, path: str) -> None:
        self.path = path

    def get_path(self, file_id: str) -> str:
        return self.path


def file_ids(folder: Path) -> CountedFileIds:
    return CountedFileIds(root_dir=str(folder), db_path=str(folder / "file_ids.db"))


def room_paths(ids: object) -> RoomPaths:
    settings = {"file_id_manager": ids}
    serverapp: Any = SimpleNamespace(
        web_app=SimpleNamespace(settings=settings), log=logging.getLogger("test")
    )
    return RoomPaths(ServerParts(serverapp))


async def test_a_path_is_looked_up_once_in_a_turn_of_the_loop(tmp_path: Path) -> None:
    ids = file_ids(tmp_path)
    paths = room_paths(ids)
    one, other = ids.index("one.ipynb"), ids.index("other.ipynb")
    for _ in range(3):
        assert paths.path_of(one) == "one.ipynb"
        assert paths.path_of(other) == "other.ipynb"
        assert paths.path_of("nobody") is None
    assert ids.asked == 3
    await asyncio.sleep(0)
    assert paths.path_of(one) == "one.ipynb"
    assert ids.asked == 4


async def test_what_this_server_moves_is_noticed_at_once(tmp_path: Path) -> None:
    ids = file_ids(tmp_path)
    paths = room_paths(ids)
    file_id = ids.index("folder/old.ipynb")
    ids.index("folder")
    assert paths.path_of(file_id) == "folder/old.ipynb"
    ids.move("folder/old.ipynb", "folder/new.ipynb")
    assert paths.path_of(file_id) == "folder/new.ipynb"
    ids.move("folder", "renamed")
    assert paths.path_of(file_id) == "renamed/new.ipynb"
    ids.delete("renamed")
    assert paths.path_of(file_id) is None


async def test_what_another_server_moves_is_noticed_in_the_next_turn(tmp_path: Path) -> None:
    ids, others = file_ids(tmp_path), file_ids(tmp_path)
    paths = room_paths(ids)
    file_id = ids.index("old.ipynb")
    assert paths.path_of(file_id) == "old.ipynb"
    others.move("old.ipynb", "new.ipynb")
    await asyncio.sleep(0)
    assert paths.path_of(file_id) == "new.ipynb"


async def test_a_path_is_believed_for_a_moment_while_nobody_writes_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "file_ids.db"
    ids, others = (
        ArbitraryFileIdManager(root_dir=str(tmp_path), db_path=str(table)) for _ in range(2)
    )
    asked: list[str] = []
    paths = room_paths(ids)
    file_id = ids.index("old.ipynb")
    written_long_ago(table)
    ids.con.set_trace_callback(asked.append)
    for _ in range(3):
        assert paths.path_of(file_id) == "old.ipynb"
        await asyncio.sleep(0)
    assert lookups(asked) == 1
    others.move("old.ipynb", "new.ipynb")
    assert paths.path_of(file_id) == "new.ipynb"
    written_long_ago(table)
    monkeypatch.setattr(module, "_BELIEVED", -1.0)
    for number in range(3, 6):
        await asyncio.sleep(0)
        assert paths.path_of(file_id) == "new.ipynb"
        assert lookups(asked) == number


async def test_a_table_that_is_not_written_in_place_is_asked_in_each_turn(tmp_path: Path) -> None:
    table = tmp_path / "file_ids.db"
    ids, others = (
        ArbitraryFileIdManager(root_dir=str(tmp_path), db_path=str(table), db_journal_mode="WAL")
        for _ in range(2)
    )
    paths = room_paths(ids)
    file_id = ids.index("old.ipynb")
    written_long_ago(table)
    assert paths.path_of(file_id) == "old.ipynb"
    await asyncio.sleep(0)
    others.move("old.ipynb", "new.ipynb")
    assert paths.path_of(file_id) == "new.ipynb"


def written_long_ago(table: Path) -> None:
    os.utime(table, (table.stat().st_mtime - 60,) * 2)


def lookups(asked: list[str]) -> int:
    return sum(statement.startswith("SELECT path") for statement in asked)


async def test_of_file_ids_whose_changes_nobody_counts_nothing_is_kept() -> None:
    ids = UnknownFileIds("old.ipynb")
    paths = room_paths(ids)
    assert paths.path_of("id") == "old.ipynb"
    ids.path = "new.ipynb"
    assert paths.path_of("id") == "new.ipynb"
