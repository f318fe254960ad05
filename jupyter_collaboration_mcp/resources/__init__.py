"""What can be read by its URI. A kind of resource is registered here, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tools.registration import Registration

if TYPE_CHECKING:
    from .kinds import ResourceKind

#: All kinds of resources, in the order in which clients list their templates.
RESOURCES: tuple[Registration[ResourceKind], ...] = (
    Registration("cell output", f"{__name__}.outputs:CellOutputs"),
    Registration("run output", f"{__name__}.outputs:ExecutionOutputs"),
    Registration("output", f"{__name__}.outputs:RunOutputs"),
)
