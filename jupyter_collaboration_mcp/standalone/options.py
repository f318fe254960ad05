"""The command line of the command, made from the declared settings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from .. import __version__
from ..settings.declaration import Door, Setting, Value
from ..settings.environment import from_environment
from ..settings.settings import Settings, settings_of

PROGRAM = "jupyter-collaboration-mcp"


def command_parser() -> argparse.ArgumentParser:
    """The options of the command; values are read by `read_settings`, not by argparse."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Makes an AI agent a collaborator in live Jupyter notebooks, over MCP.",
        epilog="Each setting can also be given as an environment variable, "
        "JUPYTER_COLLABORATION_MCP_NAME. Further commands: config CLIENT, doctor [URL], servers, "
        "token, hub-service.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    own = parser.add_argument_group("servers and clients")
    shared = parser.add_argument_group("what agents may do, as in the extension")
    for setting in settings_of("command"):
        _add_option(shared if "extension" in setting.doors else own, setting)
    parser.add_argument(
        "--help-all", action="store_true", help="Show this and the settings of the extension."
    )
    parser.add_argument(
        "--generate-config",
        action="store_true",
        help="Write a configuration file of the extension, with all settings at their defaults.",
    )
    return parser


def service_parser() -> argparse.ArgumentParser:
    """The options of `hub-service`."""
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} hub-service",
        description="Serves MCP for all users of a JupyterHub, as one of its services. The Hub "
        "tells it by environment variables where to listen.",
        allow_abbrev=False,
    )
    for setting in settings_of("service"):
        _add_option(parser, setting)
    return parser


def read_settings(
    options: argparse.Namespace, environment: Mapping[str, str], door: Door = "command"
) -> Settings:
    """The settings that options give; where they give none, those of the environment.

    Raises:
        ValueError: One of them is invalid; the message names it.
    """
    values = from_environment(environment, door)
    for setting in settings_of(door):
        given: list[str] | bool | None = getattr(options, setting.name)
        if given is not None:
            values[setting.name] = _value(setting, given)
    return Settings.of(values)


def own_token(settings: Settings, environment: Mapping[str, str]) -> str | None:
    """The person's own token for Jupyter, or for the JupyterHub."""
    if settings.hub is not None:
        return settings.token or environment.get("JUPYTERHUB_API_TOKEN")
    return settings.token or environment.get("JUPYTER_TOKEN")


def _add_option(group: argparse._ActionsContainer, setting: Setting) -> None:
    about = setting.help.replace("%", "%%")
    if setting.kind is bool:
        group.add_argument(setting.option, action=argparse.BooleanOptionalAction, help=about)
        return
    if setting.default and not setting.is_list:
        about += f" Default: {_shown(setting.default)}"
    # May be repeated even if only the last one counts, as usual for options.
    metavar = setting.metavar or setting.name.upper()
    group.add_argument(setting.option, action="append", metavar=metavar, help=about)


def _shown(default: Value) -> str:
    if isinstance(default, int | float):
        return f"{default:,.0f}"
    return str(default)


def _value(setting: Setting, given: list[str] | bool) -> Value:
    if isinstance(given, bool):
        return given
    try:
        return setting.parse(given)
    except ValueError as error:
        raise ValueError(f"{setting.option}: {error}") from None
