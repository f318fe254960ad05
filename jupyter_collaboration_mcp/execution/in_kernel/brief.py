"""Short texts for values: builtins by the methods of their own class, whatever a subclass
overrides."""

from __future__ import annotations

import types
from typing import Any, Callable, Iterable  # noqa: UP035

from .bounds import BITS, DEPTH, ITEMS, ITEMS_INSIDE, LABEL, TEXT, clip, dots, first_items
from .classes import (
    has_class,
    imported_member,
    instance_dict,
    known_as,
    module_name,
    mro,
    root_package,
    type_name,
)

#: Classes whose instances have a shape that is safe to read.
SHAPED = (
    "pandas.DataFrame",
    "pandas.Series",
    "pandas.Index",
    "polars.DataFrame",
    "polars.Series",
    "numpy.ndarray",
    "torch.Tensor",
)


def brief(value: Any, depth: int = DEPTH, width: int = TEXT) -> str:
    text = brief_as_builtin(value, depth, width)
    return angled(value) if text is None else text


def brief_as_builtin(value: Any, depth: int, width: int) -> str | None:
    for single in (None, True, False, Ellipsis, NotImplemented):
        if value is single:
            return repr(single)
    for name in ("NaT", "NA"):
        if value is imported_member("pandas", name):
            return name
    for cls in mro(type(value)):
        known = known_as(cls)
        if known in _CONTAINERS:
            return _brief_container(known, value, depth)
        if known in _SCALARS:
            return _SCALARS[known](value, width)
    return None


def _brief_text(value: Any, width: int) -> str:
    # Slices made by the builtin class are plain text, even those of a subclass.
    return repr(str.__getitem__(value, slice(width))) + dots(str.__len__(value) > width)


def _brief_bytes(value: Any, width: int) -> str:
    return repr(bytes.__getitem__(value, slice(width))) + dots(bytes.__len__(value) > width)


def _brief_bytearray(value: Any, width: int) -> str:
    head = bytearray.__getitem__(value, slice(width))
    return repr(head) + dots(bytearray.__len__(value) > width)


def _brief_int(value: Any, width: int) -> str:
    bits = int.bit_length(value)
    return int.__repr__(value) if bits <= BITS else f"<int of {bits} bits>"


def _brief_range(value: Any, width: int) -> str:
    parts = [brief(part) for part in (value.start, value.stop, value.step)]
    return "range(" + ", ".join(parts if value.step != 1 else parts[:2]) + ")"


def _brief_time(value: Any, width: int) -> str:
    if known_as(type(value)) not in _SCALARS:
        return angled(value)
    zone = value.tzinfo
    if zone is None or known_as(type(zone)) in ("datetime.timezone", "zoneinfo.ZoneInfo"):
        return str(value)
    # The offset would come from a class that anybody may have written.
    return str(value.replace(tzinfo=None)) + " " + angled(zone)


def _brief_fraction(value: Any, width: int) -> str:
    if known_as(type(value)) != "fractions.Fraction":
        return angled(value)
    return brief(value.numerator) + "/" + brief(value.denominator)


def _brief_enum(value: Any, width: int) -> str:
    name = instance_dict(value).get("_name_")
    return type_name(type(value)) + "." + (clip(name, width) if type(name) is str else "?")


def _written(value: Any, width: int) -> str:
    """For final or well-behaved classes: `str`, unless a subclass overrides it."""
    return clip(str(value), width) if known_as(type(value)) in _SCALARS else angled(value)


def _brief_numpy(value: Any, width: int) -> str:
    if root_package(module_name(type(value))) != "numpy":
        return angled(value)
    # Plain Python numbers would lose the unit of times and show noise in short floats.
    if value.dtype.kind in "biufcmM":
        return clip(str(value), width)
    return brief(value.item(), 1, width)


_SCALARS: dict[str, Callable[[Any, int], str]] = {
    "enum.Enum": _brief_enum,
    "enum.IntEnum": _brief_enum,
    "enum.StrEnum": _brief_enum,
    "enum.Flag": _brief_enum,
    "enum.IntFlag": _brief_enum,
    "builtins.str": _brief_text,
    "builtins.bytes": _brief_bytes,
    "builtins.bytearray": _brief_bytearray,
    "builtins.int": _brief_int,
    "builtins.float": lambda value, width: float.__repr__(value),
    "builtins.complex": lambda value, width: complex.__repr__(value),
    "builtins.range": _brief_range,
    "datetime.datetime": _brief_time,
    "datetime.time": _brief_time,
    "datetime.date": _written,
    "datetime.timedelta": _written,
    "decimal.Decimal": _written,
    "fractions.Fraction": _brief_fraction,
    "uuid.UUID": _written,
    "pathlib.PosixPath": _written,
    "pathlib.WindowsPath": _written,
    "pathlib.PurePosixPath": _written,
    "pathlib.PureWindowsPath": _written,
    "numpy.generic": _brief_numpy,
    "pandas.Timestamp": _written,
    "pandas.Timedelta": _written,
    "pandas.Period": _written,
    "pandas.Interval": _written,
}

_CONTAINERS: dict[str, tuple[str, str, Callable[[Any], Iterable[Any]]]] = {
    "builtins.list": ("[", "]", list.__iter__),
    "builtins.tuple": ("(", ")", tuple.__iter__),
    "builtins.set": ("{", "}", set.__iter__),
    "builtins.frozenset": ("{", "}", frozenset.__iter__),
    "builtins.dict": ("{", "}", dict.items),
    "collections.deque": (
        "[",
        "]",
        lambda value: imported_member("collections", "deque").__iter__(value),
    ),
}


def _brief_container(known: str, value: Any, depth: int) -> str:
    opened, closed, iterate = _CONTAINERS[known]
    limit = ITEMS if depth == DEPTH else ITEMS_INSIDE
    items = first_items(lambda: iterate(value), limit + 1)
    if not items:
        return "set()" if known.endswith("set") else opened + closed
    if depth <= 0:
        return opened + "..." + closed
    if known == "builtins.dict":
        parts = [brief(key, 1) + ": " + brief(item, depth - 1) for key, item in items[:limit]]
    else:
        parts = [brief(item, depth - 1) for item in items[:limit]]
    if len(items) > limit:
        parts.append("...")
    single = known == "builtins.tuple" and len(parts) == 1
    return opened + ", ".join(parts) + ("," if single else "") + closed


def angled(value: Any) -> str:
    """The name of an object's class, with its shape if it is of a kind that has one."""
    text = type_name(type(value))
    if type(value) is types.FunctionType:
        text = "function " + value.__name__
    elif has_class(mro(type(value)), type):
        text = "class " + type_name(value)
    elif known_as(type(value)) in SHAPED:
        text += " " + str(tuple(value.shape))
    return "<" + clip(text, LABEL) + ">"


def brief_unknown(value: Any) -> str:
    """The class and the names of public attributes: all we can know without running code."""
    known = instance_dict(value)
    names = [name for name in known if type(name) is str and not name.startswith("_")]
    if not names:
        return angled(value)
    shown = ", ".join(clip(name, TEXT) for name in names[:ITEMS])
    return angled(value) + " with " + shown + (", ..." if len(names) > ITEMS else "")
