"""The variables of a live kernel, without leaving a trace in it.

An `execute_request` without code, silent and not stored, carries `expression` as a user
expression; `parse` reads the reply. The work itself is done by `in_kernel`, in the kernel.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ..documents.foreign_text import MESSAGE, inline
from . import in_kernel

#: The name of the expression in `user_expressions`.
KEY = "variables"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in a few words; all texts come from the kernel and are bounded."""

    name: str
    type: str
    shape: str | None
    size: str | None
    columns: str | None
    preview: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """Variables of a kernel: data first, then what the user defined."""

    variables: list[Variable]
    #: Requested by name, but not defined.
    missing: list[str]
    #: How many were left out.
    more: int


class InspectionFailed(Exception):
    """The kernel could not report its variables."""

    @classmethod
    def raised(cls, ename: object, evalue: object) -> Self:
        what = f"{_text(ename) or 'error'}: {_text(evalue)}".removesuffix(": ")
        return cls(f"The kernel failed to look at its variables: {inline(what, MESSAGE)}")

    @classmethod
    def unreadable(cls, why: str) -> Self:
        return cls(f"The kernel's answer could not be read: {why}.")


def expression(names: Sequence[str] | None, max_variables: int, max_preview: int) -> str:
    """A Python expression that reports a kernel's variables; it binds no name there.

    Args:
        names: Plain names to look at; `None` for everything that the user made.
        max_variables: The most variables to describe; the others are counted.
        max_preview: The most characters of a preview.
    """
    arguments = (None if names is None else list(names), max_variables, max_preview)
    # `__import__`, because the user may have called a variable `exec` or `locals`. `locals()` of
    # the expression itself is the user's namespace even if a kernel is embedded in a program.
    return (
        f"(lambda space, here, python: (python.exec({in_kernel.source()!a}, here), "
        f"here['report'](space, *{arguments!a}), here.clear())[1])"
        "(__import__('builtins').locals(), {'__name__': 'in_kernel'}, __import__('builtins'))"
    )


def parse(reply: Mapping[str, Any]) -> Inspection:
    """Read the inspection from the content of an `execute_reply`.

    Raises:
        InspectionFailed: The kernel raised, is not an IPython kernel, or sent nonsense.
    """
    status = reply.get("status")
    if status == "error":
        raise InspectionFailed.raised(reply.get("ename"), reply.get("evalue"))
    if status != "ok":
        raise InspectionFailed(
            f"The kernel did not look at its variables ({inline(_text(status), 80)})."
        )
    answers = reply.get("user_expressions")
    answer = answers.get(KEY) if isinstance(answers, Mapping) else None
    if not isinstance(answer, Mapping):
        raise InspectionFailed("The kernel does not evaluate expressions: is it a Python kernel?")
    if answer.get("status") == "error":
        raise InspectionFailed.raised(answer.get("ename"), answer.get("evalue"))
    return _inspection(_value(answer.get("data")))


def _value(data: object) -> Any:
    """The kernel's report: JSON, in a Python string, in a MIME bundle."""
    plain = data.get("text/plain") if isinstance(data, Mapping) else None
    if isinstance(plain, list) and all(isinstance(line, str) for line in plain):
        plain = "".join(plain)
    if not isinstance(plain, str):
        raise InspectionFailed.unreadable("it has no text")
    try:
        report = ast.literal_eval(plain.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise InspectionFailed.unreadable("it is not a Python string") from error
    if not isinstance(report, str):
        raise InspectionFailed.unreadable("it is not a Python string")
    try:
        return json.loads(report)
    except (ValueError, RecursionError) as error:
        raise InspectionFailed.unreadable("it is not JSON") from error


def _inspection(report: Any) -> Inspection:
    try:
        return Inspection(
            variables=[_variable(facts) for facts in report["variables"]],
            missing=[_text(name) for name in report["missing"]],
            more=int(report["more"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InspectionFailed.unreadable("it does not list variables") from error


def _variable(facts: Mapping[str, Any]) -> Variable:
    return Variable(
        name=_text(facts["name"]),
        type=_text(facts["type"]),
        shape=_optional(facts.get("shape")),
        size=_optional(facts.get("size")),
        columns=_optional(facts.get("columns")),
        preview=_text(facts["preview"]),
    )


def _optional(value: object) -> str | None:
    return None if value is None else _text(value)


def _text(value: object) -> str:
    """Text that can be encoded: escapes lone surrogates, which UTF-8 cannot hold."""
    text = "" if value is None else str(value)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
