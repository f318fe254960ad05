"""Numbers in a notebook that a save would fail on, or would make unreadable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...documents.json_values import LARGEST_STORED
from .workaround import Server, Workaround, changed_signature, unused_names


class NumberFidelity(Workaround):
    name = "number_fidelity"
    trap = "B25"
    package = "jupyter-ydoc"
    fault = (
        "It makes integers of floating-point numbers wherever it can. With NaN and Infinity it "
        "fails, and of 1e30 it makes an integer that it cannot load."
    )
    patches = ("jupyter_ydoc.ynotebook.cast_all",)
    without = (
        "a notebook with NaN or Infinity in its metadata or outputs is never saved again, and one "
        "with 1e30 cannot be opened after it was saved"
    )

    def check(self, server: Server) -> list[str]:
        return _mismatches()

    def apply(self, server: Server) -> None:
        from jupyter_ydoc import ynotebook

        setattr(ynotebook, "cast_all", _cast_all)  # noqa: B010


@contextmanager
def exact_numbers() -> Iterator[None]:
    """Keep numbers as they are while a notebook is read from a document.

    For our own code that runs outside of a Jupyter server with its workarounds. Do not await
    inside: it affects the whole process.
    """
    from jupyter_ydoc import ynotebook

    if _mismatches():
        yield
        return
    before = vars(ynotebook)["cast_all"]
    setattr(ynotebook, "cast_all", _cast_all)  # noqa: B010
    try:
        yield
    finally:
        setattr(ynotebook, "cast_all", before)  # noqa: B010


def _mismatches() -> list[str]:
    from jupyter_ydoc import ynotebook

    if getattr(ynotebook, "cast_all", None) is _cast_all:
        return []
    return [
        *changed_signature(ynotebook, "cast_all", "o", "from_type", "to_type", is_async=False),
        *(
            difference
            for name in ("_cell_to_py", "_get", "_set")
            for difference in unused_names(ynotebook.YNotebook, name, "cast_all")
        ),
    ]


def _cast_all(value: Any, from_type: Any, to_type: Any) -> Any:
    """Like jupyter-ydoc's: numbers that are equal as the other type are converted to it."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            _cast_all(item, from_type, to_type)
        elif type(item) is from_type and -LARGEST_STORED <= item < LARGEST_STORED:
            cast = to_type(item)
            if cast == item:
                value[key] = cast
    return value
