"""The base class of all changes, and what they receive when they are undone or reapplied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from ...documents.differ import WORK, Differ, Edit
from ...documents.foreign_text import first_of, listed
from ...documents.handles import brief_id
from ...documents.notebook import Notebook
from ...documents.protection import CellAction
from ...documents.text_document import Document
from ..line_merge import MergedText, Rewrite, merge_lines


@dataclass(frozen=True, slots=True)
class Change(ABC):
    """Something that an agent did to one cell, or to the text of a file."""

    cell_id: str
    """The cell that it is about; empty for the text of a file."""

    kind: ClassVar[str]
    """Its name where steps are stored, for later releases, too: it never changes."""

    verb: ClassVar[str]
    """What it did to its cell, for a summary."""

    aspect: ClassVar[str]
    """What is different about its cell, as the panel names it to people's browsers."""

    keys: ClassVar[Collection[str] | None] = None
    """The keys of its cell that it reads and writes; None for all of them."""

    is_work: ClassVar[bool] = True
    """Whether losing it loses somebody's work, so that it has to be reapplied."""

    exists_after: ClassVar[bool | None] = None
    """Whether the cell exists because of it, or does not; None if it does not decide that."""

    @property
    @abstractmethod
    def size(self) -> int:
        """About how many characters it holds."""

    @abstractmethod
    def plan_undo(self, plan: UndoPlan) -> None:
        """Add to a plan what undoes it, or why that is not possible."""

    def texts(self) -> Collection[str]:
        """The texts that the cell is known to have had, before and after it."""
        return ()

    def line_counts(self) -> tuple[int, int]:
        """How many lines it added and removed, about."""
        return 0, 0

    @property
    def gap_after(self) -> str | None:
        """The cell after which one is missing because of it; None if there is none before it."""
        return None

    def note(self, called: Callable[[str], str]) -> str | None:
        """What it did beside changing text, in plain words for people.

        Args:
            called: What people call the cell with an id.
        """
        return None

    # -- while it is stored ------------------------------------------------------------------

    def values(self) -> dict[str, Any]:
        """What it consists of, as JSON values."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """The change that had these values.

        Raises:
            KeyError, TypeError, ValueError: They are not those of such a change.
        """
        return cls(**values)

    # -- while it is unsaved -----------------------------------------------------------------

    def replay(self, texts: dict[str, str], document: Document) -> None:
        """Make the same change in the texts that cells had before it was made.

        Args:
            document: The current document, for a cell that is not among them.
        """
        if self.cell_id not in texts and document.has(self.cell_id):
            texts[self.cell_id] = document.source(document.find(self.cell_id))

    def amount_in(self, lines: Counter[str] | None) -> int:
        """About how much of it the lines of a cell contain; None if there is no such cell."""
        return 0

    # -- when a server went down -------------------------------------------------------------

    def wrote(self, text: str, earlier: Collection[str]) -> bool:
        """Whether a text contains something that it wrote and that no earlier text had."""
        return False

    @classmethod
    def compare(cls, changes: Sequence[Self], cell: RestartedCell) -> Iterable[Callable[[], None]]:
        """Find what a cell lacks of all changes of this kind, oldest first.

        Returns what repairs everything but the text of the cell.
        """
        return ()

    # -- when a file has overwritten the room ------------------------------------------------

    @classmethod
    def reapply(cls, changes: Sequence[Self], cell: OverwrittenCell) -> Iterable[Change]:
        """Reapply what a cell lacks of all changes of this kind, oldest first.

        Returns the changes that are in the document now and perhaps in no file.
        """
        return ()

    def delete_again(self, cell: OverwrittenCell, texts: Collection[str]) -> Iterable[Change]:
        """Delete the cell again, which did not exist when the file came; `texts` are all it had."""
        return ()

    def insert_again(self, cell: OverwrittenCell) -> Iterable[Change]:
        """Insert the cell again: it existed when the file came, and is gone now."""
        cell.report.report_gone(self.cell_id)
        return ()


def count_lines(before: str, after: str) -> tuple[int, int]:
    """How many lines of one text another lacks, and the other way round, wherever they are."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total(), (old - new).total()


def cell_name(cell_id: str) -> str:
    """How a sentence names a cell; the text of a file has no id."""
    return f"cell {brief_id(cell_id)}" if cell_id else "the text"


