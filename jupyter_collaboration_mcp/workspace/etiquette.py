"""What agents owe to people in a document: protected cells stay, and busy ones are respected.

Edits check this themselves, where they are about to change the document that they are given. An
edit that was prepared on a copy is checked again when it is applied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from ..backends.protocols.rooms import RoomLink
from ..collaboration.carets import (
    carets_in,
    people_in_cells,
    people_in_lines,
    people_in_texts,
    text_ids,
)
from ..collaboration.edits import CallRecord
from ..documents.differ import Edit
from ..documents.foreign_text import first_of, listed
from ..documents.notebook import Notebook
from ..documents.positions import Id
from ..documents.protection import CellAction, Mark
from ..documents.text_document import Document, TextDocument
from ..errors import CellBusy, CellProtected


class BusyCells(Enum):
    """What happens if an agent changes a cell that a person's caret is in."""

    ALLOW = "allow"
    WARN = "warn"
    REFUSE = "refuse"


Touched = Mapping[int, Collection[CellAction]]
"""What a call is about to do to cells, by index."""


@dataclass(frozen=True, slots=True)
class Etiquette:
    """The rules, as the person who runs the server sets them."""

    protect_cells: bool = True
    busy_cells: BusyCells = BusyCells.WARN

    def check_cells(
        self,
        link: RoomLink,
        notebook: Notebook,
        record: CallRecord,
        touched: Touched,
        note: str = "",
    ) -> None:
        """Check what a call is about to do to cells, before it does anything.

        Args:
            note: A sentence for the error if an agent may not remove a mark.

        Raises:
            CellProtected: A mark forbids it.
            CellBusy: A person's caret is in one of them, and that is a reason to refuse.
        """
        touched = {index: actions for index, actions in touched.items() if actions}
        if not touched:
            return
        people = people_in_cells(notebook, touched, carets_in(link.states))
        self._check_cells(record, touched, people, note, notebook)
        if record.on_copy:  # this takes long for many cells
            texts = text_ids(notebook, touched)
            record.recheck = partial(self._recheck_cells, link, record, touched, note, texts)

    def _recheck_cells(
        self,
        link: RoomLink,
        record: CallRecord,
        touched: Touched,
        note: str,
        texts: Mapping[Id, int],
        notebook: Notebook,
        changed: Collection[str],
    ) -> None:
        """Check the live notebook, whose cells are in the same places as in the copy."""
        people = people_in_texts(texts, carets_in(link.states))
        again = {notebook.find(cell_id) for cell_id in changed} | people.keys()
        suspects = {index: touched[index] for index in again if index in touched}
        self._check_cells(record, suspects, people, note, notebook)

    def _check_cells(
        self,
        record: CallRecord,
        touched: Touched,
        people: Mapping[int, list[str]],
        note: str,
        notebook: Notebook,
    ) -> None:
        if self.protect_cells:
            _check_marks(notebook, touched, people, note)
        self._heed(
            notebook, record, {notebook.id_at(index): names for index, names in people.items()}
        )

    def check_text(
        self,
        link: RoomLink,
        document: TextDocument,
        record: CallRecord,
        source: str,
        edits: Sequence[Edit],
    ) -> None:
        """Check edits of a text file, before any is made.

        Raises:
            CellBusy: A person's caret is in a line that they touch, and that is a reason to refuse.
        """
        self._check_text(link, record, source, edits, document)
        record.recheck = partial(self._check_text, link, record, source, edits)

    def _check_text(
        self,
        link: RoomLink,
        record: CallRecord,
        source: str,
        edits: Sequence[Edit],
        document: TextDocument,
        changed: Collection[str] = (),
    ) -> None:
        people = people_in_lines(document, source, edits, carets_in(link.states))
        self._heed(document, record, {f"line {line}": people[line] for line in sorted(people)})

    def keeps_out(self, link: RoomLink, notebook: Notebook, index: int) -> bool:
        """Whether a person's caret keeps agents out of a cell."""
        return self.busy_cells is BusyCells.REFUSE and bool(
            people_in_cells(notebook, [index], carets_in(link.states))
        )

    def _heed(self, document: Document, record: CallRecord, people: dict[str, list[str]]) -> None:
        if people and self.busy_cells is BusyCells.REFUSE:
            raise CellBusy.with_carets(caret_line(document, people), caret_facts(document, people))
        record.people = people if self.busy_cells is BusyCells.WARN else {}


def caret_line(document: Document, people: Mapping[str, Iterable[str]]) -> str:
    """Whose carets are where, as one line, if there are any. A cell may be deleted by now."""
    said: list[str] = []
    for part, names in people.items():
        gone = isinstance(document, Notebook) and not document.has(part)
        verb = "" if said else " caret was" if gone else " caret is"
        said.append(f"{listed(names)}'s{verb} in {document.label(part)}{' (deleted)' * gone}")
    return f"{', '.join(first_of(said))}." if said else ""


def caret_facts(document: Document, people: Mapping[str, Iterable[str]]) -> list[dict[str, Any]]:
    """The same as facts."""
    key = "cell_id" if isinstance(document, Notebook) else "place"
    return [{key: part, "people": list(names)} for part, names in people.items()]


def _check_marks(
    notebook: Notebook, touched: Touched, people: Mapping[int, Sequence[str]], note: str
) -> None:
    refused: dict[int, str] = {}
    unmarks = False
    with notebook.doc.transaction():  # one for all: there may be a thousand cells
        for index, actions in touched.items():
            marks = notebook.marks(index)
            forbidding = [mark for mark in marks if any(map(mark.forbids, actions))]
            if forbidding:
                refused[index] = ", ".join(mark.value for mark in forbidding)
                unmarks |= CellAction.UNMARK in actions
            elif Mark.NOT_DELETABLE in marks and CellAction.MOVE in actions and index in people:
                # A moved cell is written anew: what they type meanwhile goes with the old one.
                who = listed(people[index])
                refused[index] = f"{Mark.NOT_DELETABLE.value}, and {who}'s caret is in it"
        if refused:
            cells = [
                (notebook.handle(index), notebook.id_at(index), reason)
                for index, reason in refused.items()
            ]
            raise CellProtected.by_marks(cells, note if unmarks else "")
