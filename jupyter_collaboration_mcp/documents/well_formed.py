"""What a notebook must be like to be opened: less than nbformat wants, and more than JSON.

Jupyter opens much that is no valid notebook, and so do we. This finds what its rooms cannot load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .foreign_text import inline, listed
from .json_values import LARGEST_STORED, flaw, round_integers


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
    for where, value, wanted in _shapes(notebook):
        if not _fits(value, wanted):
            raise ValueError(f"{where} is {_kind(value)}, and not {wanted}")


def _flaw(notebook: Mapping[str, Any], integers: float, floats: float | None) -> str | None:
    for where, value in _values(notebook):
        if (found := flaw(value, integers, floats)) is not None:
            return found.said(where)
    return None


def _shapes(notebook: Any) -> Iterator[tuple[str, Any, str]]:
    """What has to be of some type: where, what is there, and the type."""
    yield "the notebook", notebook, _OBJECT
    yield "metadata", notebook.get("metadata", {}), _OBJECT
    yield "cells", notebook.get("cells", _MISSING), _LIST
    for number, cell in enumerate(notebook["cells"]):
        at = f"cells[{number}]"
        yield at, cell, _OBJECT
        yield f"{at}.cell_type", cell.get("cell_type", _MISSING), _STRING
        if (source := cell.get("source", _MISSING)) is not None:
            yield f"{at}.source", source, _TEXT
        yield f"{at}.id", cell.get("id", ""), _STRING
        yield f"{at}.metadata", cell.get("metadata", {}), _OBJECT
        if cell["cell_type"] == "code":
            yield f"{at}.execution_count", cell.get("execution_count"), _NUMBER
            yield f"{at}.outputs", cell.get("outputs", []), _LIST
            for place, output in enumerate(cell.get("outputs", [])):
                yield f"{at}.outputs[{place}]", output, _OBJECT
                yield f"{at}.outputs[{place}].output_type", output.get("output_type"), _STRING
                if output["output_type"] == "stream":
                    yield f"{at}.outputs[{place}].text", output.get("text", ""), _TEXT


def _values(notebook: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All that a notebook says, each part by itself: only what is in it counts as nested."""
    for key, value in notebook.items():
        if key != "cells":
            yield key, value
    for number, cell in enumerate(notebook["cells"]):
        for key, value in cell.items():
            if key != "outputs" or not isinstance(value, list):
                yield f"cells[{number}].{key}", value
                continue
            for place, output in enumerate(value):
                yield f"cells[{number}].outputs[{place}]", output


_MISSING = object()

_OBJECT, _LIST, _STRING = "an object", "a list", "a text"
_TEXT, _NUMBER = "a text or a list of texts", "a number"


def _fits(value: Any, wanted: str) -> bool:
    if wanted == _OBJECT:
        return isinstance(value, Mapping)
    if wanted == _LIST:
        return isinstance(value, list)
    if wanted == _STRING:
        return isinstance(value, str)
    if wanted == _NUMBER:
        return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    if isinstance(value, list):
        return all(isinstance(line, str) for line in value)
    return isinstance(value, str)


def _kind(value: Any) -> str:
    if value is _MISSING:
        return "missing"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return _STRING
    return _OBJECT if isinstance(value, Mapping) else _LIST
