"""Notebooks that nbconvert makes HTML of: it escapes what cells say, and not all beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .outputs import data_of
from .safe_markup import safe_output

#: Types of outputs that nbconvert escapes, or that are safe by now. It writes diagrams of Mermaid
#: as they are; widgets would need scripts.
_MIMES = "text/html text/markdown text/latex text/plain image/svg+xml image/png image/jpeg"
_TYPES = frozenset(_MIMES.split())

#: Names of languages, and ids of cells, which it puts into attributes.
_WORD = re.compile(r"[\w+#.-]{1,60}", re.ASCII)

#: Pixels.
_LARGEST = 100_000


def safe_page(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """A notebook of nbformat of which no part runs in HTML that is made of it."""
    cells = [_cell(number, cell) for number, cell in enumerate(notebook["cells"])]
    return {**notebook, "metadata": _metadata(notebook["metadata"]), "cells": cells}


def _metadata(given: Mapping[str, Any]) -> dict[str, Any]:
    """The title, and the language by which code is coloured."""
    title, language = given.get("title"), given.get("language_info")
    known: dict[str, Any] = {"title": title} if isinstance(title, str) else {}
    if isinstance(language, Mapping):
        names = {name: language.get(name) for name in ("name", "pygments_lexer")}
        known["language_info"] = {name: value for name, value in names.items() if _is_word(value)}
    return known


def _cell(number: int, given: Mapping[str, Any]) -> dict[str, Any]:
    cell = {**given, "metadata": {}}
    if not _is_word(given["id"]):
        cell["id"] = f"cell-{number + 1}"
    if given["cell_type"] == "code":
        count = given["execution_count"]
        cell["execution_count"] = count if isinstance(count, int) else None
        cell["outputs"] = [_output(each) for each in given["outputs"]]
    return cell


def _output(given: Mapping[str, Any]) -> dict[str, Any]:
    output = safe_output(given)
    if output.get("output_type") == "stream":
        return {**output, "name": "stderr" if output.get("name") == "stderr" else "stdout"}
    if output.get("output_type") == "error":
        return output
    data = {mime: value for mime, value in data_of(output).items() if mime in _TYPES}
    beside = given.get("metadata")
    about = beside if isinstance(beside, Mapping) else {}
    sizes = {mime: _size(about.get(mime)) for mime in data}
    return {"output_type": "display_data", "data": data, "metadata": sizes}


def _size(given: Any) -> dict[str, int]:
    """How large a picture is shown, in pixels."""
    known = given if isinstance(given, Mapping) else {}
    sizes = {name: known.get(name) for name in ("width", "height")}
    return {
        name: round(size)
        for name, size in sizes.items()
        if isinstance(size, int | float) and 0 < size < _LARGEST
    }


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None
