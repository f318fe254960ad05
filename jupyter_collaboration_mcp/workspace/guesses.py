"""What somebody probably meant who misspelt a name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the known name that is closest, and a space; empty if none is close."""
    near = get_close_matches(name.strip().lower()[:40], list(known), n=1)
    return f"Did you mean {near[0]}? " if near else ""
