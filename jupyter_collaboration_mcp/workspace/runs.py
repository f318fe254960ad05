"""What agents run, always in the notebook's own kernel, whose session is looked up each time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from logging import Logger

from ..backends.protocols.forks import kernel_path
from ..backends.protocols.kernels import Fate, KernelInfo, Kernels, KernelSpec
from ..collaboration.peer import RoomPeer
from ..documents.foreign_text import ID, inline, listed
from ..documents.notebook import Notebook
from ..documents.output_log import OutputLimits, OutputLog
from ..errors import CollaborationError, KernelBusy, KernelUnavailable, NotCode
from ..execution import introspection
from ..execution.executor import Executor, ExecutorSettings
from ..execution.failing_line import names_at_failure
from ..execution.input_requests import wants_no_input
from ..execution.run import Batch, Run, new_run_id
from ..execution.side_files import SideFiles
from ..remedies import Intent
from . import cell_selection, guards
from .cell_target import CellTarget
from .kernel_state import KernelState
from .kernels_of_documents import kernel_of, kernel_of_fork
from .open_document import OpenDocument
from .permissions import Level
from .remembered_runs import RememberedRuns
from .run_activity import record_run
from .workspace import Workspace

#: Time limit for inspecting variables, in seconds; after a failure, and characters of each then.
_INSPECTION_LIMIT = 10.0
_AT_FAILURE, _PREVIEW = 0.5, 60


class Runs:
    """All runs on this server, and the kernels they run in."""

    def __init__(
        self,
        workspace: Workspace,
        kernels: Kernels,
        side_files: SideFiles,
        limits: OutputLimits,
        settings: ExecutorSettings,
        log: Logger,
    ) -> None:
        self._workspace = workspace
        self._kernels = kernels
        self.side_files = side_files
        self._limits = limits
        self._settings = settings
        self._log = log
        self._executors: dict[str, Executor] = {}
        self.remembered = RememberedRuns()
        self._live: dict[tuple[str, str], Run] = {}
        self.on_run: Callable[[OpenDocument, Run], None] | None = None
        """Called with each run when it is asked for and when it is over; must not raise."""
        workspace.rooms.on_join = self.heal

    # -- running -----------------------------------------------------------------------------

    @property
    def at_work(self) -> bool:
        """Whether a run waits or works."""
        return any(not run.over for run in self.remembered.values())

    def check(self, here: OpenDocument, indexes: Sequence[int]) -> None:
        """Refuse cells that contain no code.

        Raises:
            NotCode: A cell is not a code cell.
        """
        notebook = here.peer.notebook
        for index in indexes:
            if (cell_type := notebook.cell_type(index)) != "code":
                raise NotCode(
                    f"Cell {notebook.handle(index)} is a {cell_type} cell; nothing was run.",
                    "Name code cells only.",
                    index=index,
                    cell_id=notebook.id_at(index),
                )

    async def available(self, here: OpenDocument) -> None:
        """Check that there is a kernel or that one could be started; starts nothing.

        Raises:
            KernelUnavailable: There is none, and the notebook's kernelspec is not installed.
        """
        if await self._kernel_of(here) is None:
            await self._spec(here)

    async def run_cells(
        self,
        here: OpenDocument,
        cell_ids: Sequence[str],
        stop_on_error: bool,
        expected: Mapping[str, str] | None = None,
    ) -> list[Run]:
        """Start code cells in order; a cell that is already running, unchanged, is not run again.

        Args:
            expected: Revisions that cells must still have when they start.

        Raises:
            CellError: A cell is gone or has changed while the kernel started; nothing was run.
        """
        executor = await self._executor(here)
        await here.peer.catch_up_to_write()  # a kernel may have taken long to start
        notebook = here.peer.notebook
        indexes = [notebook.find(cell_id) for cell_id in cell_ids]
        self.check(here, indexes)
        revisions = [(expected or {}).get(notebook.id_at(index)) for index in indexes]
        guards.guard_cells(here, cell_selection.Targets(indexes, revisions))
        batch = Batch(stop_on_error)
        runs: list[Run] = []
        new: list[Run] = []
        ahead = list(executor.under_way)
        for cell_id in dict.fromkeys(cell_ids):
            run = self._alive(here, cell_id)
            if run is not None and run in ahead:
                # What follows it here has to run after it there.
                del ahead[: ahead.index(run) + 1]
                batch.after.append(run)
            else:
                # After something new, all cells have to run again: it may change what they do.
                ahead.clear()
                run = self._new_run(here, cell_id, batch)
                new.append(run)
            runs.append(run)
        self._show_waiting(here, new[1:] if not executor.busy else new)
        self._submit(here, executor, new)
        return runs

    async def run_code(self, here: OpenDocument, code: str) -> Run:
        """Run code without storing anything in the notebook."""
        executor = await self._executor(here)
        run = self._prepare_run(here, code)
        self._submit(here, executor, [run])
        return run

    async def reply_to_input(self, run: Run, text: str, agent: str) -> list[str]:
        """Answer a run's input request. Returns notes for the answer about unsaved files."""
        notes = await self._workspace.save_before_run(agent)
        for executor in self._executors.values():
            if executor.current is run:
                executor.reply_to_input(run, text)
                return notes
        raise wants_no_input(run)

    # -- kernels -----------------------------------------------------------------------------

    async def state(self, here: OpenDocument) -> KernelState:
        """The state of the notebook's kernel."""
        info = await self._kernel_of(here)
        executor = self._executors.get(info.id) if info is not None else None
        if info is None or executor is None or executor.lost is not None:
            busy = info is not None and info.state == "busy"
            return KernelState(info, busy, busy, None, ())
        by_others = executor.busy_for_others
        return KernelState(
            self._up_to_date(info), executor.busy, by_others, executor.current, executor.waiting
        )

    def _up_to_date(self, info: KernelInfo) -> KernelInfo:
        """Correct the server's view of a kernel that we are connected to.

        The server learns later than we do that a kernel is idle. If it is late in listening to a
        kernel that has just started, it never learns that the start is over.
        """
        executor = self._executors.get(info.id)
        if executor is None or executor.lost is not None or info.state not in ("busy", "starting"):
            return info
        return replace(info, state="busy" if executor.busy else "idle")

    async def specs(self) -> tuple[Sequence[KernelSpec], str]:
        specs, default = await self._kernels.specs()
        return list(specs.values()), default

    async def running(self) -> Sequence[KernelInfo]:
        """All kernels of the server whose documents agents may see."""
        visible = self._workspace.visible
        return [
            self._up_to_date(kernel)
            for kernel in await self._kernels.running()
            if kernel.path is None or visible(kernel.path)
        ]

    async def interrupt(self, here: OpenDocument, force: bool) -> tuple[bool, Run | None]:
        """Interrupt the notebook's kernel if it is working.

        Returns whether it was, and the interrupted run if it was an agent's.

        Raises:
            KernelBusy: It would interrupt what somebody else runs.
            InterruptIgnored: The code continues.
        """
        asked = time.monotonic()
        info = await self._existing(here)
        executor = await self._executor_of(info)
        if (run := executor.interrupted_since(asked)) is not None:
            return True, run  # interrupted by a simultaneous call; spare what came after it
        if executor.busy_for_others and not force:
            raise KernelBusy(
                "The kernel works on something that no agent started; a person did, in JupyterLab.",
                "Ask the person, or repeat with force=true.",
            )
        if not executor.busy:
            return False, None
        run = None if executor.busy_for_others else executor.current
        await executor.interrupt()
        return True, run

    async def end_of(self, is_meant: Callable[[str], bool], reason: str) -> None:
        """Cancel and interrupt what some agents run, in all kernels at once.

        Args:
            is_meant: Whether an agent with a key is one of them.
        """

        def is_owned(run: Run) -> bool:
            return is_meant(run.agent_key)

        executors = list(self._executors.values())
        await asyncio.gather(*(executor.cancel(is_owned, reason) for executor in executors))

    async def restart(self, here: OpenDocument) -> KernelInfo:
        """Restart the notebook's kernel; whatever it was running is lost."""
        info = await self._existing(here)
        await self._save_before_run(here)
        lost = self._lose(info.id, "restarted")
        await self._kernels.restart(info.id)
        if lost is not None:
            await lost.wait_ended()
        return await self._existing(here)

    async def change(self, here: OpenDocument, name: str) -> tuple[KernelInfo, KernelInfo | None]:
        """Give the notebook another kernel, and record it in its metadata.

        Returns the new kernel, and the one that was shut down, if any.
        """
        specs, _ = await self._kernels.specs()
        if name not in specs:
            raise KernelUnavailable.not_installed("The kernel", name, list(specs), listed(specs))
        await self._save_before_run(here)
        before = await self._kernel_of(here)
        at = None if before is None else before.path
        info = await self._kernels.change(at or here.room_path, name)
        if before is not None and (lost := self._lose(before.id, "gone")) is not None:
            await lost.wait_ended()
        await here.peer.catch_up_to_write()
        self._write_spec(here, specs[name])
        await here.peer.wait_acknowledged()
        return info, before

    async def end_kernel(self, fork_id: str) -> None:
        """Shut down the kernel of a fork that ends, if it has one."""
        info = await kernel_of_fork(self._kernels, fork_id)
        if info is not None and info.path is not None:
            lost = self._lose(info.id, "gone")
            await self._kernels.end(info.path)
            if lost is not None:
                await lost.wait_ended()

    async def inspect(
        self, here: OpenDocument, names: Sequence[str] | None, most: int, preview: int
    ) -> introspection.Inspection:
        """Inspect variables without leaving a trace.

        Raises:
            KernelBusy: The kernel is working.
        """
        info = await self._existing(here)
        executor = await self._executor_of(info)
        if executor.busy:
            by = "something that no agent started" if executor.busy_for_others else "a run"
            raise KernelBusy(
                f"The kernel is busy with {by}; variables can only be looked at while it is idle.",
                Intent.WAIT_OR_INTERRUPT,
            )
        if executor.link.language not in (None, "python", "ipython"):
            raise KernelUnavailable(
                f"Variables can be inspected in Python kernels; this one speaks "
                f"{inline(executor.link.language, ID)}.",
                Intent.RUN_OWN_CODE,
            )
        expressions = {introspection.KEY: introspection.expression(names, most, preview)}
        reply = await executor.ask(expressions, _INSPECTION_LIMIT)
        try:
            return introspection.parse(reply)
        except introspection.InspectionFailed as error:
            raise KernelUnavailable(
                f"The kernel could not report its variables: {error}", Intent.RUN_CODE
            ) from error

    async def at_failure(self, here: OpenDocument, run: Run) -> list[introspection.Variable]:
        """The values of the variables in the line at which a run failed.

        Empty if the kernel is busy again, does not answer at once, or is not a Python kernel.
        """
        names = names_at_failure(run.log.outputs())
        asked = introspection.expression(names, len(names), _PREVIEW)
        try:
            info = await self._kernel_of(here) if names else None
            executor = None if info is None else self._executors.get(info.id)
            if executor is None or executor.busy or executor.lost is not None:
                return []
            if executor.link.language not in ("python", "ipython"):
                return []
            reply = await executor.ask({introspection.KEY: asked}, _AT_FAILURE)
            return introspection.parse(reply).variables
        except (CollaborationError, introspection.InspectionFailed):
            return []  # this was only an extra

    async def close(self) -> None:
        """Stop watching runs."""
        for executor in self._executors.values():
            await executor.close()
        self._executors.clear()

    # -- parts -------------------------------------------------------------------------------

    def _new_run(self, here: OpenDocument, cell_id: str, batch: Batch) -> Run:
        notebook = here.peer.notebook
        index = notebook.find(cell_id)
        run = self._prepare_run(here, notebook.source(index))
        run.cell_id = cell_id
        run.revision = notebook.revision(index)
        run.target = CellTarget(self._workspace, here, cell_id)
        run.batch = batch
        return run

    def _prepare_run(self, here: OpenDocument, code: str) -> Run:
        here.hold(Level.execute)  # a kernel may have taken long to start
        link = here.peer.link
        kept = _hours(self.side_files.limits.age)

        def notice(index: int, said: str) -> str:
            return f"[Only a part is kept here ({said}). The whole, for {kept}: {run.uri(index)}]"

        log = OutputLog(self._limits, notice)
        run = Run(code, log, here.seat.name, here.path, link.room_id, new_run_id(), link.session_id)
        run.agent_key = here.seat.agent
        return run

    def _alive(self, here: OpenDocument, cell_id: str) -> Run | None:
        """The current run of this cell, if the cell has not changed since."""
        run = self._live.get((here.peer.link.room_id, cell_id))
        notebook = here.peer.notebook
        if run is None or run.over or not notebook.has(cell_id):
            return None
        return run if run.revision == notebook.revision(notebook.find(cell_id)) else None

    def _show_waiting(self, here: OpenDocument, runs: Sequence[Run]) -> None:
        notebook = here.peer.notebook
        if runs:
            with here.peer.output(here.seat):
                for run in runs:
                    assert run.cell_id is not None
                    notebook.set_running(notebook.find(run.cell_id), True)

    def _submit(self, here: OpenDocument, executor: Executor, runs: Sequence[Run]) -> None:
        for run in runs:
            self.remembered.add(run)
            if run.cell_id is not None:
                self._live[run.room_id, run.cell_id] = run
        self.remembered.limit()
        here.seat.runs += len(runs)

        def release(run: Run) -> None:
            here.seat.runs -= 1
            record_run(self._workspace.activity, here, run)
            if self.on_run is not None:
                self.on_run(here, run)
            if run.cell_id is not None and self._live.get((run.room_id, run.cell_id)) is run:
                del self._live[run.room_id, run.cell_id]

        for run in runs:
            run.when_over = release
            if self.on_run is not None:
                self.on_run(here, run)
        executor.submit(runs)

    async def heal(self, peer: RoomPeer) -> None:
        """Remove the stars that a crash left: without a kernel nothing can be running."""
        if not isinstance(peer.document, Notebook):
            return
        room_id, running = peer.link.room_id, peer.notebook.running()
        if (
            running
            and await kernel_of(self._kernels, room_id, kernel_path(room_id, peer.link.path))
            is None
        ):
            await peer.catch_up()
            with peer.doc.transaction(origin="heal"):
                for index in peer.notebook.running():
                    peer.notebook.set_running(index, False)

    async def _executor(self, here: OpenDocument) -> Executor:
        """The queue of the notebook's kernel; starts a kernel if there is none.

        Saves first, so that the next run finds on disk what the agent has written.
        """
        here.seat.runs += 1  # a kernel may take long to start; nobody may think that it is not used
        try:
            await self._save_before_run(here)
            info = await self._kernel_of(here) or await self._start_kernel(here)
            return await self._executor_of(info)
        finally:
            here.seat.runs -= 1

    async def _start_kernel(self, here: OpenDocument) -> KernelInfo:
        spec, path = await self._spec(here), here.room_path
        info = await self._kernels.start(path, spec.name)
        if here.room_path != path:
            await self._kernels.follow(path, here.room_path)
        await here.peer.catch_up_to_write()
        if not here.peer.notebook.kernelspec.get("name"):
            self._write_spec(here, spec)
        return info

    async def _save_before_run(self, here: OpenDocument) -> None:
        here.seat.notes += await self._workspace.save_before_run(here.seat.agent)

    async def _executor_of(self, info: KernelInfo) -> Executor:
        link = await self._kernels.connect(info.id)
        await self._drop_dead(info.id)
        executor = self._executors.get(info.id)
        if executor is not None and (executor.lost is not None or executor.link is not link):
            executor.lose("restarted")
            # Its runs must not write to cells, nor be joined, once others have started.
            await executor.wait_ended()
            executor = self._executors.get(info.id)
            if executor is not None and executor.link is not link:
                executor = None
        if executor is None:
            executor = self._executors[info.id] = Executor(
                link,
                lambda: self._kernels.interrupt(info.id),
                self.side_files,
                self._settings,
                self._log,
            )
        return executor

    async def _drop_dead(self, wanted: str) -> None:
        """Forget the queues of kernels that no longer exist."""
        for kernel_id, executor in list(self._executors.items()):
            if kernel_id != wanted and not executor.busy and await executor.link.fate() != "alive":
                self._executors.pop(kernel_id, None)

    async def _kernel_of(self, here: OpenDocument) -> KernelInfo | None:
        """The kernel of a document, if it has one."""
        return await kernel_of(self._kernels, here.peer.link.room_id, here.room_path)

    async def _existing(self, here: OpenDocument) -> KernelInfo:
        info = await self._kernel_of(here)
        if info is None:
            raise KernelUnavailable(
                f"{here.label} has no running kernel.",
                "Run a cell: that starts one.",
                path=here.path,
            )
        return info

    async def _spec(self, here: OpenDocument) -> KernelSpec:
        """The kernelspec of a notebook that has no kernel yet."""
        specs, default = await self._kernels.specs()
        name = str(here.peer.notebook.kernelspec.get("name") or default)
        if name not in specs:
            whose = "The notebook's kernel"
            raise KernelUnavailable.not_installed(whose, name, list(specs), listed(specs))
        return specs[name]

    def _write_spec(self, here: OpenDocument, spec: KernelSpec) -> None:
        wanted = {
            "name": spec.name,
            "display_name": spec.display_name,
            "language": spec.language,
        }
        if here.peer.notebook.kernelspec != wanted:
            with here.peer.output(here.seat):
                here.peer.notebook.set_kernelspec(wanted)

    def _lose(self, kernel_id: str, fate: Fate) -> Executor | None:
        executor = self._executors.pop(kernel_id, None)
        if executor is not None:
            executor.lose(fate)
        return executor


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:g} hours"
