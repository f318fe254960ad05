"""`notebook://{session}/{notebook}/cells/{cell}/outputs/{n}`: what an answer left out, in full."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, unquote, urlsplit

from ..errors import DocumentNotFound, InvalidArgument, RunNotFound
from ..tools.places import authorize, visit
from ..tools.registry import Call
from ..workspace.permissions import Level
from ..workspace.sites import Sites
from ..workspace.whole_outputs import Part, WholeOutputs

#: Address, name and description of each kind of resource.
TEMPLATES = (
    (
        "notebook://{session}/{notebook}/cells/{cell}/outputs/{n}{?run,offset}",
        "cell output",
        "An output of a cell in full, page by page (offset in bytes); run: that of one run.",
    ),
    (
        "notebook://{session}/{notebook}/executions/{run}/outputs/{n}{?offset}",
        "run output",
        "An output of a run that stored nothing in the notebook, in full, page by page.",
    ),
    (
        "notebook://runs/{run}/{n}{?offset}",
        "output",
        "An output of a run in full, page by page: what answers link to.",
    ),
)


_NUMBER = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class _Address:
    notebook: str
    """Empty where the run says it."""
    cell: str
    run: str | None
    index: int
    offset: int


class OutputResources:
    """Reads outputs by address, for those who may read their notebook.

    The session in an address is not looked at: a link in a saved notebook outlives its server.
    """

    def __init__(self, sites: Sites) -> None:
        self._sites = sites

    async def read(self, call: Call, uri: str) -> list[Part]:
        """What is at an address; the last text of it says where it goes on.

        Raises:
            CollaborationError: There is nothing, or the caller may not see it.
        """
        address = _parsed(uri)
        if not address.notebook and address.run is not None:
            address = replace(address, notebook=await self._notebook_of(address.run))
        found = await self._sites.document(address.notebook)
        if found is None:
            raise DocumentNotFound(
                f"There is no notebook {address.notebook!r}.", "Use a link from an answer."
            )
        site, path = found
        path = site.workspace.allowed_path(await site.workspace.find(address.notebook, path))
        site.require(Level.read)
        await authorize(call, Level.read, site, path)
        outputs = WholeOutputs(site.runs)
        if address.run is not None:
            return await outputs.of_run_id(
                address.notebook, address.run, address.index, address.offset
            )
        here = await visit(call, Level.read, site, path)
        return await outputs.of_cell(here, address.cell, address.index, address.offset)

    async def _notebook_of(self, run_id: str) -> str:
        notebook = await self._sites.notebook_of(run_id)
        if notebook is None:
            raise RunNotFound(
                f"There is no run {run_id[:100]!r}, or it was too long ago.",
                "Read the cell itself with get_notebook(include_outputs=true).",
                run_id=run_id,
            )
        return notebook


def next_page(uri: str, part: Part) -> str:
    """The address of the page after this one."""
    base, _, query = uri.partition("?")
    kept = [item for item in query.split("&") if item and not item.startswith("offset=")]
    return f"{base}?{'&'.join([*kept, f'offset={part.end}'])}"


def _parsed(uri: str) -> _Address:
    try:
        parts = urlsplit(uri)
        steps = [unquote(step) for step in parts.path.strip("/").split("/")]
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        offset = query.get("offset", "0")
        if parts.netloc == "runs" and len(steps) == 2:
            steps = ["", "executions", steps[0], "outputs", steps[1]]
        notebook, kind, name, what, index = steps
        if parts.scheme != "notebook" or what != "outputs":
            raise ValueError
        run = {"cells": query.get("run"), "executions": name}[kind]
        if not (_NUMBER.fullmatch(index) and _NUMBER.fullmatch(offset)):
            raise ValueError
        return _Address(notebook, name, run, int(index), int(offset))
    except (KeyError, ValueError) as error:
        templates = " or ".join(template for template, _, _ in TEMPLATES)
        raise InvalidArgument(
            f"{uri[:300]!r} is not the address of an output.", f"Addresses are {templates}."
        ) from error
