"""Kernels of the Jupyter server that run behind a kernel gateway: a way to their messages.

Jupyter reaches them through its own client of the gateway (`ServerApp.gateway_url`); we take its
address and its credentials, and speak to the gateway as to any other server.
"""

from __future__ import annotations

from logging import Logger
from typing import Any

from ..backends.kernels.wire import Wire
from ..errors import KernelUnavailable

#: The part of a gateway's URLs that every one of them has.
_KERNELS = "/api/kernels"


class GatewayWires:
    """Makes wires to kernels behind the gateway that a Jupyter server is configured for."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._api: Any = None

    def open(self, kernel_id: str) -> Wire:
        """A wire to a kernel.

        Raises:
            KernelUnavailable: The gateway is configured in a way that we cannot follow.
        """
        from ..backends.remote.jupyter_api import JupyterApi
        from ..backends.remote.websocket_wire import WebSocketWire

        if self._api is None:
            self._api = JupyterApi(_address())
        return WebSocketWire(self._api, kernel_id, self._log)

    async def close(self) -> None:
        if self._api is not None:
            await self._api.close()


def _address() -> Any:
    """Where the gateway is, and what Jupyter sends to be let in."""
    from jupyter_server.gateway.gateway_client import GatewayClient

    from ..backends.remote.server_address import ServerAddress

    client = GatewayClient.instance()
    endpoint = "/" + str(client.kernels_endpoint).strip("/")
    if not endpoint.endswith(_KERNELS):
        raise KernelUnavailable.for_person(
            f"The gateway's kernels are at {endpoint!r}, where they cannot be reached from here.",
            f"Set GatewayClient.kernels_endpoint to a path that ends with {_KERNELS}.",
        )
    base = str(client.url).rstrip("/") + endpoint.removesuffix(_KERNELS) + "/"
    load: Any = client.load_connection_args
    sent = load(headers={})
    key, scheme = str(client.auth_header_key), str(client.auth_scheme)
    # Jupyter sends an empty token, too; gateways without one do not look at it.
    plain = bool(client.auth_token) and (key.lower(), scheme) == ("authorization", "token")

    def renewed() -> str | None:
        load(headers={})
        return str(client.auth_token) if client.auth_token else None

    name, password = client.http_user, client.http_pwd
    if name and not plain:
        base = base.replace("://", f"://{_quoted(name)}:{_quoted(password or '')}@", 1)
    headers = {str(name): str(value) for name, value in (sent.get("headers") or {}).items()}
    if plain or name or not client.auth_token:
        headers = {k: v for k, v in headers.items() if k.lower() != key.lower()}
    certificate = (str(client.client_cert), client.client_key) if client.client_cert else None
    return ServerAddress(
        base,
        str(client.auth_token) if plain else None,
        bool(client.validate_cert),
        renewed if plain else None,
        headers,
        str(client.ca_certs) if client.ca_certs else None,
        certificate,
        direct=True,  # as Jupyter's own client goes there
    )


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(str(text), safe="")
