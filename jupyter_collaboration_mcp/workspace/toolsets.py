"""The names of toolsets, as configuration and connections give them."""

from __future__ import annotations

from ..documents.foreign_text import did_you_mean
from ..errors import InvalidArgument

#: All toolsets, in the order in which their tools are listed. `core` cuts across them.
TOOLSETS = ("notebook", "document", "files", "kernel", "server")

_CHOICES = ("all", "core", *TOOLSETS)


def toolset_names(wanted: str) -> frozenset[str]:
    """The names in a comma-separated choice of toolsets.

    Raises:
        InvalidArgument: There is no such toolset, or none is named.
    """
    names = frozenset(name.strip() for name in wanted.split(",") if name.strip())
    choices = f"Choose from {', '.join(_CHOICES)}."
    if not names:
        raise InvalidArgument("No toolset is named.", choices)
    if unknown := sorted(names.difference(_CHOICES)):
        shown = ", ".join(name[:40] for name in unknown[:4])
        guess = did_you_mean(unknown[0], _CHOICES)
        raise InvalidArgument(f"There is no toolset {shown}.", f"{guess}{choices}")
    return names
