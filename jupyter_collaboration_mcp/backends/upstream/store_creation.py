"""The database of the store, which several rooms create at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from weakref import WeakKeyDictionary

from .workaround import Server, Workaround, changed_signature, missing_attributes, unused_names


class StoreCreation(Workaround):
    name = "store_creation"
    package = "pycrdt-store"
    fault = (
        "If documents are opened at the same moment and there is no database yet, each creates it. "
        "Some fail, or find one without a version number and rename it while others write to it."
    )
    patches = ("SQLiteYStore._init_db",)
    without = (
        "the first documents that are opened at the same moment where nothing was ever shared may "
        "fail to open, or lose their history"
    )

    def check(self, server: Server) -> list[str]:
        from pycrdt.store import SQLiteYStore

        return [
            *changed_signature(SQLiteYStore, "_init_db", is_async=True),
            *missing_attributes(SQLiteYStore, "db_path"),
            *unused_names(SQLiteYStore, "start", "_init_db"),
        ]

    def apply(self, server: Server) -> None:
        from pycrdt.store import SQLiteYStore

        init: Callable[[Any], Awaitable[None]] = SQLiteYStore._init_db
        locks: MutableMapping[Any, defaultdict[str, asyncio.Lock]] = WeakKeyDictionary()

        async def init_alone(store: Any) -> None:
            here = locks.setdefault(asyncio.get_running_loop(), defaultdict(asyncio.Lock))
            async with here[str(store.db_path)]:
                await init(store)

        init_alone.__wrapped__ = init  # type: ignore[attr-defined]
        SQLiteYStore._init_db = init_alone  # type: ignore[method-assign]
