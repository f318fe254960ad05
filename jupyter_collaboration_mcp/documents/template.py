"""A template: a notebook with a title, a purpose and named parameters, and what is made of it.

It is written as a script with `# %%` between cells, or as `.ipynb`. The cell with the tag
`parameters` has one assignment of a literal for each parameter, as papermill has it.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import InvalidArgument
from . import srcmd
from .languages import language_of
from .new_notebook import from_template, new_notebook
from .text import clip

#: Names that can be a template's: those of files without a dot or a slash.
NAME = re.compile(r"[A-Za-z][\w-]{0,59}", re.ASCII)

#: The key of what we write into the metadata of a notebook.
METADATA = "collaboration_mcp"

_TAG = "parameters"

#: How a script marks the cell with the parameters; what comes after `# %%` is a comment by now.
_TAGS = re.compile(r"# tags=(\[[^\n]*\])\n")

_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}


class BrokenTemplate(ValueError):
    """A file is not a template."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What can be set when a notebook is made."""

    name: str
    default: Any
    type: str
    """As JSON names it; `any` if the default does not tell."""

    def require(self, value: Any) -> None:
        """Refuse a value of another type.

        Raises:
            InvalidArgument: It has another type, or no literal can have it.
        """
        given = "null" if value is None else _TYPES.get(type(value), "any")
        fits = self.type in ("any", given) or (self.type == "number" and given == "integer")
        if not fits and not (value is None and self.default is None):
            raise InvalidArgument(
                f"The parameter {self.name} has the type {self.type}, not {given}.",
                f"Give it as {self.type}, or leave it out: its default is {self.default!r}.",
            )
        if not _is_finite(value):
            raise InvalidArgument(
                f"The parameter {self.name} is not a number that a notebook can have.",
                "Give a finite number.",
            )


@dataclass(frozen=True, slots=True)
class Template:
    """A notebook to be made, perhaps with other parameters than its defaults."""

    name: str
    title: str
    purpose: str
    """The first paragraph of its introduction."""
    parameters: Sequence[Parameter]
    _notebook: Mapping[str, Any]

    @classmethod
    def parse(cls, name: str, text: str) -> Template:
        """Read the text of a script or an `.ipynb` file.

        Raises:
            BrokenTemplate: It is neither, or its parameters are not assignments of literals.
        """
        try:
            notebook = from_template(new_notebook(text))
        except InvalidArgument as error:
            raise BrokenTemplate(error.happened) from error
        cells = notebook["cells"]
        for cell in cells:
            cell["source"] = "".join(cell["source"])
            if (marked := _TAGS.match(cell["source"])) is not None:
                cell["metadata"]["tags"] = _tags(marked[1])
                cell["source"] = cell["source"][marked.end() :]
        if not any(cell["source"].strip() for cell in cells):
            raise BrokenTemplate("it is empty")
        title, purpose = _introduction(cells)
        tagged = _tagged(cells)
        found = () if tagged is None else tuple(each for each, _ in _assigned(tagged["source"]))
        return cls(name, title or name, purpose, found, notebook)

    def make(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A new notebook with some parameters; the others have their defaults.

        Raises:
            InvalidArgument: There is no such parameter, or it has another type.
        """
        known = {each.name: each for each in self.parameters}
        for name, value in given.items():
            if name not in known:
                raise InvalidArgument(
                    f"The template {self.name} has no parameter {name!r}. Nothing was written.",
                    f"Its parameters are: {self.signature or 'none'}.",
                )
            known[name].require(value)
        notebook = from_template(self._notebook)
        for cell in notebook["cells"]:
            cell.pop("id", None)  # each notebook gets its own
        if given and (cell := _tagged(notebook["cells"])) is not None:
            cell["source"] = _assign(cell["source"], given)
        notebook = new_notebook(json.dumps(notebook))
        notebook["metadata"][METADATA] = {"pattern": self.name}
        return notebook

    @property
    def preview(self) -> str:
        """The notebook as `.src.md`, with the defaults of its parameters."""
        cells = [_Cell(e["cell_type"], e["source"], e["metadata"]) for e in self._notebook["cells"]]
        language = language_of(self._notebook["metadata"]).name
        return srcmd.export(cells, language=language, title=self.title)

    @property
    def signature(self) -> str:
        """The parameters with types and defaults, in one line."""
        return ", ".join(
            f"{each.name}: {each.type} = {clip(repr(each.default), 80)}" for each in self.parameters
        )


class _Cell(NamedTuple):
    cell_type: str
    source: str
    metadata: Mapping[str, Any]


def _introduction(cells: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The title and the first paragraph of the first markdown cell."""
    text = next((str(each["source"]) for each in cells if each["cell_type"] == "markdown"), "")
    paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", text.strip())]
    title = ""
    if paragraphs and paragraphs[0].startswith("# "):
        title = paragraphs.pop(0)[2:]
    return title, paragraphs[0] if paragraphs else ""


def _tags(text: str) -> list[str]:
    try:
        return [str(each) for each in json.loads(text)]
    except ValueError:
        raise BrokenTemplate(f"{text} is not a list of tags") from None


def _tagged(cells: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The cell with the parameters."""
    for cell in cells:
        tags = cell.get("metadata", {}).get("tags")
        if cell["cell_type"] == "code" and isinstance(tags, list) and _TAG in tags:
            return cell
    return None


def _assigned(source: str) -> Iterator[tuple[Parameter, ast.expr]]:
    """The parameters that a cell assigns, and where their values are."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise BrokenTemplate(f"its parameters are not Python: {error}") from None
    for each in statements:
        if isinstance(each, ast.Assign) and len(each.targets) == 1:
            target, value = each.targets[0], each.value
        elif isinstance(each, ast.AnnAssign) and each.value is not None:
            target, value = each.target, each.value
        else:
            raise BrokenTemplate(f"line {each.lineno} of its parameters assigns no parameter")
        if not isinstance(target, ast.Name):
            raise BrokenTemplate(f"line {each.lineno} of its parameters assigns no parameter")
        try:
            default = ast.literal_eval(value)
        except (ValueError, TypeError, MemoryError, RecursionError):
            raise BrokenTemplate(f"the default of {target.id} is not a literal") from None
        said = _TYPES.get(type(default), "any")
        if default is None and isinstance(each, ast.AnnAssign):
            said = _annotated(each.annotation)
        yield Parameter(target.id, default, said), value


def _annotated(annotation: ast.expr) -> str:
    """The type of a parameter whose default is None: of `str | None`, the first."""
    name = re.match(r"\w+", ast.unparse(annotation))
    types = {kind.__name__: said for kind, said in _TYPES.items()}
    return types.get(name[0] if name else "", "any")


def _assign(source: str, given: Mapping[str, Any]) -> str:
    """The same cell with other values, written as literals: none of them can be code."""
    lines = [f"{line}\n".encode() for line in source.split("\n")]  # as ast counts
    for parameter, value in reversed(list(_assigned(source))):
        if parameter.name not in given:
            continue
        assert value.end_lineno is not None
        assert value.end_col_offset is not None
        start, end = value.lineno - 1, value.end_lineno - 1
        before, after = lines[start][: value.col_offset], lines[end][value.end_col_offset :]
        lines[start : end + 1] = [before + repr(given[parameter.name]).encode() + after]
    return b"".join(lines).decode()[:-1]


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    return all(map(_is_finite, value)) if isinstance(value, list) else True
