"""What `doctor` says of a JupyterHub, where it is given the URL of one."""

from __future__ import annotations

from ..backends.remote.hub_api import HubApi, HubUser
from ..backends.remote.server_address import ServerAddress
from ..documents.foreign_text import inline, listed
from ..errors import CollaborationError
from .check import Check

#: What a token needs, and for what.
_SCOPES = {
    "access:servers": "no agent can work on a server",
    "read:servers": "the command cannot list servers",
    "start:servers": "nothing here can start a server",
}


async def examine_hub(address: ServerAddress) -> list[Check]:
    """Check a Hub, and what a token may do there; nothing if it does not answer as a Hub."""
    hub = HubApi(address)
    try:
        version = await hub.check()
        who = await hub.user()
    except CollaborationError:
        return []
    finally:
        await hub.close()
    return [
        Check("hub", "ok", f"JupyterHub {inline(version, 40)}. Join it with --hub {hub.root}"),
        Check("token", "ok", f"The token is that of {inline(who.name)}."),
        _scopes(hub, who),
        _servers(who),
    ]


def _scopes(hub: HubApi, who: HubUser) -> Check:
    missing = [scope for scope in _SCOPES if not who.has(scope)]
    if not missing:
        return Check("scopes", "ok", "The token may list, start and use servers.")
    why = "; ".join(f"without {scope}, {_SCOPES[scope]}" for scope in missing)
    remedy = f"Create a token with these scopes at {hub.root}hub/token."
    state = "failed" if "access:servers" in missing else "warning"
    return Check("scopes", state, f"The token lacks scopes: {why}.", remedy)  # type: ignore[arg-type]


def _servers(who: HubUser) -> Check:
    found = [
        f"{server.name or 'default'} ({_state(server.ready, server.pending)})"
        for server in who.servers.values()
    ]
    return Check("servers", "ok", listed(found) if found else "There is no server yet.")


def _state(ready: bool, pending: str | None) -> str:
    return (
        "running"
        if ready
        else {"spawn": "starting", "stop": "stopping"}.get(pending or "", "stopped")
    )
