"""Outputs in full: what an answer, or the notebook itself, left out."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace

from ..documents.addresses import CellOutput, ExecutionOutput, RunOutput
from ..errors import DocumentNotFound, RunNotFound
from ..remedies import Intent
from ..tools.parts import Parts
from ..workspace.permissions import Level
from ..workspace.permits import Call, Permit
from ..workspace.sites import Site
from ..workspace.whole_outputs import Part, WholeOutputs
from .kinds import Content

Address = CellOutput | ExecutionOutput | RunOutput


class _Outputs:
    """Reads outputs for those who may read their notebook."""

    def __init__(self, parts: Parts) -> None:
        self._sites = parts.sites

    async def _notebook(self, call: Call, file_id: str) -> tuple[Site, Permit]:
        """Where a notebook is by now, if the caller may read it."""
        found = await self._sites.document(file_id)
        if found is None:
            raise DocumentNotFound(
                f"There is no notebook {file_id!r}.", "Use a link from an answer."
            )
        site, path = found
        path = await site.workspace.find(file_id, path)
        return site, await call.permit(site, Level.read, path)

    async def _of_run(
        self, call: Call, file_id: str, run_id: str, address: Address
    ) -> list[Content]:
        site, _ = await self._notebook(call, file_id)
        outputs = WholeOutputs(site.runs)
        parts = await outputs.of_run_id(file_id, run_id, address.index, address.offset)
        return _contents(parts, address)


class CellOutputs(_Outputs):
    """Outputs of cells."""

    template = CellOutput.TEMPLATE
    description = (
        "An output of a cell in full, page by page (offset in bytes); run: that of one run."
    )

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        address = CellOutput.parse(uri)
        if address is None:
            return None
        if address.run is not None:
            return await self._of_run(call, address.notebook, address.run, address)
        site, permit = await self._notebook(call, address.notebook)
        fork = await site.workspace.forking.find(address.notebook)
        here = await site.open(permit, fork=fork)
        outputs = WholeOutputs(site.runs)
        parts = await outputs.of_cell(here, address.cell, address.index, address.offset)
        return _contents(parts, address)


class ExecutionOutputs(_Outputs):
    """Outputs of code that was run without a cell."""

    template = ExecutionOutput.TEMPLATE
    description = "An output of a run that stored nothing in the notebook, in full, page by page."

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        address = ExecutionOutput.parse(uri)
        if address is None:
            return None
        return await self._of_run(call, address.notebook, address.run, address)


class RunOutputs(_Outputs):
    """Outputs of runs, by the short URIs that answers have."""

    template = RunOutput.TEMPLATE
    description = "An output of a run in full, page by page: what answers link to."

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        address = RunOutput.parse(uri)
        if address is None:
            return None
        notebook = await self._sites.notebook_of(address.run)
        if notebook is None:
            raise RunNotFound(
                f"There is no run {address.run[:100]!r}, or it was too long ago.",
                Intent.READ_OUTPUTS,
                run_id=address.run,
            )
        return await self._of_run(call, notebook, address.run, address)


def _contents(parts: Sequence[Part], address: Address) -> list[Content]:
    return [_content(part, address) for part in parts]


def _content(part: Part, address: Address) -> Content:
    if part.base64 is not None:
        return Content(part.mime, base64.b64decode(part.base64))
    text, meta = part.text or "", None
    if part.more or part.start:
        meta = {"offset": part.start, "end": part.end, "size": part.size}
    if part.more:
        # Models read the text, not the fields around it.
        where = f"{part.start:,} to {part.end:,} of {part.size:,} bytes"
        text += f"\n[{where}; next: {replace(address, offset=part.end).format()}]"
    return Content(part.mime, text, meta)
