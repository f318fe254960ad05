"""What the variables of a kernel are, told from inside it and without running the user's code.

The source of this file is sent to the kernel and run there in a namespace of its own, so it
must import only the standard library and be valid from Python 3.8 on. It believes `type(value)`
alone, reads through the methods of builtin classes, and calls no `__repr__` that it does not know.
"""

from __future__ import annotations

import builtins
import itertools
import json
import sys
import types
import unicodedata
from typing import Any, Callable, Dict, Iterable, Optional  # noqa: UP035

# Evaluated in the kernel, unlike annotations, and so spelled as Python 3.8 knows it.
Facts = Dict[str, Optional[str]]  # noqa: UP006, UP045

#: What IPython puts into a namespace, for shells that do not say so themselves.
OF_THE_SHELL = ("In", "Out", "exit", "get_ipython", "open", "quit")
#: Instances of classes from here come from an import, not from the user's work.
IMPORTED_FROM = ("__future__", "typing")

ITEMS = 10
ITEMS_INSIDE = 4
DEPTH = 2
TEXT = 60
CELL = 26
ROWS = 3
COLUMNS = 8
NAMED_COLUMNS = 20
LABEL = 200
#: Above it Python may refuse to write an integer out, and nobody would read it.
BITS = 1000
#: Elements of an array up to which looking for its extremes takes no time.
EXTREMES = 1000000
#: Elements of a tensor up to which it is looked into.
SMALL = 1000


def report(
    namespace: dict[str, Any], names: list[str] | None, max_variables: int, max_preview: int
) -> str:
    """The variables as JSON: those called `names`, or all that are the user's own."""
    found = {name: value for name, value in _copied(namespace).items() if type(name) is str}
    missing: list[str] = []
    if names is None:
        chosen = [(name, name) for name in _own(found)]
    else:
        chosen = []
        for name in dict.fromkeys(names):
            # Python does so to names: the micro sign in a source is a Greek mu in the namespace.
            known = unicodedata.normalize("NFKC", name)
            if known.isidentifier() and known in found:
                chosen.append((name, known))
            else:
                missing.append(_clip(name, LABEL))
    shown = chosen[:max_variables]
    return json.dumps(
        {
            "variables": [_described(name, found[known], max_preview) for name, known in shown],
            "missing": missing,
            "more": len(chosen) - len(shown),
        }
    )


# Which variables


def _own(found: dict[str, Any]) -> list[str]:
    """Names of what the user made: first data, then functions and classes, each as they came."""
    hidden = _hidden(found)
    home = found.get("__name__")
    home = home if type(home) is str else "__main__"
    data, definitions = [], []
    for name, value in found.items():
        if name.startswith("_") or (name in hidden and value is hidden[name]):
            continue
        try:
            mro = _mro(type(value))
            if _has(mro, types.ModuleType) or _has(mro, types.BuiltinFunctionType):
                continue
            if _has(mro, types.FunctionType) or _has(mro, type):
                where = _module(value) if _has(mro, type) else value.__module__
                if type(where) is str and where == home:
                    definitions.append(name)
            elif _module(type(value)) not in IMPORTED_FROM:
                data.append(name)
        except Exception:
            data.append(name)
    return data + definitions


def _hidden(found: dict[str, Any]) -> dict[str, Any]:
    """What the shell put there, by name; a name that the user took over is the user's."""
    # Not by the `get_ipython` of the namespace, which the user can replace.
    shells = _member("IPython.core.interactiveshell", "InteractiveShell")
    if shells is not None and shells.initialized():
        return _copied(shells.instance().user_ns_hidden)
    return {name: found[name] for name in OF_THE_SHELL if name in found}


# One variable


def _described(name: str, value: Any, limit: int) -> Facts:
    facts: Facts = {"name": _clip(name, LABEL), "type": "?", "preview": ""}
    try:
        facts["type"] = _clip(_type_name(type(value)), LABEL)
        facts.update(_facts(value, limit))
    except Exception as error:
        facts["preview"] = "preview failed: " + _clip(_type_name(type(error)), LABEL)
    for key in ("shape", "size", "columns", "preview"):
        text = facts.get(key)
        facts[key] = None if text is None else _clip(text, limit)
    return facts


def _facts(value: Any, limit: int) -> Facts:
    for cls in _mro(type(value)):
        look = _LOOKS.get(_known_as(cls))
        if look is not None:
            return look(value, limit)
    if _has(_mro(type(value)), types.ModuleType):
        return _of_module(value)
    if _has(_mro(type(value)), type):
        return _of_class(value)
    if type(value) is types.FunctionType:
        return _of_function(value)
    brief = _brief_as_builtin(value, DEPTH, limit)
    return {"preview": _unknown(value) if brief is None else brief, "size": _size(value)}


