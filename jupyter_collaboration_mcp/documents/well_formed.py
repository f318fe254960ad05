"""What a notebook must be like to be opened: less than nbformat wants, and more than JSON.

Jupyter opens much that is no valid notebook, and so do we. This finds what its rooms cannot load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .foreign_text import inline, listed
from .json_values import LARGEST_STORED, flaw, round_integers

#: Levels of a notebook that do not count as nested: its cells, their outputs, and what is in these.
_ABOVE = 5


def prepare(notebook: Any, floats: float | None = None) -> list[str]:
    """Make what a file says what a shared document can hold, in place.

    Returns where numbers had to be rounded, as a browser without collaboration rounds them.

    Args:
        floats: As `flaw` takes it.

    Raises:
        ValueError: It cannot be opened; the message says why.
    """
    _require_shape(notebook)
    rounded = round_integers(notebook)
    if (found := _flaw(notebook, LARGEST_STORED, floats)) is not None:
        raise ValueError(found)
    return [where.removeprefix(".") for where in rounded]


def require_stock(notebook: Any) -> None:
    """See that a Jupyter server without our extension can save a notebook, and may load it.

    Raises:
        ValueError: It cannot; the message says why.
    """
    _require_shape(notebook)
    if (found := _flaw(notebook, math.inf, math.inf)) is not None:
        raise ValueError(found)


def oversized(notebook: Mapping[str, Any]) -> str | None:
    """Which number such a server cannot load, unless it has the notebook in its store."""
    return _flaw(notebook, LARGEST_STORED, None)


def rounding(path: str, rounded: Sequence[str]) -> str:
    """What has to be said of a notebook whose numbers were rounded."""
    more = f" and {len(rounded) - 3} more" if len(rounded) > 3 else ""
    where = listed(rounded[:3], 100)
    return (
        f"{inline(path)} has integers of 64 bits or more ({where}{more}), which no live document "
        "can hold. They are rounded, as a browser does, and the next save writes the rounded "
        "numbers."
    )


def _require_shape(notebook: Any) -> None:
    if (problem := _shape_problem(notebook)) is not None:
        raise ValueError(problem)


def _shape_problem(notebook: Any) -> str | None:
    """What is of another type than whoever opens a notebook relies on."""
    if not isinstance(notebook, Mapping):
        return f"it is {_kind(notebook)}, not an object"
    if not isinstance(notebook.get("metadata", {}), Mapping):
        return f"metadata is {_kind(notebook['metadata'])}, not an object"
    if not isinstance(cells := notebook.get("cells", _MISSING), list):
        return f"cells is {_kind(cells)}, not a list"
    for number, cell in enumerate(cells):
        if (problem := _cell_problem(cell)) is not None:
            return f"cells[{number}]{problem}"
    return None


def _cell_problem(cell: Any) -> str | None:
    if not isinstance(cell, Mapping):
        return f" is {_kind(cell)}, not an object"
    for key in ("id", "cell_type"):
        if not isinstance(text := cell.get(key, "" if key == "id" else _MISSING), str):
            return f".{key} is {_kind(text)}, not a string"
    if (source := cell.get("source", _MISSING)) is not None and not _is_text(source):
        return f".source is {_kind(source)}, not a string"
    if not isinstance(cell.get("metadata", {}), Mapping):
        return f".metadata is {_kind(cell['metadata'])}, not an object"
    return _run_problem(cell) if cell["cell_type"] == "code" else None


def _run_problem(cell: Mapping[str, Any]) -> str | None:
    count = cell.get("execution_count")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int | float)):
        return f".execution_count is {_kind(count)}, not a number"
    if not isinstance(outputs := cell.get("outputs", []), list):
        return f".outputs is {_kind(outputs)}, not a list"
    for place, output in enumerate(outputs):
        if not isinstance(output, Mapping):
            return f".outputs[{place}] is {_kind(output)}, not an object"
        if not isinstance(kind := output.get("output_type", _MISSING), str):
            return f".outputs[{place}].output_type is {_kind(kind)}, not a string"
        if kind == "stream" and not _is_text(text := output.get("text", "")):
            return f".outputs[{place}].text is {_kind(text)}, not a string"
    return None


def _flaw(notebook: Mapping[str, Any], integers: float, floats: float | None) -> str | None:
    found = flaw(notebook, integers, floats, depth=-_ABOVE)
    return None if found is None else found.describe("").removeprefix(".")


_MISSING = object()


def _is_text(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(line, str) for line in value)
    return isinstance(value, str)


def _kind(value: Any) -> str:
    if value is _MISSING:
        return "missing"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, Mapping) else "a list"
