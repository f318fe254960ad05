"""The names in the failing line of a cell, so that an answer can show their values.

Only for lines outside of functions: by then the kernel no longer knows what was inside one.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..documents.outputs import traceback_text

#: The most names that are looked up.
_MOST = 5

#: The line at which IPython's arrow points, in a frame of a cell.
_FRAME = re.compile(r"^(?:Cell In\s?\[|File <ipython|Input In|<ipython-input)", re.MULTILINE)
_ARROW = re.compile(r"^-+> *\d+ (.*)$", re.MULTILINE)

#: A name that is neither an attribute nor a keyword argument.
_NAME = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?!\w|\s*=(?!=))")
_TEXTS = re.compile(r"""(\b[rbfuRBFU]{1,2})?("[^"]*"|'[^']*')|\#.*""")

_KNOWN = frozenset((*keyword.kwlist, *dir(builtins)))


def names_at_failure(outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names in the last line of a cell that a traceback points at."""
    errors = [output for output in outputs if output.get("output_type") == "error"]
    if not errors:
        return []
    frames = _FRAME.split(traceback_text(errors[-1]))[1:]
    lines = [line for frame in frames if (line := _pointed_at(frame)) is not None]
    if not lines:
        return []
    found = _NAME.findall(_TEXTS.sub("", lines[-1]))
    return [name for name in dict.fromkeys(found) if name not in _KNOWN][:_MOST]


def _pointed_at(frame: str) -> str | None:
    if ", in " in frame.partition("\n")[0]:
        return None
    found = _ARROW.search(frame)
    return None if found is None else found[1]
