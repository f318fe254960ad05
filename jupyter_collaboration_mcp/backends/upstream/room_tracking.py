"""Makes rooms report when a save began, what was overwritten, and what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .workaround import (
    RoomObserver,
    Server,
    Workaround,
    changed_signature,
    missing_fields,
    not_async,
    unused_names,
)

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom


class SaveTracking(Workaround):
    name = "save_tracking"
    package = "jupyter-server-ydoc"
    fault = (
        "It does not report when a save takes its content. What was typed after that moment is "
        "not in the file when the save is reported."
    )
    patches = ("YBaseDoc.aget of a room's document",)
    without = (
        "each save is repeated a second later in order to know what it contains, and answers say "
        "later that an edit is saved"
    )

    def check(self, server: Server) -> list[str]:
        return _changed_document("aget", "_maybe_save_document")

    def on_room(self, room: DocumentRoom, observer: RoomObserver) -> None:
        document = room._document
        take = document.aget

        async def aget(*arguments: Any, **options: Any) -> Any:
            observer.on_snapshot()
            return await take(*arguments, **options)

        document.aget = aget


class OverwriteTracking(Workaround):
    name = "overwrite_tracking"
    trap = "B9"
    package = "jupyter-server-ydoc"
    fault = (
        "When a file was changed on disk, its content replaces what the room has, unsaved edits "
        "included, and nobody is told."
    )
    issue = "https://github.com/jupyterlab/jupyter-collaboration/issues/240"
    patches = ("YBaseDoc.aset of a room's document",)
    without = (
        "an agent's edit that a changed file overwrites is neither reapplied nor reported as lost"
    )

    def check(self, server: Server) -> list[str]:
        return _changed_document("aset", "_on_outofband_change")

    def on_room(self, room: DocumentRoom, observer: RoomObserver) -> None:
        document = room._document
        overwrite = document.aset

        async def aset(*arguments: Any, **options: Any) -> None:
            observer.on_overwrite()
            await overwrite(*arguments, **options)
            observer.on_overwritten()

        document.aset = aset


class StoreTracking(Workaround):
    name = "store_tracking"
    package = "pycrdt-websocket"
    fault = "A room does not report when its store has an update, and awaits the store nowhere."
    patches = ("BaseYStore.write of a room's store",)
    without = (
        "the journal keeps all edits of a document until its room is closed, and grows with them"
    )

    def check(self, server: Server) -> list[str]:
        from pycrdt.store import BaseYStore
        from pycrdt.websocket import YRoom

        return [
            *changed_signature(BaseYStore, "write", "data", is_async=True),
            *unused_names(YRoom, "_broadcast_updates", "ystore", "write"),
        ]

    def on_room(self, room: DocumentRoom, observer: RoomObserver) -> None:
        if (store := room.ystore) is None:
            return
        write = store.write

        async def write_and_report(data: bytes, *arguments: Any, **options: Any) -> None:
            await write(data, *arguments, **options)
            # The store's writes are awaited nowhere else; they end in the order they began.
            observer.on_stored(bytes(data))

        store.write = write_and_report


def _changed_document(name: str, caller: str) -> list[str]:
    """How the documents of rooms differ from ones whose method can be replaced."""
    from jupyter_server_ydoc.rooms import DocumentRoom
    from jupyter_ydoc import YNotebook, YUnicode

    return [
        *missing_fields(DocumentRoom, "_document"),
        *unused_names(DocumentRoom, caller, "_document", name),
        *not_async(YNotebook, name),
        *not_async(YUnicode, name),
    ]
