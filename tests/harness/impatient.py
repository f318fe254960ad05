"""The command with less patience, so that a test need not wait for half a minute to see it end.

python -m tests.harness.impatient --server=...
"""

from __future__ import annotations

import sys
from functools import partialmethod

from jupyter_collaboration_mcp import cli
from jupyter_collaboration_mcp.backends.remote import room_reconnector
from jupyter_collaboration_mcp.backends.remote.kernels import RemoteKernels

if __name__ == "__main__":
    hasty = partialmethod(RemoteKernels.__init__, grace=3.0)
    setattr(RemoteKernels, "__init__", hasty)  # noqa: B010
    room_reconnector._AWAY = 2.0
    sys.exit(cli.main())
