"""The names of a call's arguments: other spellings are accepted, unknown names explained."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ..errors import InvalidArgument
from .limits import clipped, shown
from .names import closest_arguments

#: A JSON schema as `registry.lean` makes it.
Schema = Mapping[str, Any]

#: Problems that an error names, and names that it lists.
_PROBLEMS = 5
_LISTED = 30

#: The argument that no answer repeats, whatever was given.
_SECRET = "token"

#: Longer collections are rarely allowed, and are not searched before that is checked.
_LOOKED_INTO = 5_000


def respelled(given: Any, schema: Schema) -> Any:
    """Arguments under the names that the schema has, whatever their case: `new_path` for `newPath`.

    What is given under several stays, and is refused as unknown.
    """
    if not isinstance(given, (list, dict)) or len(given) > _LOOKED_INTO:
        return given
    if isinstance(given, list):
        return [respelled(item, schema["items"]) for item in given] if "items" in schema else given
    known: Mapping[str, Schema] | None = schema.get("properties")
    if known is None:
        return given
    named = given if given.keys() <= known.keys() else _named(given, known)
    return {
        name: respelled(value, known[name])
        if isinstance(value, (list, dict)) and name in known
        else value
        for name, value in named.items()
    }


def _named(given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    meant = {_letters(name): name for name in known}
    named: dict[str, Any] = {}
    for name, value in given.items():
        other = meant.get(_letters(name), name)
        named[name if other in given or other in named else other] = value
    return named


def check_names(tool: str, given: Mapping[str, Any], schema: Schema) -> None:
    """Refuse unknown and missing arguments, also those inside of lists.

    Raises:
        InvalidArgument: It says which names were probably meant, and which there are.
    """
    problems: list[str] = []
    takes: dict[int, str] = {}  # said once for all elements of a list
    suggestions: dict[str, list[str]] = {}
    for place, values, inner in _objects("", given, schema):
        known = inner["properties"]
        unknown = [name for name in values if name not in known]
        missing = [name for name in inner.get("required", ()) if name not in values]
        if not unknown and not missing:
            continue
        whose = place or tool
        free = [name for name in known if name not in values] or known
        meant = _meant(unknown[:_PROBLEMS], missing, free)
        inside = {name: lists for lists, node in known.items() for name in _names_in(node)}
        for name, names in meant.items():
            said = f": did you mean {' or '.join(names)}?" if names else "."
            if name in inside:
                names[:] = [inside[name]]
                said = f": it belongs in each of {inside[name]}."
            problems.append(f"{whose} has no argument {clipped(name)!r}{said}")
            # Escaped, or no answer could hold half of a surrogate pair.
            suggestions[clipped(name).encode(errors="backslashreplace").decode()] = names
        suggested = {name for names in meant.values() for name in names}
        if lacking := [name for name in missing if name not in suggested]:
            problems.append(f"{whose} needs {' and '.join(lacking)}.")
        takes.setdefault(id(inner), f"{whose} takes {_listed(inner)}.")
        if len(problems) >= _PROBLEMS:
            break
    if problems:
        raise InvalidArgument(
            " ".join([*problems[:_PROBLEMS], "Nothing was done.", *takes.values()]),
            "Correct the names and repeat the call.",
            **({"did_you_mean": suggestions} if suggestions else {}),
        )


def invalid(tool: str, error: ValidationError, schema: Schema) -> InvalidArgument:
    """What is wrong with the values of known arguments."""
    problems: dict[str, str] = {}
    for problem in error.errors(include_url=False, include_context=False):
        place, node = _place(problem["loc"], schema)
        wanted = problem["msg"].removeprefix("Input ")
        if problem["type"].endswith(("_type", "_parsing", "_from_float")):
            wanted = f"should be {_kind(node)}"
        given = "" if place == _SECRET else f" (given: {shown(problem['input'])})"
        problems.setdefault(place, f"{place} {wanted}{given}.")
        if len(problems) == _PROBLEMS:
            break
    return InvalidArgument(
        f"The arguments of {tool} are invalid; nothing was done. {' '.join(problems.values())}",
        "Correct them and repeat the call.",
    )


def _letters(name: str) -> str:
    """What two spellings of a name have in common."""
    return name.replace("_", "").replace("-", "").casefold()


def _objects(
    place: str, value: Any, schema: Schema
) -> Iterator[tuple[str, Mapping[str, Any], Schema]]:
    """All objects in a call whose names the schema knows, and where they are."""
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value[:_LOOKED_INTO]):
            yield from _objects(f"{place}[{number}]", item, schema["items"])
    elif isinstance(value, dict) and "properties" in schema:
        yield place, value, schema
        for name, inner in schema["properties"].items():
            if isinstance(value.get(name), (list, dict)):
                yield from _objects(f"{place}.{name}".lstrip("."), value[name], inner)


def _names_in(schema: Schema) -> Collection[str]:
    """The names that each object of a list has."""
    names: Collection[str] = schema.get("items", {}).get("properties", {})
    return names


def _meant(
    unknown: Sequence[str], missing: Sequence[str], free: Collection[str]
) -> dict[str, list[str]]:
    """What each unknown name probably means."""
    meant = {name: closest_arguments(name, free) for name in unknown}
    left = [name for name in missing if not any(name in names for names in meant.values())]
    lost = [name for name, names in meant.items() if not names]
    if len(left) == len(lost) == 1:
        meant[lost[0]] = left
    return meant


def _listed(schema: Schema) -> str:
    required = schema.get("required", ())
    names = [f"{name} (required)" if name in required else name for name in schema["properties"]]
    return ", ".join(names[:_LISTED]) or "no arguments"


def _place(location: Sequence[int | str], schema: Schema) -> tuple[str, Schema]:
    """Where something is, without pydantic's names for the choices of a union."""
    place, node = "", schema
    for part in location:
        if isinstance(part, int) and "items" in node:
            place, node = f"{place}[{part}]", node["items"]
        elif part in node.get("properties", {}):
            place, node = f"{place}.{part}".lstrip("."), node["properties"][part]
    return place or "the call", node


_ONE = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
}


def _kind(schema: Schema) -> str:
    kinds = schema.get("type", "object")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(_list_of(schema) if kind == "array" else _ONE[kind] for kind in kinds)


def _list_of(schema: Schema) -> str:
    kinds = schema.get("items", {}).get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return f"a list of {' or '.join(f'{kind}s' for kind in kinds) or 'values'}"