def _unknown(value: Any) -> str:
    """The class and the names of public attributes, which is all one can know without running."""
    known = _instance_dict(value)
    names = [name for name in known if type(name) is str and not name.startswith("_")]
    if not names:
        return _angled(value)
    shown = ", ".join(_clip(name, TEXT) for name in names[:ITEMS])
    return _angled(value) + " with " + shown + (", ..." if len(names) > ITEMS else "")


def _size(value: Any) -> str | None:
    """The length, where asking for it runs only code of Python itself."""
    for cls in _mro(type(value)):
        own = _class_dict(cls)
        if "__len__" in own:
            known = _known_as(cls)
            if _root(known) not in ("builtins", "collections"):
                return None
            if type(own["__len__"]) is not types.WrapperDescriptorType:
                return None
            try:
                return _count(own["__len__"](value), _UNITS.get(known, "item"))
            except OverflowError:  # a range of more than a machine can count
                return None
    return None


_UNITS = {"builtins.str": "character", "builtins.bytes": "byte", "builtins.bytearray": "byte"}


# In few words: builtins by the methods of their own class, whatever a subclass makes of them


def _brief(value: Any, depth: int = DEPTH, width: int = TEXT) -> str:
    brief = _brief_as_builtin(value, depth, width)
    return _angled(value) if brief is None else brief


def _brief_as_builtin(value: Any, depth: int, width: int) -> str | None:
    for single in (None, True, False, Ellipsis, NotImplemented):
        if value is single:
            return repr(single)
    for name in ("NaT", "NA"):
        if value is _member("pandas", name):
            return name
    for cls in _mro(type(value)):
        known = _known_as(cls)
        if known in _CONTAINERS:
            return _brief_container(known, value, depth)
        if known in _SCALARS:
            return _SCALARS[known](value, width)
    return None


def _brief_text(value: Any, width: int) -> str:
    # Slices of the builtin class are plain text, also those of a subclass.
    return repr(str.__getitem__(value, slice(width))) + _dots(str.__len__(value) > width)


def _brief_bytes(value: Any, width: int) -> str:
    return repr(bytes.__getitem__(value, slice(width))) + _dots(bytes.__len__(value) > width)


def _brief_bytearray(value: Any, width: int) -> str:
    head = bytearray.__getitem__(value, slice(width))
    return repr(head) + _dots(bytearray.__len__(value) > width)


def _brief_int(value: Any, width: int) -> str:
    bits = int.bit_length(value)
    return int.__repr__(value) if bits <= BITS else f"<int of {bits} bits>"


def _brief_range(value: Any, width: int) -> str:
    parts = [_brief(part) for part in (value.start, value.stop, value.step)]
    return "range(" + ", ".join(parts if value.step != 1 else parts[:2]) + ")"


def _brief_time(value: Any, width: int) -> str:
    if _known_as(type(value)) not in _SCALARS:
        return _angled(value)
    zone = value.tzinfo
    if zone is None or _known_as(type(zone)) in ("datetime.timezone", "zoneinfo.ZoneInfo"):
        return str(value)
    # The offset would be the word of a class that anybody may have written.
    return str(value.replace(tzinfo=None)) + " " + _angled(zone)


def _brief_fraction(value: Any, width: int) -> str:
    if _known_as(type(value)) != "fractions.Fraction":
        return _angled(value)
    return _brief(value.numerator) + "/" + _brief(value.denominator)


def _brief_enum(value: Any, width: int) -> str:
    name = _instance_dict(value).get("_name_")
    return _type_name(type(value)) + "." + (_clip(name, width) if type(name) is str else "?")


def _written(value: Any, width: int) -> str:
    """For final or well-behaved classes: `str`, unless a subclass has a say in it."""
    return _clip(str(value), width) if _known_as(type(value)) in _SCALARS else _angled(value)


def _brief_numpy(value: Any, width: int) -> str:
    if _root(_module(type(value))) != "numpy":
        return _angled(value)
    # Plain Python numbers would lose the unit of times and show noise in short floats.
    if value.dtype.kind in "biufcmM":
        return _clip(str(value), width)
    return _brief(value.item(), 1, width)


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
    "collections.deque": ("[", "]", lambda value: _member("collections", "deque").__iter__(value)),
}


