"""Dialects: toolsets with the names of another system, which may borrow tools of other toolsets."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ..remedies import Intent


@dataclass(frozen=True, slots=True)
class Dialect:
    """What all tools of a dialect have in common."""

    name: str
    wording: Mapping[Intent, str]
    instructions: str
    """What a model is told about the server if these are the only tools that it sees."""


def adapted(
    schema: Mapping[str, Any], defaults: Mapping[str, Any], said: Mapping[str, str]
) -> dict[str, Any]:
    """A JSON schema of arguments, some of which have other defaults or other descriptions."""
    changed = deepcopy(dict(schema))
    for name, value in defaults.items():
        changed["properties"][name]["default"] = value
    for name, description in said.items():
        changed["properties"][name]["description"] = description
    return changed
