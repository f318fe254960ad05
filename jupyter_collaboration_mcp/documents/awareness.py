"""Who is in a room, read from the awareness states that its members share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .foreign_text import NAME


def people_in(states: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """Who is in an awareness, by the names that JupyterLab shows."""
    users = [state.get("user") for state in states.values() if state]
    names = [
        user.get("display_name") or user.get("name") for user in users if isinstance(user, Mapping)
    ]
    return sorted({str(name)[:NAME] for name in names if name})[:_MOST_PEOPLE]


# Parts of a cell

_MOST_PEOPLE = 200