def _brief_container(known: str, value: Any, depth: int) -> str:
    opened, closed, iterate = _CONTAINERS[known]
    limit = ITEMS if depth == DEPTH else ITEMS_INSIDE
    items = _first(lambda: iterate(value), limit + 1)
    if not items:
        return "set()" if known.endswith("set") else opened + closed
    if depth <= 0:
        return opened + "..." + closed
    if known == "builtins.dict":
        parts = [_brief(key, 1) + ": " + _brief(item, depth - 1) for key, item in items[:limit]]
    else:
        parts = [_brief(item, depth - 1) for item in items[:limit]]
    if len(items) > limit:
        parts.append("...")
    single = known == "builtins.tuple" and len(parts) == 1
    return opened + ", ".join(parts) + ("," if single else "") + closed


def _angled(value: Any) -> str:
    """An object that is only named, with its shape if it is of a kind that has one."""
    text = _type_name(type(value))
    if type(value) is types.FunctionType:
        text = "function " + value.__name__
    elif _has(_mro(type(value)), type):
        text = "class " + _type_name(value)
    elif _known_as(type(value)) in _SHAPED:
        text += " " + str(tuple(value.shape))
    return "<" + _clip(text, LABEL) + ">"


# What people define


def _of_function(value: Any) -> Facts:
    flags = value.__code__.co_flags
    mark = "async " if flags & 0x280 else ""  # a coroutine or an asynchronous generator
    return {"preview": mark + value.__name__ + _signature(value, 0) + _summary(value.__doc__)}


def _of_class(value: Any) -> Facts:
    name = _type_name(value)
    bases = [_type_name(base) for base in _bases_of.__get__(value) if base is not object]
    text = "class " + name + ("(" + _joined(bases) + ")" if bases else "")
    for cls in _mro(value):
        start = _class_dict(cls).get("__init__")
        if start is not None:
            if type(start) is types.FunctionType and _module(cls) == _module(value):
                text += ", made by " + name + _signature(start, 1)
            break
    return {"preview": text + _summary(_class_dict(value).get("__doc__"))}


def _of_module(value: Any) -> Facts:
    # A lazily imported module would be loaded by a look at it in the usual way.
    known = object.__getattribute__(value, "__dict__")
    name, version = known.get("__name__"), known.get("__version__")
    text = "module " + (name if type(name) is str else "?")
    return {"preview": text + (" " + version if type(version) is str else "")}


def _signature(function: Any, skipped: int) -> str:
    """The parameters as written, but for annotations: those are code that may not have run."""
    code = function.__code__
    count, only = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    defaults = function.__defaults__ or ()
    by_name = function.__kwdefaults__ or {}
    parts = []
    for position, name in enumerate(names[:count]):
        back = position - count + len(defaults)
        parts.append(name + ("=" + _brief(defaults[back], 1) if back >= 0 else ""))
        if position + 1 == code.co_posonlyargcount:
            parts.append("/")
    rest = only
    if code.co_flags & 0x04:
        parts.append("*" + names[rest])
        rest += 1
    elif code.co_kwonlyargcount:
        parts.append("*")
    for name in names[count:only]:
        parts.append(name + ("=" + _brief(by_name[name], 1) if name in by_name else ""))
    if code.co_flags & 0x08:
        parts.append("**" + names[rest])
    return "(" + ", ".join(parts[skipped:]) + ")"


def _summary(doc: Any) -> str:
    lines = doc.strip().splitlines() if type(doc) is str else []
    return ": " + lines[0] if lines else ""


# Frames and arrays, by the libraries that the user has imported


def _of_pandas_frame(value: Any, limit: int) -> Facts:
    # Without what a subclass adds; the data are shared, not copied.
    frame = _as_exactly(value, "pandas", "DataFrame")
    # Through `iloc`, for `frame[column]` leaves caches behind in older versions.
    named = frame.iloc[:0, :NAMED_COLUMNS]
    head = frame.iloc[:ROWS, :COLUMNS]
    count = len(frame.columns)
    cells = [head.iloc[:, position].tolist() for position in range(min(count, COLUMNS))]
    header = [""] + [_cell(label) for label in head.columns.tolist()]
    rows = [
        [_cell(label)] + [_cell(column[position]) for column in cells]
        for position, label in enumerate(head.index.tolist())
    ]
    return {
        "shape": str(tuple(frame.shape)),
        "columns": _columns(named.columns.tolist(), named.dtypes.tolist(), count),
        "preview": _table([header, *rows], count > COLUMNS, limit),
    }


