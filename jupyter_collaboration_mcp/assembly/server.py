"""The MCP server of either front door. Importing this imports the MCP SDK, which takes a second."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from ..backends.disk.template_files import TemplateFiles
from ..documents.images import ImageLimits
from ..server.call_feed import Feed
from ..server.call_record import Observer
from ..server.gate import ServerOptions
from ..server.rates import RateLimits
from ..server.redaction import Redactor, secrets_in
from ..server.server import CollaborationServer, build_server
from ..settings.settings import Settings
from ..tools.parts import Host
from ..workspace.sites import Sites


def make_server(
    settings: Settings,
    sites: Sites,
    host: Host,
    log: logging.Logger,
    observers: Sequence[Observer] = (),
    feed: Feed | None = None,
) -> CollaborationServer:
    """The MCP server for some Jupyter servers.

    Args:
        observers: What is made of the record of each call.
        feed: Shows calls in the panel.
    """
    options = ServerOptions(
        settings.toolsets,
        settings.permission.highest,
        settings.agent_name,
        _image_limits(settings),
        settings.structured,
        settings.mode == "propose",
        TemplateFiles(_directory(settings.template_dir), log),
        _redactor(settings),
        RateLimits(settings.rate_limit, settings.execution_rate_limit, settings.write_rate_limit),
        observers,
        feed,
    )
    return build_server(sites, options, host)


def _directory(path: str | None) -> Path | None:
    return Path(path).expanduser() if path else None


def _redactor(settings: Settings) -> Redactor:
    values = secrets_in(os.environ) if settings.redact_secrets else ()
    return Redactor(values, settings.redact_patterns)


def _image_limits(settings: Settings) -> ImageLimits | None:
    width, height = settings.max_image_width, settings.max_image_height
    return ImageLimits(width, height) if width > 0 and height > 0 else None
