"""Marks by which people protect cells from agents, and what each mark forbids.

| an agent may ...            | `editable: false` | `deletable: false` | tag `agent-protected` |
| --------------------------- | ----------------- | ------------------ | --------------------- |
| change source or metadata   | no                | yes, not the mark  | no                    |
| change the type             | no                | no                 | no                    |
| delete the cell             | no                | no                 | no                    |
| move the cell               | yes               | yes                | no                    |
| clear its outputs           | yes               | yes                | no                    |
| run it, insert beside it    | yes               | yes                | yes                   |

As in Jupyter Notebook, a cell that cannot be edited cannot be deleted either, and only the value
`false` counts. A change of type replaces the cell, and deletes the outputs of a code cell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

#: The tag that protects a cell from agents alone; people edit it as ever.
TAG = "agent-protected"

#: The keys of a cell's metadata that marks are in.
MARK_KEYS = ("editable", "deletable", "tags")


class CellAction(Enum):
    """What an agent may want to do to a cell."""

    EDIT = "change its source or metadata"
    RETYPE = "change its type"
    DELETE = "delete it"
    MOVE = "move it"
    CLEAR = "clear its outputs, or restore them"
    UNMARK = "remove a mark from its metadata"


class Mark(Enum):
    """A mark in a cell's metadata, as answers name it."""

    NOT_EDITABLE = "editable: false"
    NOT_DELETABLE = "deletable: false"
    PROTECTED = f"tag {TAG}"

    def forbids(self, action: CellAction) -> bool:
        return action in _FORBIDDEN[self]


_FORBIDDEN: Mapping[Mark, Collection[CellAction]] = {
    Mark.NOT_EDITABLE: (
        CellAction.EDIT,
        CellAction.RETYPE,
        CellAction.DELETE,
        CellAction.UNMARK,
    ),
    Mark.NOT_DELETABLE: (CellAction.RETYPE, CellAction.DELETE, CellAction.UNMARK),
    Mark.PROTECTED: tuple(CellAction),
}


def marks_in(metadata: Mapping[str, Any]) -> tuple[Mark, ...]:
    """The marks that a cell with this metadata has."""
    tags = metadata.get("tags")
    found = {
        Mark.NOT_EDITABLE: metadata.get("editable") is False,
        Mark.NOT_DELETABLE: metadata.get("deletable") is False,
        Mark.PROTECTED: isinstance(tags, list | tuple) and TAG in tags,
    }
    return tuple(mark for mark, is_there in found.items() if is_there)


def metadata_actions(before: Mapping[str, Any], changes: Mapping[str, Any]) -> set[CellAction]:
    """What setting some keys of a cell's metadata means; None removes a key."""
    if all(before.get(key) == value for key, value in changes.items()):
        return set()
    left = marks_in({**before, **changes})
    removes = any(mark not in left for mark in marks_in(before))
    return {CellAction.EDIT, CellAction.UNMARK} if removes else {CellAction.EDIT}
