"""The documents of the systems whose tools our dialects have: what they show of each tool."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EXAMPLES = Path(__file__).parent / "examples"


@dataclass(frozen=True, slots=True)
class Documented:
    """A tool as such a document shows it."""

    required: set[str]
    defaults: dict[str, Any]
    """Of the optional parameters; None where the document names none."""
    nested: dict[str, set[str]]
    """The parameters inside of lists and objects, by the name of what has them."""
    example: Any
    """What it answers, if there is an example."""
    columns: list[str]
    """Of the table in its answer, if it has one."""

    def check_schema(self, schema: dict[str, Any], more: bool = False) -> None:
        """Check that a tool has these parameters and defaults.

        Args:
            more: Whether it may have others, too, if they are optional.
        """
        properties = schema["properties"]
        named = self.required | self.defaults.keys()
        assert properties.keys() >= named
        assert more or properties.keys() == named
        assert set(schema.get("required", ())) == self.required
        for name, default in self.defaults.items():
            shown = properties[name].get("default")
            # What a model expects where nothing is given goes without saying.
            assert shown == default or (shown is None and not default), name


def documented(name: str) -> dict[str, Documented]:
    """The tools in a document, by name."""
    parts = re.split(r"^## ", (_EXAMPLES / name).read_text(), flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: _tool(part) for part in parts}


def _tool(part: str) -> Documented:
    parameters, _, answer = part.partition("Returns:")
    required: set[str] = set()
    defaults: dict[str, Any] = {}
    nested: dict[str, set[str]] = {}
    owners: list[str] = []
    for spaces, name, rest in re.findall(r"^( *)- `(\w+)`(.*)$", parameters, re.MULTILINE):
        depth = len(spaces) // 2
        owners[depth:] = [name]
        if depth:
            nested.setdefault(owners[depth - 1], set()).add(name)
        elif "(required)" in rest:
            required.add(name)
        else:
            found = re.search(r"\(optional, default: ([^)]+)\)", rest)
            defaults[name] = json.loads(found[1]) if found else None
    example = re.search(r"```json\n(.*?)```", answer, re.DOTALL)
    table = re.search(r"```tsv\n(.*?)\n```", answer, re.DOTALL)
    return Documented(
        required,
        defaults,
        nested,
        json.loads(example[1]) if example else None,
        table[1].split("\t") if table else [],
    )


def same_shape(example: Any, answer: Any, optional: frozenset[str] = frozenset()) -> None:
    """Check that an answer has exactly the fields of an example, with values of the same types.

    Args:
        optional: Fields that may be missing.
    """
    if isinstance(example, dict):
        assert isinstance(answer, dict)
        assert answer.keys() <= example.keys(), answer
        assert example.keys() - answer.keys() <= optional, answer
        for name, value in answer.items():
            same_shape(example[name], value, optional)
    elif isinstance(example, list):
        assert isinstance(answer, list)
        for value in answer:
            same_shape(example[0], value, optional)
    else:
        assert type(answer) is type(example), (example, answer)
