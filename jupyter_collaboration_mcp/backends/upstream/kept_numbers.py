"""Numbers of a notebook that a save would stumble over, or would make unreadable.

B25: jupyter-ydoc makes integers of floating-point numbers wherever it can. With NaN and Infinity it
fails, so that such a notebook is never saved again; of 1e30 it makes one that it cannot load.
"""

from __future__ import annotations

from typing import Any

from ...documents.json_values import LARGEST_STORED


def keep_numbers() -> None:
    """Have NaN, Infinity and what is larger than an integer can be saved as they are."""
    from jupyter_ydoc import ynotebook

    setattr(ynotebook, "cast_all", _cast_all)  # noqa: B010


def _cast_all(value: Any, from_type: Any, to_type: Any) -> Any:
    """The same as jupyter-ydoc's: numbers that are equal as the other type become that."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            _cast_all(item, from_type, to_type)
        elif type(item) is from_type and -LARGEST_STORED <= item < LARGEST_STORED:
            cast = to_type(item)
            if cast == item:
                value[key] = cast
    return value
