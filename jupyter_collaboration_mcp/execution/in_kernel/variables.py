"""Lists the variables and describes each, as JSON."""

from __future__ import annotations

import json
import types
import unicodedata
from typing import Any

from .bounds import DEPTH, LABEL, Facts, clip, copied, count_text
from .brief import brief_as_builtin, brief_unknown
from .classes import (
    class_dict,
    has_class,
    imported_member,
    known_as,
    module_name,
    mro,
    root_package,
    type_name,
)
from .definitions import describe_class, describe_function, describe_module
from .frames import DESCRIBERS

#: What IPython puts into a namespace, for shells that do not report it themselves.
OF_THE_SHELL = ("In", "Out", "exit", "get_ipython", "open", "quit")
#: Instances of classes from here come from an import, not from the user's work.
IMPORTED_FROM = ("__future__", "typing")


def report(
    namespace: dict[str, Any], names: list[str] | None, max_variables: int, max_preview: int
) -> str:
    """The variables as JSON: those called `names`, or all of the user's own."""
    found = {name: value for name, value in copied(namespace).items() if type(name) is str}
    missing: list[str] = []
    if names is None:
        chosen = [(name, name) for name in _own(found)]
    else:
        chosen = []
        for name in dict.fromkeys(names):
            # Python normalizes names: the micro sign in a source is a Greek mu in the namespace.
            known = unicodedata.normalize("NFKC", name)
            if known.isidentifier() and known in found:
                chosen.append((name, known))
            else:
                missing.append(clip(name, LABEL))
    shown = chosen[:max_variables]
    return json.dumps(
        {
            "variables": [_described(name, found[known], max_preview) for name, known in shown],
            "missing": missing,
            "more": len(chosen) - len(shown),
        }
    )


def _own(found: dict[str, Any]) -> list[str]:
    """Names of what the user made: data first, then functions and classes, in order of creation."""
    hidden = _hidden(found)
    home = found.get("__name__")
    home = home if type(home) is str else "__main__"
    data, definitions = [], []
    for name, value in found.items():
        if name.startswith("_") or (name in hidden and value is hidden[name]):
            continue
        try:
            classes = mro(type(value))
            if has_class(classes, types.ModuleType) or has_class(
                classes, types.BuiltinFunctionType
            ):
                continue
            if has_class(classes, types.FunctionType) or has_class(classes, type):
                where = module_name(value) if has_class(classes, type) else value.__module__
                if type(where) is str and where == home:
                    definitions.append(name)
            elif module_name(type(value)) not in IMPORTED_FROM:
                data.append(name)
        except Exception:
            data.append(name)
    return data + definitions


def _hidden(found: dict[str, Any]) -> dict[str, Any]:
    """What the shell put there, by name; a name that the user reassigned is the user's."""
    # Not from the `get_ipython` of the namespace, which the user can replace.
    shells = imported_member("IPython.core.interactiveshell", "InteractiveShell")
    if shells is not None and shells.initialized():
        return copied(shells.instance().user_ns_hidden)
    return {name: found[name] for name in OF_THE_SHELL if name in found}


def _described(name: str, value: Any, limit: int) -> Facts:
    facts: Facts = {"name": clip(name, LABEL), "type": "?", "preview": ""}
    try:
        facts["type"] = clip(type_name(type(value)), LABEL)
        facts.update(_facts(value, limit))
    except Exception as error:
        facts["preview"] = "preview failed: " + clip(type_name(type(error)), LABEL)
    for key in ("shape", "size", "columns", "preview"):
        text = facts.get(key)
        facts[key] = None if text is None else clip(text, limit)
    return facts


def _facts(value: Any, limit: int) -> Facts:
    for cls in mro(type(value)):
        look = DESCRIBERS.get(known_as(cls))
        if look is not None:
            return look(value, limit)
    if has_class(mro(type(value)), types.ModuleType):
        return describe_module(value)
    if has_class(mro(type(value)), type):
        return describe_class(value)
    if type(value) is types.FunctionType:
        return describe_function(value)
    preview = brief_as_builtin(value, DEPTH, limit)
    return {"preview": brief_unknown(value) if preview is None else preview, "size": _size(value)}


def _size(value: Any) -> str | None:
    """The length, if reading it only runs code of Python itself."""
    for cls in mro(type(value)):
        own = class_dict(cls)
        if "__len__" in own:
            known = known_as(cls)
            if root_package(known) not in ("builtins", "collections"):
                return None
            if type(own["__len__"]) is not types.WrapperDescriptorType:
                return None
            try:
                return count_text(own["__len__"](value), _UNITS.get(known, "item"))
            except OverflowError:  # a range of more than a machine can count
                return None
    return None


_UNITS = {"builtins.str": "character", "builtins.bytes": "byte", "builtins.bytearray": "byte"}
