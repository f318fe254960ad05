"""Brings journal and store back into the file after a crash, before the first request.

On restart Jupyter compares store and file and prefers the file, which deletes whatever the crash
left unsaved. So we update the file first, unless somebody else wrote it; in that case the file
stays, and our version is kept beside it and reported.
"""

from __future__ import annotations

import asyncio
import copy
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import Logger
from pathlib import Path, PurePosixPath
from typing import Any

from jupyter_server.utils import ensure_async
from pycrdt import Doc
from pycrdt.store import BaseYStore, YDocNotFound
from tornado.web import HTTPError

from ...documents import line_ends
from ...documents.updates import decode_state, first_block
from ...panics import contained
from ..contents.line_endings import with_line_endings
from ..disk.local_disk import LocalDisk
from ..upstream.number_fidelity import exact_numbers
from .journal import Journal
from .journal_records import UnsavedRoom
from .replay import Replay, document_of, without_trust

StoreFactory = Callable[..., BaseYStore]

#: Updates that are stored one by one; it takes a few milliseconds for each.
_FEW = 200

#: Tolerance in seconds: all clocks are of one machine, so only rounding and the store's delay.
_CLOCK_SLACK = 2.0


class Incomplete(Exception):
    """The journal builds on something that neither the store nor the file has."""


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    """A document as it was when the server died."""

    content: Any
    hash: str | None
    journaled: list[tuple[float, bytes]]


