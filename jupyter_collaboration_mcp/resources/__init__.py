"""What can be read by its URI. A kind of resource is registered here, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tools.registration import Registration

if TYPE_CHECKING:
    from .kinds import ResourceKind

#: All kinds of resources, in the order in which clients list their templates.
RESOURCES: tuple[Registration[ResourceKind], ...] = (
    Registration("open notebooks", f"{__name__}.listing:NotebookLists"),
    Registration("current document", f"{__name__}.notebooks:CurrentDocuments"),
    Registration("notebook", f"{__name__}.notebooks:Notebooks"),
    Registration("notebook format", f"{__name__}.notebooks:NotebookFormats"),
    Registration("cell", f"{__name__}.cells:Cells"),
    Registration("cell output", f"{__name__}.outputs:CellOutputs"),
    Registration("run", f"{__name__}.executions:Executions"),
    Registration("run output", f"{__name__}.outputs:ExecutionOutputs"),
    Registration("output", f"{__name__}.outputs:RunOutputs"),
    Registration("template", f"{__name__}.templates:Templates"),
    Registration("source file", f"{__name__}.notebooks:SourceFiles"),
    Registration("cell file", f"{__name__}.cells:CellFiles"),
)