def _of_pandas_series(value: Any, limit: int) -> Facts:
    series = _as_exactly(value, "pandas", "Series")
    head = series.iloc[: ITEMS + 1]
    labels, values = head.index.tolist(), head.tolist()
    parts = [_cell(label) + ": " + _brief(values[n], 1) for n, label in enumerate(labels)]
    name = "" if series.name is None else ", name " + _brief(series.name, 1)
    return {
        "shape": str(tuple(series.shape)),
        "preview": _dtype(series.dtype) + name + " {" + _joined(parts) + "}",
    }


def _of_pandas_index(value: Any, limit: int) -> Facts:
    values = [_brief(item, 1) for item in value[: ITEMS + 1].tolist()]
    return {
        "shape": str(tuple(value.shape)),
        "preview": _dtype(value.dtype) + " [" + _joined(values) + "]",
    }


def _of_polars_frame(value: Any, limit: int) -> Facts:
    names, dtypes = value.columns, value.dtypes
    # Nested values and objects would be turned into Python ones, however many there are.
    plain = [name for n, name in enumerate(names) if not _nested(dtypes[n])][:COLUMNS]
    rows = value.head(ROWS).select(plain).rows() if plain else []
    lines = [[_cell(item) for item in line] for line in [plain, *rows]]
    return {
        "shape": str(tuple(value.shape)),
        "columns": _columns(names[:NAMED_COLUMNS], dtypes[:NAMED_COLUMNS], len(names)),
        "preview": _table(lines, len(names) > len(plain), limit),
    }


def _of_polars_series(value: Any, limit: int) -> Facts:
    text = _dtype(value.dtype) + (", name " + _brief(value.name, 1) if value.name else "")
    if not _nested(value.dtype):
        values = [_brief(item, 1) for item in value.head(ITEMS + 1).to_list()]
        text += " [" + _joined(values) + "]"
    return {"shape": str(tuple(value.shape)), "preview": text}


def _of_lazy_frame(value: Any, limit: int) -> Facts:
    # Even its column names may cost a read of the files it is made from.
    return {"preview": "<lazy query, not collected>"}


def _nested(dtype: Any) -> bool:
    return str(dtype).startswith(("List", "Array", "Struct", "Object"))


def _of_numpy_array(value: Any, limit: int) -> Facts:
    # A bare view of it, for a subclass may have its own idea of every attribute.
    ndarray = _member("numpy", "ndarray")
    array = ndarray.view(value, ndarray)
    text = _dtype(array.dtype)
    if _known_as(type(value)) in ("numpy.ndarray", "numpy.memmap"):
        # Of others, as masked arrays and quantities, the bare numbers would mislead.
        text += _values(array)
    return {"shape": str(array.shape), "size": _bytes(array.nbytes), "preview": text}


def _values(array: Any) -> str:
    items = [_brief(item, 1) for item in array.flat[: ITEMS + 1]]
    text = " [" + _joined(items) + "]" if array.ndim else " " + items[0]
    if array.dtype.kind in "iuf" and 1 < array.size <= EXTREMES:
        # They leave out what is not a number, and do not warn of it.
        least = _member("numpy", "fmin").reduce(array, axis=None)
        most = _member("numpy", "fmax").reduce(array, axis=None)
        text += " min " + _brief(least) + " max " + _brief(most)
    return text


def _of_tensor(value: Any, limit: int) -> Facts:
    if _type_name(type(value)) not in ("torch.Tensor", "torch.nn.parameter.Parameter"):
        # It may answer every question with code of its own.
        return {"preview": _unknown(value)}
    count = int(value.numel())
    text = str(value.dtype) + " on " + str(value.device)
    if value.requires_grad:
        text += ", requires grad"
    # Values on another device would have to wait for it.
    near = value.device.type == "cpu" and str(value.layout) == "torch.strided"
    if near and count <= SMALL:
        values = value.detach().reshape(-1)[: ITEMS + 1].tolist()
        text += " [" + _joined([_brief(item, 1) for item in values]) + "]"
    size = _bytes(count * int(value.element_size()))
    return {"shape": str(tuple(value.shape)), "size": size, "preview": text}


_LOOKS: dict[str, Callable[[Any, int], Facts]] = {
    "pandas.DataFrame": _of_pandas_frame,
    "pandas.Series": _of_pandas_series,
    "pandas.Index": _of_pandas_index,
    "polars.DataFrame": _of_polars_frame,
    "polars.Series": _of_polars_series,
    "polars.LazyFrame": _of_lazy_frame,
    "numpy.ndarray": _of_numpy_array,
    "torch.Tensor": _of_tensor,
}
_SHAPED = [known for known in _LOOKS if known != "polars.LazyFrame"]


