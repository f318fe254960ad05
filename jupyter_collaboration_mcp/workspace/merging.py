"""Merging a fork into the document that it was forked from, as one edit of the document."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pycrdt import Doc

from ..backends.protocols.forks import Apart, Contribution, Fork, Forks
from ..collaboration.changes import Change
from ..collaboration.edits import CallRecord, Edit
from ..collaboration.peer import RoomPeer
from ..documents.cell_mirror import CellChange
from ..documents.content import Content, content_of, read_content
from ..documents.content_diff import PartDiff, compare
from ..documents.handles import brief_id
from ..documents.members import Member
from ..documents.notebook import Notebook
from ..documents.render import fenced
from ..documents.text_diff import unified
from ..documents.text_document import WHOLE, Document, TextDocument
from ..documents.three_way import Conflict, Merged, Side, merge, restricted
from ..documents.updates import decode_state
from ..errors import CollaborationError, DocumentBusy, ForkNotFound, MergeConflict
from .open_document import OpenDocument
from .replacing import Replaced, replace_content

#: How often what people write into a fork meanwhile is merged, too.
_ROUNDS = 5

#: What a conflict prevents, unless something was merged before it.
NOTHING_MERGED = "Nothing was merged."

#: Conflicts that an error shows with their diff, and characters of each.
_SHOWN, _DIFF = 10, 800


@dataclass(frozen=True, slots=True)
class ForkState:
    """What a fork says, what it was made of, and who wrote it."""

    base: Content | None
    content: Content
    writers: Mapping[str, Member]
    """Who wrote each cell that was written in the fork, as far as known."""
    update: bytes = b""
    """The content as a Yjs update."""
    writes: int | None = None
    """How often something had been written into the fork, or less; None if not known."""


async def state_of(forks: Forks, fork: Fork, peer: RoomPeer) -> ForkState:
    """Read a fork; in a thread, because it may be large."""
    await peer.wait_acknowledged()
    base, contributions = await forks.base(fork), await forks.contributions(fork)
    kind = fork.root.kind

    def read() -> ForkState:
        return ForkState(
            None if base is None else read_content(kind, base),
            read_content(kind, state),
            writers_of(kind, contributions),
            state,
            writes,
        )

    writes = forks.writes(fork)
    await peer.catch_up()
    state = peer.doc.get_update()
    return await asyncio.to_thread(read)


async def preview(
    here: OpenDocument, fork: ForkState, prefer: Side | None
) -> tuple[Merged, list[PartDiff]]:
    """What a merge would do, and how each cell would differ, without doing anything."""
    kind, state = here.peer.link.room_id.kind, here.peer.doc.get_update()

    def read() -> tuple[Merged, list[PartDiff]]:
        document = read_content(kind, state)
        merged = merge(fork.base, fork.content, document, prefer)
        return merged, compare(document, merged.content)

    return await asyncio.to_thread(read)


async def merge_fork(
    here: OpenDocument, forks: Forks, fork: Fork, peer: RoomPeer, prefer: Side | None, why: str
) -> Merged:
    """Merge a fork into its document, with what people write into it meanwhile, and remove it.

    Args:
        why: What the people in it read then.

    Raises:
        MergeConflict: Both sides changed the same, and neither is preferred.
        CellError: Cells are protected or busy.
        DocumentBusy: Others kept changing the document or the fork.
    """
    with forks.unsynchronized(fork) as apart:
        state = await state_of(forks, fork, peer)
        whole = await _merge_once(here, state, prefer, apart)
        await here.peer.wait_acknowledged()
        try:
            await _merge_rest(here, forks, fork, peer, prefer, why, state, apart)
        except ForkNotFound:
            pass  # somebody has removed it meanwhile
        except CollaborationError as error:
            if await _exists(forks, fork):
                raise _merged_before(fork, error) from error
            raise  # its end is not durable
    return whole


async def _merge_once(
    here: OpenDocument,
    state: ForkState,
    prefer: Side | None,
    apart: Apart,
    cells: Collection[str] | None = None,
) -> Merged:
    """Merge a fork as it is; sets `apart.stays` if the document may have got it then."""
    apart.stays = True  # even if we are cancelled, which does not stop an edit halfway
    try:
        return await here.perform(merge_content(here, state, prefer, cells=cells))
    except CollaborationError:
        apart.stays = False
        raise


async def _merge_rest(
    here: OpenDocument,
    forks: Forks,
    fork: Fork,
    peer: RoomPeer,
    prefer: Side | None,
    why: str,
    state: ForkState,
    apart: Apart,
) -> None:
    """Merge what people have written into a fork since a state of it was merged; remove it then."""
    try:
        for _ in range(_ROUNDS):
            now = await state_of(forks, fork, peer)
            if now.content != state.content and apart.gets_none:
                since = replace(now, base=state.content)
                await here.perform(merge_content(here, since, prefer, "This was not merged."))
                await here.peer.wait_acknowledged()
                state = now
            elif await forks.end(fork, "merged", why, now.writes):
                return
        raise DocumentBusy(
            "People keep changing the fork.", "Merge it again in a moment.", fork=fork.name
        )
    except BaseException:
        forks.rebase(fork, state.update)  # that is certain to be in the document
        raise


async def _exists(forks: Forks, fork: Fork) -> bool:
    """Whether nobody has removed a fork."""
    try:
        await forks.get(fork.id)
    except ForkNotFound:
        return False
    return True


def _merged_before(fork: Fork, error: CollaborationError) -> CollaborationError:
    """The error for what could not be merged of what people wrote while a fork was merged."""
    apart = " and no longer gets the edits of its document" if fork.synchronize else ""
    return type(error)(
        f"{fork.name} was merged as it was when this call began. What people have written into it "
        f"since may be missing in the document; the fork is still there{apart}. {error.happened}",
        error.step,
        **error.detail,
    )


async def merge_cells(
    here: OpenDocument,
    forks: Forks,
    fork: Fork,
    peer: RoomPeer,
    prefer: Side | None,
    cells: Collection[str],
) -> None:
    """Merge what a fork has changed in some cells; the fork stays.

    Raises:
        CollaborationError: As `merge_fork`.
    """
    with forks.unsynchronized(fork) as apart:
        state = await state_of(forks, fork, peer)
        await _merge_once(here, state, prefer, apart, cells)
        await here.peer.wait_acknowledged()


def merge_content(
    here: OpenDocument,
    fork: ForkState,
    prefer: Side | None,
    undone: str = NOTHING_MERGED,
    cells: Collection[str] | None = None,
) -> Edit[Merged]:
    """Change a document by what a fork has changed.

    Args:
        undone: What an error says that a conflict has prevented.
        cells: Only these cells; None for all of them.
    """

    def work(document: Document, record: CallRecord) -> Merged:
        assert isinstance(document, Notebook | TextDocument)
        now = content_of(document)
        merged = merge(fork.base, fork.content, now, prefer)
        if cells is not None:
            merged = restricted(merged, now, cells)
        if merged.conflicts and prefer is None:
            raise conflicting(merged.conflicts, undone)
        attributed: Any = _Attributed(record, document.doc, fork.writers)
        replacement: Edit[Replaced] = replace_content(here, merged.content)
        replacement.begin()(document, attributed)
        return merged

    return Edit(lambda: work, large=True, alone=True)


class _Attributed:
    """The record of an edit, which also notes who had written what the edit copies."""

    def __init__(self, record: CallRecord, doc: Doc[Any], writers: Mapping[str, Member]) -> None:
        object.__setattr__(self, "_record", record)
        object.__setattr__(self, "_doc", doc)
        record.writers = writers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._record, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._record, name, value)

    def __call__(self, change: Change, *more: Any, **named: Any) -> None:
        self._record(change, *more, **named)
        self.credit(change.cell_id)

    def credit(self, cell_id: str) -> None:
        clock = decode_state(self._doc.get_state()).get(self._doc.client_id, 0)
        self._record.written_for.append((clock, self._record.writers.get(cell_id)))


def conflicting(conflicts: Sequence[Conflict], undone: str = NOTHING_MERGED) -> MergeConflict:
    """The error for what both sides have changed, with a diff for each."""
    lines = [_conflict_line(each) for each in conflicts[:_SHOWN]]
    if len(conflicts) > _SHOWN:
        lines.append(f"... and {len(conflicts) - _SHOWN} more.")
    return MergeConflict(
        f"Both sides changed the same. {undone} From the document (-) to the fork (+):\n"
        + "\n".join(lines),
        'Change one side, or repeat with prefer="fork" or prefer="document" to say which wins.',
        conflicts=[
            {"cell_id": each.cell_id or None, "reason": each.why, "diff": _diff(each)}
            for each in conflicts[:_SHOWN]
        ],
    )


def _conflict_line(conflict: Conflict) -> str:
    what = "The text" if conflict.cell_id == WHOLE else f"Cell {brief_id(conflict.cell_id)}"
    return f"{what}: {conflict.why}.\n{fenced(_diff(conflict))}"


def _diff(conflict: Conflict) -> str:
    return unified(conflict.document or "", conflict.fork or "", limit=_DIFF)


def writers_of(kind: str, contributions: Sequence[Contribution]) -> dict[str, Member]:
    """Who last wrote each cell of a fork."""
    doc: Doc[Any] = Doc()
    document = (Notebook if kind == "notebook" else TextDocument)(doc)
    writers: dict[str, Member] = {}
    changed: list[CellChange] = []
    try:
        for number, each in enumerate(contributions):
            if number == 1:
                document.on_change = changed.extend
            changed.clear()
            with doc.transaction():
                doc.apply_update(each.update)
            if each.writer is not None and each.writer.id:
                part = {change.cell_id if kind == "notebook" else WHOLE for change in changed}
                writers |= dict.fromkeys(part, each.writer)
    finally:
        document.close()
    return writers
