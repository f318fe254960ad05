"""An AI agent as a real collaborator in live Jupyter notebooks, over MCP.

Jupyter imports this module at every start: it must stay light.
"""

from typing import Any

__version__ = "0.1.0"


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from .requirements import unmet_requirements

    if unmet_requirements() is not None:
        # A point that can be linked and not loaded: after an exception here the log has a
        # traceback, and after an empty list "successfully loaded".
        return [{"module": __name__}]
    from .app import JupyterCollaborationMCP

    return [{"module": __name__, "app": JupyterCollaborationMCP}]


def _link_jupyter_server_extension(serverapp: Any) -> None:
    """Report what keeps us out; Jupyter calls this only where there is no app."""
    from .requirements import unmet_requirements

    _stay_out(serverapp, unmet_requirements())


def _stay_out(serverapp: Any, why: object) -> None:
    """Have Jupyter go on without this extension, and give the reason in one line of its log."""
    serverapp.log.error("%s | extension is not loaded: %s", __name__, why)
    for package in serverapp.extension_manager.extensions.values():
        if __name__ in package.extension_points:
            package.enabled = False
