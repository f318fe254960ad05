"""Stores that are opened at the same moment, where there is no database yet."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest
from pycrdt import Doc, Text
from pycrdt.store import SQLiteYStore

from .conftest import MakeStage
from .test_loaders import with_and_without

pytestmark = pytest.mark.anyio


@with_and_without
async def test_documents_that_are_opened_at_once_create_one_store(
    make_stage: MakeStage, tmp_path: Path, caplog: pytest.LogCaptureFixture, works: bool
) -> None:
    make_stage(*([] if works else ["store_creation"]))

    class Store(SQLiteYStore):
        db_path = str(tmp_path / "store.db")

    async def write(number: int) -> None:
        doc: Doc[Text] = Doc()
        doc["text"] = Text("words")
        async with asyncio.timeout(5), Store(f"document {number}") as store:
            await store.write(doc.get_update())

    await asyncio.gather(*map(write, range(8)), return_exceptions=True)
    assert ("SQLite exception" not in caplog.text) is works
    if works:
        assert [file.name for file in tmp_path.glob("store*")] == ["store.db"]
        with contextlib.closing(sqlite3.connect(Store.db_path)) as database:
            (count,) = database.execute("SELECT count(DISTINCT path) FROM yupdates").fetchone()
        assert count == 8
