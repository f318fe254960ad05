"""What an agent is told about a notebook's kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..backends.protocols.kernels import KernelInfo
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
