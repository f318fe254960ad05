"""Cells in the shape that jupyter_ydoc and JupyterLab share, and as plain values."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from pycrdt import Array, Doc, Map, Text, Transaction

P = ParamSpec("P")
T = TypeVar("T")


class _OfDoc(Protocol):
    @property
    def doc(self) -> Doc[Any]: ...


D = TypeVar("D", bound=_OfDoc)


def reading(
    method: Callable[Concatenate[D, Transaction, P], T],
) -> Callable[Concatenate[D, P], T]:
    """A method that reads in the transaction that is under way, or in one of its own.

    To enter one that is under way would take longer than most reads.
    """

    @wraps(method)
    def read(self: D, /, *arguments: P.args, **options: P.kwargs) -> T:
        if (under_way := self.doc._txn) is not None:
            return method(self, under_way, *arguments, **options)
        with self.doc.transaction() as transaction:
            return method(self, transaction, *arguments, **options)

    return read


def new_cell(cell_type: str, source: str) -> dict[str, Any]:
    """A fresh cell, as JupyterLab would make it."""
    cell: dict[str, Any] = {"cell_type": cell_type, "source": source, "metadata": {}}
    if cell_type == "code":
        # Nothing has run, so there is nothing that one could distrust.
        cell |= {"outputs": [], "execution_count": None, "metadata": {"trusted": True}}
    return cell


def with_id(value: Mapping[str, Any]) -> dict[str, Any]:
    cell = copy.deepcopy(dict(value))
    cell.setdefault("id", str(uuid.uuid4()))
    return cell


def shared_cell(cell: dict[str, Any]) -> Map[Any]:
    """A cell in the shape that jupyter_ydoc and JupyterLab share."""
    shared = dict(cell)
    shared["source"] = Text(cell["source"])
    shared["metadata"] = Map(cell.get("metadata") or {})
    if cell["cell_type"] == "code":
        shared["outputs"] = Array([shared_output(output) for output in cell.get("outputs") or []])
        shared.setdefault("execution_count", None)
        shared.setdefault("execution_state", "idle")
    return Map(shared)


def shared_output(output: Mapping[str, Any]) -> Map[Any]:
    shared = dict(output)
    if shared.get("output_type") == "stream":
        streamed = shared.get("text", "")
        shared["text"] = Text(streamed if isinstance(streamed, str) else "".join(streamed))
    return Map(shared)


def plain(value: Any) -> Any:
    return value.to_py() if isinstance(value, Array | Map | Text) else value


def get_value(transaction: Transaction, cell: Any, key: str) -> Any:
    """A value of a cell, or None; ten times as fast as through pycrdt's wrapper."""
    inside = transaction._txn
    return cell.get(inside, key) if cell.has(inside, key) else None


def has_any(transaction: Transaction, cell: Any, key: str) -> bool:
    """Whether there is anything in the list or the map that a cell has under a key."""
    value = get_value(transaction, cell, key)
    if value is None or isinstance(value, dict | list):
        return bool(value)
    return bool(value.len(transaction._txn))


def get_source(transaction: Transaction, cell: Any) -> str:
    return str(get_value(transaction, cell, "source").get_string(transaction._txn))
