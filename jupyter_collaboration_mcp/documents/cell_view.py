"""One cell of a notebook as plain values, as it was at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .handles import cell_handle


@dataclass(frozen=True, slots=True)
class CellView:
    """One cell as it was at one moment."""

    index: int
    id: str
    short_id: str
    """As much of the id as names the cell."""
    cell_type: str
    revision: str
    source: str
    execution_count: int | None
    execution_state: str | None
    outputs: list[dict[str, Any]]
    metadata: dict[str, Any]
    made: dict[str, str] = field(default_factory=dict, compare=False)
    """What was made of it before, and does not depend on its place."""
    weight: int = field(default=-1, compare=False)
    """About how many characters it has."""

    def __post_init__(self) -> None:
        if self.weight < 0:
            parts = (self.source, self.outputs, self.metadata)
            object.__setattr__(self, "weight", sum(map(_weight, parts)))

    @property
    def handle(self) -> str:
        """How answers name it."""
        return cell_handle(self.index, self.short_id, self.revision)


def _weight(value: Any) -> int:
    """About how many characters there are in a value of JSON."""
    waiting, weight = [value], 0
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            weight += len(item)
        else:
            weight += 8
            if isinstance(item, Mapping):
                waiting += item.values()
            elif isinstance(item, list):
                waiting += item
    return weight
