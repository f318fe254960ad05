"""Private parts of jupyter-server-ydoc that we need to open, save and end rooms."""

from __future__ import annotations

from .workaround import Server, Workaround, changed_signature, missing_attributes, missing_fields

_ROOM = (
    "room_id",
    "file_format",
    "file_type",
    "file",
    "logger",
    "ystore",
    "log",
    "save_delay",
    "document_load_progressively",
    "notebook_output_delay_threshold_mb",
    "exception_handler",
)


class RoomAccess(Workaround):
    name = "room_access"
    trap = "B1 to B5, B12, B15"
    package = "jupyter-server-ydoc"
    fault = (
        "Its API for documents ignores the configured store, returns rooms that are not loaded "
        "yet and keeps ones that failed to load; there is no API to join a room as a member, to "
        "save one or to end one. So we do what its WebSocket handler does, with the "
        "same private parts."
    )
    patches = (
        "DocumentRoom (constructor, _document, _file, _save_to_disc, _update_lock)",
        "FileLoader._subscriptions",
        "YDocExtension._room_locks",
    )
    without = "agents may be unable to open documents; those of people work as before"
    optional = False

    def check(self, server: Server) -> list[str]:
        from jupyter_server_ydoc import utils
        from jupyter_server_ydoc.loaders import FileLoader
        from jupyter_server_ydoc.rooms import DocumentRoom

        found = [
            *changed_signature(DocumentRoom, "__init__", *_ROOM),
            *changed_signature(DocumentRoom, "initialize", is_async=True),
            *changed_signature(DocumentRoom, "_save_to_disc", is_async=False),
            *missing_fields(DocumentRoom, "_document", "_file", "_update_lock"),
            *missing_fields(FileLoader, "_subscriptions", "_contents_manager", "last_modified"),
            *missing_attributes(utils, "SERVER_SESSION"),
        ]
        if server.ydoc is not None:
            found += missing_attributes(
                server.ydoc,
                *("_room_locks", "document_cleanup_delay", "document_save_delay", "file_loaders"),
            )
            found += missing_attributes(
                server.ydoc.ywebsocket_server,
                *("add_room", "rooms", "serve", "start_room", "started", "ystore_class"),
            )
        return found
