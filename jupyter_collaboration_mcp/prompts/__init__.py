"""Prompts that a person picks in their client. A prompt is registered here, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tools.registration import Registration

if TYPE_CHECKING:
    from mcp.server.mcpserver.prompts import Prompt

#: All prompts, in the order in which clients list them.
PROMPTS: tuple[Registration[Prompt], ...] = ()
