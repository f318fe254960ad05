"""Whether two notebooks say the same."""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections.abc import Sequence
from typing import Any

from .places import Place

#: Seconds after which what was put out has arrived everywhere.
_LIMIT = 15


class Disagreement(Exception):
    """The two sides have left different notebooks behind."""


async def agree(places: Sequence[Place], path: str) -> None:
    """Return when a notebook is the same at all places.

    Raises:
        Disagreement: With the difference.
    """
    try:
        async with asyncio.timeout(_LIMIT):
            while True:
                first, *others = [_shown(await place.cells(path)) for place in places]
                if all(other == first for other in others):
                    return
                await asyncio.sleep(0.2)
    except TimeoutError:
        difference = difflib.unified_diff(first, others[0], lineterm="", n=1)
        raise Disagreement(f"{path}:\n" + "\n".join(difference)[:5_000]) from None


def _shown(cells: Sequence[Any]) -> list[str]:
    return json.dumps(normal(cells), indent=1).splitlines()


def normal(cells: Sequence[Any]) -> list[dict[str, Any]]:
    """Cells as they are compared: without ids, counts and metadata, printed text in one piece."""
    return [
        {
            "type": cell["cell_type"],
            "source": _text(cell["source"]),
            **({"outputs": _outputs(cell["outputs"])} if cell["cell_type"] == "code" else {}),
        }
        for cell in cells
    ]


def _outputs(outputs: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            text = _text(output["text"])
            if found and found[-1][:2] == [kind, output["name"]]:
                found[-1][2] += text
            else:
                found.append([kind, output["name"], text])
        elif kind == "error":
            # A syntax error names a file that each kernel calls otherwise.
            found.append([kind, output["ename"], re.sub(r"\d+\.py", "a.py", output["evalue"])])
        else:
            data = {mime: _text(value).strip() for mime, value in sorted(output["data"].items())}
            found.append([kind, data])
    return found


def _text(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)
