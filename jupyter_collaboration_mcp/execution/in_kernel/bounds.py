"""Limits on the description of a variable, and helpers to keep texts within them."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterable, Optional  # noqa: UP035

# Evaluated in the kernel, unlike annotations, and so spelled as Python 3.8 knows it.
Facts = Dict[str, Optional[str]]  # noqa: UP006, UP045

ITEMS = 10
ITEMS_INSIDE = 4
DEPTH = 2
TEXT = 60
CELL = 26
ROWS = 3
COLUMNS = 8
NAMED_COLUMNS = 20
LABEL = 200
#: Above this Python may refuse to print an integer, and nobody would read it.
BITS = 1000
#: Elements of an array up to which finding its extremes takes no time.
EXTREMES = 1000000
#: Elements of a tensor up to which its values are shown.
SMALL = 1000


def first_items(iterate: Callable[[], Iterable[Any]], count: int) -> list[Any]:
    items: list[Any] = _again(lambda: list(itertools.islice(iterate(), count)))
    return items


def copied(found: dict[Any, Any]) -> dict[Any, Any]:
    copy: dict[Any, Any] = _again(lambda: dict(found))
    return copy


def _again(look: Callable[[], Any]) -> Any:
    """Look twice: a thread of the user may change what is looked at."""
    for _ in range(5):
        try:
            return look()
        except RuntimeError:
            pass
    return look()


def joined(parts: list[str]) -> str:
    return ", ".join(parts[:ITEMS]) + (", ..." if len(parts) > ITEMS else "")


def dots(cut: bool) -> str:
    return "..." if cut else ""


def clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: max(limit - 3, 0)] + "..."


def count_text(number: int, unit: str) -> str:
    return f"{number} {unit}" + ("" if number == 1 else "s")


def bytes_text(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"
