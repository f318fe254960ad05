"""Prompts that a person picks in their client. A prompt is registered here, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tools.registration import Registration

if TYPE_CHECKING:
    from .kinds import Prompt

#: All prompts, in the order in which clients list them.
PROMPTS: tuple[Registration[Prompt], ...] = (
    Registration("review_notebook", f"{__name__}.notebooks:ReviewNotebook"),
    Registration("explain_cell", f"{__name__}.notebooks:ExplainCell"),
    Registration("fix_cell", f"{__name__}.notebooks:FixCell"),
    Registration("summarize_changes", f"{__name__}.changes:SummarizeChanges"),
    Registration("start_analysis", f"{__name__}.analysis:StartAnalysis"),
)
