"""The call log is tested over both ways to a server, as tools are."""

from __future__ import annotations

from tests.tools.conftest import ada, server

__all__ = ["ada", "server"]
