"""Runs as resources: what was run, how it went, and what it put out."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..documents.addresses import Execution
from ..documents.outputs import data_of, joined, kinds, readable
from ..documents.text import clip
from ..errors import RunNotFound
from ..execution.run import Run
from ..remedies import Intent
from ..workspace.permits import Call
from ..workspace.whole_outputs import notebook_of
from .kinds import Content
from .of_documents import OfDocuments

#: Outputs that are described, characters of each, and pictures that come with them.
_OUTPUTS, _LENGTH, _PICTURES = 100, 2_000, 5

#: Characters of base64 of a picture.
_LARGEST = 4_000_000

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class Executions(OfDocuments):
    """`notebook://{session}/{notebook}/executions/{run}`."""

    template = Execution.TEMPLATE
    description = "A run: its code, state, times and outputs, with pictures beside them."
    mime = "application/json"

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        address = Execution.parse(uri)
        if address is None:
            return None
        found = await self._documents.find(call, address.notebook)
        run = found.site.runs.remembered.find(address.run)
        if notebook_of(run) != found.id_of(address.notebook):
            raise RunNotFound(
                f"The notebook has no run {address.run[:100]!r}.",
                Intent.READ_OUTPUTS,
                run_id=address.run,
            )
        outputs = run.log.outputs()
        facts = _facts(run)
        # A run may have put out megabytes.
        described, pictures = await asyncio.to_thread(
            lambda: ([*_described(run, outputs)], [*_pictures(run, outputs)])
        )
        facts["outputs"] = described
        if len(outputs) > _OUTPUTS:
            facts["moreOutputs"] = len(outputs) - _OUTPUTS
        return [Content(self.mime, json.dumps(facts, ensure_ascii=False, indent=1)), *pictures]


def _facts(run: Run) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "id": run.id,
        "notebookId": notebook_of(run),
        "sessionId": run.session,
        "cellId": run.cell_id,
        "agent": run.agent,
        "status": run.state.value,
        "source": run.code,
        "executionCount": run.count,
        "seconds": round(run.seconds, 3),
        "timings": dict(run.timings),
        "question": run.prompt,
        "reason": run.reason or (run.error.happened if run.error is not None else None),
        "missing": run.missing,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _described(run: Run, outputs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, output in enumerate(outputs[:_OUTPUTS]):
        yield {
            "uri": run.uri(number),
            "kind": " ".join(kinds([output])),
            "text": clip(readable(output), _LENGTH),
        }


def _pictures(run: Run, outputs: Sequence[Mapping[str, Any]]) -> Iterator[Content]:
    shown = 0
    for number, output in enumerate(outputs[:_OUTPUTS]):
        for mime, value in data_of(output).items():
            encoded = joined(value)
            if mime not in _IMAGES or len(encoded) > _LARGEST or shown == _PICTURES:
                continue
            try:
                picture = base64.b64decode(encoded)
            except ValueError:
                continue
            shown += 1
            yield Content(mime, picture, uri=run.uri(number))
