"""Outputs in full, page by page: from the run, from what was set aside, or from the cell."""

from __future__ import annotations

import asyncio
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..documents import outputs as texts
from ..documents import tables
from ..documents.addresses import CellOutput
from ..documents.handles import brief_id
from ..documents.safe_markup import safe_data
from ..errors import OutputGone, RunNotFound
from ..execution.run import Run
from ..execution.side_files import Page, page_of
from ..remedies import Intent
from .open_document import OpenDocument
from .runs import Runs

#: Bytes of one page: about 10,000 tokens, twice in an answer with structured content.
PAGE = 30_000

#: Characters of base64 of one image, sound or document, which cannot be paged.
_WHOLE = 8_000_000

#: Characters of the longest escape sequence that is left for the next page.
_ESCAPE = 100

#: Characters at the end of an output in which to look for a notice.
_NOTICE = 2_000


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
    """Finds outputs wherever they are kept.

    Args:
        safe: Whether a client may render them: nothing in them runs, and texts have no colours.
    """

    def __init__(self, runs: Runs, safe: bool = False) -> None:
        self._runs = runs
        self._safe = safe

    async def of_run(self, run: Run, index: int, offset: int = 0) -> list[Part]:
        """An output of a run that is still remembered.

        Raises:
            OutputGone: It has no such output, or no longer.
        """
        if run.log.is_aside(index):
            aside = await self._aside(notebook_of(run), run.id, index, offset)
            if aside is not None:
                return aside
            if run.over:  # otherwise it is about to arrive
                raise self._runs.side_files.gone(run.id, index)
        return await self._parts(_pick(run.log.outputs(), index, run.id), offset)

    async def of_run_id(
        self, notebook: str, run_id: str, index: int, offset: int = 0
    ) -> list[Part]:
        """An output of a run of a notebook, whether the run is remembered or not.

        Raises:
            OutputGone: There is no such output of this notebook, or no longer.
        """
        try:
            run = self._runs.remembered.find(run_id)
        except RunNotFound:
            run = None
        if run is not None and notebook_of(run) == notebook:
            return await self.of_run(run, index, offset)
        aside = await self._aside(notebook, run_id, index, offset)
        if aside is None:
            raise self._runs.side_files.gone(run_id, index)
        return aside

    async def of_cell(
        self, here: OpenDocument, cell_id: str, index: int, offset: int = 0
    ) -> list[Part]:
        """An output as the cell has it now, in full even if the cell has only a part of it.

        Raises:
            CellError: There is no such cell.
            OutputGone: There is no such output, or no longer.
        """
        position = here.peer.notebook.find(cell_id)
        output = _pick(
            here.peer.notebook.view(position).outputs, index, f"cell {brief_id(cell_id)}"
        )
        whole = CellOutput.in_notice(_ending(output))
        if whole is None or whole.run is None:
            return await self._parts(output, offset)
        # Of this notebook, whatever the notice says: access to another one was not checked.
        notebook = here.peer.link.room_id.file_id
        return await self.of_run_id(notebook, whole.run, whole.index, offset)

    async def _aside(
        self, notebook: str, run_id: str, index: int, offset: int
    ) -> list[Part] | None:
        files = self._runs.side_files
        match await files.kind(notebook, run_id, index):
            case "text":
                page = await files.page(notebook, run_id, index, offset, PAGE)
                return [_plain(page) if self._safe else _part(page)]
            case "json":
                output = await files.output(notebook, run_id, index)
                return await self._parts(output, offset, large=True)
            case _:
                return None

    async def _parts(
        self, output: Mapping[str, Any], offset: int, large: bool = False
    ) -> list[Part]:
        make = partial(_parts, output, offset, self._safe)
        return await asyncio.to_thread(make) if large or self._safe else make()


def notebook_of(run: Run) -> str:
    """The file id of the notebook that a run belongs to."""
    return run.room_id.file_id


def _pick(outputs: Sequence[Mapping[str, Any]], index: int, whose: str) -> Mapping[str, Any]:
    if not 0 <= index < len(outputs):
        raise OutputGone(
            f"There is no output {index} of {whose}; it has {len(outputs)}.",
            Intent.READ_OUTPUTS,
        )
    return outputs[index]


def _ending(output: Mapping[str, Any]) -> str:
    """The end of an output, where a notice would say that most of it was set aside."""
    data = output.get("data")
    if isinstance(data, Mapping):
        text = data.get("text/plain")
    else:
        text = output.get("text", output.get("traceback"))
    return texts.joined(text)[-_NOTICE:]


def _parts(output: Mapping[str, Any], offset: int, safe: bool) -> list[Part]:
    if output.get("output_type") in ("stream", "error"):
        return [_page("text/plain", texts.readable(output), offset)]
    data = tables.in_full(texts.data_of(output))
    return list(_bundle(safe_data(data) if safe else data, offset))


def _part(page: Page) -> Part:
    return Part("text/plain", page.text, None, page.start, page.end, page.size)


def _plain(page: Page) -> Part:
    """A page of printed text without colours; of one that ends in the middle of an escape sequence,
    what is before that."""
    text, end = page.text, page.end
    cut = text.rfind("\x1b", len(text) - _ESCAPE)
    if end < page.size and cut > 0:
        end -= len(text[cut:].encode())
        text = text[:cut]
    ends = "\n" * (len(text) - len(text.rstrip("\n")))
    return Part("text/plain", texts.as_on_screen(text) + ends, None, page.start, end, page.size)


def _bundle(data: Mapping[str, Any], offset: int) -> Iterator[Part]:
    length = PAGE // max(1, sum(not _is_binary(mime) for mime in data))
    for mime, value in data.items():
        if _is_binary(mime):
            if offset:
                continue
            content = texts.joined(value).replace("\n", "")
            if not _is_base64(content):
                yield Part("text/plain", f"[{texts.line_safe(mime)} that cannot be read]")
            elif len(content) <= _WHOLE:
                yield Part(mime, base64=content)
            else:
                size = texts.size(mime, content)
                yield Part("text/plain", f"[{texts.line_safe(mime)} of {size}: too large]")
        else:
            text = (
                texts.joined(value)
                if isinstance(value, str | list | tuple)
                else json.dumps(value, ensure_ascii=False)
            )
            if offset == 0 or offset < len(text.encode(errors="replace")):
                yield _page(mime, text, offset, length)


def _is_binary(mime: str) -> bool:
    media = mime.startswith(("image/", "audio/", "video/")) and not mime.endswith("+xml")
    return media or mime == "application/pdf"


def _is_base64(content: str) -> bool:
    try:
        binascii.a2b_base64(content.encode(), strict_mode=True)
    except ValueError:
        return False
    return True


def _page(mime: str, text: str, offset: int, length: int = PAGE) -> Part:
    content = text.encode(errors="replace")
    offset = min(offset, len(content))
    page = page_of(content[offset : offset + length + 4], offset, length, len(content))
    return Part(mime, page.text, None, page.start, page.end, page.size)
