"""What an agent is told about a notebook's kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..backends.protocols.kernels import KernelInfo, KernelSpec
from ..documents.foreign_text import listed
from ..errors import KernelUnavailable
from ..execution.run import Run


@dataclass(frozen=True, slots=True)
class KernelState:
    """A notebook's kernel as an agent should see it."""

    info: KernelInfo | None
    busy: bool
    by_others: bool
    """Whether it works on something that no agent started."""
    current: Run | None
    waiting: Sequence[Run]


class Specs(Protocol):
    """What knows the kernels that a server can start."""

    async def specs(self) -> tuple[Sequence[KernelSpec], str]:
        """The kernels, and the name of the default."""


async def choose_spec(kernels: Specs, name: str | None, language: str | None) -> dict[str, str]:
    """The kernel with a name; otherwise the default, or another one that knows a language.

    Raises:
        KernelUnavailable: There is none with that name.
    """
    specs, default = await kernels.specs()
    wanted = name or default
    if name is None and language is not None:
        able = [spec.name for spec in specs if spec.language.lower() == language.lower()]
        wanted = default if default in able else next(iter(able), default)
    for spec in specs:
        if spec.name == wanted:
            return {
                "name": spec.name,
                "display_name": spec.display_name,
                "language": spec.language,
            }
    if name is None:
        return {}  # a server without kernels can still have notebooks
    installed = listed(spec.name for spec in specs) or "none is installed"
    raise KernelUnavailable(
        f"There is no kernel {name!r}. Nothing was written.", f"Choose one of: {installed}."
    )
