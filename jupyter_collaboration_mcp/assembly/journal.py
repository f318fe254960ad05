"""The journal of unsaved edits inside a Jupyter server, and what a crash left in it."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_data_dir

from ..backends.in_process.journal import Journal
from ..backends.in_process.journals import open_journals
from ..settings.settings import Settings

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


def journal_directory(settings: Settings, root_dir: str) -> Path:
    """The journal of the server with this root directory; servers may share `journal_dir`."""
    base = Path(settings.journal_dir or Path(jupyter_data_dir()) / "collaboration-mcp").expanduser()
    root = hashlib.sha256(str(Path(root_dir).resolve()).encode()).hexdigest()
    return base / root[:16]


def recover_journal(
    settings: Settings, serverapp: ServerApp, log: logging.Logger
) -> tuple[Journal, list[tuple[str, str]]]:
    """Restore what a crash left unsaved. Jupyter serves nothing before this returns.

    Returns:
        The journal to write, and what was renamed right before the crash.
    """
    directory = journal_directory(settings, serverapp.root_dir)
    above = [] if settings.journal_dir else [directory.parent]
    journal, abandoned = open_journals(directory, above)
    renames: list[tuple[str, str]] = []
    if any(left.records.unsaved() or left.records.renames() for left in abandoned):
        from ..backends.in_process.recovery import recover

        renames = recover(
            abandoned,
            serverapp.contents_manager,
            _store_factory(serverapp),
            log,
            serverapp.io_loop.asyncio_loop,  # type: ignore[attr-defined]
        )
    for left in abandoned:
        with contextlib.suppress(sqlite3.Error):  # a full disk must not prevent the start
            left.records.forget_unbegun()
        if left is not journal:
            if journal.weakness is None:
                left.records.drain_credits(journal.records.add_credits)
            journal.steps.adopt(left.steps)
            left.discard()
            new = [event for event in left.events if event not in journal.events]
            journal.events.extend(new)
    return journal, renames


def store_warnings(serverapp: ServerApp) -> list[str]:
    """Settings with which collaboration loses documents and their history, one line each."""
    # B6: with either setting, pycrdt-store replaces a document's history with nothing.
    return [
        f"{owner}.{name} destroys stored documents (a fault of pycrdt-store): unset it. To limit "
        "their history, set JupyterCollaborationMCP.history_days."
        for owner, settings in serverapp.config.items()
        if owner.endswith("YStore")
        for name in ("squash_after_inactivity_of", "document_ttl")
        if settings.get(name) is not None
    ]


def _store_factory(serverapp: ServerApp) -> Callable[..., Any]:
    """The store class that rooms will use (B15); its extension is linked, not yet loaded."""
    from jupyter_server_ydoc.stores import SQLiteYStore

    apps = serverapp.extension_manager.extension_apps.get("jupyter_server_ydoc", ())
    for ydoc in apps:
        return partial(ydoc.ystore_class, config=ydoc.config)
    return partial(SQLiteYStore, config=serverapp.config)
