"""An AI agent as a real collaborator in live Jupyter notebooks, over MCP.

Jupyter imports this module at every start: it must stay light.
"""

from typing import Any

__version__ = "0.1.0"


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from .app import JupyterCollaborationMCP

    return [{"module": "jupyter_collaboration_mcp", "app": JupyterCollaborationMCP}]
