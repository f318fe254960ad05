"""Describes data frames and arrays with the libraries that the user has imported."""

from __future__ import annotations

from typing import Any, Callable  # noqa: UP035

from .bounds import (
    CELL,
    COLUMNS,
    EXTREMES,
    ITEMS,
    NAMED_COLUMNS,
    ROWS,
    SMALL,
    TEXT,
    Facts,
    bytes_text,
    clip,
    joined,
)
from .brief import brief, brief_unknown
from .classes import imported_member, known_as, type_name


def _of_pandas_frame(value: Any, limit: int) -> Facts:
    # Without what a subclass adds; the data are shared, not copied.
    frame = _as_exactly(value, "pandas", "DataFrame")
    # Through `iloc`, because `frame[column]` leaves caches behind in older versions.
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
    parts = [_cell(label) + ": " + brief(values[n], 1) for n, label in enumerate(labels)]
    name = "" if series.name is None else ", name " + brief(series.name, 1)
    return {
        "shape": str(tuple(series.shape)),
        "preview": _dtype(series.dtype) + name + " {" + joined(parts) + "}",
    }


def _of_pandas_index(value: Any, limit: int) -> Facts:
    values = [brief(item, 1) for item in value[: ITEMS + 1].tolist()]
    return {
        "shape": str(tuple(value.shape)),
        "preview": _dtype(value.dtype) + " [" + joined(values) + "]",
    }


def _of_polars_frame(value: Any, limit: int) -> Facts:
    names, dtypes = value.columns, value.dtypes
    # Nested values and objects would be converted to Python ones, however many there are.
    plain = [name for n, name in enumerate(names) if not _nested(dtypes[n])][:COLUMNS]
    rows = value.head(ROWS).select(plain).rows() if plain else []
    lines = [[_cell(item) for item in line] for line in [plain, *rows]]
    return {
        "shape": str(tuple(value.shape)),
        "columns": _columns(names[:NAMED_COLUMNS], dtypes[:NAMED_COLUMNS], len(names)),
        "preview": _table(lines, len(names) > len(plain), limit),
    }


def _of_polars_series(value: Any, limit: int) -> Facts:
    text = _dtype(value.dtype) + (", name " + brief(value.name, 1) if value.name else "")
    if not _nested(value.dtype):
        values = [brief(item, 1) for item in value.head(ITEMS + 1).to_list()]
        text += " [" + joined(values) + "]"
    return {"shape": str(tuple(value.shape)), "preview": text}


def _of_lazy_frame(value: Any, limit: int) -> Facts:
    # Even its column names may require reading the files it is made from.
    return {"preview": "<lazy query, not collected>"}


def _nested(dtype: Any) -> bool:
    return str(dtype).startswith(("List", "Array", "Struct", "Object"))


def _of_numpy_array(value: Any, limit: int) -> Facts:
    # A bare view, because a subclass may override every attribute.
    ndarray = imported_member("numpy", "ndarray")
    array = ndarray.view(value, ndarray)
    text = _dtype(array.dtype)
    if known_as(type(value)) in ("numpy.ndarray", "numpy.memmap"):
        # For others, such as masked arrays and quantities, the bare numbers would mislead.
        text += _values(array)
    return {"shape": str(array.shape), "size": bytes_text(array.nbytes), "preview": text}


def _values(array: Any) -> str:
    items = [brief(item, 1) for item in array.flat[: ITEMS + 1]]
    text = " [" + joined(items) + "]" if array.ndim else " " + items[0]
    if array.dtype.kind in "iuf" and 1 < array.size <= EXTREMES:
        # These ignore NaN, and do not warn about it.
        least = imported_member("numpy", "fmin").reduce(array, axis=None)
        most = imported_member("numpy", "fmax").reduce(array, axis=None)
        text += " min " + brief(least) + " max " + brief(most)
    return text


def _of_tensor(value: Any, limit: int) -> Facts:
    if type_name(type(value)) not in ("torch.Tensor", "torch.nn.parameter.Parameter"):
        # It may run its own code for every question.
        return {"preview": brief_unknown(value)}
    count = int(value.numel())
    text = str(value.dtype) + " on " + str(value.device)
    if value.requires_grad:
        text += ", requires grad"
    # Reading values from another device would have to wait for it.
    near = value.device.type == "cpu" and str(value.layout) == "torch.strided"
    if near and count <= SMALL:
        values = value.detach().reshape(-1)[: ITEMS + 1].tolist()
        text += " [" + joined([brief(item, 1) for item in values]) + "]"
    size = bytes_text(count * int(value.element_size()))
    return {"shape": str(tuple(value.shape)), "size": size, "preview": text}


DESCRIBERS: dict[str, Callable[[Any, int], Facts]] = {
    "pandas.DataFrame": _of_pandas_frame,
    "pandas.Series": _of_pandas_series,
    "pandas.Index": _of_pandas_index,
    "polars.DataFrame": _of_polars_frame,
    "polars.Series": _of_polars_series,
    "polars.LazyFrame": _of_lazy_frame,
    "numpy.ndarray": _of_numpy_array,
    "torch.Tensor": _of_tensor,
}


def _as_exactly(value: Any, package: str, name: str) -> Any:
    cls = imported_member(package, name)
    return value if type(value) is cls else cls(value)


def _dtype(dtype: Any) -> str:
    return clip(str(dtype), TEXT)


def _columns(names: list[Any], dtypes: list[Any], count: int) -> str | None:
    if not count:
        return None
    parts = [_cell(name) + ": " + _dtype(dtypes[n]) for n, name in enumerate(names)]
    more = count - len(parts)
    return ", ".join(parts) + (f", +{more} more" if more else "")


def _cell(value: Any) -> str:
    """A value in a table: text without its quotes, numbers without their last digits."""
    if type(value) is str:
        return clip(repr(value[: CELL + 1])[1:-1], CELL)
    if type(value) is float:
        return f"{value:.6g}"
    return clip(brief(value, 1), CELL)


def _table(lines: list[list[str]], cut: bool, limit: int) -> str:
    """A table with as many columns as fit, rather than as many rows."""
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
