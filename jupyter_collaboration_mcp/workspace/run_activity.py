"""What the activity log has of runs."""

from __future__ import annotations

from ..collaboration.activity.activity import Activity
from ..collaboration.activity.guard import harmless
from ..collaboration.activity.log import ActivityLog
from ..execution.run import Run
from .open_document import OpenDocument


@harmless
def record_run(log: ActivityLog, here: OpenDocument, run: Run) -> None:
    """Record a run that is over: who ran which cell, how it ended, and how long it took."""
    name, what = here.seat.name, "code" if run.cell_id is None else "1 cell"
    log.record(
        Activity.of(
            "run",
            here.seat.member,
            f"{name} ran {what}: {run.state} after {run.seconds:.1f} s",
            path=here.peer.link.path,
            file_id=run.room_id.file_id,
            cells=[] if run.cell_id is None else [run.cell_id],
            run=run.id,
            outcome=str(run.state),
            seconds=round(run.seconds, 3),
        )
    )
