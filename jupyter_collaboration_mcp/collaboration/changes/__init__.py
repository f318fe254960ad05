"""What an agent changed in a document: one class for each kind of change.

A change is a frozen dataclass of plain values. It knows how to be undone, how to be reapplied when
a room has lost it, how large it is and what it is about. Code that works with changes calls their
methods and never checks their type: a new kind of change is a new class here.
"""

from .cells import CellDeletion, CellInsertion, CellMove
from .change import Change, cell_name
from .properties import ExtrasChange, MetadataChange, OutputClearing, TypeChange
from .source import SourceChange
from .step import Step, by_cell, by_kind, existence, known_texts, parts_of, summary

__all__ = [
    "CellDeletion",
    "CellInsertion",
    "CellMove",
    "Change",
    "ExtrasChange",
    "MetadataChange",
    "OutputClearing",
    "SourceChange",
    "Step",
    "TypeChange",
    "by_cell",
    "by_kind",
    "cell_name",
    "existence",
    "known_texts",
    "parts_of",
    "summary",
]