@dataclass(slots=True)
class UndoPlan:
    """What undoing steps would do. Planning changes nothing."""

    document: Document
    author: str = ""
    """The agent whose steps they are, by its name; empty if it undoes them itself."""
    own_later: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By cell, the later calls of the same agent that are in the way, where nobody else is."""
    conflicting: set[str] = field(default_factory=set)
    """The cells in which there are conflicts."""
    actions: list[Callable[[], None]] = field(default_factory=list)
    """They find their cell when they run: earlier ones may have moved it."""
    sources: dict[str, str] = field(default_factory=dict)
    """The text that each cell would have."""
    types: dict[str, str] = field(default_factory=dict)
    """The type that each retyped cell would have."""
    removed: set[str] = field(default_factory=set)
    added: dict[str, str] = field(default_factory=dict)
    """The text that each restored cell had when it was deleted."""
    conflicts: list[str] = field(default_factory=list)
    """One text for each place where somebody else's work is in the way."""
    touched: dict[str, set[CellAction]] = field(default_factory=dict)
    """What would be done to each cell, for whoever decides whether it may be."""
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The metadata that cells would have."""
    extras: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The outputs, counts and attachments that cells would have."""
    notes: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    """The plan as changes, which a server may lose before it saves them."""
    differ: Differ = field(default_factory=lambda: Differ(3 * WORK))
    """For the whole plan: as much work as one cell may take, which is compared three times."""

    @property
    def notebook(self) -> Notebook:
        """The document, for changes that only a notebook can have."""
        assert isinstance(self.document, Notebook)
        return self.document

    def has(self, cell_id: str) -> bool:
        """Whether a cell would exist."""
        if cell_id in self.removed:
            return False
        return cell_id in self.added or self.document.has(cell_id)

    def requires(self, cell_id: str) -> bool:
        """The same, with a note if it would not."""
        if self.has(cell_id):
            return True
        self.notes.append(f"{cell_name(cell_id)} is gone")
        return False

    def source(self, cell_id: str) -> str:
        """The text that a cell would have."""
        if cell_id in self.sources:
            return self.sources[cell_id]
        return self.document.source(self.document.find(cell_id))

    @property
    def wrote(self) -> str:
        """The agent whose steps they are, as the subject of a sentence."""
        return self.author or "you"

    def others(self, cell_id: str) -> str:
        """Who is in the way in a cell, as the subject of a sentence."""
        if (calls := self.own_later.get(cell_id)) is None:
            return "others"
        whose = f"{self.author}'s" if self.author else "your"
        return f"{whose} later {'calls' if len(calls) > 1 else 'call'} {', '.join(calls)}"

    def conflict(self, cell_id: str, what: str, diff: str) -> None:
        """Note that somebody's later work is in the way."""
        self.conflicting.add(cell_id)
        self.conflicts.append(f"{cell_name(cell_id)}, {what}:\n{diff}")

    def touch(self, cell_id: str, *actions: CellAction) -> None:
        """Note what would be done to a cell."""
        self.touched.setdefault(cell_id, set()).update(actions)

    def apply(self, after_each: Callable[[], None] | None = None) -> None:
        """Carry out the plan. The caller holds the transaction."""
        for action in self.actions:
            action()
            if after_each is not None:
                after_each()


@dataclass(slots=True)
class ReapplyReport:
    """What happened to the edits that a room has lost."""

    cells: list[str] = field(default_factory=list)
    """The cells in which something was reapplied."""
    lost: list[str] = field(default_factory=list)
    """What could not be reapplied, in words."""

    @classmethod
    def failed(cls, cells: Iterable[str]) -> ReapplyReport:
        """The report after an internal error: nothing was reapplied in these cells."""
        names = listed([cell_name(cell_id) for cell_id in cells])
        return cls(lost=[f"edits in {names}, because of an internal error"])

    def __str__(self) -> str:
        said = []
        if self.cells:
            places = ", ".join(first_of(map(cell_name, self.cells)))
            said.append(f"lost edits were reapplied in {places}")
        if self.lost:
            said.append(
                f"these could not be reapplied: {'; '.join(first_of(dict.fromkeys(self.lost)))}"
            )
        return ", and ".join(said)

    def report_gone(self, cell_id: str) -> None:
        self.lost.append(f"{cell_name(cell_id)} is gone")

    def report_clash(self, cell_id: str) -> None:
        self.lost.append(f"in {cell_name(cell_id)} somebody wrote at the same place")

    def report_edited_since(self, cell_id: str) -> None:
        self.lost.append(f"{cell_name(cell_id)}, which was deleted, is back and was edited since")


@dataclass(slots=True)
class RestartedCell:
    """A cell that exists after a restart and existed before it."""

    cell_id: str
    document: Document
    """The document as it is now."""
    before: Document
    """The document as it was when the room went away."""
    report: ReapplyReport
    source: str = ""
    """The text that the cell should have; initially the text that it has."""
    repairs: list[Callable[[], None]] = field(default_factory=list)
    """Actions that restore what it lacks beside its text."""

    def __post_init__(self) -> None:
        self.source = self.document.source(self.index)

    @property
    def index(self) -> int:
        return self.document.find(self.cell_id)

    @property
    def index_before(self) -> int:
        return self.before.find(self.cell_id)

    @property
    def notebook(self) -> Notebook:
        """The document, for changes that only a notebook can have."""
        assert isinstance(self.document, Notebook)
        return self.document

    @property
    def lacks_something(self) -> bool:
        return bool(self.repairs) or self.source != self.document.source(self.index)

    def repair(self) -> None:
        """Restore what it lacks. The caller holds the transaction."""
        self.document.set_source(self.index, self.source)
        for repair in self.repairs:
            repair()


Merge = Callable[[tuple[Rewrite, ...], str, str], MergedText]
"""The signature of `merge_lines`; a variant may remember its results."""


@dataclass(slots=True)
class OverwrittenCell:
    """A cell of a room that a file has overwritten. Changes are reapplied at once: the caller holds
    the transaction."""

    cell_id: str
    document: Document
    text_before: str
    """The text that it had before the file came."""
    report: ReapplyReport
    find_stray_text: Callable[[], Mapping[str, Sequence[Edit]]] = dict
    """Finds text that reached the document after the file, as edits that remove it."""
    is_late: bool = False
    """Whether the room may have received some of the changes after the file."""
    merge: Merge = merge_lines
    is_inserted: bool = False
    """Whether it was just inserted again, with the text from before the file."""
    is_changed: bool = False
    """Whether something was missing, and was reapplied."""

    @property
    def index(self) -> int:
        return self.document.find(self.cell_id)

    @property
    def notebook(self) -> Notebook:
        """The document, for changes that only a notebook can have."""
        assert isinstance(self.document, Notebook)
        return self.document
