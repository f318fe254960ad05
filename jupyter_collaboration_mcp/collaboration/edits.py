"""One call's edit of a document: made at once, or on a copy in a thread if it is large.

The copy has the peer's client id, so what is made there is an update of the peer itself, which
takes milliseconds to apply. It is applied only if the parts of the document that it is about have
not changed in the meantime, as if the whole edit had been made at once. What others do in other
cells does not matter: an update applies on top of that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from pycrdt import Doc

from ..backends.protocols.room_ids import RoomId
from ..documents.cell_mirror import Parts
from ..documents.members import Member
from ..documents.text_document import Document
from ..documents.updates import decode_state
from ..errors import CollaborationError, InternalError
from ..panics import is_panic
from .changes import Change, Step, parts_of
from .undo import UndoLog

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: Cells, and characters of text, from which on an edit is large. Copying a document takes longer
#: than a small edit.
LARGE_CELLS, LARGE_TEXT = 50, 10_000

#: Changes, and characters in them, that are applied at once: some ten milliseconds. Each slice is a
#: row of the store, which sums up its rows from time to time.
_SLICE_CHANGES, _SLICE_TEXT = 200, 200_000


class Kept(NamedTuple):
    """What a call has changed in a document."""

    room_id: RoomId
    document: Document
    step: Step
    undone: Sequence[Step]
    """The steps that it has undone instead."""


OnStep = Callable[[Kept], None]
"""Called once a call has changed a document."""


def no_step(kept: Kept) -> None:
    """Where nobody wants to know."""


class CallRecord:
    """What one call changed, kept so that it can be undone."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.undone: Sequence[Step] = ()
        """Steps that the call undoes; such a call leaves no step itself."""
        self.reduced: Sequence[Step] = ()
        """What stays of these steps, if only a part of them is undone."""
        self.on_step: OnStep = no_step
        self.undone_in: UndoLog | None = None
        """The log that they are in; None: the caller's own."""
        self.wrote_text = False
        """Whether the last action was to insert text into a cell."""
        self.written: tuple[int, int] | None = None
        """The last character that was written, by client and clock, if known."""
        self.recheck: Callable[[Any, Collection[str]], None] | None = None
        """Raises an error if the document no longer lets the call do what it did to a copy of it:
        people protect cells, and put their carets into them, without changing their text. Takes
        the document, and the cells that have changed since the copy was made."""
        self.writers: Mapping[str, Member] = {}
        """Who has written what the call copies here, by cell; the caller, if nobody is named."""
        self.written_for: list[tuple[int, Member | None]] = []
        """Who has written what the call copies here, by the clock up to which it is theirs; None
        stands for the caller."""
        self.people: dict[str, list[str]] = {}
        """By cell, or by line of a text: people whose carets are where the call changes it."""
        self.refuses_large = False
        """Whether to raise `EditIsLarge` before the first change of an edit that is large."""
        self.on_slice: Callable[[], None] | None = None
        """Cuts the edit here, if it is made on a copy; set by whoever prepares it."""
        self._changes_in_slice = self._text_in_slice = 0

    def __call__(
        self, change: Change, wrote_text: bool = False, written: tuple[int, int] | None = None
    ) -> None:
        self.changes.append(change)
        self.wrote_text = wrote_text
        self.written = written

    def credit(self, cell_id: str) -> None:
        """Note that everything until now which is nobody's yet was written by who wrote a cell."""

    @property
    def on_copy(self) -> bool:
        """Whether the edit is made on a copy of the document, in a thread."""
        return self.on_slice is not None

    def did(self, characters: int = 0) -> bool:
        """Count a change of a long edit; returns whether it is time to end a slice."""
        self._changes_in_slice += 1
        self._text_in_slice += characters
        return self._changes_in_slice >= _SLICE_CHANGES or self._text_in_slice >= _SLICE_TEXT

    def end_slice(self) -> None:
        """Cut a long edit here, if it is made on a copy: others may see it up to this point for a
        moment. They never get half of it for good."""
        self._changes_in_slice = self._text_in_slice = 0
        if self.on_slice is not None:
            self.on_slice()

    def pass_action(self) -> None:
        """Count a change of a long edit, and end the slice if it is time to."""
        if self.did():
            self.end_slice()

    @property
    def touched(self) -> Parts:
        """The parts of the document that the call is about."""
        undone = (change for step in self.undone for change in step.changes)
        return parts_of(chain(self.changes, undone))


Work = Callable[[Any, CallRecord], T]
"""Makes an edit in a document (a `Notebook` or a `TextDocument`): checks first, then changes."""


@dataclass(frozen=True, slots=True)
class Edit(Generic[T]):
    """What one call does to a document."""

    begin: Callable[[], Work[T]]
    """Checks the live document, refuses what is stale, and returns the work; called again if the
    document has changed."""
    large: bool = False
    merges: bool = False
    """Whether what people type meanwhile into the cells that it edits may stay beside what it
    writes; otherwise a large edit begins again. Cells that it deletes, moves or inserts have to be
    as they were in any case."""
    alone: bool = False
    """Whether only one such edit is made at a time."""


@dataclass(frozen=True, slots=True)
class PreparedEdit(Generic[T]):
    """An edit as it was made on a copy."""

    updates: Sequence[bytes]
    """The slices to apply, in order; none if it changed nothing."""
    clock: int
    """The clock of the peer's client after it."""
    touched: Parts
    """The parts of the document that have to be as they were in the copy."""
    record: CallRecord
    result: T


def prepare(
    kind: type[Document], state: bytes, client_id: int, work: Work[T], merges: bool = False
) -> PreparedEdit[T] | CollaborationError:
    """Make an edit on a copy of a document, in any thread; returns the error if it is refused."""
    doc: Doc[Any] = Doc(client_id=client_id)
    document = kind(doc, follows=False)
    doc.apply_update(state)
    updates: list[bytes] = []
    subscription = doc.observe(lambda event: updates.append(event.update))
    record = CallRecord()
    try:
        with ExitStack() as transactions:
            transactions.enter_context(doc.transaction())

            def cut() -> None:
                if len(document):  # JupyterLab gives an empty notebook a cell
                    transactions.close()
                    transactions.enter_context(doc.transaction())

            record.on_slice = cut
            result = work(document, record)
    except CollaborationError as error:
        return error.with_traceback(None)  # it would take the copy to other threads
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        _log.error("An edit failed on a copy", exc_info=error)
        return InternalError.undone(error)
    finally:
        doc.unobserve(subscription)
        document.close()
    record.on_slice = None
    clock = decode_state(doc.get_state()).get(client_id, 0)
    touched = record.touched
    if merges:  # what is typed into a cell that goes, or is written anew, would be lost
        touched = {cell_id: keys for cell_id, keys in touched.items() if keys is None}
    return PreparedEdit(updates, clock, touched, record, result)
