"""How a toolset, a kind of resource or a prompt is registered: one line in one tuple.

The tuples are `TOOLSETS` in `tools`, `RESOURCES` in `resources` and `PROMPTS` in `prompts`. They
name what they register and import nothing of it: configuration is checked before the MCP SDK is
loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from .parts import Parts

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Registration(Generic[T_co]):
    """Something that the server offers."""

    name: str
    factory: str | Callable[[Parts], T_co]
    """What makes it; as `module:name` it is imported when it is needed."""
    standalone: bool = False
    """Whether only the command offers it."""
    dialect: bool = False
    """Whether it offers what others do under other names, only to those who ask for it."""

    @property
    def module(self) -> str | None:
        """What has to be imported to make it."""
        return self.factory.partition(":")[0] if isinstance(self.factory, str) else None

    def make(self, parts: Parts) -> T_co:
        if not isinstance(self.factory, str):
            return self.factory(parts)
        module, _, name = self.factory.partition(":")
        factory: Callable[[Parts], T_co] = getattr(import_module(module), name)
        return factory(parts)


def modules(*registered: Iterable[Registration[object]]) -> list[str]:
    """What has to be imported to make all that is registered."""
    found = (each.module for some in registered for each in some)
    return list(dict.fromkeys(module for module in found if module is not None))


def make_all(registered: Iterable[Registration[T_co]], parts: Parts) -> list[tuple[str, T_co]]:
    """Everything that is offered, with its name, in the order of its registration."""
    return [
        (each.name, each.make(parts))
        for each in registered
        if parts.is_standalone or not each.standalone
    ]
