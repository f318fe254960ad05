"""Notebooks as `.src.md`: Markdown that people read and edit, and that becomes the same cells.

Markdown cells stand there as they are, and a code cell is a heading with a file name and a fence.
Comments, which nobody sees in rendered Markdown, say where that would be ambiguous: `<!-- cell -->`
begins another Markdown cell, and `<!-- cell:markdown -->` to `<!-- /cell -->` encloses one that
could be mistaken for something else. Outputs and most metadata are not part of it.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from ..errors import InvalidArgument
from .languages import ending_of, name_by_ending
from .shared_cells import new_cell

_HEADER = re.compile(r"<!-- srcbook:(.*) -->\s*")
_TITLE = re.compile(r"# .* <!-- title -->")
_CODE = re.compile(r"###### (\S.*)")
_FENCE = re.compile(r"(`{3,})([^`]*)")
_BEGIN = re.compile(r"<!-- cell(-\d+)?:(markdown|raw)(?: (\S.*))? -->")
_NEXT = "<!-- cell -->"
_WORD = re.compile(r"[\w+#.-]+")
_HEADING = re.compile(r"#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*")

#: Of lines that begin like this, it depends on what follows what they are.
_AMBIGUOUS = ("######", "<!-- cell", "<!-- /cell")

#: Endings of files that belong to a notebook and are no code of it.
_DATA = (".json", ".txt", ".md", ".yaml", ".yml", ".toml")

#: Cells in which a title is looked for, and characters of titles and names.
_FIRST, _LONGEST = 5, 120


class SourceCell(Protocol):
    """What a text has of a cell."""

    @property
    def cell_type(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...


def is_srcmd(text: str) -> bool:
    """Whether a text is a notebook of this form."""
    return text.lstrip("\ufeff \t\r\n").startswith("<!-- srcbook:")


def title_of(cells: Iterable[SourceCell], path: str) -> str:
    """The title of a notebook: its first heading, or the name of its file."""
    for cell in islice(cells, _FIRST):
        if cell.cell_type == "markdown":
            for line in cell.source.split("\n", 20)[:20]:
                if (heading := _HEADING.fullmatch(line.rstrip("\r"))) is not None:
                    return heading[1].strip()[:_LONGEST]
    return path.rpartition("/")[2].removesuffix(".ipynb")


def file_names(cells: Iterable[SourceCell], ending: str) -> Iterator[str]:
    """What each cell is called as a file.

    Args:
        ending: That of files in the language of the notebook.
    """
    for number, cell in enumerate(cells):
        name = cell.metadata.get("name")
        if isinstance(name, str) and _is_usable(name, cell.cell_type):
            yield name
        else:
            yield _default_name(number, ending if cell.cell_type == "code" else ".md")


def export(cells: Sequence[SourceCell], *, language: str, title: str) -> str:
    """The text of a notebook.

    Args:
        title: What it is called if it does not begin with a heading.
    """
    spoken = json.dumps(language, ensure_ascii=False)
    blocks = [f'<!-- srcbook:{{"language":{spoken}}} -->']
    if not (cells and cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")):
        said = " ".join(title.replace("<!--", "").replace("-->", "").split())
        blocks.append(f"# {said or 'Notebook'} <!-- title -->")
    is_open = False  # whether a plain Markdown cell would continue the one before
    for cell, name in zip(cells, file_names(cells, ending_of(language)), strict=True):
        if cell.cell_type == "code":
            blocks.append(_code(cell.source, name, language))
            is_open = False
        elif cell.cell_type == "markdown" and _is_plain(cell.source):
            blocks.append(f"{_NEXT}\n\n{cell.source}" if is_open else cell.source)
            is_open = True
        else:
            named = cell.metadata.get("name") == name
            kind = "raw" if cell.cell_type == "raw" else "markdown"
            blocks.append(_enclosed(cell.source, kind, f" {name}" if named else ""))
            is_open = False
    return "\n\n".join(blocks) + "\n"


def parse(text: str) -> dict[str, Any]:
    """The notebook that a text is, as nbformat has it, with the language in its metadata.

    Raises:
        InvalidArgument: It is none.
    """
    text = text.lstrip("\ufeff \t\r\n")
    lines = text.split("\n")
    if lines[0].endswith("\r"):  # an editor has written all line ends like this
        lines = text.replace("\r\n", "\n").split("\n")
    language = _language(lines[0])
    metadata = {"language_info": {"name": language}}
    ending = ending_of(language)
    cells = []
    for number, (kind, source, name) in enumerate(_Reader(lines).cells()):
        cell = {**new_cell(kind, source), "id": str(uuid.uuid4()), "metadata": {}}
        if name is not None and (kind != "code" or name != _default_name(number, ending)):
            cell["metadata"] = {"name": name}
        cells.append(cell)
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}


def _default_name(number: int, ending: str) -> str:
    return f"cell-{number + 1}{ending}"


def _is_usable(name: str, cell_type: str) -> bool:
    """Whether a name that somebody has given a cell can stand in a line."""
    is_short = name == name.strip() and 0 < len(name) <= _LONGEST
    is_code = cell_type != "code" or not name.lower().endswith(_DATA)
    return is_short and is_code and name.isprintable() and "-->" not in name


def _is_plain(source: str) -> bool:
    """Whether a Markdown cell can stand there as it is."""
    lines = source.split("\n")
    if not (lines[0].strip() and lines[-1].strip()) or _TITLE.fullmatch(lines[0]):
        return False
    return not any(line.startswith(_AMBIGUOUS) for line in lines)


def _code(source: str, name: str, language: str) -> str:
    longest = max(map(len, re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    body = f"{source}\n" if source else ""
    spoken = name_by_ending(name) or language
    return f"###### {name}\n\n{fence}{spoken if _WORD.fullmatch(spoken) else ''}\n{body}{fence}"


def _enclosed(source: str, kind: str, name: str) -> str:
    lines, number, mark = set(source.split("\n")), 1, ""
    while f"<!-- /cell{mark} -->" in lines:
        number += 1
        mark = f"-{number}"
    return f"<!-- cell{mark}:{kind}{name} -->\n{source}\n<!-- /cell{mark} -->"


def _language(header: str) -> str:
    found = _HEADER.fullmatch(header)
    try:
        said = json.loads(found[1]) if found is not None else None
    except ValueError:
        said = None
    language = said.get("language") if isinstance(said, dict) else None
    if not isinstance(language, str) or not language.strip():
        raise InvalidArgument(
            f"The first line is {header[:100]!r}, which names no language. Nothing was written.",
            'Begin with <!-- srcbook:{"language":"python"} -->.',
        )
    return language


class _Cell(NamedTuple):
    kind: str
    source: str
    name: str | None = None


class _Reader:
    """Reads the cells of a text, line by line."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 1  # after the header

    def cells(self) -> Iterator[_Cell]:
        self._skip_blank()
        if self._at < len(self._lines) and _TITLE.fullmatch(self._lines[self._at]):
            self._at += 1
        said: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            cell = self._enclosed(line) or self._code(line)
            if cell is None and line != _NEXT:
                said.append(line)
                self._at += 1
                continue
            yield from _markdown(said)
            said = []
            if cell is not None:
                yield cell
            else:
                self._at += 1
        yield from _markdown(said)

    def _skip_blank(self) -> None:
        while self._at < len(self._lines) and not self._lines[self._at].strip():
            self._at += 1

    def _enclosed(self, line: str) -> _Cell | None:
        begin = _BEGIN.fullmatch(line)
        if begin is None:
            return None
        mark, kind, name = begin.groups()
        return _Cell(kind, self._until(f"<!-- /cell{mark or ''} -->"), name)

    def _code(self, line: str) -> _Cell | None:
        heading, before = _CODE.fullmatch(line), self._at
        if heading is None:
            return None
        self._at += 1
        self._skip_blank()
        fence = _FENCE.fullmatch(self._lines[self._at]) if self._at < len(self._lines) else None
        if fence is None:  # a heading like any other
            self._at = before
            return None
        name = heading[1].strip()
        kind = "raw" if name.lower().endswith(_DATA) else "code"
        return _Cell(kind, self._until(fence[1]), name)

    def _until(self, end: str) -> str:
        """What follows the current line, up to a line that ends it."""
        start = self._at + 1
        try:
            stop = self._lines.index(end, start)
        except ValueError:
            raise InvalidArgument(
                f"{self._lines[self._at][:100]!r} in line {self._at + 1} has no end. Nothing was "
                "written.",
                f"End it with a line {end!r}.",
            ) from None
        self._at = stop + 1
        return "\n".join(self._lines[start:stop])


def _markdown(lines: Sequence[str]) -> Iterator[_Cell]:
    """The Markdown cell that some lines are, if they are any."""
    said = [number for number, line in enumerate(lines) if line.strip()]
    if said:
        yield _Cell("markdown", "\n".join(lines[said[0] : said[-1] + 1]))
