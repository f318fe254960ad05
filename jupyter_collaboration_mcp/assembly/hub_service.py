"""The service of a JupyterHub, as the Hub starts it: where it listens, and whom it asks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.parse import urlsplit

from ..hub_service.service import HubService
from ..settings.settings import Settings


class ServicePlace:
    """Where a Hub wants its service.

    Raises:
        ValueError: No Hub has started this.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        try:
            url = urlsplit(environment["JUPYTERHUB_SERVICE_URL"])
            self.prefix = environment["JUPYTERHUB_SERVICE_PREFIX"]
            self.api = environment["JUPYTERHUB_API_URL"]
        except KeyError as missing:
            raise ValueError(
                f"{missing.args[0]} is not set: JupyterHub starts this command as a service, see "
                "docs/deployment.md"
            ) from None
        self.host = url.hostname or "127.0.0.1"
        self.port = url.port or 80


def make_service(settings: Settings, place: ServicePlace, log: logging.Logger) -> HubService:
    """The service for the Hub that started this process."""
    # The API is at .../hub/api, whatever the base URL of the Hub.
    api = place.api.rstrip("/").removesuffix("/hub/api") + "/"
    log.info("Calls go to %s, below %suser/NAME/", settings.hub_endpoint, settings.hub_proxy)
    return HubService(
        place.prefix, settings.hub_proxy, api, settings.hub_endpoint, settings.hub_token_age
    )