class Recovery:
    """Recovers the rooms of one journal that a crashed server left."""

    def __init__(
        self, journal: Journal, contents: Any, make_store: StoreFactory, log: Logger
    ) -> None:
        self._journal = journal
        self._contents = contents
        self._make_store = make_store
        self._log = log

    async def run(self) -> None:
        """Recover every room; one that fails stays in the journal for the next start.

        A journal that is partly unreadable is set aside: it would fail forever.
        """
        failed = False
        for unsaved in self._journal.records.unsaved():
            began = time.perf_counter()
            try:
                with contained():
                    outcome = await self._recover(unsaved)
            except Incomplete:
                try:
                    kept = self._journal.records.keep_aside(unsaved.room)
                except (OSError, sqlite3.Error):
                    self._log.exception("Could not keep %s aside; it stays", unsaved.path)
                    failed = True
                    continue
                self._log.error(
                    "The collaboration store that %s was edited with is gone, so its unsaved edits "
                    "cannot be brought back; they are kept in %s. The file is as it was.",
                    unsaved.path,
                    kept,
                )
                continue
            except Exception:
                self._log.exception("Could not recover %s; it stays in the journal", unsaved.path)
                failed = True
                continue
            took = (time.perf_counter() - began) * 1000
            self._log.info("Recovered %s: %s (%.0f ms)", unsaved.path, outcome, took)
        if failed and not self._journal.storage.is_sound:
            self._journal.storage.set_aside("a part of it cannot be read")

    async def _recover(self, unsaved: UnsavedRoom) -> str:
        file_type, file_id = unsaved.room.file_type, unsaved.room.file_id
        store = self._make_store(path=f".{file_type}:{file_id}.y", log=self._log)
        async with store:
            # The store's task group would wrap an error raised here.
            outcome = await self._recover_with(unsaved, store)
        if outcome is None:
            raise Incomplete(unsaved.path)
        return outcome

    async def _recover_with(self, unsaved: UnsavedRoom, store: BaseYStore) -> str | None:
        """Returns what was done; None if the journal has nothing to build on."""
        file_format, file_type = unsaved.room.file_format, unsaved.room.file_type
        try:
            rebuilt = await self._rebuild(unsaved, store, file_type)
        except Incomplete:
            return None
        if rebuilt is None:
            self._journal.records.recovered(unsaved.room, None)
            return "nothing was stored"
        model = {"type": file_type, "format": file_format, "content": rebuilt.content}
        kind = unsaved.room.kind
        on_disk = await self._load(unsaved.path, kind, file_format)
        if on_disk is not None and on_disk["content"] == without_trust(rebuilt.content):
            self._journal.records.recovered(unsaved.room, None)
            return "the file was up to date"
        ours = on_disk is not None and await self._is_ours(on_disk, unsaved, rebuilt, store)
        if not ours and kind == "file":
            ours = await self._was_torn(unsaved, rebuilt, store)
        if ours:
            await self._save(model, kind, unsaved.path)
            self._journal.records.recovered(unsaved.room, None)
            return "unsaved edits are in the file again"
        kept = await self._keep_beside(model, kind, unsaved.path)
        notice = (
            f"After a crash of the server, {unsaved.path} had been changed by somebody else "
            f"meanwhile. That file was left as it is; the unsaved edits are in {kept}."
        )
        self._journal.records.recovered(unsaved.room, (unsaved.path, notice))
        self._log.warning(notice)
        return "conflict"

    async def _rebuild(
        self, unsaved: UnsavedRoom, store: BaseYStore, file_type: str
    ) -> _Rebuilt | None:
        journaled = self._journal.records.updates(unsaved.room)
        doc: Doc[Any] = Doc()
        try:
            await store.apply_updates(doc)
        except YDocNotFound:
            if not journaled:
                return None
        before = doc.get_state()
        new: list[bytes] = []
        observing = doc.observe(lambda event: new.append(event.update))
        for _time, update in journaled:
            doc.apply_update(update)
        doc.unobserve(observing)
        if not _complete(doc, journaled):
            raise Incomplete(unsaved.path)
        # Into the store as well, not only into the file: so the items keep their identity, and a
        # tab that still holds them does not duplicate the text. One by one, if they are few: the
        # history shows whose each is.
        for update in new if len(new) <= _FEW else [doc.get_update(before)]:
            await store.write(update)
        document = document_of(file_type, doc)
        return _Rebuilt(await document.aget(), document.hash, journaled)

    async def _is_ours(
        self, on_disk: Any, unsaved: UnsavedRoom, rebuilt: _Rebuilt, store: BaseYStore
    ) -> bool:
        """Whether the file matches a state that the document has been through."""
        if on_disk["hash"] is not None and on_disk["hash"] in (unsaved.base, rebuilt.hash):
            return True
        # The server may have died between writing the file and recording its hash: replay what
        # happened since, and see whether the document ever matched the file.
        content = on_disk["content"]
        return await self._replay(unsaved, rebuilt, store, content, content.__eq__)

    async def _was_torn(self, unsaved: UnsavedRoom, rebuilt: _Rebuilt, store: BaseYStore) -> bool:
        """Whether the server died while it wrote a text; if so, restores its last whole text."""
        torn = TornFile.at(LocalDisk.below(self._contents), unsaved.path)
        if torn is None:
            return False
        beginning = torn.beginning

        def begins(text: Any) -> bool:
            return str(text).startswith(beginning)

        if not await self._replay(unsaved, rebuilt, store, beginning, begins):
            return False
        torn.put_back()
        return True

    async def _replay(
        self,
        unsaved: UnsavedRoom,
        rebuilt: _Rebuilt,
        store: BaseYStore,
        content: Any,
        fits: Callable[[Any], bool],
    ) -> bool:
        """Whether any state of the document since its last save matched a file."""
        rows = [(stamp, update) async for update, _metadata, stamp in store.read()]
        rows = sorted(rows + rebuilt.journaled, key=lambda row: row[0])
        file_type = unsaved.room.file_type
        since = unsaved.base_time - _CLOCK_SLACK
        return await Replay(file_type, content, fits).passes(rows, since)

    async def _load(self, path: str, kind: str, file_format: str) -> Any | None:
        # Reading also repairs: Jupyter's contents manager restores the intermediate copy of a
        # notebook that the crash left half written.
        try:
            model = await ensure_async(self._contents.get(path, type=kind, format=file_format))
            with_hash = await ensure_async(
                self._contents.get(path, content=False, require_hash=True)
            )
        except HTTPError:
            return None
        content = model["content"]
        if kind == "file" and isinstance(content, str):
            content = line_ends.plain(content)
        return {"content": without_trust(content), "hash": with_hash.get("hash")}

    async def _save(self, model: dict[str, Any], kind: str, path: str) -> None:
        # The contents manager modifies its argument (signs it, strips trust).
        saving = {**model, "type": kind, "content": copy.deepcopy(model["content"])}
        if kind == "file" and isinstance(saving["content"], str):
            saving["content"] = await with_line_endings(self._contents, path, saving["content"])
        await ensure_async(self._contents.save(saving, path))

    async def _keep_beside(self, model: dict[str, Any], kind: str, path: str) -> str:
        original = PurePosixPath(path)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        beside = str(original.with_name(f"{original.stem}.recovered-{stamp}{original.suffix}"))
        await self._save(model, kind, beside)
        return beside


