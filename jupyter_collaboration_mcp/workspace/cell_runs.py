"""Running the cells of a call: those that it names, and those that it has just edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..backends.protocols.kernels import KernelInfo
from ..errors import CellError, CollaborationError
from ..execution.run import Run
from . import cell_selection, editing
from .cell_selection import CellRef, Targets
from .guards import RunRequest, guard_cells
from .permissions import Level
from .permits import Call
from .sites import SiteDocument


async def run_request(call: Call, wanted: bool, here: SiteDocument) -> RunRequest:
    """Whether an edit is to run the code cells that it touches, and what forbids it."""
    if not wanted:
        return RunRequest(False)
    refusal: CollaborationError | None = None
    try:
        await call.permit(here.site, Level.execute, here.path)
        await here.site.runs.available(here)
    except CollaborationError as error:
        refusal = error
    await here.peer.catch_up()
    return RunRequest(True, refusal)


async def run_edited(
    here: SiteDocument, cells: Sequence[Mapping[str, Any]]
) -> tuple[list[Run], CollaborationError | None]:
    """Run the code cells among those that a call has edited, by index, id and revision.

    Returns the reason instead if they cannot run: the edit was made, and its caller has to know.
    """
    notebook = here.peer.notebook
    code = [cell["id"] for cell in cells if notebook.cell_type(cell["index"]) == "code"]
    if not code:
        return [], None
    try:
        expected = {cell["id"]: cell["revision"] for cell in cells}
        return await here.site.runs.run_cells(here, code, True, expected), None
    except CollaborationError as error:
        return [], error


async def run_targets(here: SiteDocument, targets: Targets, stop_on_error: bool) -> list[Run]:
    """Run the cells that a call names, if they are what its caller has read.

    Raises:
        CellError: They are not, or one of them is no code cell.
    """
    notebook = here.peer.notebook
    here.site.runs.check(here, targets.indexes)
    guard_cells(here, targets)
    ids = [notebook.id_at(index) for index in targets.indexes]
    expected = targets.expected_revisions(notebook)
    return await here.site.runs.run_cells(here, ids, stop_on_error, expected)


async def clear_outputs(here: SiteDocument, cells: Sequence[CellRef] | None) -> list[str]:
    """Clear outputs; returns the cells that had any, once that is durable."""
    cleared = await here.perform(editing.clear_outputs(here, cells, here.site.workspace.limits))
    await here.peer.wait_acknowledged()
    return cleared


@dataclass(slots=True)
class Restart:
    """What a restart of a kernel did."""

    info: KernelInfo | None
    """The kernel; None if there was none to restart."""
    cleared: list[str] | None = None
    """The cells whose outputs were cleared, if that was requested."""
    runs: list[Run] | None = None
    """The runs of all code cells, if that was requested."""
    refusal: CollaborationError | None = None
    """Why the outputs could not be cleared after all; then nothing was run."""


async def restart_kernel(
    call: Call, here: SiteDocument, clear: bool, run: bool, needed: bool = True
) -> Restart:
    """Restart the notebook's kernel, then clear the outputs or run all code cells if requested.

    Args:
        needed: Whether it is an error if no kernel is running, or if there is no code to run.
    """
    if clear:
        await call.permit(here.site, Level.write, here.path)
        editing.check_clear(here, here.site.workspace.limits)  # before anything is lost
    there = needed or (await here.site.runs.state(here)).info is not None
    done = Restart(await here.site.runs.restart(here) if there else None)
    await here.peer.catch_up()
    if clear:
        try:
            done.cleared = await clear_outputs(here, None)
        except CellError as refusal:  # meanwhile: whoever reads it has to know of the restart
            done.refusal = refusal
            return done
    if run:
        await call.permit(here.site, Level.write, here.path)
        code = cell_selection.code_cells(here.peer.notebook, wanted=needed)
        done.runs = await here.site.runs.run_cells(here, code, True) if code else []
    return done
