"""Outputs in full, page by page: from the run, from what was put aside, or from the cell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..documents import outputs as texts
from ..errors import OutputGone, RunNotFound
from ..execution.run import Run
from ..execution.side_files import page_of
from .runs import Runs
from .workspace import OpenNotebook

#: Bytes of one page: about 20,000 tokens.
PAGE = 60_000

#: Characters of base64 of one picture, sound or document, which cannot be paged.
_WHOLE = 8_000_000

_NOTICE = re.compile(r"\[Only a part is kept here .*outputs/\d+\?run=(run-[0-9a-f]{12})\]\s*\Z")


@dataclass(frozen=True, slots=True)
class Part:
    """One representation of an output, or a page of it."""

    mime: str
    text: str | None = None
    base64: str | None = None
    start: int = 0
    end: int = 0
    size: int = 0

    @property
    def more(self) -> bool:
        """Whether there is another page."""
        return self.end < self.size


class WholeOutputs:
    """Finds outputs wherever they are."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    async def of_run(self, run: Run, index: int, offset: int = 0) -> list[Part]:
        """An output of a run that is remembered.

        Raises:
            OutputGone: It has no such output.
        """
        notebook = run.room_id.rpartition(":")[2]
        if (aside := await self._aside(notebook, run.id, index, offset)) is not None:
            return aside
        return _parts(_pick(run.log.outputs(), index, run.id), offset)

    async def of_cell(
        self, here: OpenNotebook, cell_id: str, index: int, run_id: str | None, offset: int = 0
    ) -> list[Part]:
        """An output of a cell: of a certain run, or as the cell has it now.

        Raises:
            CellError: There is no such cell.
            OutputGone: There is no such output, or not any more.
        """
        notebook = here.peer.link.room_id.rpartition(":")[2]
        position = here.peer.notebook.find(cell_id)
        if run_id is None:
            output = _pick(here.peer.notebook.view(position).outputs, index, f"cell {cell_id}")
            if (cut := _NOTICE.search(_ending(output))) is None:
                return _parts(output, offset)
            run_id = cut[1]
        if (aside := await self._aside(notebook, run_id, index, offset)) is not None:
            return aside
        try:
            run = self._runs.get(run_id)
        except RunNotFound as error:
            raise self._runs.side_files.gone(run_id, index) from error
        if run.room_id != here.peer.link.room_id:
            raise self._runs.side_files.gone(run_id, index)
        return _parts(_pick(run.log.outputs(), index, run_id), offset)

    async def _aside(
        self, notebook: str, run_id: str, index: int, offset: int
    ) -> list[Part] | None:
        files = self._runs.side_files
        kind = files.kind(notebook, run_id, index)
        if kind == "text":
            page = await files.page(notebook, run_id, index, offset, PAGE)
            return [Part("text/plain", page.text, None, page.start, page.end, page.size)]
        if kind == "json":
            page = await files.page(notebook, run_id, index, 0, files.limits.run)
            try:
                return _parts(json.loads(page.text), offset)
            except ValueError as error:  # it was larger than what is kept of a run
                raise files.gone(run_id, index) from error
        return None


def _pick(outputs: Sequence[Mapping[str, Any]], index: int, whose: str) -> Mapping[str, Any]:
    if not 0 <= index < len(outputs):
        raise OutputGone(
            f"There is no output {index} of {whose}; it has {len(outputs)}.",
            "Read the cell with get_notebook(include_outputs=true) to see what is there.",
        )
    return outputs[index]


def _ending(output: Mapping[str, Any]) -> str:
    """Where a notice would stand that most of an output was put aside."""
    data = output.get("data")
    text = data.get("text/plain") if isinstance(data, Mapping) else output.get("text")
    return texts.joined(text)[-1000:]


def _parts(output: Mapping[str, Any], offset: int) -> list[Part]:
    if output.get("output_type") in ("stream", "error"):
        return [_page("text/plain", texts.readable(output), offset)]
    data = output.get("data")
    return list(_bundle(data, offset)) if isinstance(data, Mapping) else []


def _bundle(data: Mapping[str, Any], offset: int) -> Iterator[Part]:
    for mime, value in data.items():
        if _is_binary(mime):
            content = texts.joined(value).replace("\n", "")
            if offset:
                continue
            if len(content) <= _WHOLE:
                yield Part(mime, base64=content)
            else:
                yield Part("text/plain", f"[{mime} of {len(content) * 3 // 4:,} bytes: too large]")
        else:
            text = (
                texts.joined(value)
                if isinstance(value, str | list | tuple)
                else json.dumps(value, ensure_ascii=False)
            )
            if offset == 0 or offset < len(text.encode(errors="replace")):
                yield _page(mime, text, offset)


def _is_binary(mime: str) -> bool:
    media = mime.startswith(("image/", "audio/", "video/")) and not mime.endswith("+xml")
    return media or mime == "application/pdf"


def _page(mime: str, text: str, offset: int) -> Part:
    content = text.encode(errors="replace")
    page = page_of(content[offset : offset + PAGE + 4], offset, PAGE, len(content))
    return Part(mime, page.text, None, page.start, page.end, page.size)
