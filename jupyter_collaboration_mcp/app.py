"""The front door inside Jupyter Server: configuration, and the life of everything behind `/mcp`."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Enum, Float, Int, List, TraitError, TraitType, Unicode, validate
from traitlets.config import Config

from . import __version__, _stay_out
from .assembly.extension import ExtensionAssembly
from .backends.remote.extension_info import INFO_PATH
from .documents.foreign_text import did_you_mean
from .settings.declaration import Setting, Value
from .settings.environment import from_environment
from .settings.levels import Levels
from .settings.settings import Settings, settings_of
from .transport.bridge import MCPHandler
from .transport.endpoint import MCPEndpoint
from .transport.fork_routes import ForkInfo
from .transport.history_routes import history_handlers
from .transport.panel_routes import panel_handlers
from .transport.routes import EndpointInfo, handlers_at
from .transport.token_routes import token_handlers
from .workspace.permissions import Level

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

_SETTINGS: Mapping[str, Setting] = {setting.name: setting for setting in settings_of("extension")}


_TRAITS: Mapping[type, type[TraitType[Any, Any]]] = {
    bool: Bool,
    int: Int,
    float: Float,
    str: Unicode,
}


def _trait(setting: Setting) -> TraitType[Any, Any]:
    """A setting as Jupyter configures it."""
    default: Any = _trait_value(setting.default)
    trait: TraitType[Any, Any]
    if setting.kind is Levels:
        trait = Enum([level.name for level in Level], default, help=setting.help)
    elif setting.is_list:
        trait = List(Unicode(), default, help=setting.help)
    elif setting.kind in _TRAITS:
        trait = _TRAITS[setting.kind](default, help=setting.help)
    else:
        trait = Unicode(default, allow_none=True, help=setting.help)
    return trait.tag(config=True)


def _trait_value(value: Value) -> object:
    """A value as its trait holds it."""
    if isinstance(value, Levels):
        if value.by_alias:
            raise ValueError("inside Jupyter there is one server: give a level without an alias.")
        return value.general.name
    return list(value) if isinstance(value, tuple) else value


class JupyterCollaborationMCP(ExtensionApp):
    """Serves MCP on Jupyter's own port, with Jupyter's own token, identity and authorizer."""

    name = "jupyter_collaboration_mcp"
    description = "Makes an AI agent a collaborator in live notebooks, over MCP at /mcp."

    # One trait for each setting that is declared for the extension.
    locals().update({name: _trait(setting) for name, setting in _SETTINGS.items()})

    @validate(*_SETTINGS)
    def _checked(self, proposal: Any) -> Any:
        value, setting = proposal["value"], _SETTINGS[proposal["trait"].name]
        try:
            if isinstance(value, list):
                return _trait_value(setting.checked(tuple(value)))
            return setting.checked(value)
        except ValueError as error:
            raise TraitError(f"{setting.name}: {error}") from None

    _endpoint: MCPEndpoint
    _shared_route: str | None = None

    def configured(self) -> Settings:
        """The settings, as they are configured."""
        values: dict[str, Any] = {}
        for name, setting in _SETTINGS.items():
            value = getattr(self, name)
            if setting.kind is Levels:
                value = setting.parse([value])
            values[name] = tuple(value) if isinstance(value, list) else value
        return Settings.of(values)

    # -- configuration -----------------------------------------------------------------------

    def _config_file_name_default(self) -> str:
        return f"{self.name}_config"  # Jupyter's own would begin with jupyter_jupyter_

    def _link_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        # Jupyter would load an extension all the same whose configuration it could not read,
        # with all settings at their defaults: no limit would hold.
        try:
            self._read_environment()
            super()._link_jupyter_server_extension(serverapp)
            self._refuse_unknown_settings()
        except (TraitError, ValueError) as error:
            _stay_out(serverapp, error)
        except SystemExit:  # traitlets' way; it would end the server
            _stay_out(serverapp, "its configuration is wrong, as the line above says.")

    def _read_environment(self) -> None:
        """Take settings from environment variables; what is configured otherwise comes later and
        replaces them."""
        values = from_environment(os.environ, "extension")
        for name, value in values.items():
            try:
                section = {name: _trait_value(value)}
            except ValueError as error:
                raise ValueError(f"{_SETTINGS[name].variable}: {error}") from None
            self.update_config(Config({type(self).__name__: section}))

    def _refuse_unknown_settings(self) -> None:
        known = self.class_trait_names(config=True)
        for name in self.config.get(type(self).__name__, {}):
            if name not in known:
                guess = did_you_mean(name, known).rstrip()
                raise TraitError(
                    f"JupyterCollaborationMCP has no setting {name!r}. {guess}".strip()
                )

    # -- life --------------------------------------------------------------------------------

    def initialize_handlers(self) -> None:
        assert self.serverapp is not None
        # As Jupyter does with Tornado's: else what we log bypasses its handlers and its format.
        logging.getLogger(__package__).parent = self.serverapp.log
        settings = self.configured()
        self._assembly = ExtensionAssembly(settings, self.serverapp, self.log)
        self._endpoint = self._assembly.endpoint
        self._url_path, self._preload = settings.url_path, settings.preload
        self.handlers += [
            (rf"/{re.escape(self._url_path)}/?", MCPHandler, self._assembly.mcp),
            (rf"/{INFO_PATH}", EndpointInfo, {"info": self._info}),
            (rf"/{INFO_PATH}/forks/?([\w-]*)", ForkInfo, {"forks": self._assembly.forks}),
            *history_handlers(self._assembly.history),
            *token_handlers(INFO_PATH, self._assembly.token_service),
        ]
        if self._assembly.panel is not None:
            self.handlers += panel_handlers(self._assembly.panel.service)

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        """Once all other extensions are loaded, and the port is known."""
        self.log.info("MCP is served at %s%s", serverapp.connection_url, self._url_path)
        if self._preload:
            self._assembly.preload()
        claims = handlers_at(serverapp.web_app, serverapp.base_url, self._url_path)
        others = [handler for handler in claims if handler is not MCPHandler]
        if not others:
            return
        named = ", ".join(f"{one.__module__}.{one.__qualname__}" for one in others)
        first = "this extension" if claims[0] is MCPHandler else claims[0].__module__
        self._shared_route = (
            f"{named} serves {serverapp.base_url}{self._url_path} too; requests go to {first}. Set "
            f"c.JupyterCollaborationMCP.url_path to another path, 'collaboration-mcp' for example, "
            f"to use both."
        )
        self.log.warning(self._shared_route)

    async def stop_extension(self) -> None:
        if not hasattr(self, "_assembly"):
            return  # it could not be loaded
        try:
            await self._assembly.close()
        except Exception:  # other extensions have to be stopped all the same
            self.log.exception("A part of the MCP endpoint could not be stopped")

    def _info(self) -> dict[str, Any]:
        warnings = [
            *self._assembly.events,
            *self._assembly.warnings,
            *filter(None, [self._shared_route]),
            *self._assembly.workarounds.problems,
        ]
        return {"version": __version__, "url_path": self._url_path, "warnings": warnings}
