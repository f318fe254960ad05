"""The `kernel` toolset: the people's kernel, what runs in it, and what it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from ..backends.protocols.kernels import KernelInfo, KernelSpec
from ..documents import render
from ..documents.awareness import people_in
from ..documents.foreign_text import ID, inline, listed
from ..errors import InvalidArgument, RunNotFound
from ..execution.run import Run
from ..workspace import cell_runs
from ..workspace.cell_runs import restart_kernel
from ..workspace.kernel_state import KernelState
from ..workspace.open_document import OpenDocument
from ..workspace.permissions import Level
from ..workspace.permits import Call
from ..workspace.remembered_runs import KEPT
from ..workspace.sites import Site
from ..workspace.survey import survey
from ..workspace.whole_outputs import Part, WholeOutputs
from .answers import CellIds, Timeout, about, answer, document_of, how_many, on_disk
from .parts import Parts
from .places import SiteTools, refuse_proposing
from .registry import Answer, tool
from .running import RunAnswers

RunId = Annotated[str, Field(description="from an earlier answer")]

#: Characters of the preview of a named variable, of one in a list, and of all previews together.
_PREVIEW = 300
_SHORT_PREVIEW = 100
_PREVIEWS = 24_000


class KernelTools(SiteTools):
    """What an agent does with kernels."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._runs = RunAnswers(parts)

    @tool("Notebook status", Level.read, core=True)
    async def get_notebook_status(self, call: Call, path: str) -> Answer:
        """Check a notebook and its kernel: cells, kernel name, id and state, what it runs and for
        whom, last change, who is here."""
        here = await self._open(call, Level.read, path)
        state = await here.site.runs.state(here)
        modified = await here.site.workspace.last_modified(here.path)
        return _status(here, state, modified)

    @tool("Restart the kernel", Level.execute)
    async def restart_notebook_kernel(
        self,
        call: Call,
        path: str,
        clear_outputs: Annotated[bool, Field(description="never touches source")] = False,
        exec: Annotated[bool, Field(description="run all code cells afterwards")] = False,  # noqa: A002
        timeout: Timeout = 30,
    ) -> Answer:
        """Restart the notebook's kernel. All variables are lost, for everyone."""
        here = await self._open(call, Level.execute, path, edits=False)
        done = await restart_kernel(call, here, clear_outputs, exec)
        facts: dict[str, Any] = about(here)
        lines = []
        if (info := done.info) is not None:
            lines.append(f"Restarted {_kernel(info)}; all variables are gone.")
            facts["kernel"] = {"id": info.id, "name": info.name}
        if done.cleared is not None:
            lines.append(f"Cleared the outputs of {how_many(len(done.cleared))}.")
            facts["cleared"] = done.cleared
        if done.runs is None:
            return answer(here, lines, facts, error=done.refusal)
        return await self._runs.answer(call, here, done.runs, timeout, lines, facts)

    @tool("Interrupt the kernel", Level.execute, core=True, runs=False)
    async def interrupt_notebook_kernel(
        self,
        call: Call,
        path: str,
        force: Annotated[bool, Field(description="also what a person started")] = False,
    ) -> Answer:
        """Interrupt the notebook's kernel (KeyboardInterrupt); variables stay."""
        here = await self._open(call, Level.execute, path, edits=False)
        interrupted, run = await here.site.runs.interrupt(here, force)
        await here.peer.catch_up()
        facts = {**about(here), "interrupted": interrupted}
        if not interrupted:
            return answer(here, ["The kernel is idle; nothing was interrupted."], facts)
        if run is None:
            return answer(here, ["Interrupted what a person had started."], facts)
        await run.wait_finished(2)
        report = await self._runs.report([run], here)
        facts["runs"] = report.facts
        return answer(here, ["Interrupted.", *report.lines], facts, pictures=report.pictures)

    @tool("List kernels", Level.read)
    async def list_kernels(self, call: Call) -> Answer:
        """List installed kernels (kernelspecs) and running ones, with their notebooks."""
        await call.authorize(Level.read)
        _ = self._sites.default  # no server is an error, not an empty list
        found = await survey(self._sites, partial(_kernels, call))
        specs = [(site, spec) for site, there in found.answers for spec in there.specs]
        running = [(site, kernel) for site, there in found.answers for kernel in there.running]
        defaults = {site.alias: there.default for site, there in found.answers}
        lines = ["Kernels to choose from:"]
        for site, spec in specs:
            default = " (default)" if spec.name == defaults[site.alias] else ""
            language = f", {inline(spec.language, ID)}" if spec.language else ""
            name = f"{site.label_of(spec.name)}: {inline(spec.display_name)}"
            lines.append(f"{name}{language}{default}")
        lines.append("Running:" if running else "None is running.")
        for site, kernel in running:
            document = "no document" if kernel.path is None else site.label_of(kernel.path)
            lines.append(f"{inline(kernel.name)} {kernel.id} {kernel.state}, {document}")
        facts = {**_kernel_facts(specs, running, defaults), **found.facts}
        return Answer("\n".join([*lines, *found.lines]), facts)

    @tool("Change the kernel", Level.execute, runs=False)
    async def change_notebook_kernel(
        self,
        call: Call,
        path: str,
        kernel_name: Annotated[str, Field(description="as list_kernels shows it")],
    ) -> Answer:
        """Switch a notebook to another kernel. The old one ends; all its variables are lost."""
        here = await self._open(call, Level.execute, path)
        await call.permit(here.site, Level.write, here.path)
        info, before = await here.site.runs.change(here, kernel_name)
        facts = {**about(here), "kernel": {"id": info.id, "name": info.name}}
        lost = "" if before is None else f" {_kernel(before)} has ended; all variables are gone."
        return answer(here, [f"{here.label} now has the kernel {_kernel(info)}.{lost}"], facts)

    @tool("Clear outputs", Level.write, idempotent=True)
    async def clear_notebook_outputs(
        self, call: Call, path: str, cell_ids: CellIds = None
    ) -> Answer:
        """Clear outputs and execution counts of all code cells, or of those named. Source stays."""
        here = await self._open(call, Level.write, path)
        cleared = await cell_runs.clear_outputs(here, cell_ids)
        facts = {**about(here), "cleared": cleared}
        text = f"Cleared the outputs of {how_many(len(cleared))}. {on_disk(here, facts)}"
        return answer(here, [text], facts)

    @tool("Run code", Level.execute, core=True)
    async def run_code(self, call: Call, path: str, code: str, timeout: Timeout = 30) -> Answer:
        """Run code in the notebook's kernel without storing anything in the notebook: to
        inspect, try or install. Returns its output."""
        if not code.strip():
            raise InvalidArgument("code is empty; nothing was run.", "Give the code to run.")
        here = await self._open(call, Level.execute, path)
        run = await here.site.runs.run_code(here, code)
        return await self._runs.answer(call, here, [run], timeout)

    @tool("Get a run", Level.read, core=True)
    async def get_run(
        self,
        call: Call,
        run_id: RunId,
        wait: Annotated[float, Field(ge=0, description="seconds to wait for it")] = 30,
        output: Annotated[
            int | None, Field(ge=0, description="number of an output to read in full")
        ] = None,
        offset: Annotated[int, Field(ge=0, description="byte to start at")] = 0,
    ) -> Answer:
        """Get a run's state and a summary of its output; waits for it to finish. With output: that
        output in full, page by page."""
        site, run = await self._run(call, Level.read, run_id)
        await self._runs.wait(call, [run], wait)
        if output is None:
            return await self._runs.answer_one(run)
        return _whole(run, output, await WholeOutputs(site.runs).of_run(run, output, offset))

    @tool("Answer a run's question", Level.execute, runs=False)
    async def reply_to_input(
        self, call: Call, run_id: RunId, text: str, timeout: Timeout = 30
    ) -> Answer:
        """Answer code that called input(), and wait for what it does next."""
        site, run = await self._run(call, Level.execute, run_id)
        if not run.room_id.is_fork:  # it runs in the people's kernel
            refuse_proposing(call, "nothing was answered")
        notes = await site.runs.reply_to_input(run, text, call.agent.key)
        await self._runs.wait(call, [run], timeout)
        return await self._runs.answer_one(run, notes)

    @tool("Inspect variables", Level.execute, core=True, reads=True)
    async def inspect_variables(
        self,
        call: Call,
        path: str,
        names: Annotated[list[str] | None, Field(description="default: all")] = None,
        max_results: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> Answer:
        """List the variables in a Python kernel: names, types, shapes, previews. Leaves no trace,
        runs no user code. Refused while the kernel is busy."""
        here = await self._open(call, Level.execute, path, edits=False)
        preview = min(_PREVIEW if names else _SHORT_PREVIEW, _PREVIEWS // max_results)
        found = await here.site.runs.inspect(here, names, max_results, preview)
        return _inspected(here, found)

    async def _run(self, call: Call, level: Level, run_id: str) -> tuple[Site, Run]:
        site, run = self._sites.run(run_id)
        # Where the notebook is by now: it may have been moved to where agents may not go.
        path = await site.workspace.find(run.room_id.file_id, run.path)
        if not call.knows(site.workspace, path):
            raise RunNotFound.among_last(KEPT, run_id)
        call.require_shown(site.workspace, path)
        await call.permit(site, level, path)
        return site, run


class _Kernels(NamedTuple):
    """The kernels of one server."""

    specs: Sequence[KernelSpec]
    default: str
    running: list[KernelInfo]


async def _kernels(call: Call, site: Site) -> _Kernels:
    specs, default = await site.runs.specs()
    running = [
        kernel
        for kernel in await site.runs.running()
        if kernel.path is None or await call.may_see(site.workspace, kernel.path)
    ]
    return _Kernels(specs, default, running)


def _kernel_facts(
    specs: Sequence[tuple[Site, KernelSpec]],
    running: Sequence[tuple[Site, KernelInfo]],
    defaults: Mapping[str, str],
) -> dict[str, Any]:
    def server(site: Site) -> dict[str, str]:
        return {"server": site.alias} if site.alias else {}

    return {
        "specs": [
            {
                "name": spec.name,
                "display_name": spec.display_name,
                "language": spec.language,
                **server(site),
            }
            for site, spec in specs
        ],
        "default": next(iter(defaults.values()), None),
        "running": [
            {
                "id": kernel.id,
                "name": kernel.name,
                "state": kernel.state,
                "path": None if kernel.path is None else site.name(kernel.path),
                "last_activity": kernel.last_activity,
            }
            for site, kernel in running
        ],
    }


def _kernel(info: KernelInfo) -> str:
    return f"{inline(info.name)} ({info.id})"


def _whole(run: Run, index: int, parts: Sequence[Part]) -> Answer:
    lines: list[str] = []
    facts: dict[str, Any] = {
        "path": document_of(run),
        "run_id": run.id,
        "output": index,
        "parts": [],
    }
    for part in parts:
        if part.text is None:
            lines.append(f"{part.mime}: read it at {run.short_uri(index)}")
            continue
        more = f"; continue with offset={part.end}" if part.more else ""
        lines.append(f"{part.mime}, bytes {part.start:,} to {part.end:,} of {part.size:,}{more}")
        lines.append(render.fenced(part.text))
        facts["parts"].append(
            {"mime": part.mime, "text": part.text, "offset": part.end, "size": part.size}
        )
    return Answer("\n".join(lines), facts)


def _status(here: OpenDocument, state: KernelState, modified: str | None) -> Answer:
    notebook, link = here.peer.notebook, here.peer.link
    people = people_in(link.states)
    running = [notebook.id_at(index) for index in notebook.running()]
    info = state.info
    lines = [f"{here.label}: {how_many(len(notebook))}, version {here.peer.version}"]
    kernel: dict[str, Any] | None = None
    if info is None:
        wanted = notebook.kernelspec.get("name")
        lines.append(f"No kernel is running (the notebook is for {inline(wanted or 'any')}).")
    else:
        shown = "busy" if state.busy else info.state
        kernel = {"name": info.name, "id": info.id, "state": shown}
        if info.last_activity:
            kernel["last_activity"] = info.last_activity
        lines.append(f"Kernel: {_kernel(info)}, {shown}{_doing(here, state)}.")
        if state.busy:
            kernel["busy_for"] = "somebody else" if state.current is None else state.current.agent
    if running:
        lines.append("Cells that run or wait: " + ", ".join(map(notebook.label, running[:20])))
    lines.append(f"Last modified: {modified}{'' if link.saved else ', with unsaved changes'}.")
    lines.append(f"Here now: {listed(people) or 'nobody'}.")
    facts = {
        **about(here),
        "cell_count": len(notebook),
        "kernel": kernel,
        "last_modified": modified,
        "running_cells": running,
        "runs": [
            {"run_id": run.id, "state": run.state.value, "agent": run.agent, "cell_id": run.cell_id}
            for run in (*([state.current] if state.current else []), *state.waiting)
        ],
        "people": people,
    }
    return answer(here, lines, facts)


def _doing(here: OpenDocument, state: KernelState) -> str:
    if state.by_others:
        waiting = f"; {len(state.waiting) + (state.current is not None)} of agents wait"
        return f" with something that no agent started{waiting if state.current else ''}"
    if state.current is None:
        return ""
    run = state.current
    what = "scratch code" if run.cell_id is None else here.peer.notebook.label(run.cell_id)
    more = f", {len(state.waiting)} more wait" if state.waiting else ""
    return f" with {run.id} of {inline(run.agent)} ({what}, {run.seconds:.0f} s{more})"


def _inspected(here: OpenDocument, found: Any) -> Answer:
    lines, facts = [], []
    for variable in found.variables:
        shape = f" {variable.shape}" if variable.shape else ""
        size = f" {variable.size}" if variable.size else ""
        lines.append(f"{variable.name}: {variable.type}{shape}{size}")
        if variable.preview:
            lines.append("  " + variable.preview.replace("\n", "\n  "))
        facts.append(
            {
                key: value
                for key, value in (
                    ("name", variable.name),
                    ("type", variable.type),
                    ("shape", variable.shape),
                    ("size", variable.size),
                    ("preview", variable.preview),
                )
                if value
            }
        )
    text = []
    if found.more:
        count = len(found.variables)
        text.append(f"{count} shown, {found.more} more: name those you want, or raise max_results.")
    if lines:
        text.append(render.fenced("\n".join(lines)))
    elif not found.missing:
        text.append("The kernel has no variables.")
    if found.missing:
        text.append(f"Not defined: {listed(found.missing)}.")
    whole = {**about(here), "variables": facts, "missing": found.missing, "more": found.more}
    return answer(here, text, whole)