def recover(
    journals: list[Journal],
    contents: Any,
    make_store: StoreFactory,
    log: Logger,
    loop: asyncio.AbstractEventLoop,
) -> list[tuple[str, str]]:
    """Recover on Jupyter's own loop, which must not run yet, and in its thread.

    The notary's SQLite handle belongs to the thread that first loads a notebook: in another thread,
    every later load would fail.

    Returns old and new paths of renames right before the crash, which fileid may not know.
    """
    renames: list[tuple[str, str]] = []
    with exact_numbers():  # nothing else runs yet
        for journal in journals:
            if journal.records.renames():
                renames += loop.run_until_complete(_follow_renames(journal, contents))
            if journal.records.unsaved():
                recovery = Recovery(journal, contents, make_store, log)
                loop.run_until_complete(recovery.run())
    return renames


async def _follow_renames(journal: Journal, contents: Any) -> list[tuple[str, str]]:
    """Make rooms follow files that were moved right before the crash."""
    followed = []
    for path, new_path in journal.records.renames():
        is_gone = not await ensure_async(contents.exists(path))
        if is_gone and await ensure_async(contents.exists(new_path)):
            journal.records.follow(path, new_path)
            followed.append((path, new_path))
    journal.records.forget_renames()
    return followed


def _complete(doc: Doc[Any], journaled: Sequence[tuple[float, bytes]]) -> bool:
    """Whether every update found what it builds on; Yjs silently holds back those that did not."""
    clocks = decode_state(doc.get_state())
    begins = [first_block(update) for _time, update in journaled]
    return all(clocks.get(begin[0], 0) > begin[1] for begin in begins if begin is not None)


class TornFile:
    """What a crash may have left of a text file while it was being written.

    Jupyter copies a file to `.~name`, empties it, writes it, and removes the copy. A server that is
    killed meanwhile leaves the beginning of the new text, or nothing at all, and the copy beside
    it. Jupyter itself restores the copy of a notebook, which it cannot read then; half a text looks
    whole.
    """

    def __init__(self, file: Path, copy: Path) -> None:
        self._file, self._copy = file, copy
        # The cut may split a character, or a line end.
        written = file.read_bytes().decode(errors="ignore")
        self.beginning = line_ends.plain(written.removesuffix("\r"))
        """As much of the text as was written, with `\\n` at the end of each line."""

    @classmethod
    def at(cls, disk: LocalDisk | None, path: str) -> TornFile | None:
        """The torn file at a path; None if there is no copy beside it, so nobody was writing."""
        if disk is None:
            return None
        file = disk.real_path(path)
        copy = file.with_name(f".~{file.name}")
        return cls(file, copy) if file.is_file() and copy.is_file() else None

    def put_back(self) -> None:
        """Restore the content from before the write."""
        self._copy.replace(self._file)
