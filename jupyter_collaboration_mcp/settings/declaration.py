"""How a setting is declared, and how texts become its value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from .levels import Levels

#: What a setting's environment variable begins with; its name in capitals follows.
ENVIRONMENT_PREFIX = "JUPYTER_COLLABORATION_MCP_"

#: The front doors: inside Jupyter, `jupyter-collaboration-mcp`, and its `hub-service`.
Door = Literal["extension", "command", "service"]

Value = str | int | float | bool | tuple[str, ...] | Levels | None

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of one setting."""

    name: str
    kind: Any
    """The type of its field in `Settings`."""
    default: Value
    help: str
    doors: tuple[Door, ...]
    """Where it applies. From outside a Jupyter server some things cannot be decided."""
    metavar: str | None
    choices: tuple[str, ...]
    positive: bool
    check: Callable[[str], str] | None

    @property
    def option(self) -> str:
        """Its name on the command line of the command."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def is_list(self) -> bool:
        """Whether several texts can be given for it."""
        return self.kind in (tuple[str, ...], Levels)

    def parse(self, texts: Sequence[str]) -> Value:
        """The value that texts give: all of them for a list, otherwise the last.

        Raises:
            ValueError: They make no sense; the message does not name the setting.
        """
        if self.kind is Levels:
            return Levels.parse(texts)
        if self.is_list:
            return self.checked(tuple(texts))
        text = texts[-1]
        if self.kind is bool:
            return _switch(text)
        if self.kind in (int, float):
            return self.checked(_number(text, self.kind))
        return self.checked(text)

    def checked(self, value: Value) -> Value:
        """A value of the right type, in its normal form.

        Raises:
            ValueError: It makes no sense.
        """
        if isinstance(value, tuple):
            return tuple(map(self._checked_text, value))
        if isinstance(value, str):
            return self._checked_text(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            if self.positive and not 0 < value < float("inf"):
                raise ValueError(f"{value} is not a positive number")
            if not value >= 0:
                raise ValueError(f"{value} is less than 0")
        return value

    def _checked_text(self, text: str) -> str:
        if self.choices and text not in self.choices:
            raise ValueError(f"{text!r} is none of {', '.join(self.choices)}")
        return text if self.check is None else self.check(text)


def setting(
    default: T,
    help: str,  # noqa: A002
    *,
    only: Door | None = None,
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
    positive: bool = False,
    check: Callable[[str], str] | None = None,
) -> T:
    """Declare a setting as a field of `Settings`.

    Args:
        help: What the documentation and `--help` say about it.
        only: The front door that it applies to; None for the extension and the command.
        metavar: What stands for the value in the help of the command.
        choices: The texts that are allowed.
        positive: Whether a number must be more than 0; numbers below 0 are always refused.
        check: Gives the normal form of a text, or of each text of a list; or raises ValueError.
    """
    doors: tuple[Door, ...] = ("extension", "command") if only is None else (only,)
    declaration = {
        "help": help,
        "doors": doors,
        "metavar": metavar,
        "choices": choices,
        "positive": positive,
        "check": check,
    }
    return field(default=default, metadata=declaration)


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "1", "false", "0"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() in ("true", "1")


def _number(text: str, kind: type[int] | type[float]) -> int | float:
    plain = text.replace(",", "").strip()
    try:
        number = float(plain)
        if kind is float:
            return number
        return int(number) if "e" in plain.lower() and number.is_integer() else int(plain)
    except (ValueError, OverflowError):
        wanted = "a whole number" if kind is int else "a number"
        raise ValueError(f"{text!r} is not {wanted}") from None
