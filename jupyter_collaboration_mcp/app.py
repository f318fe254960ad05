"""The front door inside Jupyter Server: configuration, and the life of everything behind `/mcp`."""

from __future__ import annotations

import hashlib
import logging
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_data_dir
from jupyter_server.extension.application import ExtensionApp
from traitlets import Enum, Float, Int, List, TraitError, Unicode, validate

from .backends.in_process import InProcessBackend
from .backends.in_process_kernels import InProcessKernels
from .backends.journal import Journal, open_journals
from .documents.output_log import OutputLimits
from .execution.executor import ExecutorSettings
from .execution.side_files import SideFiles, SideLimits
from .transport.bridge import MCPHandler
from .transport.endpoint import MCPEndpoint
from .workspace.permissions import Level, PathRules
from .workspace.runs import Runs
from .workspace.sites import Site, Sites
from .workspace.workspace import Limits, Workspace

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

#: Imported in a thread at the first request: with the SDK it takes more than a second.
_SERVER = "jupyter_collaboration_mcp.server"


class JupyterCollaborationMCP(ExtensionApp):
    """Serves MCP on Jupyter's own port, with Jupyter's own token, identity and authorizer."""

    name = "jupyter_collaboration_mcp"
    description = "Makes an AI agent a collaborator in live notebooks, over MCP at /mcp."

    toolsets = Unicode(
        "all",
        help="Toolsets to offer, comma-separated: all, core, notebook, document, files, kernel.",
    ).tag(config=True)
    permission = Enum(
        [level.name for level in Level],
        "admin",
        help="The most that any agent may do: read, write, execute or admin.",
    ).tag(config=True)
    allowed_paths = List(
        Unicode(), help="Globs of paths that agents may touch; empty means all."
    ).tag(config=True)
    denied_paths = List(
        Unicode(), help="Globs of paths that agents may not touch, whatever is allowed."
    ).tag(config=True)

    @validate("allowed_paths", "denied_paths")
    def _no_list_in_a_list(self, proposal: Any) -> Any:
        # On a command line traitlets makes one glob of `["a/*"]`, which fits nothing.
        for glob in proposal["value"]:
            if re.fullmatch(r"""\[\s*["'].*["']\s*\]""", glob):
                name = proposal["trait"].name
                raise TraitError(
                    f"{name}: {glob} is a list, where a glob is wanted. On the command line, give "
                    f"--JupyterCollaborationMCP.{name}='GLOB' once for each."
                )
        return proposal["value"]

    agent_name = Unicode(
        None, allow_none=True, help="The agents' name where the connection gives none."
    ).tag(config=True)
    idle_timeout = Float(
        300.0, help="Seconds after which an agent that does nothing leaves a document."
    ).tag(config=True)
    max_cells_per_call = Int(
        1000, help="Cells that one call may change, and elements of any list in it."
    ).tag(config=True)
    max_source_length = Int(4_000_000, help="Characters of source in one call.").tag(config=True)
    max_stream_size = Int(
        1_000_000, help="Characters that a run prints and a notebook keeps; the rest is put aside."
    ).tag(config=True)
    max_display_size = Int(
        5_000_000, help="Bytes of a run's results and displays that a notebook keeps."
    ).tag(config=True)
    aside_limit = Int(
        200_000_000, help="Bytes of one run's output that are put aside, out of the notebook."
    ).tag(config=True)
    aside_total = Int(
        1_000_000_000, help="Bytes of all output that is put aside; the oldest goes first."
    ).tag(config=True)
    aside_age = Float(24 * 3600.0, help="Seconds for which output that is put aside is kept.").tag(
        config=True
    )
    max_image_width = Int(
        700, help="Images in answers are scaled down to this many pixels; 0: no images."
    ).tag(config=True)
    max_image_height = Int(
        700, help="Images in answers are scaled down to this many pixels; 0: no images."
    ).tag(config=True)
    input_timeout = Float(
        300.0, help="Seconds that code which called input() waits for an agent's answer."
    ).tag(config=True)
    journal_dir = Unicode(
        None,
        allow_none=True,
        help="Directory in which unsaved edits are kept, in a folder for each root directory; "
        "default: collaboration-mcp in Jupyter's data directory.",
    ).tag(config=True)
    journal_limit = Int(
        64_000_000, help="Bytes of unsaved edits of one document that the journal keeps apart."
    ).tag(config=True)

    def initialize_handlers(self) -> None:
        assert self.serverapp is not None
        # As Jupyter does with Tornado's: else what we log goes past its handlers and its format.
        logging.getLogger(__package__).parent = self.serverapp.log
        self._warn_about_the_store()
        journal = self._recover()
        self._backend = InProcessBackend(self.serverapp, journal, self.journal_limit)
        self._backend.start()
        self._workspace = Workspace(
            self._backend,
            PathRules(tuple(self.allowed_paths), tuple(self.denied_paths)),
            Limits(self.max_cells_per_call, self.max_source_length),
            self.idle_timeout,
            self.log,
        )
        self._kernels = InProcessKernels(self.serverapp)
        self._kernels.start_watching()
        limits = SideLimits(self.aside_limit, self.aside_total, self.aside_age)
        side_files = SideFiles(self._journal_directory() / "outputs", limits)
        self.serverapp.io_loop.add_callback(side_files.sweep)
        self._runs = Runs(
            self._workspace,
            self._kernels,
            side_files,
            OutputLimits(self.max_stream_size, self.max_display_size),
            ExecutorSettings(self.input_timeout),
            self.log,
        )
        site = Site("", self._workspace, self._runs, events=journal.events)
        self._sites = Sites([site])
        self._endpoint = MCPEndpoint(self._build_server, self.log, preload=[_SERVER])
        options = {"endpoint": self._endpoint, "warnings": lambda: journal.events}
        self.handlers.append((r"/mcp/?", MCPHandler, options))

    async def stop_extension(self) -> None:
        if not hasattr(self, "_endpoint"):
            return  # it could not be loaded
        for part in (
            self._endpoint.stop,
            self._runs.close,
            self._kernels.close,
            self._workspace.close,
            self._backend.stop,
        ):
            try:
                await part()
            except Exception:  # the others have to be stopped all the same
                self.log.exception("A part of the MCP endpoint could not be stopped")

    def _build_server(self) -> MCPServer:
        from .documents.images import ImageLimits
        from .server import ServerOptions, build_server

        width, height = self.max_image_width, self.max_image_height
        images = ImageLimits(width, height) if width > 0 and height > 0 else None
        level = Level.named(self.permission)
        options = ServerOptions(self.toolsets, level, self.agent_name, images)
        return build_server(self._sites, options)

    def _warn_about_the_store(self) -> None:
        # B6: with either setting, pycrdt-store replaces a document's history by nothing.
        assert self.serverapp is not None
        for owner, settings in self.serverapp.config.items():
            if owner.endswith("YStore"):
                for name in ("squash_after_inactivity_of", "document_ttl"):
                    if settings.get(name) is not None:
                        self.log.warning(
                            "%s.%s destroys stored documents (a fault of pycrdt-store): unset it.",
                            owner,
                            name,
                        )

    def _recover(self) -> Journal:
        """Bring back what a crash left unsaved. Jupyter serves nothing before this returns."""
        directory = self._journal_directory()
        above = [] if self.journal_dir else [directory.parent]
        journal, abandoned = open_journals(directory, above)
        if any(left.unsaved() for left in abandoned):
            from .backends.recovery import recover

            assert self.serverapp is not None
            recover(
                abandoned,
                self.serverapp.contents_manager,
                self._store_factory(),
                self.log,
                self.serverapp.io_loop.asyncio_loop,  # type: ignore[attr-defined]
            )
        for left in abandoned:
            if left is not journal:
                left.discard()
                journal.events += [event for event in left.events if event not in journal.events]
        return journal

    def _journal_directory(self) -> Path:
        assert self.serverapp is not None
        base = Path(self.journal_dir or Path(jupyter_data_dir()) / "collaboration-mcp").expanduser()
        root = hashlib.sha256(str(Path(self.serverapp.root_dir).resolve()).encode()).hexdigest()
        return base / root[:16]

    def _store_factory(self) -> Any:
        """The store class that rooms will use (B15); its extension is linked, not yet loaded."""
        from jupyter_server_ydoc.stores import SQLiteYStore

        assert self.serverapp is not None
        apps = self.serverapp.extension_manager.extension_apps.get("jupyter_server_ydoc", ())
        for ydoc in apps:
            return partial(ydoc.ystore_class, config=ydoc.config)
        return partial(SQLiteYStore, config=self.serverapp.config)
