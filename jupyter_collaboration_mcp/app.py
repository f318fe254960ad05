"""The front door inside Jupyter Server: configuration, and the life of everything behind `/mcp`."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_data_dir
from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Enum, Float, Int, List, TraitError, Unicode, validate

from . import __version__, _stay_out
from .backends.in_process.backend import InProcessBackend
from .backends.in_process.journal import Journal
from .backends.in_process.journals import open_journals
from .backends.in_process.kernels import InProcessKernels
from .backends.remote.extension_info import INFO_PATH
from .documents.foreign_text import did_you_mean
from .documents.output_log import OutputLimits
from .errors import InvalidArgument
from .execution.executor import ExecutorSettings
from .execution.side_files import SideFiles, SideLimits
from .server import MODULES
from .tools import toolset_names
from .transport.bridge import MCPHandler
from .transport.endpoint import MCPEndpoint
from .transport.routes import EndpointInfo, handlers_at
from .workspace.call_limits import Limits
from .workspace.permissions import Level, PathRules
from .workspace.runs import Runs
from .workspace.sites import Site, Sites
from .workspace.workspace import Workspace

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from mcp.server.mcpserver import MCPServer


class JupyterCollaborationMCP(ExtensionApp):
    """Serves MCP on Jupyter's own port, with Jupyter's own token, identity and authorizer."""

    name = "jupyter_collaboration_mcp"
    description = "Makes an AI agent a collaborator in live notebooks, over MCP at /mcp."

    url_path = Unicode(
        "mcp",
        help="Where MCP is served, below the server's base URL: if something else is at /mcp.",
    ).tag(config=True)

    @validate("url_path")
    def _below_the_base_url(self, proposal: Any) -> str:
        path = str(proposal["value"]).strip("/")
        if not re.fullmatch(r"(?!\.\.?(/|$))[\w.~-]+(/(?!\.\.?(/|$))[\w.~-]+)*", path, re.ASCII):
            raise TraitError(
                f"url_path: {proposal['value']!r} is no path of letters, digits, '-', '.', '_' and "
                f"'~', such as 'collaboration-mcp' or 'agents/mcp'."
            )
        return path

    toolsets = Unicode(
        "all",
        help="Toolsets to offer, comma-separated: all, core, notebook, document, files, kernel.",
    ).tag(config=True)

    @validate("toolsets")
    def _known_toolsets(self, proposal: Any) -> Any:
        try:
            toolset_names(proposal["value"])
        except InvalidArgument as error:
            raise TraitError(f"toolsets: {error.happened} {error.next_step}") from None
        return proposal["value"]

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

    structured = Bool(
        False,
        help="Whether answers have structuredContent, too: many clients show a model that JSON "
        "instead of the text and the pictures. A connection can ask for it by ?structured=true.",
    ).tag(config=True)
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

    preload = Bool(
        True,
        help="Whether to load the MCP library once Jupyter is idle, so that the first request does "
        "not wait for it (about 1 s, 45 MB).",
    ).tag(config=True)

    _shared_route: str | None = None

    def _config_file_name_default(self) -> str:
        return f"{self.name}_config"  # Jupyter's own would begin with jupyter_jupyter_

    def _link_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        # Jupyter would load an extension all the same whose configuration it could not read,
        # with all settings at their defaults: no limit would hold.
        try:
            super()._link_jupyter_server_extension(serverapp)
            self._refuse_unknown_settings()
        except TraitError as error:
            _stay_out(serverapp, error)
        except SystemExit:  # traitlets' way; it would end the server
            _stay_out(serverapp, "its configuration is wrong, as the line above says.")

    def _refuse_unknown_settings(self) -> None:
        known = self.class_trait_names(config=True)
        for name in self.config.get(type(self).__name__, {}):
            if name not in known:
                guess = did_you_mean(name, known).rstrip()
                raise TraitError(
                    f"JupyterCollaborationMCP has no setting {name!r}. {guess}".strip()
                )

    def initialize_handlers(self) -> None:
        assert self.serverapp is not None
        # As Jupyter does with Tornado's: else what we log goes past its handlers and its format.
        logging.getLogger(__package__).parent = self.serverapp.log
        self._warn_about_the_store()
        journal, renames = self._recover()
        self._backend = InProcessBackend(self.serverapp, journal, self.journal_limit)
        self._backend.start(renames)
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
        self._endpoint = MCPEndpoint(self._build_server, self.log, preload=MODULES)
        self._journal = journal
        self.handlers += [
            (rf"/{re.escape(self.url_path)}/?", MCPHandler, {"endpoint": self._endpoint}),
            (rf"/{INFO_PATH}", EndpointInfo, {"info": self._info}),
        ]

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        """Once all other extensions are loaded, and the port is known."""
        self.log.info("MCP is served at %s%s", serverapp.connection_url, self.url_path)
        if self.preload:
            self._preloading = asyncio.ensure_future(self._endpoint.prepare_when_idle())
        claims = handlers_at(serverapp.web_app, serverapp.base_url, self.url_path)
        others = [handler for handler in claims if handler is not MCPHandler]
        if not others:
            return
        named = ", ".join(f"{one.__module__}.{one.__qualname__}" for one in others)
        first = "this extension" if claims[0] is MCPHandler else claims[0].__module__
        self._shared_route = (
            f"{named} serves {serverapp.base_url}{self.url_path} too; requests go to {first}. Set "
            f"c.JupyterCollaborationMCP.url_path to another path, 'collaboration-mcp' for example, "
            f"to use both."
        )
        self.log.warning(self._shared_route)

    def _info(self) -> dict[str, Any]:
        warnings = [*self._journal.events, *filter(None, [self._shared_route])]
        return {"version": __version__, "url_path": self.url_path, "warnings": warnings}

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
        from .server.gate import ServerOptions
        from .server.server import build_server
        from .tools.parts import Extension

        width, height = self.max_image_width, self.max_image_height
        images = ImageLimits(width, height) if width > 0 and height > 0 else None
        level = Level.named(self.permission)
        options = ServerOptions(self.toolsets, level, self.agent_name, images, self.structured)
        return build_server(self._sites, options, Extension())

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

    def _recover(self) -> tuple[Journal, list[tuple[str, str]]]:
        """Bring back what a crash left unsaved. Jupyter serves nothing before this returns.

        Returns the journal to write, and what was renamed right before the crash.
        """
        directory = self._journal_directory()
        above = [] if self.journal_dir else [directory.parent]
        journal, abandoned = open_journals(directory, above)
        renames: list[tuple[str, str]] = []
        if any(left.records.unsaved() or left.records.renames() for left in abandoned):
            from .backends.in_process.recovery import recover

            assert self.serverapp is not None
            renames = recover(
                abandoned,
                self.serverapp.contents_manager,
                self._store_factory(),
                self.log,
                self.serverapp.io_loop.asyncio_loop,  # type: ignore[attr-defined]
            )
        for left in abandoned:
            if left is not journal:
                left.discard()
                new = [event for event in left.events if event not in journal.events]
                journal.events.extend(new)
        return journal, renames

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
