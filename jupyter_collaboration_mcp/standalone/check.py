"""One line of what `doctor` says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked."""

    name: str
    state: Literal["ok", "warning", "failed"]
    said: str
    """One line: what is true."""
    remedy: str | None = None
    """One line: what to do about it."""
