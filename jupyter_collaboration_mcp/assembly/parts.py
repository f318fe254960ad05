"""What both front doors put together alike for one Jupyter server, so that every limit holds at
both."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from ..backends.disk.ephemeral_records import EphemeralRecords
from ..backends.disk.line_file import LineFile
from ..backends.protocols.kernels import Kernels
from ..backends.protocols.rooms import Backend
from ..backends.protocols.steps import OpenSteps
from ..collaboration.activity.log import ActivityLog
from ..documents.output_log import OutputLimits
from ..execution.executor import ExecutorSettings
from ..execution.side_files import SideFiles, SideLimits
from ..server.audit_log import AuditLog
from ..server.call_record import Observer
from ..settings.settings import Settings
from ..workspace.call_limits import Limits
from ..workspace.ephemeral import EphemeralSettings
from ..workspace.etiquette import BusyCells, Etiquette
from ..workspace.permissions import PathRules
from ..workspace.runs import Runs
from ..workspace.workspace import Workspace


def make_workspace(
    settings: Settings,
    backend: Backend,
    data: Path,
    log: logging.Logger,
    open_steps: OpenSteps,
    alias: str = "",
) -> Workspace:
    """The documents of a server, within the limits and path rules of the settings.

    Args:
        data: The directory for what is kept about this server.
        open_steps: Opens what agents can undo.
    """
    return Workspace(
        backend,
        PathRules(settings.allowed_paths, settings.denied_paths),
        Limits(
            settings.max_cells_per_call,
            settings.max_source_length,
            settings.max_open_documents,
            settings.max_notebook_cells,
        ),
        settings.idle_timeout,
        log,
        alias,
        Etiquette(settings.protect_cells, BusyCells(settings.busy_cells)),
        ActivityLog(data / "activity.db", settings.activity_limit),
        open_steps,
        EphemeralSettings(
            settings.ephemeral_dir,
            settings.ephemeral_timeout,
            EphemeralRecords(data / "ephemeral"),
        ),
    )


def make_runs(
    settings: Settings, workspace: Workspace, kernels: Kernels, outputs: Path, log: logging.Logger
) -> Runs:
    """The runs of a server.

    Args:
        outputs: The directory for output that does not stay in notebooks.
    """
    workspace.ephemeral.kernels = kernels
    return Runs(
        workspace,
        kernels,
        SideFiles(outputs, side_limits(settings)),
        OutputLimits(settings.max_stream_size, settings.max_display_size),
        ExecutorSettings(settings.input_timeout),
        log,
    )


class Observers:
    """What is made of the record of each call, beside the activity log; closed last of all."""

    def __init__(self, settings: Settings) -> None:
        self._file: LineFile | None = None
        self.all: list[Observer] = []
        if settings.audit_log:
            path = Path(settings.audit_log).expanduser().absolute()
            self._file = LineFile(path, settings.audit_log_size)
            self.all.append(AuditLog(self._file.append).record)

    async def close(self) -> None:
        """Write what is left."""
        if self._file is not None:
            await asyncio.to_thread(self._file.close)


def side_limits(settings: Settings) -> SideLimits:
    return SideLimits(settings.aside_limit, settings.aside_total, settings.aside_age)