def _as_exactly(value: Any, package: str, name: str) -> Any:
    cls = _member(package, name)
    return value if type(value) is cls else cls(value)


def _dtype(dtype: Any) -> str:
    return _clip(str(dtype), TEXT)


def _columns(names: list[Any], dtypes: list[Any], count: int) -> str | None:
    if not count:
        return None
    parts = [_cell(name) + ": " + _dtype(dtypes[n]) for n, name in enumerate(names)]
    more = count - len(parts)
    return ", ".join(parts) + (f", +{more} more" if more else "")


def _cell(value: Any) -> str:
    """A value in a table: text goes without its quotes, numbers without their last digits."""
    if type(value) is str:
        return _clip(repr(value[: CELL + 1])[1:-1], CELL)
    if type(value) is float:
        return f"{value:.6g}"
    return _clip(_brief(value, 1), CELL)


def _table(lines: list[list[str]], cut: bool, limit: int) -> str:
    """As many columns as fit, rather than as many rows."""
    shown = [""] * len(lines)
    for position in range(len(lines[0])):
        cells = [line[position] for line in lines]
        width = max(len(cell) for cell in cells)
        if position and len(lines) * (len(shown[0]) + width + len("    ...")) > limit:
            cut = True
            break
        gap = "  " if position else ""
        shown = [text + gap + cells[n].rjust(width) for n, text in enumerate(shown)]
    return "\n".join(text + ("  ..." if cut else "") for text in shown)


# The truth about a class, past metaclasses and `__class__`

_mro_of: Any = type.__dict__["__mro__"]
_bases_of: Any = type.__dict__["__bases__"]
_dict_of: Any = type.__dict__["__dict__"]
_module_of: Any = type.__dict__["__module__"]
_qualname_of: Any = type.__dict__["__qualname__"]


def _mro(cls: Any) -> tuple[Any, ...]:
    return tuple(_mro_of.__get__(cls))


def _class_dict(cls: Any) -> Any:
    return _dict_of.__get__(cls)


def _module(cls: Any) -> str:
    try:
        name = _module_of.__get__(cls)
    except AttributeError:
        return ""
    return name if type(name) is str else ""


def _has(mro: tuple[Any, ...], wanted: Any) -> bool:
    # `in` would ask a metaclass whether they are equal.
    return any(cls is wanted for cls in mro)


def _known_as(cls: Any) -> str:
    """`pandas.DataFrame` for what has this name in the package itself, else an empty text."""
    package, name = _root(_module(cls)), str(_qualname_of.__get__(cls))
    return package + "." + name if _member(package, name) is cls else ""


def _type_name(cls: Any) -> str:
    module, name = _module(cls), str(_qualname_of.__get__(cls))
    if module in ("", "builtins", "__main__"):
        return name
    return _known_as(cls) or module + "." + name


def _root(module: str) -> str:
    return module.partition(".")[0]


def _member(package: str, name: str) -> Any:
    """What a package that is already imported calls so; nothing is imported for it."""
    module = builtins if package == "builtins" else sys.modules.get(package)
    if module is None:
        return None
    try:
        return object.__getattribute__(module, "__dict__").get(name)
    except Exception:
        return None


def _instance_dict(value: Any) -> dict[Any, Any]:
    """`vars(value)`, unless the class makes that a call of its own."""
    for cls in _mro(type(value)):
        found = _class_dict(cls).get("__dict__")
        if found is not None:
            if type(found) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
                return {}
            known = found.__get__(value)
            return _copied(known) if type(known) is dict else {}
    return {}


# Bounds


def _first(iterate: Callable[[], Iterable[Any]], count: int) -> list[Any]:
    first: list[Any] = _again(lambda: list(itertools.islice(iterate(), count)))
    return first


def _copied(found: dict[Any, Any]) -> dict[Any, Any]:
    copied: dict[Any, Any] = _again(lambda: dict(found))
    return copied


def _again(look: Callable[[], Any]) -> Any:
    """A thread of the user may change what is looked at: that is worth another look."""
    for _ in range(5):
        try:
            return look()
        except RuntimeError:
            pass
    return look()


def _joined(parts: list[str]) -> str:
    return ", ".join(parts[:ITEMS]) + (", ..." if len(parts) > ITEMS else "")


def _dots(cut: bool) -> str:
    return "..." if cut else ""


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: max(limit - 3, 0)] + "..."


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" + ("" if number == 1 else "s")


def _bytes(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"
