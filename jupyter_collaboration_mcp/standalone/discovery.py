"""The Jupyter servers that run on this machine, as their runtime files report them.

Nothing is imported from jupyter_server, whose own listing takes half a second to load and deletes
the files of servers that it takes for dead.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from jupyter_core.paths import jupyter_runtime_dir

#: Seconds for a connection to a server of this machine.
_CONNECT = 0.5

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARD = frozenset({"", "*", "0.0.0.0", "::"})
_PORTS = {"http": 80, "https": 443}

#: The base URL of servers that this command starts for itself, by which others know them: what is
#: in a server's runtime file is Jupyter's, and this is all of it that we can choose freely.
EMBEDDED_BASE = "/collaboration-mcp/"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A Jupyter server on this machine."""

    url: str
    """With its base URL, and a host that can be connected to."""
    token: str | None
    """None if it has none: it asks for none, or for a password."""
    root: Path
    """The directory that it serves."""
    pid: int
    started: float
    """Seconds since the epoch."""

    @property
    def embedded(self) -> bool:
        """Whether a command like this one started it for itself: it ends with that command."""
        return urlsplit(self.url).path == EMBEDDED_BASE


def running_servers(directory: Path | None = None) -> list[RunningServer]:
    """All servers of this user: those that serve the directory, deepest root first, then the rest.

    Among equals the one that was started last comes first. A server that another command started
    for itself is left out if it does not serve the directory.
    """
    found: list[RunningServer] = []
    runtime = Path(jupyter_runtime_dir())
    for pattern in ("jpserver-*.json", "nbserver-*.json"):
        for file in runtime.glob(pattern):
            server = _read(file)
            if server is not None and is_alive(server.pid) and _listens(server.url):
                found.append(server)
    below = None if directory is None else directory.resolve()
    if below is not None:
        found = [
            server for server in found if not server.embedded or _depth(server.root, below) >= 0
        ]
    return sorted(found, key=lambda server: (-_depth(server.root, below), -server.started))


def token_for(url: str) -> str | None:
    """The token of the server on this machine that answers at this URL, if there is one."""
    server = _server_at(url)
    return None if server is None else server.token


def root_at(url: str) -> Path | None:
    """The directory that the server at this URL reports to serve, if it is on this machine."""
    server = _server_at(url)
    return None if server is None else server.root


def is_here(url: str) -> bool:
    """Whether an address leads to this machine, as far as it can be seen from it."""
    return "localhost" in (_host(urlsplit(url)), place_of(url)[0])


def _server_at(url: str) -> RunningServer | None:
    try:
        wanted = urlsplit(url)
        port = _port(wanted)
    except ValueError:
        return None
    path = wanted.path.rstrip("/") + "/"
    best: RunningServer | None = None
    for server in running_servers():
        parts = urlsplit(server.url)
        if (
            (parts.scheme, _port(parts)) == (wanted.scheme, port)
            and _host(parts) == _host(wanted)
            and path.startswith(parts.path)
            and (best is None or len(parts.path) > len(urlsplit(best.url).path))
        ):
            best = server
    return best


def owner_of(url: str) -> tuple[str, str, int, str]:
    """To whom a secret may be sent: scheme, host, port and base URL.

    On a JupyterHub everybody's servers are at one host and port, and only the base URL differs.
    """
    parts = urlsplit(url)
    return parts.scheme, _host(parts), _port(parts), _base(parts)


def place_of(url: str) -> tuple[str, int, str]:
    """The same for all spellings of a server's address: host, port and base URL."""
    parts = urlsplit(url)
    return _spelled_out(parts), _port(parts), _base(parts)


def _base(parts: SplitResult) -> str:
    segments = [segment for segment in unquote(parts.path).split("/") if segment not in ("", ".")]
    return "/".join(segments)


def _spelled_out(parts: SplitResult) -> str:
    """The host; one word for whatever leads to this machine."""
    host = _host(parts).rstrip(".")
    try:
        address: IPv4Address | IPv6Address = ip_address(host)
    except ValueError:
        try:
            address = IPv4Address(socket.inet_aton(host))  # 127.1, 0x7f000001, 2130706433
        except (OSError, UnicodeError):
            return "localhost" if host.endswith(".localhost") else host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    here = (mapped or address).is_loopback or (mapped or address).is_unspecified
    return "localhost" if here else str(mapped or address)


def _read(file: Path) -> RunningServer | None:
    """What a runtime file says, or None if it is not one of a server that we could reach."""
    try:
        if not file.is_file():  # reading a pipe would block
            return None
        info = json.loads(file.read_bytes())
        started = file.stat().st_mtime  # written once, when the server begins to listen
        root = info.get("root_dir") or info["notebook_dir"]  # the latter: Notebook before 7
        pid, token = info["pid"], info.get("token")
        if info.get("sock") or not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
            return None
        return RunningServer(_connectable(info), token or None, Path(root), pid, started)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # gone, half written, or of somebody else; in no case ours to delete


def _connectable(info: dict[str, Any]) -> str:
    """The address of a server, with a slash at the end.

    One that listens on all interfaces gives the name of the machine, which often cannot be
    resolved (macOS, containers). With a certificate the name has to stay.
    """
    parts = urlsplit(info["url"])
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(info["url"])
    bound = info.get("hostname") or ""
    port, netloc = _port(parts), parts.netloc
    everywhere = bound in _WILDCARD or (bound == "localhost" and parts.hostname not in _LOOPBACK)
    if parts.scheme == "http" and everywhere:
        host = "[::1]" if bound == "::" else "127.0.0.1"
        netloc = f"{host}:{port}"
    return f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}/"


def _depth(root: Path, directory: Path | None) -> int:
    """How deep the root is, if the directory is in it; otherwise -1."""
    if directory is None:
        return -1
    try:
        resolved = root.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return -1
    return len(resolved.parts) if directory.is_relative_to(resolved) else -1


def _host(parts: SplitResult) -> str:
    """The host; one word for all names of this machine."""
    host = (parts.hostname or "").lower()
    if host in _LOOPBACK or host in _WILDCARD or host == socket.gethostname().lower():
        return "localhost"
    return host


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS.get(parts.scheme, 0)


def _listens(url: str) -> bool:
    """Whether anything does: after a crash or a reboot its pid may be another process."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", _port(parts)), _CONNECT).close()
    except (OSError, UnicodeError):
        return False
    return True


if sys.platform == "win32":

    def is_alive(pid: int) -> bool:
        # Never os.kill here: on Windows signal 0 is Ctrl-C, and others end the process.
        import ctypes

        query_limited_information, still_active = 0x1000, 259
        kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel32.OpenProcess.restype = ctypes.c_void_p
        handle = kernel32.OpenProcess(query_limited_information, False, pid & 0xFFFFFFFF)
        if not handle:
            return False
        try:
            code = ctypes.c_ulong()
            asked = kernel32.GetExitCodeProcess(ctypes.c_void_p(handle), ctypes.byref(code))
            return bool(asked) and code.value == still_active
        finally:
            kernel32.CloseHandle(ctypes.c_void_p(handle))

else:

    def is_alive(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except (OSError, OverflowError):
            # Gone; or a process of another user has the number now: not the one that wrote
            # a file for us.
            return False
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return True
        return state not in ("Z", "X")  # in a container, nobody may ever ask how it ended
