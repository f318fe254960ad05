"""Outputs in full: what an answer, or the notebook itself, left out."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace

from ..documents.addresses import CellOutput, ExecutionOutput, RunOutput
from ..errors import RunNotFound
from ..remedies import Intent
from ..workspace.permits import Call
from ..workspace.whole_outputs import Part, WholeOutputs
from .kinds import Content
from .of_documents import OfDocuments

Address = CellOutput | ExecutionOutput | RunOutput


class _Outputs(OfDocuments):
    """Reads outputs for those who may read their notebook.

    Any session will do: an address in a saved notebook outlives its server.
    """

    async def _of_run(
        self, call: Call, notebook: str, run_id: str, address: Address
    ) -> list[Content]:
        found = await self._documents.find(call, notebook)
        outputs, file_id = WholeOutputs(found.site.runs, safe=True), found.id_of(notebook)
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
        here = await (await self._documents.find(call, address.notebook)).open("notebook")
        outputs = WholeOutputs(here.site.runs, safe=True)
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
