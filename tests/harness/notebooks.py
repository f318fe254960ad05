"""Notebooks on disk, to start from and to look at."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def code(cell_id: str, source: str, **more: Any) -> dict[str, Any]:
    return {
        "id": cell_id,
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        **more,
    }


def markdown(cell_id: str, source: str, **more: Any) -> dict[str, Any]:
    return {"id": cell_id, "cell_type": "markdown", "source": source, "metadata": {}, **more}


def notebook(cells: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    return {
        "cells": list(cells),
        "metadata": metadata,
        "nbformat": 4,
        "nbformat_minor": 5,
        **more,
    }


def numbered(count: int, padding: str = "") -> dict[str, Any]:
    """A notebook of many small cells with ids `cell-00000`, `cell-00001`, ..."""
    return notebook([code(f"cell-{n:05d}", f"x = {n}\n{padding}") for n in range(count)])


def name_for(test: str) -> str:
    """The beginning of a file name that no other test has."""
    return re.sub(r"[^\w-]+", "_", test)[-60:]


def write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1))


async def whole_sources(path: Path) -> list[str]:
    """The cells' sources in a file on disk, between two moments in which Jupyter writes it."""
    async with asyncio.timeout(20):
        while not (found := sources(path)):
            await asyncio.sleep(0.002)
    return found


def sources(path: Path) -> list[str]:
    """The cells' sources in a file on disk; none while Jupyter is writing it."""
    try:
        cells = json.loads(path.read_text())["cells"]
    except ValueError:
        return []
    return ["".join(cell["source"]) for cell in cells]
