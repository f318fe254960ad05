"""What agents can call. A toolset is registered here, and nowhere else."""

from __future__ import annotations

from ..documents.foreign_text import did_you_mean
from ..errors import InvalidArgument
from .registration import Registration

#: All toolsets, in the order in which clients list their tools.
TOOLSETS: tuple[Registration[object], ...] = (
    Registration("notebook", f"{__name__}.notebook:NotebookTools"),
    Registration("notebook", f"{__name__}.undoing:UndoTools"),
    Registration("document", f"{__name__}.documents:DocumentTools"),
    Registration("document", f"{__name__}.forks:ForkTools"),
    Registration("document", f"{__name__}.history:HistoryTools"),
    Registration("files", f"{__name__}.files:FileTools"),
    Registration("files", f"{__name__}.exporting:ExportTools"),
    Registration("kernel", f"{__name__}.kernel:KernelTools"),
    Registration("awareness", f"{__name__}.awareness:AwarenessTools"),
    Registration("server", f"{__name__}.servers:ServerTools", standalone=True),
    Registration("rtc", f"{__name__}.rtc:RtcTools", dialect=True),
    Registration("connect", f"{__name__}.connect:ConnectTools", dialect=True),
    Registration("connect", f"{__name__}.connect_cells:ConnectCellTools", dialect=True),
)

#: All toolsets but the dialects.
DEFAULT = "default"

#: What configuration and connections choose from. `core` cuts across all toolsets, and a large
#: toolset consists of several classes.
_CHOICES = (DEFAULT, "all", "core", *dict.fromkeys(toolset.name for toolset in TOOLSETS))


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
