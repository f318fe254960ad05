"""Describes functions, classes and modules."""

from __future__ import annotations

import types
from typing import Any

from .bounds import Facts, joined
from .brief import brief
from .classes import bases_of, class_dict, module_name, mro, type_name


def describe_function(value: Any) -> Facts:
    flags = value.__code__.co_flags
    mark = "async " if flags & 0x280 else ""  # a coroutine or an asynchronous generator
    return {"preview": mark + value.__name__ + _signature(value, 0) + _summary(value.__doc__)}


def describe_class(value: Any) -> Facts:
    name = type_name(value)
    bases = [type_name(base) for base in bases_of.__get__(value) if base is not object]
    text = "class " + name + ("(" + joined(bases) + ")" if bases else "")
    for cls in mro(value):
        start = class_dict(cls).get("__init__")
        if start is not None:
            if type(start) is types.FunctionType and module_name(cls) == module_name(value):
                text += ", made by " + name + _signature(start, 1)
            break
    return {"preview": text + _summary(class_dict(value).get("__doc__"))}


def describe_module(value: Any) -> Facts:
    # Accessing a lazily imported module in the usual way would load it.
    known = object.__getattribute__(value, "__dict__")
    name, version = known.get("__name__"), known.get("__version__")
    text = "module " + (name if type(name) is str else "?")
    return {"preview": text + (" " + version if type(version) is str else "")}


def _signature(function: Any, skipped: int) -> str:
    """The parameters as written, without annotations: those are code that may not have run."""
    code = function.__code__
    count, only = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    defaults = function.__defaults__ or ()
    by_name = function.__kwdefaults__ or {}
    parts = []
    for position, name in enumerate(names[:count]):
        back = position - count + len(defaults)
        parts.append(name + ("=" + brief(defaults[back], 1) if back >= 0 else ""))
        if position + 1 == code.co_posonlyargcount:
            parts.append("/")
    rest = only
    if code.co_flags & 0x04:
        parts.append("*" + names[rest])
        rest += 1
    elif code.co_kwonlyargcount:
        parts.append("*")
    for name in names[count:only]:
        parts.append(name + ("=" + brief(by_name[name], 1) if name in by_name else ""))
    if code.co_flags & 0x08:
        parts.append("**" + names[rest])
    return "(" + ", ".join(parts[skipped:]) + ")"


def _summary(doc: Any) -> str:
    lines = doc.strip().splitlines() if type(doc) is str else []
    return ": " + lines[0] if lines else ""
