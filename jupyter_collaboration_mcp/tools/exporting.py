"""A part of the `files` toolset: notebooks in other formats."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from pydantic import Field

from ..documents import render
from ..documents.foreign_text import listed
from ..documents.text import clip_bytes, size
from ..errors import InvalidArgument
from ..workspace import exporting
from ..workspace.exporting import Format
from ..workspace.permissions import Level
from ..workspace.permits import Call
from .places import SiteTools, refuse_proposing
from .registry import DEFAULT_LENGTH, Answer, tool


class ExportTools(SiteTools):
    """What an agent does to get a notebook out of Jupyter."""

    @tool("Export a notebook", Level.read, up_to=Level.write, only_adds=True)
    async def export_document(
        self,
        call: Call,
        path: str,
        format: Format = "srcmd",  # noqa: A002
        export_path: Annotated[str | None, Field(description="new file; else answered")] = None,
    ) -> Answer:
        """Export a notebook: srcmd (Markdown, for create_document), ipynb, script, html."""
        here = await self._open(call, Level.read, path)
        if export_path is None:
            return _shown(here.label, format, await exporting.export(here, format, page=False))
        refuse_proposing(call, "nothing was exported")
        site = here.site
        new = await self._beside(call, site, export_path)
        if new.path.endswith(".ipynb") != (format == "ipynb"):
            raise InvalidArgument(
                f"{new.path!r} is not the name of a file with {format}. Nothing was written.",
                "Choose an ending that fits.",
            )
        text = await exporting.export(here, format, page=True)
        filing = site.workspace.filing
        if format == "ipynb":
            notebook = await asyncio.to_thread(json.loads, text)
            created = await filing.create(new, "notebook", notebook, overwrite=False)
        else:
            created = await filing.create(new, "file", text, overwrite=False)
        folders = f", and created the folders {listed(created.folders)}" if created.folders else ""
        said = f"Exported {here.label} to {site.label_of(new.path)} ({format}){folders}."
        facts = {
            "path": site.name(new.path),
            "source_path": here.name,
            "format": format,
            "size": size(text),
            "folders": list(created.folders),
        }
        return Answer(said, facts)


def _shown(label: str, form: str, text: str) -> Answer:
    """The beginning and the end of an export, all of it if it fits."""
    whole = size(text) <= DEFAULT_LENGTH
    shown = clip_bytes(text, DEFAULT_LENGTH)
    head = f"{label} as {form}, {size(text):,} bytes"
    head += ":" if whole else ". This is a part; export_path writes all of it to a file:"
    facts = {"format": form, "content": shown, "size": size(text), "complete": whole}
    return Answer(f"{head}\n{render.fenced(shown)}", facts)
