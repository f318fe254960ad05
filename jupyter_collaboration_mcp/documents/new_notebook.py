"""A notebook that is not there yet: from nothing, from code, or from another one."""

from __future__ import annotations

import copy
import json
import re
import uuid
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import InvalidArgument
from . import srcmd
from .json_values import require_storable
from .shared_cells import new_cell


def new_notebook(content: str | None = None) -> dict[str, Any]:
    """A notebook that nobody has run.

    Args:
        content: A notebook as JSON or as `.src.md`, or the text of its cells: a line that begins
            with `# %%` begins a cell, as in a script of Spyder or Jupytext.

    Raises:
        InvalidArgument: The JSON is a notebook that cannot be read as one.
    """
    if content is not None and content.lstrip().startswith("{") and '"nbformat"' in content:
        return _valid(content)
    if content is not None and srcmd.is_srcmd(content):
        return srcmd.parse(content)
    notebook: dict[str, Any] = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    for cell_type, source in _cells(content) if content is not None else ():
        cell = {**new_cell(cell_type, source), "id": str(uuid.uuid4()), "metadata": {}}
        notebook["cells"].append(cell)
    return notebook


#: Type and title of a cell; `# %%time` is a magic that somebody has commented out.
_MARK = re.compile(r"^# %%(?![^\s])[ \t]*(?:\[(markdown|raw)\])?[ \t]*([^\n]*)\n?", re.MULTILINE)


def _cells(content: str) -> Iterator[tuple[str, str]]:
    """Types and sources of the cells in a script."""
    before, *parts = _MARK.split(content)
    if before.strip() or not parts:
        yield "code", before if not parts else before.strip("\n")
    for cell_type, title, part in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        source = part.strip("\n")
        if cell_type is None:
            yield "code", f"# {title}\n{source}" if title.strip() else source
            continue
        if all(re.match(r"#( |$)", line) for line in source.split("\n") if line.strip()):
            source = re.sub(r"^# ?", "", source, flags=re.MULTILINE)
        yield cell_type, source


def from_template(template: Mapping[str, Any]) -> dict[str, Any]:
    """The same notebook, as if nothing had ever been run in it."""
    notebook: dict[str, Any] = copy.deepcopy(dict(template))
    notebook["metadata"].pop("widgets", None)
    for cell in notebook["cells"]:
        cell.get("metadata", {}).pop("execution", None)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return notebook


def for_kernel(notebook: dict[str, Any], kernelspec: Mapping[str, str], chosen: bool) -> None:
    """Say which kernel a notebook is for.

    Args:
        chosen: Whether somebody asked for this kernel; else a notebook keeps the one that it has.
    """
    metadata = notebook["metadata"]
    if not kernelspec or ("kernelspec" in metadata and not chosen):
        return
    metadata["kernelspec"] = dict(kernelspec)
    if metadata.get("language_info", {}).get("name") != kernelspec.get("language"):
        metadata.pop("language_info", None)


def _valid(content: str) -> dict[str, Any]:
    import nbformat  # takes its time, and is needed for nothing else

    try:
        given = json.loads(content, parse_constant=_no_json)
        with warnings.catch_warnings():  # ids that are missing, or there twice, are mended
            warnings.simplefilter("ignore")
            notebook = nbformat.reads(json.dumps(given), 4)  # type: ignore[no-untyped-call]
            nbformat.validate(notebook)
    except Exception as error:  # nbformat has no base for all that it raises
        said = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise InvalidArgument(
            f"content looks like a notebook, and is none: {said}. Nothing was written.",
            "Give valid nbformat 4 JSON, or the code of the first cell.",
        ) from None
    require_storable(given, "content")
    return dict(notebook)


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
