"""Whether the people in a room let their server save it by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_on(states: Mapping[int, Mapping[str, Any]]) -> bool:
    """As jupyter-server-ydoc decides: unless everybody who is there has switched it off."""
    wishes = [state.get("autosave", True) for state in states.values() if state]
    return any(wishes) if wishes else True
